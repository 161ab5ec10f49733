/*
 * The host: counts and words that waiters look at, and the sleeps of waiters and of the poller. The
 * context is a made-up one; what works on it are completion.c, registry.c and wait.c themselves.
 */
#include "asleep.h"

#include "host/runs/completion.c"
#include "host/state/registry.c"
#include "host/runs/wait.c"
#include "host/state/registry.h"
#include "host/runs/runs.h"

typedef struct host_state {
  struct dfcclContext context;
  df_executor_ops ops;
  df_device device;
  df_cq_ring ring;
  DF_ALIGNED(64) uint64_t cq_words[4];
  df_bell work_bell;
  df_wait_words words, other_words;
  df_coll coll, next, again, *by_index;
  uint32_t free_index, free_line;
  df_pending_callback callbacks[4];
  df_awaited awaited; /* one side's */
  litmus_payload results;
  DF_ALIGNED(64) litmus_sleep sleep;
  DF_ALIGNED(64) uint32_t looked, right;
  /* by callbacks */
  DF_ALIGNED(64) uint64_t inside, ran, in_turn;
} host_state;

static void progress_nothing(df_rank_device *device, df_progress_thread *driver) {
  (void)device;
  (void)driver;
}
static int progress_has_no_reason(df_rank_device *device, const df_progress_thread *driver) {
  (void)device;
  (void)driver;
  return 0;
}
static int progress_holds(df_rank_device *device, const df_progress_thread *driver) {
  (void)device;
  (void)driver;
  return 1;
}

/* A collective, registered as the first one, with no run. */
static void host_prepare(void *state) {
  host_state *s = state;
  dfcclContext_t context = &s->context;
  s->ops = (df_executor_ops){.progress_release = progress_nothing,
                             .progress_has_reason = progress_has_no_reason,
                             .progress_holds_all = progress_holds};
  s->ring.words = s->cq_words;
  s->device.cq = (df_cq){.variant = DF_CQ_PACKED, .n_rings = 1, .mask = 3, .rings = &s->ring};
  df_rank_mutex_init(&context->lock);
  context->device.executor = &s->ops;
  context->device.shared = &s->device;
  context->device.work_bell = &s->work_bell;
  context->registry.wait_words = &s->words;
  context->registry.by_index = &s->by_index;
  context->registry.by_line = &s->by_index;
  context->registry.free_indices = &s->free_index;
  context->registry.free_lines = &s->free_line;
  context->registry.n_indices = 1;
  context->runs.listed_last = &context->runs.listed_first;
  context->runs.callbacks = (df_callback_pool){.entries = s->callbacks, .capacity = 4};
  TAILQ_INIT(&context->runs.due);
  s->coll = (df_coll){
      .id = 1, .references = 100, .members.run_limit = UINT64_MAX, .runs.watched_from = UINT64_MAX};
  s->by_index = &s->coll;
  take_line(context, &s->coll);
}

/* So many runs with callbacks: accepted, and given to the daemon. */
static void accept_runs(host_state *s, uint32_t n, dfcclCallback_t callback) {
  s->context.runs.accepted = s->coll.runs.submitted = s->coll.runs.admitted = n;
  s->context.runs.surplus = n - 1;
  for (uint32_t i = 0; i < n; i++)
    s->coll.runs.in_device[i] = (df_run){.callback = callback, .argument = s};
}

static df_condition condition_of(host_state *s) {
  s->awaited = (df_awaited){.words = &s->words, .registration = 1, .target = 1};
  return (df_condition){.context = &s->context, .awaited = &s->awaited, .n = 1};
}

static litmus_outcome host_judge(const void *state) {
  const host_state *s = state;
  if (!s->looked) return LITMUS_NOTHING;
  return s->right ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- 15: a run that a callback submits is counted before the callback's own is complete */

static void chain_prepare(void *state) {
  host_state *s = state;
  host_prepare(state);
  s->context.runs.accepted = 1;
}
static void chain_callback(void *state) {
  host_state *s = state;
  df_publish_u64(&s->context.runs.accepted, 2); /* as submit() of submit.c */
  df_rank_lock(&s->context.lock);
  finish(&s->context, &s->coll);
  df_rank_unlock(&s->context.lock);
}
static void chain_look(void *state) {
  host_state *s = state;
  s->right = (uint32_t)df_has_outstanding(&s->context);
  s->looked = 1;
}

/* ---- 16: a waiter sees its collective complete */

static void completed_prepare(void *state) { chain_prepare(state); }
static void completed_finish(void *state) {
  host_state *s = state;
  litmus_fill(&s->results, 6);
  df_rank_lock(&s->context.lock);
  df_store_relaxed_u32(&s->words.status, dfcclTimeout); /* as take() */
  finish(&s->context, &s->coll);
  df_rank_unlock(&s->context.lock);
}
static void completed_look(void *state) {
  host_state *s = state;
  df_condition condition = condition_of(s);
  s->looked = (uint32_t)coll_done(&condition);
  if (!s->looked) return;
  s->right = litmus_holds(&s->results, 6) && !df_has_outstanding(&s->context) &&
             df_load_relaxed_u32(&s->words.status) == dfcclTimeout;
}

/* ---- 16w: its run is complete, whatever registration owns the line by now */

static void tenant_prepare(void *state) {
  host_state *s = state;
  completed_prepare(state);
  finish(&s->context, &s->coll);
}
static void tenant_changes(void *state) {
  host_state *s = state;
  df_rank_lock(&s->context.lock);
  give_line(&s->context, &s->coll);
  s->next.id = 2;
  take_line(&s->context, &s->next);
  df_rank_unlock(&s->context.lock);
}
static void tenant_look(void *state) {
  host_state *s = state;
  df_condition condition = condition_of(s);
  s->right = (uint32_t)coll_done(&condition);
  s->looked = 1;
}

/* ---- 16r: the line that a waiter finds without the lock is its own collective's */

/* The first collective is registered once more, at another index: where the lock finds it. */
static void recent_prepare(void *state) {
  host_state *s = state;
  tenant_prepare(state);
  s->again = (df_coll){.id = 1, .line = 1, .runs.words = &s->other_words};
  s->context.registry.latest = &s->again;
  df_store_relaxed_u32(recent_of(&s->context, 1), 1);
}
static void recent_find(void *state) {
  host_state *s = state;
  uint64_t registration = 0;
  const df_wait_words *words = df_find_words(&s->context, 1, &registration);
  s->right = words == &s->other_words || (words == &s->words && registration == 1);
  s->looked = words == &s->words || !s->right; /* otherwise the lock has found it */
}

/* ---- 18: one thread at a time runs a collective's callbacks */

static void note_callback(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  host_state *s = argument;
  (void)id;
  (void)status;
  uint64_t others = df_load_relaxed_u64(&s->inside);
  df_store_relaxed_u64(&s->inside, 1);
  s->ran++;
  df_store_relaxed_u64(&s->in_turn, df_load_relaxed_u64(&s->in_turn) + !others);
  df_store_relaxed_u64(&s->inside, 0);
}
static void queue_callback(host_state *s) {
  s->coll.runs.taken++;
  s->coll.runs.retired++;
  defer_callback(&s->context, &s->coll, note_callback, s, dfcclSuccess);
}
static void completer_prepare(void *state) {
  host_state *s = state;
  host_prepare(state);
  accept_runs(s, 2, note_callback);
  queue_callback(s);
  queue_callback(s);
}
static void completer_run(void *state) {
  host_state *s = state;
  df_complete(&s->context, NULL, NULL, 0);
}
static litmus_outcome completer_judge(const void *state) {
  const host_state *s = state;
  if (s->ran != 2 || s->in_turn != 2 || s->words.completed != 2) return LITMUS_FORBIDDEN;
  return LITMUS_SEEN;
}

/* ---- B4: a waiter runs the callback that it waits for, and leaves the next one to the poller,
 * which found nothing while the waiter was inside. B5: a background thread rings for a callback. */

static void poll_once(dfcclContext_t context) { /* poller() of completion.c, about to sleep */
  df_complete(context, NULL, NULL, 0);
  uint32_t handle = df_bell_prepare(&context->runs.poller_bell);
  uint32_t taken = reap(context);
  if (taken > 0 || df_completion_is_due(context))
    df_bell_cancel(&context->runs.poller_bell);
  else
    df_bell_sleep(&context->runs.poller_bell, handle, UINT64_MAX);
}
static void poll(void *state) {
  host_state *s = state;
  LITMUS_MAY_SLEEP(&s->sleep, poll_once(&s->context));
}
static void left_prepare(void *state) {
  host_state *s = state;
  host_prepare(state);
  accept_runs(s, 2, note_callback);
  queue_callback(s);
}
static void left_poll(void *state) {
  host_state *s = state;
  df_cq_push_mpsc(&s->device.cq, 0, (df_cqe){.collective = 0});
  poll(state);
}
static void left_wait(void *state) { /* progress_until() of wait.c, about to return */
  host_state *s = state;
  df_progress_thread driver = {0};
  df_awaited awaited = {.words = &s->words, .registration = 1, .target = 1};
  df_complete(&s->context, &driver, &awaited, 1);
  if (df_completion_is_due(&s->context)) df_ring_poller(&s->context);
}
static litmus_outcome callbacks_judge(const void *state) {
  const host_state *s = state;
  int due = s->context.runs.n_due != 0 || df_cq_has_entry(&s->device.cq);
  if (due && litmus_sleeps_for_ever(&s->sleep, &s->context.runs.poller_bell))
    return LITMUS_FORBIDDEN;
  return s->sleep.sleeps ? LITMUS_NOTHING : LITMUS_SEEN;
}

static void ring_prepare(void *state) {
  host_state *s = state;
  host_prepare(state);
  accept_runs(s, 1, note_callback);
}
static void ring_background(void *state) {
  host_state *s = state;
  df_cq_push_mpsc(&s->device.cq, 0, (df_cqe){.collective = 0});
  df_reap_and_ring(&s->context);
}

/* ---- B6: a waiter sleeps, and its collective is complete */

static void waiter_complete(void *state) {
  host_state *s = state;
  df_rank_lock(&s->context.lock);
  finish(&s->context, &s->coll);
  df_rank_unlock(&s->context.lock);
  wake_waiters(&s->context);
}
static void waiter_sleep(void *state) {
  host_state *s = state;
  df_progress_thread driver = {0};
  df_condition condition = condition_of(s);
  LITMUS_MAY_SLEEP(&s->sleep, sleep_until_news(&driver, coll_done, &condition));
}
static litmus_outcome waiter_judge(const void *state) {
  const host_state *s = state;
  if (litmus_sleeps_for_ever(&s->sleep, &s->work_bell)) return LITMUS_FORBIDDEN;
  return s->sleep.sleeps ? LITMUS_NOTHING : LITMUS_SEEN;
}

/* ---- */

#define FENCES                                                                                     \
  {                                                                                                \
    {0, LITMUS_FENCE}, { 1, LITMUS_FENCE }                                                         \
  }
#define MESSAGE                                                                                    \
  {                                                                                                \
    {0, LITMUS_PUBLISH}, { 1, LITMUS_OBSERVE }                                                     \
  }

static const litmus_test tests[] = {
    {"15",
     "chain",
     "nothing is outstanding, while a callback's run follows the callback",
     sizeof(host_state),
     chain_prepare,
     {chain_callback, chain_look},
     host_judge,
     MESSAGE,
     {{0}}},
    {"16",
     "completed",
     "a collective is complete, and its results or status are not there, or the "
     "context is still busy",
     sizeof(host_state),
     completed_prepare,
     {completed_finish, completed_look},
     host_judge,
     MESSAGE,
     {{0}}},
    {"16w",
     "tenant",
     "a complete collective's line has begun anew, and seems to be its own still",
     sizeof(host_state),
     tenant_prepare,
     {tenant_changes, tenant_look},
     host_judge,
     MESSAGE,
     {{0}}},
    {"16r",
     "recent",
     "a waiter takes another collective's line for its own",
     sizeof(host_state),
     recent_prepare,
     {tenant_changes, recent_find},
     host_judge,
     MESSAGE,
     {{0}}},
    {"18",
     "completer",
     "two callbacks of a collective run at a time, out of turn, or not at all",
     sizeof(host_state),
     completer_prepare,
     {completer_run, completer_run},
     completer_judge,
     {{0}},
     {{0, LITMUS_MODIFY}}},
    {"B4",
     "left_behind",
     "the poller leaves a callback to a waiter, which leaves it to the poller",
     sizeof(host_state),
     left_prepare,
     {left_wait, left_poll},
     callbacks_judge,
     FENCES,
     {{0}}},
    {"B5",
     "poller",
     "the poller sleeps, and there is a callback to run",
     sizeof(host_state),
     ring_prepare,
     {ring_background, poll},
     callbacks_judge,
     FENCES,
     {{0}}},
    {"B6",
     "waiter",
     "a waiter sleeps, and its collective is complete",
     sizeof(host_state),
     completed_prepare,
     {waiter_complete, waiter_sleep},
     waiter_judge,
     FENCES,
     {{0}}},
};
const litmus_tests litmus_host = {tests, DF_COUNT_OF(tests)};
