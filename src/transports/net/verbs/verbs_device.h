/* Devices, as verbs_device.c and verbs_stream.c share them. */
#ifndef DF_TRANSPORTS_NET_VERBS_VERBS_DEVICE_H
#define DF_TRANSPORTS_NET_VERBS_VERBS_DEVICE_H

#include <infiniband/verbs.h>

#include "transports/net/verbs/verbs.h"

enum {
  DF_VERBS_STREAMS = 4096, /* number of streams; a power of two */
  DF_VERBS_SHARE = 32,     /* streams that share a completion queue */
  DF_VERBS_RECEIVES = 64,  /* receives of a queue pair */
  DF_VERBS_SENDS = 96
};

typedef struct df_verbs_queue {
  struct df_verbs_queue *next;
  struct ibv_cq *cq;
  uint32_t n_streams;
  int is_armed; /* a completion makes the device's descriptor readable */
} df_verbs_queue;

typedef struct df_verbs_device {
  struct df_verbs_device *next;
  df_verbs *verbs;
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  df_verbs_queue *queues;
  int is_gone; /* the device has reported that it was removed */
} df_verbs_device;

/* An address of a device at a port. */
typedef struct df_verbs_port {
  df_verbs_device *device;
  union ibv_gid gid;
  uint16_t lid;
  uint8_t number, gid_index, link_layer, mtu;
} df_verbs_port;

struct df_verbs {
  df_verbs_device *devices;
  df_verbs_port *ports; /* [n_ports] */
  uint32_t n_ports, ports_capacity;
  int epoll_fd;
  uint32_t serial;
  df_verbs_stream *streams[DF_VERBS_STREAMS]; /* index: low bits of the serial number */
};

/* Returns a queue that has room for one more stream; NULL, with errno, if there is none. */
df_verbs_queue *df_verbs_queue_take(df_verbs_device *device);
/* Records a failure of the named device, with the limit of locked memory if that may be the
 * cause. */
dfcclResult_t df_verbs_failure(const df_verbs_device *device, const char *what, int error);

/* Handles a completion. The work number contains the kind, the stream and a count
 * (verbs_stream.c). */
void df_verbs_stream_complete(df_verbs_stream *stream, const struct ibv_wc *completion);
uint32_t df_verbs_stream_serial(const df_verbs_stream *stream);
const df_verbs_device *df_verbs_stream_device(const df_verbs_stream *stream);
/* Ends the stream: nothing more is sent or received. */
void df_verbs_stream_fail(df_verbs_stream *stream, const char *reason);
/* Returns the number of the queue pair in ibverbs. */
uint32_t df_verbs_stream_number(const df_verbs_stream *stream);

static inline uint64_t df_verbs_work(uint32_t serial, uint32_t count, int is_send) {
  return (uint64_t)serial << 32 | (uint64_t)(count & 0x7fffffff) << 1 | (uint64_t)(is_send != 0);
}

#endif
