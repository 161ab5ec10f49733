/* The CUDA daemon's blocks, which leave the device together: their gate, and the images that they
 * leave to the host. */
#include <assert.h>

#include "litmus.h"

/* On the CPU no daemon needs it. */
#define df_device_claim_u32 df_system_claim_u32
#include "daemon_kernel/block_cuda.h"

enum { BLOCKS = 2, LAUNCH = 1 };

static const df_lanes lanes; /* these runs are not timed */

typedef struct gate_state {
  df_cuda_daemon daemon;
  df_device device;
  df_sq_slot sq_slots[2];
  df_cq_ring rings[BLOCKS];
  df_cuda_gate gate;
  df_block images[BLOCKS];
  df_cursor saved[BLOCKS];
  df_cuda_shared shared[BLOCKS];
  DF_ALIGNED(64) uint64_t seen[BLOCKS];
  uint32_t looked;
} gate_state;

/* Two blocks at work; an entry of the SQ comes, of which they do not know. */
static void gate_prepare(void *state) {
  gate_state *s = state;
  df_sq_init(&s->device.sq, s->sq_slots, 2, BLOCKS);
  s->device.n_blocks = BLOCKS;
  s->device.cq.rings = s->rings;
  s->daemon = (df_cuda_daemon){
      .device = &s->device, .blocks = s->images, .gate = &s->gate, .launch = LAUNCH};
  for (uint32_t b = 0; b < BLOCKS; b++) {
    s->images[b].index = b;
    s->images[b].cache.memory = &s->saved[b];
  }
  for (uint32_t b = 0; b < BLOCKS; b++) {
    df_cuda_load_block(&s->daemon, b, &s->shared[b], &lanes);
    df_cuda_enter(&s->daemon, b, &s->shared[b], &lanes);
  }
  df_sq_push_spmc(&s->device.sq, (df_sqe){.collective = 3, .blocks = BLOCKS});
}

/* df_cuda_execute_block, with turns that find nothing but the SQ. */
static void gate_block(gate_state *s, uint32_t b) {
  df_block *block = &s->shared[b].block;
  df_sqe sqe;
  df_lifecycle_leave(block);
  while (df_cuda_park(&s->shared[b], &lanes)) {
    df_sq_fetch_spmc(&block->device->sq, &block->read_index, &sqe);
    df_lifecycle_leave(block);
  }
}
static void gate_block_0(void *state) { gate_block(state, 0); }
static void gate_block_1(void *state) { gate_block(state, 1); }

static void gate_host(void *state) { /* as is_running(), has_unread() */
  gate_state *s = state;
  for (uint32_t b = 0; b < BLOCKS; b++)
    if (df_observe_u32(&s->images[b].running)) return;
  for (uint32_t b = 0; b < BLOCKS; b++) s->seen[b] = df_load_relaxed_u64(&s->images[b].read_index);
  s->looked = 1;
}

static litmus_outcome gate_judge(const void *state) {
  const gate_state *s = state;
  if (s->gate.active != 0 || s->gate.left != LAUNCH) return LITMUS_FORBIDDEN;
  if (!s->looked) return LITMUS_NOTHING;
  for (uint32_t b = 0; b < BLOCKS; b++)
    if (s->seen[b] != s->shared[b].block.read_index) return LITMUS_FORBIDDEN;
  return LITMUS_SEEN;
}

static const litmus_test tests[] = {
    {"22",
     "gate",
     "a launch is over, and a place is still taken, or what a block has read is not seen",
     sizeof(gate_state),
     gate_prepare,
     {gate_block_0, gate_block_1, gate_host},
     gate_judge,
     {{0, LITMUS_MODIFY}, {0, LITMUS_PUBLISH}, {2, LITMUS_OBSERVE}},
     {{0}}},
};
const litmus_tests litmus_gate = {tests, DF_COUNT_OF(tests)};
