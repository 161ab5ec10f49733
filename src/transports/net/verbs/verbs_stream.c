/* One reliable connection: two rings of cells, and credit for cells in immediate data. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transports/net/verbs/verbs_device.h"

enum {
  CELL = 128,
  CELLS = 2048, /* cells of a ring: 256 KB */
  RING_BYTES = CELL * CELLS,
  WRITE_MOST = 32 << 10, /* bytes of one write: the next one is copied while the device sends it */
  SIGNAL_EVERY = 16,
  INLINE_MOST = 128,
  /* Writes with data whose credit has not arrived. The other receives are for writes that carry
   * credit alone: each returns a quarter of the cells or writes, so at most 8 are in flight. A rank
   * that leaves sends one more. */
  WRITES_MOST = DF_VERBS_RECEIVES - 16,
  LENGTH_BITS = 18, /* bits of the length in immediate data; the others contain cells of credit */
  RETRIES = 6,      /* soft-RoCE treats 7 as infinite */
  SILENCE_MS = 10000,
  HOPS = 64
};
DF_STATIC_ASSERT(CELLS < 1 << (32 - LENGTH_BITS) && WRITE_MOST < 1 << LENGTH_BITS,
                 "credit and length fit into immediate data");

typedef struct writes {
  uint32_t first, n;
  uint32_t of[WRITES_MOST]; /* lengths of writes, the oldest first */
} writes;

struct df_verbs_stream {
  df_net_backend_stream base; /* must be the first member: verbs_backend.c casts it */
  df_verbs_meeting meeting;
  df_verbs_device *device;
  df_verbs_port port;
  df_verbs_queue *queue;
  struct ibv_qp *qp;
  struct ibv_mr *ring_region, *copy_region;
  uint8_t *ring; /* [RING_BYTES] written by the remote device */
  uint8_t *copy; /* [RING_BYTES] copy of the remote ring */
  uint32_t serial, sequence;
  uint32_t inline_most;
  int has_joined, has_failed, hangs_up;

  df_verbs_end remote;
  uint32_t head; /* cell of the next write */
  uint32_t free_cells;
  writes out;                          /* writes without credit */
  uint32_t posted, signalled, arrived; /* sends modulo 2^31: posted, latest signalled, completed */

  writes in;         /* writes that were not read completely */
  uint32_t tail;     /* first cell of the oldest of them */
  uint32_t read;     /* bytes that were read of it */
  uint32_t in_cells; /* cells of all of them */
  uint32_t owed;     /* cells that were read, and whose credit was not sent */
  uint32_t owed_writes;
  char why[DF_VERBS_REASON_BYTES];
};

static uint32_t cells_of(uint32_t bytes) { return (bytes + CELL - 1) / CELL; }

static void row_add(writes *row, uint32_t bytes) {
  row->of[(row->first + row->n++) % WRITES_MOST] = bytes;
}

static uint32_t row_front(const writes *row) { return row->of[row->first]; }

static void row_drop(writes *row) {
  row->first = (row->first + 1) % WRITES_MOST;
  row->n--;
}

uint32_t df_verbs_stream_serial(const df_verbs_stream *stream) { return stream->serial; }
uint32_t df_verbs_stream_number(const df_verbs_stream *stream) { return stream->qp->qp_num; }
const df_verbs_device *df_verbs_stream_device(const df_verbs_stream *stream) {
  return stream->device;
}
df_net_backend_stream *df_verbs_stream_of(df_verbs_stream *stream) { return &stream->base; }
df_verbs_meeting *df_verbs_stream_meeting(df_verbs_stream *stream) { return &stream->meeting; }

void df_verbs_stream_describe(const df_verbs_stream *stream, char text[DF_NET_BACKEND_ENDS_BYTES]) {
  char here[INET6_ADDRSTRLEN] = "", there[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, stream->port.gid.raw, here, sizeof here);
  inet_ntop(AF_INET6, stream->remote.gid, there, sizeof there);
  snprintf(text, DF_NET_BACKEND_ENDS_BYTES, "%s port %d, %s to %s",
           ibv_get_device_name(stream->device->context->device), stream->port.number, here, there);
}

/* Keeps the first reason: after it, all work returns as flushed. */
void df_verbs_stream_fail(df_verbs_stream *stream, const char *reason) {
  if (stream->has_failed) return;
  stream->has_failed = stream->base.is_ready = 1;
  snprintf(stream->why, sizeof stream->why, "device %s port %d, queue pair %u to %u: %s",
           ibv_get_device_name(stream->device->context->device), stream->port.number,
           stream->qp->qp_num, stream->remote.number, reason);
}

void df_verbs_stream_hang_up(df_verbs_stream *stream, const char *reason) {
  if (!stream->has_failed && !stream->hangs_up)
    snprintf(stream->why, sizeof stream->why, "%s", reason);
  stream->hangs_up = stream->base.is_ready = 1;
}

static const char *verbs_reason(df_stream *base) { return ((df_verbs_stream *)base)->why; }

/* ---- work */

static int post_receive(df_verbs_stream *stream) {
  struct ibv_recv_wr *bad, work = {.wr_id = df_verbs_work(stream->serial, 0, 0)};
  return ibv_post_recv(stream->qp, &work, &bad);
}

static int has_room_for_send(const df_verbs_stream *stream) {
  return ((stream->posted - stream->arrived) & 0x7fffffff) < DF_VERBS_SENDS;
}

/* Posts a write that carries all credit that is owed. bytes 0: credit alone. Returns 0 if the
 * stream has failed. */
static int post_write(df_verbs_stream *stream, uint32_t cell, uint32_t bytes, int is_signalled) {
  const uint64_t at = (uint64_t)cell * CELL;
  struct ibv_sge piece = {
      .addr = (uintptr_t)stream->copy + at, .length = bytes, .lkey = stream->copy_region->lkey};
  const uint32_t count = (stream->posted + 1) & 0x7fffffff;
  is_signalled |= ((count - stream->signalled) & 0x7fffffff) >= SIGNAL_EVERY;
  struct ibv_send_wr *bad,
      work = {.wr_id = df_verbs_work(stream->serial, count, 1),
              .sg_list = &piece,
              .num_sge = bytes ? 1 : 0,
              .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
              .imm_data = htobe32(stream->owed << LENGTH_BITS | bytes),
              .wr.rdma = {.remote_addr = stream->remote.ring + at, .rkey = stream->remote.key}};
  if (is_signalled) work.send_flags |= IBV_SEND_SIGNALED;
  if (bytes && bytes <= stream->inline_most) work.send_flags |= IBV_SEND_INLINE;
  const int error = ibv_post_send(stream->qp, &work, &bad);
  if (error) {
    df_verbs_stream_fail(stream, strerror(error));
    return 0;
  }
  stream->posted = count;
  if (is_signalled) stream->signalled = count;
  stream->owed = stream->owed_writes = 0;
  return 1;
}

static void take_back(df_verbs_stream *stream, uint32_t cells) {
  stream->free_cells += cells;
  while (cells && stream->out.n && cells_of(row_front(&stream->out)) <= cells) {
    cells -= cells_of(row_front(&stream->out));
    row_drop(&stream->out);
  }
  if (cells) df_verbs_stream_fail(stream, "it gave credit for what was not sent");
}

/* Cells of a write are contiguous up to the end of the ring: the writer continues at cell 0 when it
 * has credit for it. */
static void take_write(df_verbs_stream *stream, uint32_t immediate) {
  const uint32_t bytes = immediate & ((1u << LENGTH_BITS) - 1);
  take_back(stream, immediate >> LENGTH_BITS);
  if (bytes == 0 || stream->has_failed) return;
  const uint32_t begin = (stream->tail + stream->in_cells) % CELLS;
  const uint32_t used = stream->in_cells + stream->owed;
  if (stream->in.n == WRITES_MOST || bytes > WRITE_MOST || used + cells_of(bytes) > CELLS ||
      begin + cells_of(bytes) > CELLS) {
    df_verbs_stream_fail(stream, "it wrote without credit");
    return;
  }
  row_add(&stream->in, bytes);
  stream->in_cells += cells_of(bytes);
}

void df_verbs_stream_complete(df_verbs_stream *stream, const struct ibv_wc *completion) {
  const int is_send = completion->wr_id & 1;
  if (completion->status != IBV_WC_SUCCESS) {
    df_verbs_stream_fail(stream, ibv_wc_status_str(completion->status));
    return;
  }
  stream->base.is_ready = 1;
  if (is_send) {
    stream->arrived = (uint32_t)completion->wr_id >> 1;
    return;
  }
  if (completion->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
    df_verbs_stream_fail(stream, "it sent what is no write");
    return;
  }
  take_write(stream, be32toh(completion->imm_data));
  const int error = stream->has_failed ? 0 : post_receive(stream);
  if (error) df_verbs_stream_fail(stream, strerror(error));
}

/* ---- bytes */

typedef struct cursor {
  const df_stream_part *parts;
  uint32_t n;
  size_t at;
} cursor;

static void gather(cursor *from, uint8_t *there, uint32_t bytes) {
  while (bytes) {
    const uint32_t now = (uint32_t)DF_MIN(from->parts->length - from->at, (size_t)bytes);
    memcpy(there, (const uint8_t *)from->parts->bytes + from->at, now);
    there += now;
    bytes -= now;
    from->at += now;
    if (from->at < from->parts->length) return;
    from->parts++;
    from->at = 0;
  }
}

static int64_t verbs_write(df_stream *base, const df_stream_part *parts, uint32_t n_parts) {
  df_verbs_stream *stream = (df_verbs_stream *)base;
  cursor from = {.parts = parts};
  size_t left = 0;
  int64_t taken = 0;
  for (uint32_t i = 0; i < n_parts; i++) left += parts[i].length;
  if (stream->has_failed || stream->hangs_up) return DF_STREAM_ENDED;
  while (left && stream->free_cells && stream->out.n < WRITES_MOST && has_room_for_send(stream)) {
    const uint32_t cells = DF_MIN(stream->free_cells, (uint32_t)CELLS - stream->head);
    const uint32_t most = DF_MIN(cells * CELL, (uint32_t)WRITE_MOST);
    const uint32_t bytes = (uint32_t)DF_MIN(left, (size_t)most);
    gather(&from, stream->copy + (size_t)stream->head * CELL, bytes);
    if (!post_write(stream, stream->head, bytes, 0)) return DF_STREAM_ENDED;
    row_add(&stream->out, bytes);
    stream->free_cells -= cells_of(bytes);
    stream->head = (stream->head + cells_of(bytes)) % CELLS;
    left -= bytes;
    taken += bytes;
  }
  return taken;
}

/* Reads up to `most` bytes of the first write. */
static uint32_t take(df_verbs_stream *stream, uint8_t *there, size_t most) {
  const uint32_t bytes = row_front(&stream->in);
  const uint32_t now = (uint32_t)DF_MIN((size_t)(bytes - stream->read), most);
  memcpy(there, stream->ring + (size_t)stream->tail * CELL + stream->read, now);
  stream->read += now;
  if (stream->read < bytes) return now;
  stream->tail = (stream->tail + cells_of(bytes)) % CELLS;
  stream->in_cells -= cells_of(bytes);
  stream->owed += cells_of(bytes);
  stream->owed_writes++;
  stream->read = 0;
  row_drop(&stream->in);
  return now;
}

static int64_t verbs_read(df_stream *base, const df_stream_room *rooms, uint32_t n_rooms) {
  df_verbs_stream *stream = (df_verbs_stream *)base;
  int64_t came = 0;
  for (uint32_t i = 0; i < n_rooms; i++)
    for (size_t at = 0; at < rooms[i].length && stream->in.n;) {
      const uint32_t now = take(stream, (uint8_t *)rooms[i].bytes + at, rooms[i].length - at);
      at += now;
      came += now;
    }
  const int is_much = stream->owed >= CELLS / 4 || stream->owed_writes >= WRITES_MOST / 4;
  if (is_much && !stream->has_failed && !stream->hangs_up && has_room_for_send(stream))
    post_write(stream, 0, 0, 0);
  if (!stream->has_failed && !stream->hangs_up) return came;
  if (came == 0) return DF_STREAM_ENDED;
  stream->base.is_ready = 1; /* the end has still to be read */
  return came;
}

int df_verbs_stream_has_unsent(df_verbs_stream *stream) {
  if (stream->has_failed || stream->hangs_up || stream->posted == stream->arrived) return 0;
  if (stream->signalled != stream->posted && has_room_for_send(stream))
    post_write(stream, 0, 0, 1); /* its completion implies those before it */
  return 1;
}

/* ---- making and ending */

static const df_verbs_port *choose_port(const df_verbs *verbs, const df_address *here) {
  uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};
  memcpy(here->family == 4 ? gid + 12 : gid, here->bytes, here->family == 4 ? 4 : sizeof gid);
  for (uint32_t i = 0; i < verbs->n_ports; i++)
    if (memcmp(verbs->ports[i].gid.raw, gid, sizeof gid) == 0) return &verbs->ports[i];
  for (uint32_t i = 0; i < verbs->n_ports; i++) /* a link-local address may lead nowhere */
    if (verbs->ports[i].gid.raw[0] != 0xfe || verbs->ports[i].lid) return &verbs->ports[i];
  return &verbs->ports[0];
}

static struct ibv_mr *make_ring(df_verbs_stream *stream, uint8_t **ring, int access) {
  void *memory = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  *ring = memory;
  return ibv_reg_mr(stream->device->pd, memory, RING_BYTES, access);
}

static struct ibv_qp *make_pair(df_verbs_stream *stream, uint32_t inline_most) {
  struct ibv_qp_init_attr attributes = {.send_cq = stream->queue->cq,
                                        .recv_cq = stream->queue->cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = DF_VERBS_SENDS,
                                                .max_recv_wr = DF_VERBS_RECEIVES,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1,
                                                .max_inline_data = inline_most}};
  stream->inline_most = inline_most;
  return ibv_create_qp(stream->device->pd, &attributes);
}

/* Posts receives before the other end may send. */
static int begin(df_verbs_stream *stream) {
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                   .port_num = stream->port.number,
                                   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  int error = ibv_modify_qp(stream->qp, &attributes,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  for (int i = 0; i < DF_VERBS_RECEIVES && error == 0; i++) error = post_receive(stream);
  return error;
}

static int take_serial(df_verbs *verbs, df_verbs_stream *stream) {
  for (uint32_t i = 0; i < DF_VERBS_STREAMS; i++) {
    const uint32_t serial = ++verbs->serial;
    if (verbs->streams[serial % DF_VERBS_STREAMS]) continue;
    verbs->streams[serial % DF_VERBS_STREAMS] = stream;
    stream->serial = serial;
    return 1;
  }
  return 0;
}

static dfcclResult_t build(df_verbs *verbs, df_verbs_stream *stream) {
  df_verbs_device *device = stream->device;
  if (device->is_gone)
    return df_fail(dfcclSystemError, "device %s is gone",
                   ibv_get_device_name(device->context->device));
  if (!take_serial(verbs, stream))
    return df_fail(dfcclOutOfMemory, "more than %d connections of RDMA devices", DF_VERBS_STREAMS);
  stream->ring_region =
      make_ring(stream, &stream->ring, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (stream->ring_region) stream->copy_region = make_ring(stream, &stream->copy, 0);
  if (stream->copy_region == NULL)
    return df_verbs_failure(device, "registering the rings of a connection", errno);
  stream->queue = df_verbs_queue_take(device);
  if (stream->queue == NULL) return df_verbs_failure(device, "making a completion queue", errno);
  stream->qp = make_pair(stream, INLINE_MOST);
  if (stream->qp == NULL) stream->qp = make_pair(stream, 0);
  if (stream->qp == NULL) return df_verbs_failure(device, "making a queue pair", errno);
  const int error = begin(stream);
  return error ? df_verbs_failure(device, "posting receives", error) : dfcclSuccess;
}

dfcclResult_t df_verbs_stream_make(df_verbs *verbs, const df_address *here, df_verbs_stream **out,
                                   df_verbs_end *mine) {
  df_verbs_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return df_fail(dfcclOutOfMemory, "no memory for a connection");
  stream->base.stream =
      (df_stream){.write = verbs_write, .read = verbs_read, .reason = verbs_reason};
  stream->port = *choose_port(verbs, here);
  stream->device = stream->port.device;
  dfcclResult_t result = build(verbs, stream);
  if (result != dfcclSuccess) {
    df_verbs_stream_end(stream);
    return result;
  }
  stream->sequence = randombytes_random() & 0xffffff;
  *mine = (df_verbs_end){.ring = (uintptr_t)stream->ring,
                         .key = stream->ring_region->rkey,
                         .ring_bytes = RING_BYTES,
                         .receives = DF_VERBS_RECEIVES,
                         .number = stream->qp->qp_num,
                         .sequence = stream->sequence,
                         .lid = stream->port.lid,
                         .mtu = stream->port.mtu,
                         .link_layer = stream->port.link_layer};
  memcpy(mine->gid, stream->port.gid.raw, sizeof mine->gid);
  *out = stream;
  return dfcclSuccess;
}

/* Returns the exponent of the time-out of a try, which is 4.096 us times 2^exponent. All tries fit
 * into the silence. */
static uint8_t try_exponent(uint32_t silence_ms) {
  const uint64_t ns = (uint64_t)(silence_ms ? silence_ms : SILENCE_MS) * 1000000 / (RETRIES + 1);
  uint8_t exponent = 1;
  while (exponent < 31 && 4096ull << (exponent + 1) <= ns) exponent++;
  return exponent;
}

static int receive_from(df_verbs_stream *stream) {
  const df_verbs_end *remote = &stream->remote;
  struct ibv_qp_attr attributes = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = DF_MIN(remote->mtu, stream->port.mtu),
      .dest_qp_num = remote->number,
      .rq_psn = remote->sequence,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.dlid = remote->lid, .port_num = stream->port.number}};
  if (stream->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.sgid_index = stream->port.gid_index;
    attributes.ah_attr.grh.hop_limit = HOPS;
    memcpy(attributes.ah_attr.grh.dgid.raw, remote->gid, sizeof remote->gid);
  }
  return ibv_modify_qp(stream->qp, &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int send_to(df_verbs_stream *stream, uint32_t silence_ms) {
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS,
                                   .timeout = try_exponent(silence_ms),
                                   .retry_cnt = RETRIES,
                                   .rnr_retry = RETRIES,
                                   .sq_psn = stream->sequence,
                                   .max_rd_atomic = 1};
  return ibv_modify_qp(stream->qp, &attributes,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

dfcclResult_t df_verbs_stream_join(df_verbs_stream *stream, const df_verbs_end *theirs,
                                   uint32_t silence_ms) {
  const df_verbs_device *device = stream->device;
  if (stream->has_joined || theirs->ring_bytes != RING_BYTES ||
      theirs->receives != DF_VERBS_RECEIVES || theirs->mtu < IBV_MTU_256 ||
      theirs->mtu > IBV_MTU_4096 || theirs->number > 0xffffff || theirs->sequence > 0xffffff)
    return df_fail(dfcclRemoteError,
                   "the other end sent a malformed description of its queue pair");
  if (theirs->link_layer != stream->port.link_layer)
    return df_fail(dfcclRemoteError,
                   "device %s port %d and the other end's are not of one kind (InfiniBand, RoCE)",
                   ibv_get_device_name(device->context->device), stream->port.number);
  stream->remote = *theirs;
  int error = receive_from(stream);
  if (error == 0) error = send_to(stream, silence_ms);
  if (error) return df_verbs_failure(device, "joining queue pairs", error);
  stream->has_joined = 1;
  stream->free_cells = CELLS;
  return dfcclSuccess;
}

/* Destroys the queue pair first, so that no device writes to the rings. */
void df_verbs_stream_end(df_verbs_stream *stream) {
  df_verbs *verbs = stream->device->verbs;
  if (stream->qp) ibv_destroy_qp(stream->qp);
  if (stream->queue) stream->queue->n_streams--;
  if (stream->ring_region) ibv_dereg_mr(stream->ring_region);
  if (stream->copy_region) ibv_dereg_mr(stream->copy_region);
  if (stream->ring) munmap(stream->ring, RING_BYTES);
  if (stream->copy) munmap(stream->copy, RING_BYTES);
  if (stream->serial && verbs->streams[stream->serial % DF_VERBS_STREAMS] == stream)
    verbs->streams[stream->serial % DF_VERBS_STREAMS] = NULL;
  free(stream);
}
