/*
 * The messages of networks for Perfetto. Below the daemon's blocks a rank has tracks "to rank R"
 * and "from rank R". Several messages are under way at a time, and each is on the first track of
 * the pair that is free.
 */
#include <inttypes.h>

#include "base/limits.h"
#include "trace/perfetto.h"

enum { ORDER_OF_MESSAGES = -2048, LANES = 8 };

static double us(const df_perfetto *w, int64_t ns) { return (double)(ns - w->zero) / 1e3; }

static uint64_t thread_of(const df_perfetto *w, const df_traced_message *message, uint32_t lane) {
  const uint64_t path = 2 * (uint64_t)message->peer + !message->is_sent;
  return 1 + (uint64_t)w->lines->n * MOST_LANES + DF_MAX_BLOCKS + path * LANES + lane;
}

static void write_message(df_perfetto *w, const df_traced_message *message, uint64_t thread) {
  const df_job_trace *job = w->job;
  df_perfetto_next(w);
  fputs("{\"name\":", w->file);
  df_perfetto_string(w, message->of == DF_NO_COLLECTIVE
                            ? "(deregistered)"
                            : job->rows[job->collectives[message->of].row].first->name);
  fprintf(w->file,
          ",\"cat\":\"message\",\"ph\":\"X\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"%s\":%u,\"block\":%u,\"message\":%" PRIu64
          ",\"bytes\":%" PRIu64 "}}",
          message->rank, thread, us(w, message->from), (double)(message->to - message->from) / 1e3,
          message->is_sent ? "to_rank" : "from_rank", message->peer, message->block,
          message->number, message->bytes);
}

void df_perfetto_messages(df_perfetto *w) {
  const df_traced_message *all = w->job->messages;
  int64_t ends[LANES];
  uint32_t lanes = 0;
  char name[64];
  for (size_t i = 0; i < w->job->n_messages; i++) {
    uint32_t lane = 0;
    if (i > 0 && (all[i].rank != all[i - 1].rank || all[i].peer != all[i - 1].peer ||
                  all[i].is_sent != all[i - 1].is_sent))
      lanes = 0;
    while (lane < lanes && ends[lane] > all[i].from) lane++;
    if (lane == LANES) lane--; /* more at one time: the last track is drawn over */
    const uint64_t thread = thread_of(w, &all[i], lane);
    if (lane == lanes) {
      snprintf(name, sizeof name, "%s rank %u", all[i].is_sent ? "to" : "from", all[i].peer);
      df_perfetto_thread(w, all[i].rank, thread,
                         ORDER_OF_MESSAGES + 2 * (int64_t)all[i].peer + !all[i].is_sent, name, "");
      lanes++;
    }
    ends[lane] = all[i].to;
    write_message(w, &all[i], thread);
  }
}
