/*
 * A device's memory: where descriptors and rings lie, and what ranks can do to each other's memory.
 */
#ifndef DF_DEVICES_MEMORY_H
#define DF_DEVICES_MEMORY_H

#include "base/result.h"
#include "context/descriptor.h"
#include "control/message.h"
#include "plans/plan.h"
#include "primitives/link.h"
#include "transports/shm/shared_memory.h"

typedef struct df_rank_device df_rank_device;

typedef struct df_device_coll {
  /* Filled by the host before describe: */
  uint32_t index;
  const df_plan *plan;
  const df_shape *shape;
  /* Filled by describe: */
  df_descriptor *descriptor; /* the host's; its arrays' addresses are the daemon's */
  df_link *links;            /* [n_blocks][n_links] the host's copy */
  void *part;                /* Known to the device alone. */
} df_device_coll;

typedef struct df_memory_ops {
  /* [lock] Fails only for want of memory, without a sentence. */
  dfcclResult_t (*describe)(df_rank_device *device, df_device_coll *coll);
  void (*forget)(df_rank_device *device, df_device_coll *coll);
  /* [lock] Descriptor and link ends are complete: runs may come. With sets_up_in_background the
   * lock may be let go, and the collective be given up meanwhile. */
  dfcclResult_t (*publish)(df_rank_device *device, df_device_coll *coll);
  /* No commit word, credit or hold of an earlier collective may pass for a new one. With the
   * lock, unless sets_up_in_background. */
  dfcclResult_t (*clear)(df_rank_device *device, const df_device_rings *rings);
  /* Link set-up calls the device: only the service thread does it. */
  int sets_up_in_background;
  int host_sees_links;
  /* A peer of this process can read any buffer. */
  int (*lends_to)(df_rank_device *device, uint32_t peer);

  /* Other processes must unmap memory before it is freed. */
  int exports_memory;
  /* Memory for peers to map, and for dfcclMemAlloc. */
  dfcclResult_t (*create)(df_rank_device *device, df_segment **segment, uint64_t id, size_t bytes);
  /* A peer process's memory; takes fd (-1: none). */
  dfcclResult_t (*map)(df_rank_device *device, uint32_t peer, df_segment **segment,
                       const df_message *message, int fd);
  /* A peer that lends_to refuses can read dfcclMemAlloc memory. */
  int (*lends_memory_to)(df_rank_device *device, uint32_t peer);
  /* [lock] What to add to an address, for each rank. NULL: none is left. */
  uint64_t *(*take_mapping)(df_rank_device *device);
  void (*give_mapping)(df_rank_device *device, uint64_t *mapping);
} df_memory_ops;

/* ---- One region, laid out twice: to measure it, and to place things. */

typedef struct df_layout {
  uint8_t *base; /* NULL while measuring */
  size_t used;
} df_layout;

static inline void *df_lay(df_layout *layout, size_t bytes) {
  layout->used = DF_ALIGN_UP(layout->used, (size_t)DF_CACHE_LINE);
  void *at = layout->base ? layout->base + layout->used : NULL;
  layout->used += bytes;
  return at;
}

#endif
