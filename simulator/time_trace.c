#include "time_trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_limits.h"

typedef struct trace {
  FILE *file;
  const df_network *network;
  uint64_t events;
} trace;

/* Each rank has two rows: what it sends, and what it waits for. */
static int next_event(trace *t) {
  if (t->events++ >= DF_SIM_MAX_TRACE_EVENTS) return 0;
  fputs(t->events == 1 ? "\n" : ",\n", t->file);
  return 1;
}

static void write_message(void *user, uint32_t from, uint32_t to, uint32_t bytes, double begin,
                          double end) {
  trace *t = user;
  if (!next_event(t)) return;
  fprintf(t->file,
          "{\"name\":\"%u bytes to rank %u\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.6f,"
          "\"dur\":%.6f}",
          bytes, to, t->network->host[from], 2 * from, begin * 1e6, (end - begin) * 1e6);
}

static void write_wait(void *user, uint32_t rank, uint32_t peer, int for_a_slot, double begin,
                       double end) {
  trace *t = user;
  if (!next_event(t)) return;
  fprintf(t->file,
          "{\"name\":\"waits for %s rank %u\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.6f,"
          "\"dur\":%.6f}",
          for_a_slot ? "a slot of" : "a message of", peer, t->network->host[rank], 2 * rank + 1,
          begin * 1e6, (end - begin) * 1e6);
}

static void write_names(trace *t) {
  for (uint32_t h = 0; h < t->network->hosts; h++)
    if (next_event(t))
      fprintf(t->file,
              "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"host %u\"}}",
              h, h);
  for (uint32_t r = 0; r < 2 * t->network->ranks; r++)
    if (next_event(t))
      fprintf(t->file,
              "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":"
              "\"rank %u %s\"}}",
              t->network->host[r / 2], r, r / 2, r % 2 ? "waits" : "sends");
}

dfcclResult_t df_time_trace(const df_timeline_question *question, const char *file,
                            df_timeline_answer *answer) {
  trace t = {.file = fopen(file, "we"), .network = question->network};
  if (t.file == NULL)
    return df_fail(dfcclSystemError, "%s cannot be written: %s", file, strerror(errno));
  fputs("{\"traceEvents\":[", t.file);
  write_names(&t);
  const df_timeline_events events = {&t, write_message, write_wait};
  dfcclResult_t result = df_timeline_run(question, &events, answer);
  fputs("\n]}\n", t.file);
  const int failed = ferror(t.file);
  if ((fclose(t.file) != 0 || failed) && result == dfcclSuccess)
    result = df_fail(dfcclSystemError, "%s cannot be written", file);
  if (result == dfcclSuccess && t.events > DF_SIM_MAX_TRACE_EVENTS)
    result = df_fail(dfcclInvalidArgument,
                     "%s: the collective has %llu events, and only the first %d were written: take "
                     "fewer ranks or bytes",
                     file, (unsigned long long)t.events, DF_SIM_MAX_TRACE_EVENTS);
  return result;
}
