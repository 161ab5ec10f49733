#include "engine_sparse.h"

#include <stdlib.h>
#include <string.h>

#include "engine_cluster.h"

dfcclResult_t df_sparse_create(df_sparse *sparse, const df_layout *layout, const df_field *field) {
  *sparse = (df_sparse){.layout = layout, .field = field};
  return df_cluster_work_create(&sparse->work, layout, field);
}

void df_sparse_destroy(df_sparse *sparse) {
  free(sparse->rare.slot);
  free(sparse->block);
  df_cluster_work_destroy(sparse->work);
  memset(sparse, 0, sizeof *sparse);
}

/* Where a GPU's disturbed stretch begins: common slots just before slot may reach into it by one.
 * (Rare slots before it cannot: their own blocks end earlier, or slot would be part of them.) */
static uint64_t grow_back(const df_sparse *sparse, df_field_cursor *cursor, uint64_t slot,
                          uint64_t gpu_first) {
  while (slot > gpu_first && df_field_common(sparse->field, cursor, slot - 1).skip) slot--;
  return slot;
}

/* Grows the block around rare slot *index and moves *index behind it. True if a barrier is strictly
 * inside. */
static bool grow_block(const df_sparse *sparse, df_field_cursor *cursor, size_t *index,
                       df_block *block) {
  const df_layout *layout = sparse->layout;
  const df_rare_slots *rare = &sparse->rare;
  uint64_t slot = rare->slot[*index].slot;
  block->gpu = df_layout_gpu_of_slot(layout, slot);
  uint64_t gpu_first = layout->slot_first[block->gpu];
  uint64_t gpu_last = layout->slot_first[block->gpu + 1] - 1;
  uint64_t first = grow_back(sparse, cursor, slot, gpu_first);
  bool inside = false; /* the slots before this one skip and have no barrier */
  uint64_t last = slot;
  for (; slot <= last && slot <= gpu_last; slot++) {
    uint64_t skip;
    bool barrier;
    if (*index < rare->count && rare->slot[*index].slot == slot) {
      skip = rare->slot[*index].skip;
      barrier = rare->slot[(*index)++].barrier;
    } else {
      df_common_slot common = df_field_common(sparse->field, cursor, slot);
      skip = common.skip;
      barrier = common.barrier;
    }
    uint64_t reach = skip < gpu_last - slot ? slot + skip : gpu_last;
    last = DF_MAX(last, reach);
    inside |= barrier && slot < last; /* the gap behind slot is inside the block */
  }
  block->first = first - gpu_first;
  block->last = last - gpu_first;
  return inside;
}

static int compare_blocks(const void *a, const void *b) {
  const df_block *left = a, *right = b;
  if (left->key_low != right->key_low) return left->key_low < right->key_low ? -1 : 1;
  return (left->gpu > right->gpu) - (left->gpu < right->gpu);
}

static void sort_blocks(df_block *block, size_t count) {
  if (count > 16) {
    qsort(block, count, sizeof *block, compare_blocks);
    return;
  }
  for (size_t i = 1; i < count; i++) {
    df_block moved = block[i];
    size_t place = i;
    for (; place > 0 && compare_blocks(&moved, &block[place - 1]) < 0; place--)
      block[place] = block[place - 1];
    block[place] = moved;
  }
}

dfcclResult_t df_sparse_find_blocks(df_sparse *sparse, uint64_t round) {
  sparse->block_count = 0;
  dfcclResult_t result = df_field_rare(sparse->field, round, &sparse->rare);
  if (result != dfcclSuccess || sparse->rare.count == 0) return result;
  if (sparse->block_room < sparse->rare.count) {
    df_block *grown = realloc(sparse->block, sparse->rare.room * sizeof *grown);
    if (!grown) return df_fail(dfcclOutOfMemory, "no memory for %zu blocks", sparse->rare.count);
    sparse->block = grown;
    sparse->block_room = sparse->rare.room;
  }
  const df_layout *layout = sparse->layout;
  df_field_cursor cursor = df_field_cursor_start(round);
  for (size_t i = 0; i < sparse->rare.count;) {
    df_block block = {0};
    if (!grow_block(sparse, &cursor, &i, &block)) continue;
    block.key_low = df_layout_key(layout, df_layout_collective_at(layout, block.gpu, block.first));
    block.key_high = df_layout_key(layout, df_layout_collective_at(layout, block.gpu, block.last));
    sparse->block[sparse->block_count++] = block;
  }
  sort_blocks(sparse->block, sparse->block_count);
  return dfcclSuccess;
}

dfcclResult_t df_sparse_round(df_sparse *sparse, uint64_t round, bool *deadlock) {
  *deadlock = false;
  dfcclResult_t result = df_sparse_find_blocks(sparse, round);
  size_t first = 0;
  while (result == dfcclSuccess && first < sparse->block_count && !*deadlock) {
    uint64_t high = sparse->block[first].key_high;
    size_t end = first + 1;
    for (; end < sparse->block_count && sparse->block[end].key_low <= high; end++)
      high = DF_MAX(high, sparse->block[end].key_high);
    df_cluster cluster = {.block = sparse->block + first,
                          .block_count = end - first,
                          .key_low = sparse->block[first].key_low,
                          .key_high = high};
    result = df_cluster_deadlocks(sparse->work, round, &sparse->rare, &cluster, deadlock);
    first = end;
  }
  return result;
}
