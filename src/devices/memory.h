/*
 * The memory of a rank's device: where collectives' descriptors and rings lie, and what ranks can
 * do to each other's memory.
 */
#ifndef DF_DEVICES_MEMORY_H
#define DF_DEVICES_MEMORY_H

#include "base/result.h"
#include "control/message.h"
#include "transports/shm/segment.h"

struct df_coll;

typedef struct df_memory_ops {
  /* [lock] Memory of a collective: coll->descriptor, with its arrays' addresses as the daemon sees
   * them, and coll->links, the host's copy of the link ends. coll->index is taken. */
  dfcclResult_t (*describe)(dfcclContext_t context, struct df_coll *coll);
  void (*forget)(dfcclContext_t context, struct df_coll *coll);
  /* [lock] The daemon may be given runs from here on: descriptor and link ends are complete. A
   * device that sets_up_in_background may let the lock go: the collective may be given up
   * meanwhile. */
  dfcclResult_t (*publish)(dfcclContext_t context, struct df_coll *coll);
  /* Rings in which this rank receives: no commit word, credit or hold of an earlier collective may
   * be taken for one of this. With the lock, or without it if the device sets_up_in_background. */
  dfcclResult_t (*clear)(dfcclContext_t context, const struct df_coll *coll, uint8_t *rings);
  /* Link set-up calls the device: the service thread does it, never a thread that submits. */
  int sets_up_in_background;
  /* May the host look at rings and credits? */
  int host_sees_links;
  /* Can a peer of this process read any buffer of this rank? */
  int (*lends_to)(dfcclContext_t context, uint32_t peer);

  /* Other processes' mappings of a device's memory must be closed before it goes back. */
  int exports_memory;
  /* Memory that peers can map; also for dfcclMemAlloc. */
  dfcclResult_t (*create)(dfcclContext_t context, df_segment **segment, uint64_t id, size_t bytes);
  /* A peer process's memory, as announced; takes fd (-1: none). */
  dfcclResult_t (*map)(dfcclContext_t context, uint32_t peer, df_segment **segment,
                       const df_message *message, int fd);
  /* Can a peer of this process whom lends_to refuses read dfcclMemAlloc memory? */
  int (*lends_memory_to)(dfcclContext_t context, uint32_t peer);
  /* [lock] Room for what to add to an address for each rank, where the daemon sees it. NULL: none.
   */
  uint64_t *(*take_reach)(dfcclContext_t context);
  void (*give_reach)(dfcclContext_t context, uint64_t *reach);
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
