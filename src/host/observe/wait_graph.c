#include "host/observe/wait_graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "bootstrap/net/fork_guard.h"
#include "host/observe/awaited_ranks.h"
#include "host/state/registry.h"

/* ---- sleepers ---- */

enum { DF_MAX_SLEEPERS = 256 };

/* A table of the process, because a list in the context would need a lock. A reader may see a
 * mixture of two sleepers; then a dump is wrong. */
typedef struct DF_ALIGNED(64) df_sleeper {
  uint32_t taken;
  uint32_t thread;
  uint64_t context; /* published last; 0: unused */
  uint64_t since_ns;
  uint64_t id, name;
  uint32_t is_of_one;
} df_sleeper;

static df_sleeper sleepers[DF_MAX_SLEEPERS];

uint32_t df_sleeper_enter(dfcclContext_t context, const df_call *call) {
  static _Thread_local uint32_t thread, last;
  if (thread == 0) thread = last = (uint32_t)syscall(SYS_gettid);
  for (uint32_t i = 0; i < DF_MAX_SLEEPERS; i++) {
    uint32_t at = (last + i) % DF_MAX_SLEEPERS;
    df_sleeper *s = &sleepers[at];
    if (df_load_relaxed_u32(&s->taken) || !df_system_claim_u32(&s->taken, 0, 1)) continue;
    last = at; /* likely free next time */
    df_store_relaxed_u32(&s->thread, thread);
    df_store_relaxed_u64(&s->since_ns, df_clock_ns());
    df_store_relaxed_u64(&s->id, call->id);
    df_store_relaxed_u64(&s->name, (uint64_t)(uintptr_t)call->name);
    df_store_relaxed_u32(&s->is_of_one, (uint32_t)call->is_of_one);
    df_publish_u64(&s->context, (uint64_t)(uintptr_t)context);
    return at + 1;
  }
  return 0;
}

void df_sleeper_leave(uint32_t sleeper) {
  if (sleeper == 0) return;
  df_store_relaxed_u64(&sleepers[sleeper - 1].context, 0);
  df_publish_u32(&sleepers[sleeper - 1].taken, 0);
}

/* Copies the context's next sleeper from *at on. 0: there is none. */
static int next_sleeper(const struct dfcclContext *context, uint32_t *at, df_sleeper *copy) {
  for (; *at < DF_MAX_SLEEPERS; (*at)++) {
    df_sleeper *s = &sleepers[*at];
    if (df_observe_u64(&s->context) != (uint64_t)(uintptr_t)context) continue;
    copy->thread = df_load_relaxed_u32(&s->thread);
    copy->since_ns = df_load_relaxed_u64(&s->since_ns);
    copy->id = df_load_relaxed_u64(&s->id);
    copy->name = df_load_relaxed_u64(&s->name);
    copy->is_of_one = df_load_relaxed_u32(&s->is_of_one);
    (*at)++;
    return 1;
  }
  return 0;
}

int df_sleeper_next(const struct dfcclContext *context, uint32_t *at, df_sleeping_call *call) {
  df_sleeper sleeper;
  if (!next_sleeper(context, at, &sleeper)) return 0;
  *call = (df_sleeping_call){.call = {.name = (const char *)(uintptr_t)sleeper.name,
                                      .is_of_one = (int)sleeper.is_of_one,
                                      .id = sleeper.id},
                             .thread = sleeper.thread,
                             .since_ns = sleeper.since_ns};
  return 1;
}

/* ---- contexts of this process ---- */

/* list_lock is taken before any context's lock. */
static df_mutex list_lock = DF_MUTEX_INITIALIZER;
static dfcclContext_t listed;

static void register_list_lock(void) { df_fork_waits_for(&list_lock, 1); }

static void lock_list(void) DF_ACQUIRE(list_lock) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_list_lock);
  df_lock(&list_lock);
}

void df_waits_enter(dfcclContext_t context) {
  lock_list();
  context->next_in_process = listed;
  listed = context;
  df_unlock(&list_lock);
}

void df_waits_leave(dfcclContext_t context) {
  lock_list();
  dfcclContext_t *at = &listed;
  while (*at && *at != context) at = &(*at)->next_in_process;
  if (*at) *at = context->next_in_process;
  df_unlock(&list_lock);
}

/* ---- waits between ranks ---- */

enum { DF_MAX_WAITS = 64 };

typedef enum { DF_IS_THERE, DF_IS_ASKED, DF_IS_MISSING } df_presence;

/* A thread of the rank sleeps until this run is complete. */
typedef struct df_wait_edge {
  uint32_t rank;
  dfcclCollId_t id;
  uint64_t run;
  char label[DF_MAX_NAME + 40];
  uint8_t presence[DF_MAX_RANKS]; /* by rank */
  int seen, on_path;
} df_wait_edge;

typedef struct df_wait_graph {
  uint32_t n, n_ranks, depth;
  uint32_t path[DF_MAX_WAITS];
  df_wait_edge waits[DF_MAX_WAITS];
} df_wait_graph;

static void add_wait(df_wait_graph *graph, const struct dfcclContext *context,
                     const df_coll *coll) DF_RANK_LOCKED {
  if (coll == NULL || coll->failure.failed != dfcclSuccess ||
      coll->runs.taken == coll->runs.submitted)
    return;
  for (uint32_t i = 0; i < graph->n; i++)
    if (graph->waits[i].rank == context->rank && graph->waits[i].id == coll->id) return;
  if (graph->n == DF_MAX_WAITS) return;
  df_wait_edge *wait = &graph->waits[graph->n++];
  *wait = (df_wait_edge){.rank = context->rank, .id = coll->id, .run = coll->runs.taken};
  df_coll_label(coll, wait->label, sizeof wait->label);
  for (uint32_t i = 0; i < coll->n; i++) {
    uint32_t rank = coll->ranks[i];
    if (i == coll->position) continue;
    /* The ranks of other processes are known only by their announcements. */
    if (context->control.peers[rank].local)
      wait->presence[rank] = DF_IS_ASKED;
    else if (df_has_not_come(coll, i))
      wait->presence[rank] = DF_IS_MISSING;
  }
}

static void collect_waits(df_wait_graph *graph, dfcclContext_t context) {
  df_sleeper sleeper;
  df_rank_lock(&context->lock);
  for (uint32_t at = 0; next_sleeper(context, &at, &sleeper);) {
    if (sleeper.is_of_one) {
      add_wait(graph, context, df_find(context, sleeper.id));
      continue;
    }
    for (uint32_t i = 0; i < context->registry.n_indices; i++)
      add_wait(graph, context, context->registry.by_index[i]);
  }
  df_rank_unlock(&context->lock);
}

/* Marks the awaited runs that this rank has not submitted. */
static void mark_missing_runs(df_wait_graph *graph, dfcclContext_t context) {
  df_rank_lock(&context->lock);
  for (uint32_t i = 0; i < graph->n; i++) {
    df_wait_edge *wait = &graph->waits[i];
    if (wait->presence[context->rank] != DF_IS_ASKED) continue;
    const df_coll *coll = df_find(context, wait->id);
    int is_missing = coll == NULL || coll->runs.submitted <= wait->run;
    wait->presence[context->rank] = is_missing ? DF_IS_MISSING : DF_IS_THERE;
  }
  df_rank_unlock(&context->lock);
}

static void collect_graph(df_wait_graph *graph, const struct dfcclContext *context) {
  graph->n_ranks = context->n_ranks;
  lock_list();
  for (dfcclContext_t c = listed; c; c = c->next_in_process)
    if (c->control.process_inbox == context->control.process_inbox) collect_waits(graph, c);
  for (dfcclContext_t c = listed; c; c = c->next_in_process)
    if (c->control.process_inbox == context->control.process_inbox) mark_missing_runs(graph, c);
  df_unlock(&list_lock);
}

/* ---- circles ---- */

static void say_path(df_text *text, const df_wait_graph *graph, uint32_t from, uint32_t last_rank) {
  for (uint32_t i = from; i < graph->depth; i++) {
    const df_wait_edge *wait = &graph->waits[graph->path[i]];
    if (i == from)
      df_say(text, "  rank %u waits in %s for ", wait->rank, wait->label);
    else
      df_say(text, "rank %u, which waits in %s for ", wait->rank, wait->label);
  }
  df_say(text, "rank %u", last_rank);
}

/* Describes a path that ends at a rank which has not submitted the run, and has no known sleeper.
 */
static void say_chain(df_text *text, const df_wait_graph *graph, uint32_t rank) {
  if (graph->depth < 2) return; /* the collective's own paragraph says it */
  say_path(text, graph, 0, rank);
  df_say(text, "\n");
}

static void say_circle(df_text *text, const df_wait_graph *graph, uint32_t first) {
  uint32_t from = 0;
  while (graph->path[from] != first) from++;
  say_path(text, graph, from, graph->waits[first].rank);
  df_say(text, ": a circle\n");
}

/* Visits each wait once, so the depth is at most the number of waits. */
static void follow(df_text *text, df_wait_graph *graph, uint32_t at) {
  df_wait_edge *wait = &graph->waits[at];
  wait->seen = wait->on_path = 1;
  graph->path[graph->depth++] = at;
  for (uint32_t rank = 0; rank < graph->n_ranks; rank++) {
    int leads_on = 0;
    if (wait->presence[rank] != DF_IS_MISSING) continue;
    for (uint32_t next = 0; next < graph->n; next++) {
      if (graph->waits[next].rank != rank) continue;
      leads_on = 1;
      if (graph->waits[next].on_path)
        say_circle(text, graph, next);
      else if (!graph->waits[next].seen)
        follow(text, graph, next);
    }
    if (!leads_on) say_chain(text, graph, rank);
  }
  graph->depth--;
  wait->on_path = 0;
}

void df_waits_describe(dfcclContext_t context, char *buffer, size_t bytes) {
  df_text text = {.at = buffer, .left = bytes};
  df_sleeper sleeper;
  buffer[0] = '\0';
  for (uint32_t at = 0; next_sleeper(context, &at, &sleeper);) {
    uint64_t now = df_clock_ns();
    double seconds = now > sleeper.since_ns ? (double)(now - sleeper.since_ns) * 1e-9 : 0;
    df_say(&text, "  thread %u sleeps in %s for %.1f s, until ", sleeper.thread,
           (const char *)(uintptr_t)sleeper.name, seconds);
    if (sleeper.is_of_one)
      df_say(&text, "collective %" PRIu64 " is complete\n", sleeper.id);
    else
      df_say(&text, "all runs are complete\n");
  }
  df_wait_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return; /* the dump then lacks the circles */
  collect_graph(graph, context);
  for (uint32_t i = 0; i < graph->n; i++)
    if (graph->waits[i].rank == context->rank && !graph->waits[i].seen) follow(&text, graph, i);
  free(graph);
}
