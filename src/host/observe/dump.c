/* Statistics, the dump of all incomplete collectives, and the signal that requests a dump. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/text.h"
#include "host/state/context.h"
#include "host/observe/awaited_ranks.h"
#include "host/observe/dump.h"
#include "host/observe/flight.h"
#include "host/state/registry.h"
#include "host/state/switch_hooks.h"
#include "host/observe/wait_graph.h"
#include "transports/shm/single_copy.h"

/* ---- dump ---- */

static const char *source_of(const dfcclContext_t context, const df_coll *coll) {
  const char *source = df_switch_state_of(coll).words;
  return source ? source
                : df_choice_source(&context->settings.tuning, &coll->exec.configuration.choice);
}

static void say_coll(const dfcclContext_t context, df_text *text,
                     const df_coll *coll) DF_RANK_LOCKED {
  char label[DF_MAX_NAME + 40];
  df_say(text,
         "  %s, %s of %" PRIu64 " elements, group of %u, %s (%s), %u block(s): %" PRIu64
         " of %" PRIu64 " runs complete, %u in the daemon, %u waiting on the host\n    ",
         df_coll_label(coll, label, sizeof label), df_operation_name(coll->operation), coll->count,
         coll->n, df_algorithm_name(coll->exec.plan->key.algorithm), source_of(context, coll),
         coll->exec.configuration.shape.n_blocks, coll->runs.taken, coll->runs.submitted,
         df_runs_in_device(coll), coll->runs.backlog_length);
  df_say_wait(context, coll, text);
  df_say(text, "\n");
}

/* Bytes that the registered collectives use for each block: static and dynamic contexts, and their
 * places in the task queue. */
static uint64_t memory_per_block(const dfcclContext_t context) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll == NULL) continue;
    bytes += (sizeof(df_descriptor) + sizeof(df_run_words) + sizeof(df_run_counters)) /
                 coll->exec.configuration.shape.n_blocks +
             sizeof(df_part) + sizeof(uint64_t) + sizeof(df_cursor) + 2 * sizeof(uint32_t) +
             sizeof(void *);
  }
  return bytes;
}

/* Bytes of this rank's ends of all links. The rings are in the arena, and not counted. */
static uint64_t link_ends(const dfcclContext_t context) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll)
      bytes += (uint64_t)coll->exec.configuration.shape.n_blocks * coll->exec.plan->n_links *
               sizeof(df_link);
  }
  return bytes;
}

static void say_context(const dfcclContext_t context, df_text *text) {
  df_say(text,
         "dfccl rank %u of %u, process %d: %u collectives registered, %" PRIu64
         " runs outstanding, %" PRIu64 " waiting on the host%s%s\n",
         context->rank, context->n_ranks, (int)getpid(), context->registry.n_colls,
         df_observe_u64(&context->runs.accepted) - df_observe_u64(&context->runs.completed),
         context->runs.backlog_length, context->failure.broken != dfcclSuccess ? ", broken: " : "",
         context->failure.broken_sentence);
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++) {
    const df_block *block = &context->device.blocks[b];
    df_say(text,
           "  block %u: %s, task queue %u (most %u), %" PRIu64 " preemptions, %" PRIu64
           " starts, %" PRIu64 " quits\n",
           b, df_load_relaxed_u32(&block->running) ? "running" : "left",
           df_load_relaxed_u32(&block->tasks.length), df_load_relaxed_u32(&block->tasks.high_water),
           df_load_relaxed_u64(&block->stats.preemptions),
           df_load_relaxed_u64(&block->stats.starts), df_load_relaxed_u64(&block->stats.quits));
  }
  df_say(text,
         "  memory for each block: %" PRIu64
         " bytes of contexts, %zu bytes of context cache; links: %" PRIu64
         " bytes of ends, %" PRIu64 " bytes of rings\n",
         memory_per_block(context),
         (size_t)context->settings.context_slots * sizeof(df_context_slot), link_ends(context),
         context->transports.shm->arena.used_bytes + context->transports.shm->commons.used_bytes);
}

static void say_single_copy(const dfcclContext_t context, df_text *text) DF_RANK_LOCKED {
  const df_single_copy_counts counts = df_single_copy_count(context->transports.shm);
  if (counts.readable + counts.refused == 0) return;
  df_say(text,
         "  single copy: the memory of %u peers can be read by calls, that of %u cannot; read by "
         "calls: %" PRIu64 ", failed: %" PRIu64 "\n",
         counts.readable, counts.refused, counts.reads, counts.failures);
}

static void say_control_channels(const dfcclContext_t context, df_text *text) DF_RANK_LOCKED {
  char address[DF_ADDRESS_TEXT];
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_peer *peer = &context->control.peers[r];
    if (peer->channel == NULL) continue;
    df_say(text, "  control connection to rank %u (%s): %s, resumed %u times\n", r,
           df_address_text(&peer->address, address),
           peer->socket < 0 || peer->lost_ns ? "lost" : "connected", peer->resumes);
  }
}

static void say_connections(const dfcclContext_t context, df_text *text) DF_RANK_LOCKED {
  df_endpoint *wire = context->transports.wire;
  df_traffic t;
  for (uint32_t r = 0; wire && r < context->n_ranks; r++)
    for (uint32_t i = 0; wire->network->traffic(wire, r, i, &t); i++) {
      df_say(text,
             "  connection %s (rank %u): %s, sent %" PRIu64 " frames, %" PRIu64
             " bytes, received %" PRIu64 " frames, %" PRIu64 " bytes, resumed %u times, ",
             t.ends, r, t.state, t.frames_sent, t.bytes_sent, t.frames_received, t.bytes_received,
             t.resumes);
      if (t.received_ns)
        df_say(text, "last received %" PRIu64 " ms ago\n",
               (df_clock_ns() - t.received_ns) / 1000000);
      else
        df_say(text, "received nothing\n");
    }
}

enum {
  DF_DUMP_CONNECTION_BYTES = 600,
  DF_DUMP_CONNECTIONS = 3 /* with a peer, and the control channel */
};
enum { DF_DUMP_HEAD_BYTES = 16384, DF_DUMP_WAITS_BYTES = 16384, DF_DUMP_COLL_BYTES = 4096 };

static int is_dumped(const df_coll *coll) {
  return coll && coll->runs.taken < coll->runs.submitted;
}

static char *make_text(const dfcclContext_t context, const char *waits) DF_RANK_LOCKED {
  uint32_t n = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++)
    n += is_dumped(context->registry.by_index[i]) != 0;
  size_t bytes = DF_DUMP_HEAD_BYTES + strlen(waits) + (size_t)n * DF_DUMP_COLL_BYTES;
  if (context->transports.wire)
    bytes += (size_t)context->n_ranks * DF_DUMP_CONNECTIONS * DF_DUMP_CONNECTION_BYTES;
  char *text = malloc(bytes);
  if (text == NULL) return NULL;
  df_text out = {.at = text, .left = bytes};
  say_context(context, &out);
  say_single_copy(context, &out);
  say_control_channels(context, &out);
  say_connections(context, &out);
  df_say(&out, "%s", waits);
  for (uint32_t i = 0; i < context->registry.n_indices; i++)
    if (is_dumped(context->registry.by_index[i]))
      say_coll(context, &out, context->registry.by_index[i]);
  return text;
}

char *df_dump_text(dfcclContext_t context) {
  char *waits = malloc(DF_DUMP_WAITS_BYTES);
  if (waits == NULL) return NULL;
  df_waits_describe(context, waits, DF_DUMP_WAITS_BYTES);
  df_rank_lock(&context->lock);
  char *text = make_text(context, waits);
  df_rank_unlock(&context->lock);
  free(waits);
  return text;
}

/* The caller's descriptor may block until its reader reads. Returns 0, or the number of the error.
 */
static int write_all(int fd, const char *text, size_t length) {
  while (length > 0) {
    ssize_t written = df_write(fd, text, length);
    if (written == -EINTR) continue;
    if (written <= 0) return written < 0 ? (int)-written : EIO;
    text += written;
    length -= (size_t)written;
  }
  return 0;
}

dfcclResult_t df_dump(dfcclContext_t context, int fd) {
  char *text = df_dump_text(context);
  if (text == NULL) return df_fail(dfcclOutOfMemory, "no memory for a dump");
  int error = write_all(fd, text, strlen(text));
  free(text);
  df_flight_request(context, DF_FLIGHT_DUMP);
  df_flight_await(context);
  if (error)
    return df_fail(dfcclSystemError, "cannot write the dump to descriptor %d: %s", fd,
                   strerror(error));
  return dfcclSuccess;
}

/* ---- statistics ---- */

dfcclResult_t df_stats(dfcclContext_t context, dfcclStats_t *stats) {
  dfcclStats_t s = DFCCL_STATS_INITIALIZER;
  s.sqesSubmitted = df_load_relaxed_u64(&context->runs.sqes_submitted);
  s.callbacksRun = df_load_relaxed_u64(&context->runs.callbacks_run);
  s.blocks = context->device.shared->n_blocks;
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++) {
    const df_block *block = &context->device.blocks[b];
    const df_block_stats *from = &block->stats;
    s.sqesFetched += df_load_relaxed_u64(&from->sqes_fetched);
    s.cqesWritten += df_load_relaxed_u64(&from->cqes_written);
    s.preemptions += df_load_relaxed_u64(&from->preemptions);
    s.contextSaves += df_load_relaxed_u64(&block->cache.saves);
    s.contextLoads += df_load_relaxed_u64(&block->cache.loads);
    s.daemonStarts += df_load_relaxed_u64(&from->starts);
    s.voluntaryQuits += df_load_relaxed_u64(&from->quits);
    s.primitivesExecuted += df_load_relaxed_u64(&from->primitives);
    s.bytesSent += df_load_relaxed_u64(&from->bytes_sent);
    s.taskQueueLength += df_load_relaxed_u32(&block->tasks.length);
    s.taskQueueHighWater =
        DF_MAX(s.taskQueueHighWater, df_load_relaxed_u32(&block->tasks.high_water));
  }
  /* A GPU's blocks write their counters back only at the end of some turns; but each CQE that was
   * taken had been written. */
  s.cqesWritten = DF_MAX(s.cqesWritten, df_load_relaxed_u64(&context->runs.cqes_seen));
  s.size = stats->size; /* the caller's struct may be shorter or longer */
  s.version = stats->version;
  memcpy(stats, &s, DF_MIN(s.size, sizeof s));
  return dfcclSuccess;
}

/* ---- the signal ---- */

enum { DF_MAX_WATCHED = 1024 };
static uint32_t
    watched_fds[DF_MAX_WATCHED]; /* event descriptor + 1 of each context's service; 0: free */
static uint32_t signals_seen;
static uint32_t handlers_running;
static struct sigaction former_action;

/* Async-signal-safe: counts the signal, and wakes the service threads, which write the dumps. */
static void on_signal(int number, siginfo_t *info, void *machine) {
  int saved = errno;
  df_system_add_u32(&handlers_running, 1);
  df_system_add_u32(&signals_seen, 1);
  df_wake_fence(); /* before the loads of watched_fds: against df_dump_signal_disable */
  for (uint32_t i = 0; i < DF_MAX_WATCHED; i++) {
    uint32_t fd = df_load_relaxed_u32(&watched_fds[i]);
    uint64_t one = 1;
    if (fd == 0) continue;
    ssize_t written = write((int)fd - 1, &one, sizeof one);
    (void)written;
  }
  df_system_sub_u32(&handlers_running, 1);
  if (former_action.sa_flags & SA_SIGINFO) {
    former_action.sa_sigaction(number, info, machine);
  } else if (former_action.sa_handler != SIG_DFL && former_action.sa_handler != SIG_IGN) {
    former_action.sa_handler(number);
  }
  errno = saved;
}

uint32_t df_dump_signals_seen(void) { return df_load_relaxed_u32(&signals_seen); }

static int install_error;

static void install(void) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGUSR2, &action, &former_action) != 0) install_error = errno;
}

dfcclResult_t df_dump_signal_enable(dfcclContext_t context) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
  if (install_error)
    return df_fail(dfcclSystemError, "cannot handle SIGUSR2: %s", strerror(install_error));
  for (uint32_t i = 0; i < DF_MAX_WATCHED; i++)
    if (df_system_claim_u32(&watched_fds[i], 0, (uint32_t)context->control.event_fd + 1)) break;
  return dfcclSuccess;
}

void df_dump_signal_forget(int event_fd) {
  for (uint32_t i = 0; i < DF_MAX_WATCHED; i++)
    if (df_load_relaxed_u32(&watched_fds[i]) == (uint32_t)event_fd + 1)
      df_store_relaxed_u32(&watched_fds[i], 0);
  df_store_relaxed_u32(&handlers_running, 0); /* the parent's other threads do not exist here */
}

void df_dump_signal_disable(dfcclContext_t context) {
  for (uint32_t i = 0; i < DF_MAX_WATCHED; i++)
    if (df_system_claim_u32(&watched_fds[i], (uint32_t)context->control.event_fd + 1, 0)) break;
  /* A handler that has loaded the descriptor writes to it. The wait ensures that it does not write
   * to a file that gets the same number next. */
  df_wake_fence();
  while (df_observe_u32(&handlers_running) != 0) sched_yield();
}
