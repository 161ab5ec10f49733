/* The memory of a device: the place of descriptors and rings, and the access of ranks to the memory
 * of other ranks. */
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
  /* The copy of the host; the addresses of its arrays are those of the daemon. */
  df_descriptor *descriptor;
  df_link *links; /* [n_blocks][n_links], the copy of the host */
  void *part;     /* data of the device alone */
} df_device_coll;

typedef struct df_memory_ops {
  /* The caller holds the lock. Fails only if out of memory, without a sentence. */
  dfcclResult_t (*describe)(df_rank_device *device, df_device_coll *coll);
  void (*forget)(df_rank_device *device, df_device_coll *coll);
  /* The caller holds the lock. The descriptor and link ends are complete: runs may come. With
   * sets_up_in_background the lock may be released, and the collective may be given up
   * meanwhile. */
  dfcclResult_t (*publish)(df_rank_device *device, df_device_coll *coll);
  /* Clears the rings, so that no commit word, credit or hold word of an earlier collective counts
   * for a new one. Called with the lock, unless sets_up_in_background. NULL: the memory is
   * cleared when it is given back. */
  dfcclResult_t (*clear)(df_rank_device *device, const df_device_rings *rings);
  /* Link set-up calls functions of the device, so only the service thread does it. */
  int sets_up_in_background;
  int host_sees_links;
  /* Returns whether the peer, which is in this process, can read any buffer. */
  int (*lends_to)(df_rank_device *device, uint32_t peer);

  /* Other processes must unmap memory before it is freed. */
  int exports_memory;
  /* Allocates memory for peers to map, and for dfcclMemAlloc. */
  dfcclResult_t (*create)(df_rank_device *device, df_segment **segment, uint64_t id, size_t bytes);
  /* Maps the memory of a peer in another process; takes over fd (-1: none). */
  dfcclResult_t (*map)(df_rank_device *device, uint32_t peer, df_segment **segment,
                       const df_message *message, int fd);
  /* Returns whether a peer for which lends_to is 0 can read memory of dfcclMemAlloc. */
  int (*lends_memory_to)(df_rank_device *device, uint32_t peer);
  /* The caller holds the lock. Returns the offsets to add to an address, one for each rank; NULL:
   * none is left. */
  uint64_t *(*take_mapping)(df_rank_device *device);
  void (*give_mapping)(df_rank_device *device, uint64_t *mapping);
} df_memory_ops;

/* ---- A region that is laid out twice: to measure it, and to place objects in it. */

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
