/* Submission and completion queue, the completion counter, a block that leaves, a run that is given
 * up. */
#include "daemon_kernel/daemon.h"
#include "litmus.h"

enum { A_COLLECTIVE = 7 };

/* ---- 1: a run's arguments, before the word that says there is one */

typedef struct sq_state {
  df_sq sq;
  df_sq_slot slots[2];
  litmus_payload arguments;
  struct {
    DF_ALIGNED(64) uint32_t fetched, whole;
  } block[2];
} sq_state;

static void sq_prepare(void *state) {
  sq_state *s = state;
  df_sq_init(&s->sq, s->slots, 2, 2);
}
static void sq_submit(void *state) {
  sq_state *s = state;
  litmus_fill(&s->arguments, 1);
  df_sq_push_spmc(&s->sq, (df_sqe){.collective = A_COLLECTIVE, .blocks = 2});
}
static void sq_fetch(sq_state *s, uint32_t block) {
  uint64_t index = 0;
  df_sqe sqe;
  if (!df_sq_fetch_spmc(&s->sq, &index, &sqe)) return;
  s->block[block].fetched = 1;
  s->block[block].whole = litmus_holds(&s->arguments, 1) && sqe.collective == A_COLLECTIVE;
}
static void sq_block_0(void *state) { sq_fetch(state, 0); }
static void sq_block_1(void *state) { sq_fetch(state, 1); }
static litmus_outcome sq_judge(const void *state) {
  const sq_state *s = state;
  uint32_t fetched = 0;
  for (uint32_t b = 0; b < 2; b++) {
    if (s->block[b].fetched && !s->block[b].whole) return LITMUS_FORBIDDEN;
    fetched += s->block[b].fetched;
  }
  return fetched ? LITMUS_SEEN : LITMUS_NOTHING;
}

/* ---- 2: the reads of blocks have ended when the slot is free */

typedef struct sq_free_state {
  df_sq sq;
  df_sq_slot slot;
  DF_ALIGNED(64) uint64_t record; /* plain: of the slot's present run */
  struct {
    DF_ALIGNED(64) uint64_t read;
  } block[2];
  DF_ALIGNED(64) uint32_t pushed;
} sq_free_state;

static void sq_free_prepare(void *state) {
  sq_free_state *s = state;
  df_sq_init(&s->sq, &s->slot, 1, 2);
  s->record = 1;
  df_sq_push_spmc(&s->sq, (df_sqe){.collective = A_COLLECTIVE, .blocks = 2});
}
static void sq_free_submit(void *state) {
  sq_free_state *s = state;
  s->pushed = (uint32_t)df_sq_push_spmc(&s->sq, (df_sqe){.collective = A_COLLECTIVE, .blocks = 2});
  if (s->pushed) s->record = 2;
}
static void sq_free_fetch(sq_free_state *s, uint32_t block) {
  uint64_t index = 0;
  df_sqe sqe;
  s->block[block].read = s->record;
  df_sq_fetch_spmc(&s->sq, &index, &sqe);
}
static void sq_free_block_0(void *state) { sq_free_fetch(state, 0); }
static void sq_free_block_1(void *state) { sq_free_fetch(state, 1); }
static litmus_outcome sq_free_judge(const void *state) {
  const sq_free_state *s = state;
  if (s->block[0].read != 1 || s->block[1].read != 1) return LITMUS_FORBIDDEN;
  return s->pushed ? LITMUS_SEEN : LITMUS_NOTHING;
}

/* ---- 2f: the SQ is full. Either the producer finds the room, or the last reader finds the note */

typedef struct sq_full_state {
  df_sq sq;
  df_sq_slot slot;
  DF_ALIGNED(64) uint32_t has_listed;
  DF_ALIGNED(64) uint32_t pushed;
  DF_ALIGNED(64) uint32_t noted;
} sq_full_state;

static void sq_full_prepare(void *state) {
  sq_full_state *s = state;
  df_sq_init(&s->sq, &s->slot, 1, 1);
  df_sq_push_spmc(&s->sq, (df_sqe){.collective = A_COLLECTIVE, .blocks = 1});
}
static void sq_full_submit(void *state) { /* df_list, then df_admit_listed */
  sq_full_state *s = state;
  df_store_relaxed_u32(&s->has_listed, 1);
  s->pushed = (uint32_t)df_sq_push_spmc(&s->sq, (df_sqe){.collective = A_COLLECTIVE, .blocks = 1});
}
static void sq_full_block(void *state) { /* df_scheduler_fetch, then df_between_turns */
  sq_full_state *s = state;
  uint64_t index = 0;
  df_sqe sqe;
  df_sq_fetch_spmc(&s->sq, &index, &sqe);
  s->noted = df_load_relaxed_u32(&s->has_listed);
}
static litmus_outcome sq_full_judge(const void *state) {
  const sq_full_state *s = state;
  if (!s->pushed && !s->noted) return LITMUS_FORBIDDEN;
  return s->pushed ? LITMUS_NOTHING : LITMUS_SEEN;
}

/* ---- 6, 7, 8: the results, before the CQE; three variants. 9: its word, before it is overwritten
 */

typedef struct cq_state {
  df_cq cq;
  df_cq_ring ring;
  DF_ALIGNED(64) uint64_t words[2];
  litmus_payload results;
  df_sq sq; /* 9: what admits the next run */
  df_sq_slot slot;
  DF_ALIGNED(64) uint32_t popped, whole;
  DF_ALIGNED(64) uint32_t pushed;
} cq_state;

static void cq_prepare(cq_state *s, df_cq_variant variant, uint64_t entries) {
  s->ring.words = s->words;
  s->cq = (df_cq){.variant = variant, .n_rings = 1, .mask = entries - 1, .rings = &s->ring};
}
static void cq_prepare_ring(void *state) { cq_prepare(state, DF_CQ_RING, 2); }
static void cq_prepare_packed(void *state) { cq_prepare(state, DF_CQ_PACKED, 2); }
static void cq_prepare_slots(void *state) { cq_prepare(state, DF_CQ_SLOTS_CAS, 2); }
static void cq_complete(void *state) {
  cq_state *s = state;
  litmus_fill(&s->results, 2);
  df_cq_push_mpsc(&s->cq, 0, (df_cqe){.collective = A_COLLECTIVE, .status = 3});
}
static void cq_reap(void *state) {
  cq_state *s = state;
  df_cqe cqe;
  s->popped = (uint32_t)df_cq_pop_mpsc(&s->cq, &cqe);
  if (!s->popped) return;
  s->whole = litmus_holds(&s->results, 2) && cqe.collective == A_COLLECTIVE && cqe.status == 3;
}
static litmus_outcome cq_judge(const void *state) {
  const cq_state *s = state;
  if (!s->popped) return LITMUS_NOTHING;
  return s->whole ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* The block asserts that the only word is free: the host admits the next run behind the pop. */
static void cq_head_prepare(void *state) {
  cq_state *s = state;
  cq_prepare(s, DF_CQ_RING, 1);
  df_sq_init(&s->sq, &s->slot, 1, 1);
  df_cq_push_mpsc(&s->cq, 0, (df_cqe){.collective = A_COLLECTIVE});
}
static void cq_head_host(void *state) {
  cq_state *s = state;
  df_cqe cqe;
  if (df_cq_pop_mpsc(&s->cq, &cqe))
    df_sq_push_spmc(&s->sq, (df_sqe){.collective = A_COLLECTIVE, .blocks = 1});
}
static void cq_head_block(void *state) {
  cq_state *s = state;
  uint64_t index = 0;
  df_sqe sqe;
  if (!df_sq_fetch_spmc(&s->sq, &index, &sqe)) return;
  df_cq_push_mpsc(&s->cq, 0, (df_cqe){.collective = sqe.collective});
  s->pushed = 1;
}
static litmus_outcome cq_head_judge(const void *state) {
  const cq_state *s = state;
  return s->pushed ? LITMUS_SEEN : LITMUS_NOTHING; /* otherwise the assertion fails */
}

/* ---- 5: two blocks, one of which gives up; the last one's CQE reports both */

typedef struct completion_state {
  df_device device;
  df_block block[2];
  df_context_slot slot[2];
  uint32_t order[2], pending[2][A_COLLECTIVE + 1];
  df_descriptor descriptor;
  df_run_counters counters;
  uint64_t progress[2];
  df_cq_ring rings[2];
  DF_ALIGNED(64) uint64_t words[2];
  litmus_payload results[2];
  DF_ALIGNED(64) uint32_t popped, whole;
} completion_state;

static void completion_prepare(void *state) {
  completion_state *s = state;
  s->device.cq = (df_cq){.variant = DF_CQ_PACKED, .n_rings = 2, .rings = s->rings};
  s->descriptor = (df_descriptor){.counters = &s->counters, .progress = s->progress, .n_blocks = 2};
  for (uint32_t b = 0; b < 2; b++) {
    s->rings[b].words = &s->words[b];
    s->slot[b].collective = s->order[b] = A_COLLECTIVE;
    s->pending[b][A_COLLECTIVE] = 1;
    s->block[b] = (df_block){.device = &s->device, .index = b, .picked = &s->slot[b]};
    s->block[b].tasks =
        (df_task_queue){.order = &s->order[b], .pending = s->pending[b], .length = 1};
  }
}
static void completion_block(completion_state *s, uint32_t block, uint32_t status) {
  litmus_fill(&s->results[block], block + 3);
  const df_lanes lanes = {.move = NULL}; /* these runs are not timed */
  df_daemon_complete(&s->block[block], A_COLLECTIVE, &s->descriptor, status, &lanes);
}
static void completion_block_0(void *state) { completion_block(state, 0, 3); }
static void completion_block_1(void *state) { completion_block(state, 1, 0); }
static void completion_reap(void *state) {
  completion_state *s = state;
  df_cqe cqe;
  s->popped = (uint32_t)df_cq_pop_mpsc(&s->device.cq, &cqe);
  if (!s->popped) return;
  /* The host may use the run's counters again. */
  s->whole = litmus_holds(&s->results[0], 3) && litmus_holds(&s->results[1], 4) &&
             cqe.collective == A_COLLECTIVE && cqe.status == 3 &&
             df_load_relaxed_u32(&s->counters.blocks_done[0]) == 0 &&
             df_load_relaxed_u32(&s->counters.blocks_gave_up[0]) == 0;
}
static litmus_outcome completion_judge(const void *state) {
  const completion_state *s = state;
  if (!s->popped) return LITMUS_NOTHING;
  return s->whole ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- 12: a block has left */

typedef struct leaving_state {
  df_device device;
  df_block block;
  df_context_slot slot;
  df_cursor saved;
  DF_ALIGNED(64) uint32_t left, whole;
} leaving_state;

static void leaving_prepare(void *state) {
  leaving_state *s = state;
  s->block.device = &s->device;
  df_context_cache_init(&s->block.cache, &s->slot, 1, &s->saved);
  df_lifecycle_start(&s->block);
  df_context_load(&s->block.cache, 0);
}
static void leaving_block(void *state) {
  leaving_state *s = state;
  s->slot.cursor.run = 5;
  s->slot.dirty = 1;
  df_lifecycle_leave(&s->block);
}
static void leaving_synchroniser(void *state) {
  leaving_state *s = state;
  s->left = !df_observe_u32(&s->block.running);
  if (s->left) s->whole = s->saved.run == 5 && df_load_relaxed_u64(&s->block.stats.quits) == 1;
}
static litmus_outcome leaving_judge(const void *state) {
  const leaving_state *s = state;
  if (!s->left) return LITMUS_NOTHING;
  return s->whole ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- 13: a run is given up: one word says it all */

typedef struct cancelled_state {
  df_device device;
  df_descriptor descriptor;
  df_run_words words;
  df_part part;
  df_cursor cursor;
  df_move move;
  df_lanes lanes;
  DF_ALIGNED(64) uint32_t gave_up, status;
} cancelled_state;

static void cancelled_prepare(void *state) {
  cancelled_state *s = state;
  s->descriptor = (df_descriptor){.words = &s->words, .parts = &s->part, .n_blocks = 1};
  s->cursor.phase = DF_PHASE_DRAIN;
  s->cursor.flags = DF_CURSOR_DIRECT_SENT;
}
static void cancelled_host(void *state) { /* df_fail_collective */
  cancelled_state *s = state;
  df_publish_u32(&s->words.cancel, 3);
  df_publish_u32(&s->device.failures, s->device.failures + 1);
}
static void cancelled_block(void *state) { /* df_daemon_execute, then df_daemon_conclude */
  cancelled_state *s = state;
  s->gave_up =
      df_step_decide(&s->descriptor, 0, &s->cursor, &s->move, &s->lanes) == DF_STEP_CANCELLED;
  if (s->gave_up) s->status = df_observe_u32(&s->words.cancel);
}
static litmus_outcome cancelled_judge(const void *state) {
  const cancelled_state *s = state;
  if (!s->gave_up) return LITMUS_NOTHING;
  return s->status == 3 ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- */

static const litmus_test tests[] = {
    {"1",
     "sq",
     "an SQE is seen, and its run's arguments are not",
     sizeof(sq_state),
     sq_prepare,
     {sq_submit, sq_block_0, sq_block_1},
     sq_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"2",
     "sq_free",
     "a slot is written again while a block reads it",
     sizeof(sq_free_state),
     sq_free_prepare,
     {sq_free_submit, sq_free_block_0, sq_free_block_1},
     sq_free_judge,
     {{0, LITMUS_OBSERVE}, {1, LITMUS_PUBLISH}, {2, LITMUS_PUBLISH}},
     {{0}}},
    {"2f",
     "sq_full",
     "there is no room, and the last reader sees nobody who waits for it",
     sizeof(sq_full_state),
     sq_full_prepare,
     {sq_full_submit, sq_full_block},
     sq_full_judge,
     {{0, LITMUS_PUBLISH}, {0, LITMUS_MODIFY}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"5",
     "completion",
     "a CQE is seen, and a block's results, status or counters are not",
     sizeof(completion_state),
     completion_prepare,
     {completion_block_0, completion_block_1, completion_reap},
     completion_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}, {1, LITMUS_PUBLISH}, {2, LITMUS_OBSERVE}},
     {{0}}},
    {"6",
     "cq_ring",
     "a CQE is seen, and the results are not",
     sizeof(cq_state),
     cq_prepare_ring,
     {cq_complete, cq_reap},
     cq_judge,
     {{0, LITMUS_PUBLISH | LITMUS_FENCE}, {1, LITMUS_OBSERVE}},
     {{0, LITMUS_PUBLISH}, {0, LITMUS_FENCE}}},
    {"7",
     "cq_packed",
     "a CQE is seen, and the results are not",
     sizeof(cq_state),
     cq_prepare_packed,
     {cq_complete, cq_reap},
     cq_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"8",
     "cq_slots",
     "a CQE is seen, and the results are not",
     sizeof(cq_state),
     cq_prepare_slots,
     {cq_complete, cq_reap},
     cq_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"9",
     "cq_head",
     "the CQ looks full to a block whose run was admitted because it is not",
     sizeof(cq_state),
     cq_head_prepare,
     {cq_head_host, cq_head_block},
     cq_head_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"12",
     "leaving",
     "a block has left, and what it did is not seen",
     sizeof(leaving_state),
     leaving_prepare,
     {leaving_block, leaving_synchroniser},
     leaving_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"13",
     "cancelled",
     "a run is given up with success",
     sizeof(cancelled_state),
     cancelled_prepare,
     {cancelled_host, cancelled_block},
     cancelled_judge,
     {{0}},
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}}},
};
const litmus_tests litmus_queues = {tests, DF_COUNT_OF(tests)};
