/*
 * What a rank's device must do for the host: the table that tells the CPU device (device_cpu.c)
 * from the CUDA device (device_cuda.c). Nothing else in src/host knows which one it has.
 */
#ifndef DF_DEVICES_DEVICE_H
#define DF_DEVICES_DEVICE_H

#include "base/result.h"
#include "daemon_kernel/block.h"
#include "devices/cpu/executor.h"
#include "control/message.h"
#include "primitives/timers.h"
#include "transports/shm/segment.h"

struct df_coll;
struct df_settings;

typedef struct df_stream_run {
  uint32_t ticket; /* 0: not on a stream */
  uint64_t number;
} df_stream_run;

typedef struct df_device_ops {
  const char *name;
  /* A waiter that does not hold all blocks yields so often before it naps, so long each time. */
  uint32_t yields_before_nap;
  uint64_t nap_ns;

  /* Memory: sets context->device (laid out and zeroed), context->blocks, context->capacity and
   * context->memory. close undoes it, also where open has failed half-way. */
  dfcclResult_t (*open)(dfcclContext_t context);
  void (*close)(dfcclContext_t context);
  /* Whoever executes the daemon. stop: final exit; nothing is outstanding. Safe where start failed
   * or was not called. */
  dfcclResult_t (*start)(dfcclContext_t context);
  void (*stop)(dfcclContext_t context);

  /* [lock] Memory of a collective: coll->descriptor, with its arrays' addresses as the daemon sees
   * them, and coll->links, the host's copy of the link ends. coll->index is taken. */
  dfcclResult_t (*describe)(dfcclContext_t context, struct df_coll *coll);
  void (*forget)(dfcclContext_t context, struct df_coll *coll);
  /* [lock] The daemon may be given runs from here on: descriptor and link ends are complete. May
   * let the lock go where it sets_up_in_background: the collective may be given up meanwhile. */
  dfcclResult_t (*publish)(dfcclContext_t context, struct df_coll *coll);
  /* Rings in which this rank receives: no commit word, credit or hold of an earlier collective may
   * be taken for one of this. With the lock, or without it where it sets_up_in_background. */
  dfcclResult_t (*clear)(dfcclContext_t context, const struct df_coll *coll, uint8_t *rings);
  /* Link set-up calls the device: it is done by the service thread, never by who submits. */
  int sets_up_in_background;
  /* May the host look at rings and credits? */
  int host_sees_links;
  /* Can a peer of this process read any buffer of this rank? */
  int (*lends_to)(dfcclContext_t context, uint32_t peer);

  /* Other processes' mappings of a device's memory must be closed before it goes back. */
  int exports_memory;
  /* Around calls that wait for the device, made by the library of its own accord: not while a run
   * on a stream is outstanding, for the call would wait for the stream and keep the daemon out. 0:
   * not now. Until _end such runs are not begun. NULL where exports_memory is 0. */
  int (*begin_waiting)(void);
  void (*end_waiting)(void);

  /* Memory that peers can map. create_memory: for dfcclMemAlloc. */
  dfcclResult_t (*create_memory)(dfcclContext_t context, df_segment **segment, uint64_t id,
                                 size_t bytes);
  /* A peer process's memory, as announced; takes fd (-1: none). */
  dfcclResult_t (*map_memory)(dfcclContext_t context, uint32_t peer, df_segment **segment,
                              const df_message *message, int fd);
  /* Can a peer of this process whom lends_to refuses read dfcclMemAlloc memory? */
  int (*lends_memory_to)(dfcclContext_t context, uint32_t peer);
  /* [lock] Room for what to add to an address for each rank, where the daemon sees it. NULL: none.
   */
  uint64_t *(*take_reach)(dfcclContext_t context);
  void (*give_reach)(dfcclContext_t context, uint64_t *reach);

  /* The first turn of a run by its submitter, see executor_cpu.h: claimed under the lock, taken
   * without it. NULL: none. */
  int (*claim_first_turn)(dfcclContext_t context, uint32_t collective);
  int (*first_turn)(dfcclContext_t context, uint32_t collective, df_noted_bells *bells);
  /* The last turn by who waits; the same without the lock. NULL: none. */
  int (*last_turn)(dfcclContext_t context, uint32_t *collective, df_noted_bells *bells);
  /* After an SQE was pushed, or a collective cancelled. urgent: do not count on waiters. unlocked:
   * the lock was let go since. */
  void (*submitted)(dfcclContext_t context, int urgent, int unlocked);

  /* A thread that waits: see executor_cpu.h. */
  void (*drive_begin)(dfcclContext_t context, df_driver *driver);
  int (*drive_turn)(dfcclContext_t context, df_driver *driver, int start);
  int (*drive_has_reason)(dfcclContext_t context, const df_driver *driver);
  int (*drive_holds_all)(dfcclContext_t context, const df_driver *driver);
  void (*drive_release)(dfcclContext_t context, df_driver *driver);
  void (*drive_end)(dfcclContext_t context, df_driver *driver);

  /* Until every block that ran has left the device once. */
  dfcclResult_t (*synchronize)(dfcclContext_t context);
  /* What is submitted meanwhile waits on the host. Not where synchronize may wait for runs. */
  int holds_while_synchronizing;

  /* Runs in the order of a stream; NULL where there are no streams. begin: takes a ticket, and lets
   * the stream say when it has come here. end: lets it wait for the run. release [lock]: the run is
   * through, or was never accepted. */
  dfcclResult_t (*stream_begin)(dfcclContext_t context, void *stream, df_stream_run *run);
  dfcclResult_t (*stream_end)(dfcclContext_t context, void *stream, const df_stream_run *run);
  void (*stream_release)(dfcclContext_t context, uint32_t ticket);

  /* dfcclGetTimes; NULL: the device has no timers. */
  dfcclResult_t (*get_times)(dfcclContext_t context, df_timed kind, uint64_t *durations,
                             uint64_t *moments, size_t *count);
} df_device_ops;

extern const df_device_ops df_device_cpu;
const df_device_ops *df_device_of(const struct df_settings *settings);

/* Part of a rank's card: what its peers must know about its device. */
typedef struct df_device_card {
  uint32_t backend; /* dfcclBackend_t */
  int32_t ordinal;  /* in its process */
  uint8_t uuid[16]; /* CUDA */
} df_device_card;
void df_device_fill_card(const struct df_settings *settings, df_device_card *card);

/* Where the library was built with CUDA (facts_cuda.c, device_cuda.c). */
extern const df_device_ops df_device_cuda;
dfcclResult_t df_cuda_choose(struct df_settings *settings);
void df_cuda_fill_card(const struct df_settings *settings, df_device_card *card);

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
