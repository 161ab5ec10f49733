/* The arrays of a collective share one range of the arena. The host keeps a copy and uploads all of
 * it when the links are connected, so that a registration calls no CUDA function. Words that the
 * host writes later are in mapped memory. */
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "devices/cuda/state.h"

typedef struct df_cuda_part {
  df_range range; /* valid from df_cuda_publish on */
  size_t bytes, uploaded_bytes;
  uint8_t *image;
} df_cuda_part;

/* Scratch memory comes last, because it is not uploaded. */
static void lay_out(const df_device_coll *coll, df_layout *layout, df_descriptor *d,
                    size_t *uploaded) {
  uint32_t n_blocks = coll->shape->n_blocks;
  d->counters = df_lay(layout, sizeof *d->counters);
  d->parts = df_lay(layout, n_blocks * sizeof *d->parts +
                                coll->plan->n_extents * sizeof *coll->plan->extents);
  d->links = df_lay(layout, (size_t)n_blocks * coll->plan->n_links * sizeof *d->links);
  d->primitives = df_lay(layout, coll->plan->n_primitives * sizeof *d->primitives);
  d->near_runs = df_lay(layout, DF_RUNS_AHEAD * sizeof *d->near_runs);
  *uploaded = layout->used;
  d->scratch =
      coll->shape->scratch_bytes ? df_lay(layout, n_blocks * coll->shape->scratch_bytes) : NULL;
  layout->used = DF_ALIGN_UP(DF_MAX(layout->used, (size_t)1), (size_t)DF_CACHE_LINE);
}

dfcclResult_t df_cuda_describe(df_rank_device *device, df_device_coll *coll) {
  DF_ASSERT_RANK_LOCKED(device->host.lock);
  df_cuda_state *state = df_cuda_state_of(device);
  df_descriptor *d = calloc(1, sizeof *d);
  df_cuda_part *part = calloc(1, sizeof *part);
  df_layout layout = {0};
  if (d == NULL || part == NULL) goto no_memory;
  lay_out(coll, &layout, d, &part->uploaded_bytes);
  part->bytes = layout.used;
  part->image = calloc(1, part->uploaded_bytes);
  if (part->image == NULL) goto no_memory;

  df_descriptor host; /* the same arrays in the image */
  layout = (df_layout){.base = part->image};
  lay_out(coll, &layout, &host, &part->uploaded_bytes);
  memcpy(host.parts, coll->shape->parts, coll->shape->n_blocks * sizeof *host.parts);
  if (coll->plan->n_extents)
    memcpy(host.parts + coll->shape->n_blocks, coll->plan->extents,
           coll->plan->n_extents * sizeof *coll->plan->extents);
  memcpy((void *)(uintptr_t)host.primitives, coll->plan->primitives,
         coll->plan->n_primitives * sizeof *host.primitives);
  coll->links = host.links;
  d->words = &state->words[coll->index];
  d->progress = &state->progress[(size_t)coll->index * device->shared->n_blocks];
  d->inputs = state->inputs;
  memset(d->words, 0, sizeof *d->words);
  memset(d->progress, 0, device->shared->n_blocks * sizeof *d->progress);
  coll->descriptor = d;
  coll->part = part;
  state->widest = DF_MAX(state->widest, coll->shape->n_blocks);
  return dfcclSuccess;

no_memory:
  if (part) free(part->image);
  free(part);
  free(d);
  return dfcclOutOfMemory;
}

void df_cuda_forget(df_rank_device *device, df_device_coll *coll) {
  df_cuda_part *part = coll->part;
  if (part->range.segment) df_arena_give(device->arena, &part->range);
  free(part->image);
  free(part);
  free(coll->descriptor);
}

/* Called without the lock. */
static dfcclResult_t upload(df_rank_device *device, const df_device_coll *coll) {
  df_cuda_state *state = df_cuda_state_of(device);
  const df_cuda_part *part = coll->part;
  df_cuda_visit visit;
  dfcclResult_t result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  result = df_cuda_upload(device, part->range.segment->base + part->range.offset, part->image,
                          part->uploaded_bytes);
  if (result == dfcclSuccess)
    result = df_cuda_upload(device, &state->constants[coll->index], coll->descriptor,
                            sizeof *coll->descriptor);
  df_cuda_leave_device(&visit);
  return result;
}

/* The reference of the caller keeps the index and the range in use. */
dfcclResult_t df_cuda_publish(df_rank_device *device, df_device_coll *coll) {
  DF_ASSERT_RANK_LOCKED(device->host.lock);
  df_cuda_part *part = coll->part;
  dfcclResult_t result = df_device_take_range(device, part->bytes, &part->range);
  if (result != dfcclSuccess) return result;
  df_layout layout = {.base = part->range.segment->base + part->range.offset};
  lay_out(coll, &layout, coll->descriptor, &part->uploaded_bytes);
  if (df_cuda_state_of(device)->relay == NULL) coll->descriptor->near_runs = NULL;
  df_rank_unlock(device->host.lock);
  result = upload(device, coll);
  df_rank_lock(device->host.lock);
  if (result == dfcclSuccess) df_cuda_grow(device, coll->shape->n_blocks);
  return result;
}

dfcclResult_t df_cuda_clear(df_rank_device *device, const df_device_rings *rings) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_visit visit;
  dfcclResult_t result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  result = df_cuda_clear_rings(device, rings);
  df_cuda_leave_device(&visit);
  return result;
}
