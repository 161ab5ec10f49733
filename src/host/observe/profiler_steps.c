#include "host/observe/profiler_steps.h"

static void start_step(df_steps *steps, const df_profiler_table *plugin, void *context,
                       uint64_t sequence, uint32_t bytes) {
  for (uint32_t i = 0; i < steps->n; i++)
    if (steps->open[i].sequence == sequence)
      return; /* a further part of the message, or it is sent again */
  if (steps->n == DF_STEPS_MOST) return;
  df_step *step = &steps->open[steps->n++];
  *step = (df_step){.sequence = sequence};
  df_profiler_start_step(plugin, context, steps->rank, (int)(sequence - steps->first),
                         steps->parent, &step->handle);
  if (step->handle) df_profiler_step_moves(plugin, step->handle, steps->sends, bytes);
}

static void stop_step(df_steps *steps, const df_profiler_table *plugin, df_step *step) {
  if (step->handle) {
    df_profiler_step_moved(plugin, step->handle, steps->sends);
    df_profiler_stop(plugin, step->handle);
  }
  *step = steps->open[--steps->n];
}

void df_steps_receive(df_steps *steps, const df_profiler_table *plugin, void *context,
                      df_watch_event what, const df_watched_message *message) {
  const uint64_t sequence = message->sequence;
  if (steps->ring != message->ring || steps->parent == NULL) return;
  if (what == DF_WATCH_SENDS || what == DF_WATCH_COMES) {
    if (sequence >= steps->first && sequence < steps->end)
      start_step(steps, plugin, context, sequence, message->bytes);
    return;
  }
  for (uint32_t i = steps->n; i-- > 0;) {
    const uint64_t open = steps->open[i].sequence;
    if (what == DF_WATCH_SENT ? open <= sequence : open == sequence)
      stop_step(steps, plugin, &steps->open[i]);
  }
}

void df_steps_stop(df_steps *steps, const df_profiler_table *plugin) {
  while (steps->n) stop_step(steps, plugin, &steps->open[steps->n - 1]);
}
