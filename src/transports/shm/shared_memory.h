/* The shared memory of a device; each kind of device has its own. */
#ifndef DF_TRANSPORTS_SHM_SHARED_MEMORY_H
#define DF_TRANSPORTS_SHM_SHARED_MEMORY_H

#include "base/result.h"
#include "control/message.h"
#include "transports/shm/segment.h"
#include "transports/transport.h"

struct df_rank_device; /* devices/device.h; this layer only passes it on */

/* The rings of one receiver, in a row. */
typedef struct df_device_rings {
  uint8_t *base;
  uint32_t n_blocks, n_slots, stride;
  uint32_t payload_offset; /* as in df_link */
} df_device_rings;

struct df_shared_memory {
  struct df_rank_device *device;
  /* Set-up may wait for the device, so the service thread does it, without the lock. */
  int sets_up_in_background;
  int host_sees_links; /* the host can access rings and credits */
  int exports_memory;  /* peers must close their mappings before the memory is released */

  dfcclResult_t (*create)(struct df_rank_device *device, df_segment **segment, uint64_t id,
                          size_t bytes);
  /* Maps memory of a process of a peer; takes ownership of fd (-1: none). */
  dfcclResult_t (*map)(struct df_rank_device *device, uint32_t peer, df_segment **segment,
                       const df_message *message, int fd);
  /* Clears rings, so that no word of an earlier collective is treated as one of the new collective.
   * Called with the lock, or without it if the device sets_up_in_background. NULL: the arena clears
   * memory when it is given back. */
  dfcclResult_t (*clear)(struct df_rank_device *device, const df_device_rings *rings);
  /* Returns 1 if a peer in this process can read every buffer of this rank. */
  int (*lends_to)(struct df_rank_device *device, uint32_t peer);

  /* Called around calls that wait for the device. pause returns 0 if waiting is not possible at the
   * moment. NULL: there is nothing to pause. */
  int (*pause)(void);
  void (*resume)(void);
};

#endif
