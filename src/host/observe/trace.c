/*
 * Tracing (DFCCL_TRACE): DIR/rank-<R>.trace, a JSON object in each line, for dfccl-trace.
 *
 *   {"dfccl_trace":1,"rank":R,"ranks":N,"host":H,"process":P,"clock_ns":C,"unix_ns":"U"}
 *       The first line. C is a time of this host's monotonic clock, as all later times are; U is
 *       the same moment in nanoseconds since 1970.
 *   {"collective":K,"id":"I","name":S,"operation":O,"type":T,"count":E,"bytes":B,"group":[ranks],
 *    "algorithm":A,"split":S,"blocks":B,"slot_bytes":B,"slots":S,"form":F,
 *    "lends":0|1,"switch":W,"from_run":M,"at":T,"purpose":P,"why":S}
 *       Before the collective's first run, and again when it switches to another configuration, or
 *       keeps one for another purpose. It describes the runs from M on. Runs before M may follow,
 *       if they ended late. W is the number of plan switches on this rank. P is "registered", or
 *       the purpose of the switch (control/message.h).
 *   {"run":M,"of":K,"from":T,"to":T,"status":D}   from dfcclRun* to its end, without the callback
 *   {"waiting":K,"from_run":M,"until_run":N,"from":T}
 *       Runs M to N - 1 were submitted, run M at T, and have not ended. Written while run M takes
 *       long, so that the trace of a killed job has the runs in which it hung.
 *   {"failure":K,"status":D,"at":T,"why":S}       the collective has failed: its later runs do too
 *   {"broken":1,"status":D,"at":T,"why":S}        the whole context has failed
 *   {"callback":K,"from":T,"to":T}
 *   {"synchronise":1,"from":T,"to":T}
 *   the lines of turns.c, with DFCCL_TRACE_TURNS=1
 *   {"end":"whole"}                               after the context's end
 *
 * If a line is cut off, or the file has no end, then the program was killed or still runs.
 */
#include "host/observe/trace.h"

#include "host/observe/message_log.h"
#include "host/observe/tracer.h"
#include "host/observe/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/growing_text.h"
#include "base/log.h"
#include "base/mutex.h"
#include "host/state/registry.h"
#include "host/state/switch_hooks.h"
#include "primitives/elements/types.h"

enum {
  DF_TRACE_PIECE = 1 << 20, /* bytes that one write may take under the lock */
  DF_TRACE_WHY_BYTES = 512
};

/* A run that has waited for so long is traced before it ends. */
#define DF_TRACE_WAITING_NS UINT64_C(100000000)

static void write_head(dfcclContext_t context) {
  char host[256];
  struct timespec now;
  df_growing_text *lines = &context->tracer->lines;
  if (gethostname(host, sizeof host) != 0) host[0] = '\0';
  host[sizeof host - 1] = '\0';
  clock_gettime(CLOCK_REALTIME, &now);
  df_grow_format(lines, "{\"dfccl_trace\":1,\"rank\":%u,\"ranks\":%u,\"host\":\"", context->rank,
                 context->n_ranks);
  df_grow_escaped(lines, host);
  df_grow_format(lines, "\",\"process\":%d,\"clock_ns\":%" PRIu64 ",\"unix_ns\":\"%" PRIu64 "\"}\n",
                 (int)getpid(), df_clock_ns(),
                 (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static void free_tracer(dfcclContext_t context) {
  context->before_index_is_free = NULL;
  free(context->tracer->lines.bytes);
  free(context->tracer);
  context->tracer = NULL;
}

dfcclResult_t df_tracer_open(dfcclContext_t context) {
  char path[sizeof context->settings.trace + 32];
  snprintf(path, sizeof path, "%s/rank-%u.trace", context->settings.trace, context->rank);
  context->tracer = calloc(1, sizeof *context->tracer);
  if (context->tracer == NULL) return df_fail(dfcclOutOfMemory, "no memory for the trace");
  write_head(context);
  if (context->tracer->lines.failed) {
    free_tracer(context);
    return df_fail(dfcclOutOfMemory, "no memory for the trace");
  }
  context->tracer->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (context->tracer->fd < 0) {
    free_tracer(context);
    return df_fail(dfcclInvalidUsage, "DFCCL_TRACE: cannot write %s: %s", path, strerror(errno));
  }
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing + 1);
  context->before_index_is_free = df_trace_turns;
  return dfcclSuccess;
}

static void end_early(dfcclContext_t context, const char *why) {
  context->tracer->ended = 1;
  context->tracer->lines.length = 0;
  df_log(DF_LOG_WARN, "rank %u: the trace in %s ends here: %s", context->rank,
         context->settings.trace, why);
}

/* Writes the origin of the algorithm. After a switch: the requester and its reason. */
static void grow_why(df_growing_text *lines, const df_coll *coll) {
  char why[DF_TRACE_WHY_BYTES];
  df_text out = {.at = why, .left = sizeof why};
  const char *words = df_switch_state_of(coll).words;
  if (words)
    df_say(&out, "%s", words);
  else
    df_configuration_say_source(&coll->exec.configuration, &out);
  df_grow_escaped(lines, why);
}

static void describe_collective(dfcclContext_t context, df_coll *coll) {
  df_tracer *tracer = context->tracer;
  df_growing_text *lines = &tracer->lines;
  const df_plan_key *key = &coll->exec.plan->key;
  const df_switch_state state = df_switch_state_of(coll);
  const df_configuration *configuration = &coll->exec.configuration;
  if (coll->trace.number == 0) coll->trace.number = ++tracer->collectives;
  coll->trace.is_described = 1;
  df_grow_format(lines, "{\"collective\":%u,\"id\":\"%" PRIu64 "\",\"name\":\"", coll->trace.number,
                 coll->id);
  df_grow_escaped(lines, coll->name);
  df_grow_format(lines,
                 "\",\"operation\":\"%s\",\"type\":\"%s\",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
                 ",\"group\":[",
                 df_operation_name(coll->operation), df_type_name(coll->type), coll->count,
                 coll->count * df_type_size(coll->type));
  for (uint32_t i = 0; i < coll->n; i++)
    df_grow_format(lines, "%s%u", i ? "," : "", coll->ranks[i]);
  df_grow_format(lines, "],\"algorithm\":\"%s",
                 key->file ? "file:" : df_algorithm_name(key->algorithm));
  if (key->file) df_grow_escaped(lines, df_plan_file_facts_of(key->file).name);
  df_grow_format(lines,
                 "\",\"split\":%u,\"blocks\":%u,\"slot_bytes\":%u,"
                 "\"slots\":%u,\"form\":\"%s\",\"lends\":%d,\"switch\":%" PRIu64
                 ",\"from_run\":%" PRIu64 ",\"at\":%" PRIu64 ",\"purpose\":\"%s\",\"why\":\"",
                 key->split, configuration->shape.n_blocks, configuration->shape.stride,
                 coll->exec.ring.n_slots ? coll->exec.ring.n_slots : configuration->shape.n_slots,
                 df_configuration_form(configuration, coll->exec.plan, coll->count),
                 df_configuration_lends(configuration, (uint32_t)df_type_size(coll->type)),
                 state.switches, state.switches ? coll->runs.admitted : 0, df_clock_ns(),
                 state.purpose);
  grow_why(lines, coll);
  df_grow_text(lines, "\"}\n");
}

void df_tracer_describe(dfcclContext_t context, df_coll *coll) {
  describe_collective(context, coll);
}

void df_tracer_end_lines(dfcclContext_t context, size_t before) {
  df_growing_text *lines = &context->tracer->lines;
  if (lines->failed) {
    lines->length = before;
    df_trace_flush(context);
    end_early(context, "no memory");
  } else if (lines->length > DF_TRACE_PIECE) {
    df_trace_flush(context);
  }
}

void df_trace_describe(dfcclContext_t context, df_coll *coll) {
  const size_t before = context->tracer->lines.length;
  if (context->tracer->ended || coll->trace.is_described) return;
  describe_collective(context, coll);
  df_tracer_end_lines(context, before);
}

void df_trace_run(dfcclContext_t context, df_coll *coll, uint64_t from_ns, dfcclResult_t status) {
  df_growing_text *lines = &context->tracer->lines;
  const size_t before = lines->length;
  if (context->tracer->ended) return;
  if (!coll->trace.is_described) describe_collective(context, coll);
  df_grow_format(lines,
                 "{\"run\":%" PRIu64 ",\"of\":%u,\"from\":%" PRIu64 ",\"to\":%" PRIu64
                 ",\"status\":%d}\n",
                 coll->runs.taken - 1, coll->trace.number, from_ns, df_clock_ns(), (int)status);
  context->tracer->has_failure |= status != dfcclSuccess;
  df_tracer_end_lines(context, before);
  if (context->device.turns != NULL) df_trace_many_turns(context);
}

void df_trace_flush_failures(dfcclContext_t context) {
  if (DF_UNLIKELY(context->tracer->has_failure)) df_trace_flush(context);
}

void df_trace_callback(dfcclContext_t context, df_coll *coll, uint64_t from_ns) {
  df_growing_text *lines = &context->tracer->lines;
  const size_t before = lines->length;
  if (context->tracer->ended) return;
  if (!coll->trace.is_described) describe_collective(context, coll);
  df_grow_format(lines, "{\"callback\":%u,\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n",
                 coll->trace.number, from_ns, df_clock_ns());
  df_tracer_end_lines(context, before);
}

void df_trace_synchronisation(dfcclContext_t context, uint64_t from_ns) {
  df_growing_text *lines = &context->tracer->lines;
  const size_t before = lines->length;
  if (context->tracer->ended) return;
  df_grow_format(lines, "{\"synchronise\":1,\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n", from_ns,
                 df_clock_ns());
  df_tracer_end_lines(context, before);
}

static uint64_t oldest_submission_ns(df_coll *coll) DF_RANK_LOCKED {
  if (df_runs_in_device(coll) > 0) return df_run_in_device(coll, coll->runs.retired)->submitted_ns;
  return coll->runs.backlog[coll->runs.backlog_head].submitted_ns;
}

static void trace_waiting(dfcclContext_t context, df_coll *coll, uint64_t now) DF_RANK_LOCKED {
  df_growing_text *lines = &context->tracer->lines;
  df_coll_trace *trace = &coll->trace;
  const size_t before = lines->length;
  if (df_runs_in_device(coll) == 0 && coll->runs.backlog_length == 0) return;
  const uint64_t from_ns = oldest_submission_ns(coll);
  if (from_ns + DF_TRACE_WAITING_NS > now) return;
  if (trace->waiting_from == coll->runs.taken && trace->waiting_until == coll->runs.submitted)
    return;
  if (!trace->is_described) describe_collective(context, coll);
  df_grow_format(lines,
                 "{\"waiting\":%u,\"from_run\":%" PRIu64 ",\"until_run\":%" PRIu64
                 ",\"from\":%" PRIu64 "}\n",
                 trace->number, coll->runs.taken, coll->runs.submitted, from_ns);
  trace->waiting_from = coll->runs.taken;
  trace->waiting_until = coll->runs.submitted;
  df_tracer_end_lines(context, before);
}

void df_trace_waiting_runs(dfcclContext_t context) {
  const uint64_t now = df_clock_ns();
  for (uint32_t i = 0; i < context->registry.n_indices && !context->tracer->ended; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll && !coll->registered && coll->runs.taken < coll->runs.submitted)
      trace_waiting(context, coll, now);
  }
}

static void grow_failure(dfcclContext_t context, dfcclResult_t status, const char *sentence) {
  df_growing_text *lines = &context->tracer->lines;
  df_grow_format(lines, ",\"status\":%d,\"at\":%" PRIu64 ",\"why\":\"", (int)status, df_clock_ns());
  df_grow_escaped(lines, sentence);
  df_grow_text(lines, "\"}\n");
}

void df_trace_failure(dfcclContext_t context, df_coll *coll, dfcclResult_t status,
                      const char *sentence) {
  df_growing_text *lines = &context->tracer->lines;
  const size_t before = lines->length;
  const int is_used = coll->runs.taken < coll->runs.submitted;
  /* A broken context ends all collectives, and its own failure is traced. */
  if (context->tracer->ended || (context->failure.broken != dfcclSuccess && !is_used)) return;
  if (!coll->trace.is_described) describe_collective(context, coll);
  df_grow_format(lines, "{\"failure\":%u", coll->trace.number);
  grow_failure(context, status, sentence);
  df_tracer_end_lines(context, before);
}

void df_trace_broken(dfcclContext_t context, dfcclResult_t status, const char *sentence) {
  const size_t before = context->tracer->lines.length;
  if (context->tracer->ended) return;
  df_grow_text(&context->tracer->lines, "{\"broken\":1");
  grow_failure(context, status, sentence);
  df_tracer_end_lines(context, before);
}

int df_trace_is_behind(dfcclContext_t context) {
  return context->tracer != NULL &&
         (context->tracer->lines.length > 0 || df_trace_has_turns(context));
}

void df_trace_flush(dfcclContext_t context) {
  df_growing_text *lines = &context->tracer->lines;
  size_t written = 0;
  context->tracer->has_failure = 0;
  while (written < lines->length) {
    const ssize_t n =
        df_write(context->tracer->fd, lines->bytes + written, lines->length - written);
    if (n == -EINTR) continue;
    if (n <= 0) {
      end_early(context, n < 0 ? strerror((int)-n) : "its file cannot grow");
      return;
    }
    written += (size_t)n;
  }
  lines->length = 0;
}

void df_tracer_close(dfcclContext_t context) {
  if (context->tracer == NULL) return;
  if (context->messages) df_message_log_finish(context->messages);
  df_trace_turns(context);
  if (!context->tracer->ended) {
    df_grow_text(&context->tracer->lines, "{\"end\":\"whole\"}\n");
    df_trace_flush(context);
  }
  close(context->tracer->fd);
  free_tracer(context);
}

void df_tracer_close_in_child(dfcclContext_t context) { close(context->tracer->fd); }
