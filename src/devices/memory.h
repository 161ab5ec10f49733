/*
 * The memory of a rank's device: where collectives' descriptors and rings lie, and what ranks can
 * do to each other's memory.
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

/* What a device knows and keeps of a collective; the host's record embeds it. */
typedef struct df_device_coll {
  /* the host's, before describe */
  uint32_t index;
  const df_plan *plan;
  const df_shape *shape;
  /* describe's */
  df_descriptor *descriptor; /* the host's; its arrays' addresses are the daemon's */
  df_link *links;            /* [n_blocks][n_links] the host's copy of the ends */
  void *part;                /* the device's own */
} df_device_coll;

typedef struct df_memory_ops {
  /* [lock] Memory of a collective. Fails only for want of it, and says no sentence. */
  dfcclResult_t (*describe)(df_rank_device *device, df_device_coll *coll);
  void (*forget)(df_rank_device *device, df_device_coll *coll);
  /* [lock] The daemon may be given runs from here on: descriptor and link ends are complete. A
   * device that sets_up_in_background may let the lock go: the collective may be given up
   * meanwhile. */
  dfcclResult_t (*publish)(df_rank_device *device, df_device_coll *coll);
  /* Afterwards no commit word, credit or hold of an earlier collective can be taken for one of the
   * rings' new collective. With the lock, or without it if the device sets_up_in_background. */
  dfcclResult_t (*clear)(df_rank_device *device, const df_device_rings *rings);
  /* Link set-up calls the device: the service thread does it, never a thread that submits. */
  int sets_up_in_background;
  /* May the host look at rings and credits? */
  int host_sees_links;
  /* Can a peer of this process read any buffer of this rank? */
  int (*lends_to)(df_rank_device *device, uint32_t peer);

  /* 1: other processes must close their mappings of the device's memory before it is freed. */
  int exports_memory;
  /* Memory that peers can map; also for dfcclMemAlloc. */
  dfcclResult_t (*create)(df_rank_device *device, df_segment **segment, uint64_t id, size_t bytes);
  /* A peer process's memory, as announced; takes fd (-1: none). */
  dfcclResult_t (*map)(df_rank_device *device, uint32_t peer, df_segment **segment,
                       const df_message *message, int fd);
  /* Can a peer of this process whom lends_to refuses read dfcclMemAlloc memory? */
  int (*lends_memory_to)(df_rank_device *device, uint32_t peer);
  /* [lock] A row of what to add to an address for each rank, in memory of the daemon. NULL: none.
   */
  uint64_t *(*take_reach)(df_rank_device *device);
  void (*give_reach)(df_rank_device *device, uint64_t *reach);
} df_memory_ops;

/* ---- One region of memory, laid out twice: to measure it, and to place things in it. */

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
