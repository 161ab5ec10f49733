/* Messages of a run's network links, as they are reported to a profiler plugin (ProxyStep). */
#ifndef DF_HOST_OBSERVE_PROFILER_STEPS_H
#define DF_HOST_OBSERVE_PROFILER_STEPS_H

#include "host/observe/profiler_abi.h"
#include "transports/watch.h"

enum { DF_STEPS_MOST = 64 /* open messages of a link; further ones are not reported */ };

typedef struct df_step {
  uint64_t sequence;
  void *handle; /* NULL: the plugin has dropped it */
} df_step;

/* The steps of one link in one run. */
typedef struct df_steps {
  const uint8_t *ring; /* NULL: the link was not connected when the run was submitted */
  uint64_t first, end; /* the run's messages */
  int rank, sends;
  void *parent; /* the link's event; NULL: nothing is reported */
  uint32_t n;
  df_step open[DF_STEPS_MOST];
} df_steps;

/* The caller of both functions holds the plugin lock. */
void df_steps_receive(df_steps *steps, const df_profiler_table *plugin, void *context,
                      df_watch_event what, const df_watched_message *message);
/* The run has ended. */
void df_steps_stop(df_steps *steps, const df_profiler_table *plugin);

#endif
