#include "transports/ipc/ipc.h"

#include "transports/shm/endpoint.h"

static uint32_t cost(const df_transport_info *mine, const df_transport_info *theirs) {
  return mine->host == theirs->host && !mine->wants_wire && !theirs->wants_wire &&
         mine->backend == dfcclBackendCuda && theirs->backend == dfcclBackendCuda;
}

/* As shm, but its kind of memory exports_memory (unmap.h). */
const df_transport df_transport_ipc = {.name = "ipc",
                                       .cost = cost,
                                       .open = df_shm_open,
                                       .close = df_shm_close,
                                       .share = df_shm_share,
                                       .unshare = df_shm_unshare,
                                       .accept = df_shm_accept,
                                       .connect = df_shm_connect,
                                       .release = df_shm_release,
                                       .add_memory = df_shm_add_memory,
                                       .add_all_memory = df_shm_add_all_memory};
