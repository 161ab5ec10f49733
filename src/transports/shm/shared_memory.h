/* Each device makes shared memory in its way. */
#ifndef DF_TRANSPORTS_SHM_SHARED_MEMORY_H
#define DF_TRANSPORTS_SHM_SHARED_MEMORY_H

#include "base/result.h"
#include "control/message.h"
#include "transports/shm/segment.h"
#include "transports/transport.h"

struct df_rank_device; /* devices/device.h; only passed on here */

/* Rings of one receiver, one behind another. */
typedef struct df_device_rings {
  uint8_t *base;
  uint32_t n_blocks, n_slots, stride;
} df_device_rings;

struct df_shared_memory {
  struct df_rank_device *device;
  /* Set-up may wait for the device: the service thread does it, without the lock. */
  int sets_up_in_background;
  int host_sees_links; /* the host may look at rings and credits */
  int exports_memory;  /* peers must close their mappings before the memory goes back */

  dfcclResult_t (*create)(struct df_rank_device *device, df_segment **segment, uint64_t id,
                          size_t bytes);
  /* Maps a peer process's memory; takes fd (-1: none). */
  dfcclResult_t (*map)(struct df_rank_device *device, uint32_t peer, df_segment **segment,
                       const df_message *message, int fd);
  /* No word of an earlier collective may be taken for one of the new collective. With the lock, or
   * without it if the device sets_up_in_background. */
  dfcclResult_t (*clear)(struct df_rank_device *device, const df_device_rings *rings);
  /* Can a peer of this process read any buffer of this rank? */
  int (*lends_to)(struct df_rank_device *device, uint32_t peer);

  /* Around calls that wait for the device. pause returns 0: not now. NULL: nothing to pause. */
  int (*pause)(void);
  void (*resume)(void);
};

#endif
