/*
 * Executors: who owns a block, and who might sleep through what. The sleeping sides are
 * the CPU executor's own.
 */
#include "asleep.h"

#include "devices/cpu/executor.c"

typedef struct executor_state {
  df_device device;
  df_block block;
  df_sq_slot sq_slot;
  df_context_slot context;
  df_cursor saved;
  uint32_t order, pending;
  df_executor executor;
  df_executor_block executor_block;
  df_bell work_bell;
  DF_ALIGNED(64) uint64_t outstanding;
  DF_ALIGNED(64) litmus_sleep sleep;
  /* a stuck block waits for one message */
  df_descriptor descriptor, *descriptors;
  df_primitive primitive;
  df_part part;
  df_run_words words;
  df_link receiver, sender;
  DF_ALIGNED(64) uint64_t slot[8];
  DF_ALIGNED(64) uint64_t credit[2];
  df_lanes lanes;       /* the sender's */
  pthread_mutex_t lock; /* lock of a submission, unlocked before it looks for sleepers */
  /* state that an owner keeps */
  DF_ALIGNED(64) uint64_t kept;
  struct {
    DF_ALIGNED(64) uint32_t owned;
  } driver[2];
} executor_state;

static void do_nothing(void *host) { (void)host; }
static int has_outstanding(void *host) { return df_observe_u64(host) != 0; }

static void executor_prepare(void *state) {
  executor_state *s = state;
  df_sq_init(&s->device.sq, &s->sq_slot, 1, 1);
  s->descriptors = &s->descriptor;
  s->device.descriptors = &s->descriptors;
  s->device.n_blocks = 1;
  s->block.device = &s->device;
  s->block.tasks = (df_task_queue){.order = &s->order, .pending = &s->pending};
  df_context_cache_init(&s->block.cache, &s->context, 1, &s->saved);
  s->executor_block = (df_executor_block){.owner = 1, .block = &s->block};
  s->executor_block.executor = &s->executor;
  s->executor = (df_executor){.device = &s->device,
                              .blocks = &s->executor_block,
                              .n_blocks = 1,
                              .host = {.host = &s->outstanding,
                                       .completed = do_nothing,
                                       .between_turns = do_nothing,
                                       .has_outstanding = has_outstanding},
                              .work_bell = &s->work_bell,
                              .nap_ns = 1000};
}

/* ---- 11: a block's owner has all that the former one did */

static void owner_prepare(void *state) {
  executor_state *s = state;
  executor_prepare(state);
  s->executor_block.owner = 0;
}
static void owner_progress(executor_state *s, uint32_t which) {
  df_progress_thread driver = {0};
  df_progress_begin(&driver, &s->executor);
  df_progress_turn(&driver, 0);
  if (driver.held) {
    s->driver[which].owned = 1;
    s->kept++;
  }
  df_progress_end(&driver);
}
static void owner_progress_0(void *state) { owner_progress(state, 0); }
static void owner_progress_1(void *state) { owner_progress(state, 1); }
static litmus_outcome owner_judge(const void *state) {
  const executor_state *s = state;
  if (s->kept != s->driver[0].owned + s->driver[1].owned) return LITMUS_FORBIDDEN;
  return s->kept == 2 ? LITMUS_SEEN : LITMUS_NOTHING;
}

/* ---- B1: a message for a block that is stuck */

static void stuck_prepare(void *state) {
  executor_state *s = state;
  executor_prepare(state);
  s->receiver = (df_link){.slots = (uint8_t *)s->slot,
                          .credit = s->credit,
                          .stride = sizeof s->slot,
                          .messages = 1,
                          .payload_offset = DF_LINK_FLAGGED_OFFSET};
  s->sender = s->receiver;
  s->primitive = (df_primitive){.flags = DF_PRIM_RECV};
  s->part = (df_part){.elements = 1, .chunk = 1, .loops = 1};
  s->descriptor = (df_descriptor){.primitives = &s->primitive,
                                  .links = &s->receiver,
                                  .parts = &s->part,
                                  .words = &s->words,
                                  .n_primitives = 1,
                                  .pieces = 1,
                                  .n_links = 1,
                                  .n_blocks = 1,
                                  .element_bytes = 4};
  s->saved.phase = DF_PHASE_MOVE;
  s->block.tasks.length = 1;
}
static void stuck_send(void *state) {
  executor_state *s = state;
  df_link_publish(&s->sender, 1, 0);
  df_lanes_note_bell(&s->lanes, &s->work_bell);
  df_lanes_ring_bells(&s->lanes);
}
static void stuck_sleep(void *state) {
  executor_state *s = state;
  LITMUS_MAY_SLEEP(&s->sleep, sleep_stuck(&s->executor_block));
}
static litmus_outcome stuck_judge(const void *state) {
  const executor_state *s = state;
  if (litmus_sleeps_for_ever(&s->sleep, &s->work_bell)) return LITMUS_FORBIDDEN;
  return s->sleep.sleeps ? LITMUS_NOTHING : LITMUS_SEEN;
}

/* ---- B2: an SQE for a stuck block, or for an idle one */

static void submit(executor_state *s) {
  df_sq_push_spmc(&s->device.sq, (df_sqe){.blocks = 1});
  df_publish_u64(&s->outstanding, 1);
  df_executor_submitted(&s->executor, 0, 0);
}
static void idle_submit(void *state) { submit(state); }
static void unlocked_prepare(void *state) {
  executor_prepare(state);
  pthread_mutex_init(&((executor_state *)state)->lock, NULL);
}
static void unlocked_submit(void *state) {
  executor_state *s = state;
  pthread_mutex_lock(&s->lock);
  df_sq_push_spmc(&s->device.sq, (df_sqe){.blocks = 1});
  df_publish_u64(&s->outstanding, 1);
  pthread_mutex_unlock(&s->lock);
  df_executor_submitted(&s->executor, 0, 1);
}
static void idle_sleep(void *state) {
  executor_state *s = state;
  uint32_t quiet_naps = 0, seen_activity = 0;
  LITMUS_MAY_SLEEP(&s->sleep, sleep_idle(&s->executor_block, &quiet_naps, &seen_activity, 1));
}
static litmus_outcome idle_judge(const void *state) {
  const executor_state *s = state;
  if (litmus_sleeps_for_ever(&s->sleep, &s->executor.idle_bell)) return LITMUS_FORBIDDEN;
  return s->sleep.sleeps ? LITMUS_NOTHING : LITMUS_SEEN;
}

/* ---- B3: the same, from a waiter's thread that counts on itself: it wakes only who sleeps for
 * good */

static void deep_prepare(void *state) {
  executor_state *s = state;
  executor_prepare(state);
  s->executor.expects_waiter = 1;
}
static void deep_sleep(void *state) {
  executor_state *s = state;
  uint32_t quiet_naps = DF_QUIET_NAPS + 1, seen_activity = 0;
  LITMUS_MAY_SLEEP(&s->sleep, sleep_idle(&s->executor_block, &quiet_naps, &seen_activity, 1));
}
static litmus_outcome deep_judge(const void *state) {
  const executor_state *s = state;
  int naps = s->sleep.sleeps && s->sleep.timeout_ns != UINT64_MAX; /* it will look by itself */
  if (!naps && litmus_sleeps_for_ever(&s->sleep, &s->executor.idle_bell)) return LITMUS_FORBIDDEN;
  return s->sleep.sleeps ? LITMUS_NOTHING : LITMUS_SEEN;
}

/* ---- 19, 20: a bell that is rung without a look at who sleeps: the ticket tells */

typedef struct bell_state {
  df_bell bell;
  DF_ALIGNED(64) uint64_t news;
  DF_ALIGNED(64) litmus_sleep sleep;
} bell_state;

static void bell_prepare(void *state) { (void)state; }
static void bell_wake(void *state) {
  bell_state *s = state;
  df_store_relaxed_u64(&s->news, 1);
  df_bell_wake(&s->bell);
}
static void sleep_or_not(bell_state *s) {
  uint32_t handle = df_bell_prepare(&s->bell);
  if (df_load_relaxed_u64(&s->news))
    df_bell_cancel(&s->bell);
  else
    df_bell_sleep(&s->bell, handle, UINT64_MAX);
}
static void bell_sleep(void *state) {
  bell_state *s = state;
  LITMUS_MAY_SLEEP(&s->sleep, sleep_or_not(s));
}
static litmus_outcome bell_judge(const void *state) {
  const bell_state *s = state;
  if (litmus_sleeps_for_ever(&s->sleep, &s->bell)) return LITMUS_FORBIDDEN;
  return s->sleep.sleeps ? LITMUS_NOTHING : LITMUS_SEEN;
}

/* ---- */

#define FENCES                                                                                     \
  {                                                                                                \
    {0, LITMUS_FENCE}, { 1, LITMUS_FENCE }                                                         \
  }

static const litmus_test tests[] = {
    {"11",
     "owner",
     "a block's owner does not have what the former one did",
     sizeof(executor_state),
     owner_prepare,
     {owner_progress_0, owner_progress_1},
     owner_judge,
     {{0, LITMUS_PUBLISH}, {0, LITMUS_OBSERVE}, {0, LITMUS_MODIFY}},
     {{0}}},
    {"19, 20",
     "bell",
     "a sleeper that has missed the news sleeps through the ring that came with it",
     sizeof(bell_state),
     bell_prepare,
     {bell_wake, bell_sleep},
     bell_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE | LITMUS_FENCE}},
     {{0, LITMUS_FENCE}, {1, LITMUS_FENCE}, {1, LITMUS_OBSERVE}}},
    {"B1",
     "stuck_message",
     "a stuck block sleeps, and its message has come",
     sizeof(executor_state),
     stuck_prepare,
     {stuck_send, stuck_sleep},
     stuck_judge,
     FENCES,
     {{0}}},
    {"B2",
     "stuck_submission",
     "a stuck block sleeps, and an SQE has come",
     sizeof(executor_state),
     executor_prepare,
     {idle_submit, stuck_sleep},
     stuck_judge,
     FENCES,
     {{0}}},
    {"B2",
     "idle_submission",
     "an idle thread sleeps, and an SQE has come",
     sizeof(executor_state),
     executor_prepare,
     {idle_submit, idle_sleep},
     idle_judge,
     FENCES,
     {{0}}},
    {"B2",
     "unlocked_submission",
     "an idle thread sleeps, and an SQE has come from a thread that let go of a mutex since",
     sizeof(executor_state),
     unlocked_prepare,
     {unlocked_submit, idle_sleep},
     idle_judge,
     FENCES,
     {{0}}},
    {"B3",
     "deep_submission",
     "an idle thread sleeps for good, and nobody wakes it for an SQE",
     sizeof(executor_state),
     deep_prepare,
     {idle_submit, deep_sleep},
     deep_judge,
     FENCES,
     {{0}}},
};
const litmus_tests litmus_sleepers = {tests, DF_COUNT_OF(tests)};
