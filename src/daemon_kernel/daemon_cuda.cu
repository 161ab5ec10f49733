#include "daemon_kernel/daemon_cuda.h"

#include "daemon_kernel/daemon.h"

/* What one block keeps in shared memory. */
typedef struct df_cuda_shared {
  df_context_slot slots[DF_MAX_CONTEXT_SLOTS];
  df_device device;
  df_block block;
  df_move move;
  uint32_t stays; /* the leader's decision after parking */
  uint32_t saved; /* the image shows what the block has done */
} df_cuda_shared;

/* The design's limit for 1,000 collectives; the number of collectives does not matter here. */
static_assert(sizeof(df_cuda_shared) <= 13 * 1024, "a block's shared memory");
static_assert(sizeof(df_block_stats) % sizeof(uint64_t) == 0, "stats are 64-bit counters");

/* ---- The functions below are the leader's. */

/* For whoever looks at the image, and for the next launch. Posted writes: nothing waits for them.
 */
static __device__ void save_block(df_block *image, const df_block *block) {
  df_store_relaxed_u64(&image->read_index, block->read_index);
  df_store_relaxed_u32(&image->tasks.length, block->tasks.length);
  df_store_relaxed_u32(&image->tasks.high_water, block->tasks.high_water);
  df_store_relaxed_u64(&image->cache.saves, block->cache.saves);
  df_store_relaxed_u64(&image->cache.loads, block->cache.loads);
  df_store_relaxed_u32(&image->place, block->place);
  uint64_t *to = (uint64_t *)&image->stats;
  const uint64_t *from = (const uint64_t *)&block->stats;
  for (uint32_t i = 0; i < sizeof(df_block_stats) / sizeof *from; i++)
    df_store_relaxed_u64(&to[i], from[i]);
}

static __device__ void enter(const df_cuda_daemon *daemon, df_cuda_shared *shared) {
  df_block *image = &daemon->blocks[blockIdx.x];
  DF_ASSERT(gridDim.x == daemon->device->n_blocks);
  shared->device = *daemon->device;
  shared->block = *image;
  df_block *block = &shared->block;
  DF_ASSERT(block->index == blockIdx.x);
  DF_ASSERT(block->cache.mask < DF_MAX_CONTEXT_SLOTS);
  block->device = &shared->device;
  block->running = 0;
  df_context_cache_attach(&block->cache, shared->slots, block->cache.mask + 1);
  df_lifecycle_start(block);
  df_publish_u32(&image->running, 1);
  shared->saved = 0;
}

static __device__ void between_turns(const df_cuda_daemon *daemon, df_cuda_shared *shared,
                                     df_turn turn) {
  shared->device.by_priority = df_load_relaxed_u32(&daemon->device->by_priority);
  shared->device.exit = df_load_relaxed_u32(&daemon->device->exit);
  if (turn != DF_TURN_WAITED) {
    shared->saved = 0;
    return;
  }
  if (!shared->saved) save_block(&daemon->blocks[blockIdx.x], &shared->block);
  shared->saved = 1;
  if (shared->block.tasks.length == 0) df_pause();
}

/* The block has left its turns. Returns 1 when it is back, 0 when all blocks have parked: the
 * launch is over. */
static __device__ uint32_t park(const df_cuda_daemon *daemon, df_cuda_shared *shared) {
  df_block *block = &shared->block, *image = &daemon->blocks[blockIdx.x];
  save_block(image, block);
  uint32_t parked = df_device_add_u32(daemon->parked, 1) + 1;
  while (parked != daemon->all_parked) {
    /* Taking the place back fails when another block has parked or gone back meanwhile: look again,
     * since it may have been the last. */
    if (!df_lifecycle_has_reason(block)) {
      df_pause();
    } else if (df_device_claim_u32(daemon->parked, parked, parked - 1)) {
      df_lifecycle_start(block);
      return 1;
    }
    parked = df_load_relaxed_u32(daemon->parked);
  }
  /* Everything that this block did, its image included, precedes "it has left". */
  df_publish_u32(&image->running, 0);
  return 0;
}

extern "C" __global__ void __launch_bounds__(DF_CUDA_MAX_LANES, 1)
    df_daemon_cuda(const __grid_constant__ df_cuda_daemon daemon) {
  __shared__ df_cuda_shared shared;
  df_lanes lanes;
  lanes.index = threadIdx.x;
  lanes.count = blockDim.x;
  lanes.move = &shared.move;
  if (df_lanes_leads(&lanes)) enter(&daemon, &shared);
  df_lanes_sync(&lanes);
  do {
    df_turn turn;
    while ((turn = df_daemon_turn(&shared.block, &lanes)) != DF_TURN_LEFT)
      if (df_lanes_leads(&lanes)) between_turns(&daemon, &shared, turn);
    if (df_lanes_leads(&lanes)) shared.stays = park(&daemon, &shared);
    df_lanes_sync(&lanes);
  } while (shared.stays);
}

const void *df_cuda_daemon_kernel(void) { return (const void *)df_daemon_cuda; }
