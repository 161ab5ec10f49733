#include "fake_verbs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"

#undef ibv_query_port
#undef ibv_reg_mr

enum { OPEN = 16, PAIRS = 64, DEPTH = 4096 };

typedef struct fake_context {
  struct ibv_context base;
  int number, async[2];
} fake_context;

typedef struct fake_channel {
  struct ibv_comp_channel base;
  int pipe[2];
} fake_channel;

typedef struct fake_cq {
  struct ibv_cq base;
  struct ibv_wc of[DEPTH];
  uint32_t first, n;
  int is_armed;
} fake_cq;

typedef struct fake_mr {
  struct ibv_mr base;
  struct fake_mr *next;
  int access;
} fake_mr;

typedef struct fake_work {
  uint64_t id;
  int is_signalled;
} fake_work;

typedef struct fake_qp {
  struct ibv_qp base;
  struct ibv_qp_attr remote;
  uint64_t receives[DEPTH];
  uint32_t first_receive, n_receives;
  uint32_t sends, most_sends, most_receives, most_inline; /* sends: not known to have completed */
  fake_work held[DEPTH];                                  /* posted on a cut link */
  uint32_t n_held;
} fake_qp;

fake_verbs fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_qp *pairs[PAIRS];
static fake_mr *regions;
static struct ibv_device devices[FAKE_DEVICES];
static fake_context *contexts[OPEN]; /* that are open */
static uint32_t last_key;

void fake_reset(void) {
  CHECK(fake.objects == 0, "%u objects of verbs live", fake.objects);
  fake = (fake_verbs){.n_devices = FAKE_DEVICES};
  for (int i = 0; i < FAKE_DEVICES; i++)
    snprintf(devices[i].name, sizeof devices[i].name, "fake%d", i);
}

/* ---- devices */

struct ibv_device **ibv_get_device_list(int *n) {
  struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof *list);
  for (int i = 0; i < fake.n_devices; i++) list[i] = &devices[i];
  *n = fake.n_devices;
  return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }

static int poll_cq(struct ibv_cq *base, int most, struct ibv_wc *there) {
  fake_cq *cq = (fake_cq *)base;
  int n = 0;
  pthread_mutex_lock(&lock);
  for (; n < most && cq->n; n++) {
    there[n] = cq->of[cq->first];
    cq->first = (cq->first + 1) % DEPTH;
    cq->n--;
  }
  pthread_mutex_unlock(&lock);
  return n;
}

static int req_notify_cq(struct ibv_cq *base, int solicited) {
  (void)solicited;
  pthread_mutex_lock(&lock);
  ((fake_cq *)base)->is_armed = 1;
  pthread_mutex_unlock(&lock);
  return 0;
}

static void complete(struct ibv_cq *base, const struct ibv_wc *completion) {
  fake_cq *cq = (fake_cq *)base;
  CHECK(cq->n < (uint32_t)base->cqe, "a completion queue runs over");
  cq->of[(cq->first + cq->n++) % DEPTH] = *completion;
  if (!cq->is_armed) return;
  cq->is_armed = 0;
  fake.events++;
  const int fd = ((fake_channel *)base->channel)->pipe[1];
  CHECK(write(fd, &base, sizeof base) == sizeof base, "no room for an event");
}

static void flush(fake_qp *qp, enum ibv_wc_status first) {
  qp->base.state = IBV_QPS_ERR;
  for (uint32_t i = 0; i < qp->n_held; i++) {
    const struct ibv_wc wc = {.wr_id = qp->held[i].id,
                              .status = i == 0 ? first : IBV_WC_WR_FLUSH_ERR,
                              .qp_num = qp->base.qp_num};
    complete(qp->base.send_cq, &wc);
  }
  qp->n_held = 0;
  for (; qp->n_receives; qp->n_receives--) {
    const struct ibv_wc wc = {.wr_id = qp->receives[qp->first_receive],
                              .status = IBV_WC_WR_FLUSH_ERR,
                              .qp_num = qp->base.qp_num};
    qp->first_receive = (qp->first_receive + 1) % DEPTH;
    complete(qp->base.recv_cq, &wc);
  }
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *work, struct ibv_recv_wr **bad) {
  fake_qp *qp = (fake_qp *)base;
  (void)bad;
  pthread_mutex_lock(&lock);
  CHECK(qp->n_receives < qp->most_receives, "a receive queue runs over");
  qp->receives[(qp->first_receive + qp->n_receives++) % DEPTH] = work->wr_id;
  if (qp->base.state == IBV_QPS_ERR) flush(qp, IBV_WC_WR_FLUSH_ERR);
  pthread_mutex_unlock(&lock);
  return 0;
}

static fake_mr *region_of(uint32_t key, uint64_t at, uint64_t bytes, int access) {
  for (fake_mr *mr = regions; mr; mr = mr->next)
    if (mr->base.lkey == key && at >= (uintptr_t)mr->base.addr &&
        at + bytes <= (uintptr_t)mr->base.addr + mr->base.length && (mr->access & access) == access)
      return mr;
  return NULL;
}

static void arrive(fake_qp *there, uint32_t bytes, uint32_t immediate) {
  const struct ibv_wc wc = {.wr_id = there->receives[there->first_receive],
                            .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                            .byte_len = bytes,
                            .imm_data = immediate,
                            .wc_flags = IBV_WC_WITH_IMM,
                            .qp_num = there->base.qp_num};
  CHECK(there->n_receives, "a write found no receive");
  there->first_receive = (there->first_receive + 1) % DEPTH;
  there->n_receives--;
  complete(there->base.recv_cq, &wc);
}

static enum ibv_wc_status carry(fake_qp *qp, fake_qp *there, struct ibv_send_wr *work) {
  const uint32_t bytes = work->num_sge ? work->sg_list[0].length : 0;
  if (there == NULL || (there->base.state != IBV_QPS_RTR && there->base.state != IBV_QPS_RTS) ||
      there->remote.dest_qp_num != qp->base.qp_num)
    return IBV_WC_RETRY_EXC_ERR;
  CHECK(bytes == 0 || region_of(work->sg_list[0].lkey, work->sg_list[0].addr, bytes, 0),
        "a write from memory that is not registered");
  if (bytes &&
      !region_of(work->wr.rdma.rkey, work->wr.rdma.remote_addr, bytes, IBV_ACCESS_REMOTE_WRITE))
    return IBV_WC_REM_ACCESS_ERR;
  if (bytes)
    memcpy((void *)(uintptr_t)work->wr.rdma.remote_addr,
           (const void *)(uintptr_t)work->sg_list[0].addr, bytes);
  arrive(there, bytes, work->imm_data);
  return IBV_WC_SUCCESS;
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *work, struct ibv_send_wr **bad) {
  fake_qp *qp = (fake_qp *)base;
  const int is_signalled = (work->send_flags & IBV_SEND_SIGNALED) != 0;
  (void)bad;
  pthread_mutex_lock(&lock);
  CHECK(base->state == IBV_QPS_RTS || base->state == IBV_QPS_ERR, "a write in state %d",
        base->state);
  CHECK(work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && work->next == NULL, "an unknown write");
  CHECK(qp->sends < qp->most_sends, "a send queue runs over");
  CHECK(!(work->send_flags & IBV_SEND_INLINE) || work->sg_list[0].length <= qp->most_inline,
        "too long for inline");
  fake.writes++;
  qp->sends++;
  struct ibv_wc wc = {.wr_id = work->wr_id, .opcode = IBV_WC_RDMA_WRITE, .qp_num = base->qp_num};
  if (base->state == IBV_QPS_ERR) {
    wc.status = IBV_WC_WR_FLUSH_ERR;
  } else if (fake.is_cut) {
    qp->held[qp->n_held++] = (fake_work){.id = work->wr_id, .is_signalled = is_signalled};
    pthread_mutex_unlock(&lock);
    return 0;
  } else {
    const uint32_t remote = qp->remote.dest_qp_num;
    wc.status = fake.fails_next ? (enum ibv_wc_status)fake.fails_next
                                : carry(qp, remote < PAIRS ? pairs[remote] : NULL, work);
    fake.fails_next = 0;
  }
  if (is_signalled && wc.status == IBV_WC_SUCCESS) qp->sends = 0;
  if (is_signalled || wc.status != IBV_WC_SUCCESS) complete(base->send_cq, &wc);
  if (wc.status != IBV_WC_SUCCESS) flush(qp, IBV_WC_WR_FLUSH_ERR);
  pthread_mutex_unlock(&lock);
  return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device) {
  errno = fake.refuses_open;
  if (fake.refuses_open) return NULL;
  fake_context *context = calloc(1, sizeof *context);
  const int number = (int)(device - devices);
  CHECK(pipe(context->async) == 0, "no pipe");
  context->number = number;
  context->base = (struct ibv_context){.device = device,
                                       .ops = {.poll_cq = poll_cq,
                                               .req_notify_cq = req_notify_cq,
                                               .post_send = post_send,
                                               .post_recv = post_recv},
                                       .cmd_fd = dup(context->async[0]),
                                       .async_fd = context->async[0]};
  int at = 0;
  while (contexts[at]) at++;
  CHECK(at < OPEN, "too many devices are open");
  contexts[at] = context;
  fake.objects++;
  return &context->base;
}

int ibv_close_device(struct ibv_context *base) {
  fake_context *context = (fake_context *)base;
  close(context->async[0]);
  close(context->async[1]);
  close(base->cmd_fd);
  for (int i = 0; i < OPEN; i++)
    if (contexts[i] == context) contexts[i] = NULL;
  free(context);
  fake.objects--;
  return 0;
}

int ibv_get_async_event(struct ibv_context *base, struct ibv_async_event *event) {
  const fake_context *context = (const fake_context *)base;
  return read(context->async[0], event, sizeof *event) == sizeof *event ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }
const char *ibv_event_type_str(enum ibv_event_type type) {
  (void)type;
  return "an event";
}
const char *ibv_wc_status_str(enum ibv_wc_status status) {
  if (status == IBV_WC_RETRY_EXC_ERR) return "transport retry counter exceeded";
  return status == IBV_WC_WR_FLUSH_ERR ? "Work Request Flushed Error" : "another status";
}

/* Device 0 is 10.9.0.1, device 1 is 10.9.0.2; each has a link-local address before that. */
ssize_t _ibv_query_gid_table(struct ibv_context *base, struct ibv_gid_entry *entries, size_t most,
                             uint32_t flags, size_t bytes) {
  const uint8_t number = (uint8_t)((fake_context *)base)->number;
  (void)flags;
  CHECK(most >= 3 && bytes == sizeof *entries, "entries");
  memset(entries, 0, 3 * bytes);
  for (uint32_t i = 0; i < 3; i++) {
    entries[i].gid_index = i;
    entries[i].port_num = 1;
    entries[i].gid_type = i == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  }
  memcpy(entries[0].gid.raw, (uint8_t[16]){0xfe, 0x80, [15] = 1}, 16);
  memcpy(entries[1].gid.raw, (uint8_t[16]){0xfe, 0x80, [15] = 1}, 16);
  entries[1].gid.raw[15] = (uint8_t)(number + 1);
  memcpy(entries[2].gid.raw, (uint8_t[16]){[10] = 0xff, 0xff, 10, 9, 0}, 16);
  entries[2].gid.raw[15] = (uint8_t)(number + 1);
  return 3;
}

int ibv_query_port(struct ibv_context *base, uint8_t port, struct _compat_ibv_port_attr *there) {
  struct ibv_port_attr *attributes = (struct ibv_port_attr *)there;
  (void)base;
  (void)port;
  attributes->state = IBV_PORT_ACTIVE;
  attributes->active_mtu = IBV_MTU_1024;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

/* ---- objects */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context) {
  struct ibv_pd *pd = calloc(1, sizeof *pd);
  pd->context = context;
  fake.objects++;
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
  free(pd);
  fake.objects--;
  return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context) {
  fake_channel *channel = calloc(1, sizeof *channel);
  CHECK(pipe(channel->pipe) == 0, "no pipe");
  channel->base = (struct ibv_comp_channel){.context = context, .fd = channel->pipe[0]};
  fake.objects++;
  return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base) {
  fake_channel *channel = (fake_channel *)base;
  close(channel->pipe[0]);
  close(channel->pipe[1]);
  free(channel);
  fake.objects--;
  return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *owner,
                             struct ibv_comp_channel *channel, int vector) {
  fake_cq *cq = calloc(1, sizeof *cq);
  (void)vector;
  cq->base = (struct ibv_cq){.context = context,
                             .channel = channel,
                             .cq_context = owner,
                             .cqe = entries < DEPTH ? entries : DEPTH};
  fake.objects++;
  return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
  free(cq);
  fake.objects--;
  return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **owner) {
  if (read(channel->fd, cq, sizeof *cq) != sizeof *cq) return -1;
  *owner = (*cq)->cq_context;
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n) {
  (void)cq;
  (void)n;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *memory, size_t bytes, int access) {
  if (fake.refuses_memory && fake.registrations_left-- <= 0) {
    errno = fake.refuses_memory;
    return NULL;
  }
  fake_mr *mr = calloc(1, sizeof *mr);
  pthread_mutex_lock(&lock);
  mr->base = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = memory, .length = bytes};
  mr->base.lkey = mr->base.rkey = ++last_key;
  mr->access = access;
  mr->next = regions;
  regions = mr;
  fake.objects++;
  pthread_mutex_unlock(&lock);
  return &mr->base;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *memory, size_t bytes, uint64_t at,
                                unsigned access) {
  (void)at;
  return ibv_reg_mr(pd, memory, bytes, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
  pthread_mutex_lock(&lock);
  fake_mr **at = &regions;
  while (*at != (fake_mr *)mr) at = &(*at)->next;
  *at = (*at)->next;
  free(mr);
  fake.objects--;
  pthread_mutex_unlock(&lock);
  return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
  errno = EINVAL;
  if (fake.has_no_inline && attributes->cap.max_inline_data) return NULL;
  fake_qp *qp = calloc(1, sizeof *qp);
  pthread_mutex_lock(&lock);
  uint32_t number = 1;
  while (number < PAIRS && pairs[number]) number++;
  CHECK(number < PAIRS, "too many queue pairs");
  pairs[number] = qp;
  qp->base = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = attributes->send_cq,
                             .recv_cq = attributes->recv_cq,
                             .qp_num = number,
                             .state = IBV_QPS_RESET};
  qp->most_sends = attributes->cap.max_send_wr;
  qp->most_receives = attributes->cap.max_recv_wr;
  qp->most_inline = attributes->cap.max_inline_data;
  fake.objects++;
  pthread_mutex_unlock(&lock);
  return &qp->base;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
  pthread_mutex_lock(&lock);
  pairs[qp->qp_num] = NULL;
  free(qp);
  fake.objects--;
  pthread_mutex_unlock(&lock);
  return 0;
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attributes, int mask) {
  fake_qp *qp = (fake_qp *)base;
  const enum ibv_qp_state next = attributes->qp_state;
  pthread_mutex_lock(&lock);
  CHECK(mask & IBV_QP_STATE && (int)next == (int)base->state + 1, "state %d after %d", next,
        base->state);
  if (next == IBV_QPS_RTR) {
    CHECK(qp->n_receives == qp->most_receives, "a queue pair joins without receives");
    qp->remote = *attributes;
  }
  if (next == IBV_QPS_RTS) CHECK(attributes->retry_cnt <= 6, "retries without end");
  base->state = next;
  pthread_mutex_unlock(&lock);
  return 0;
}

/* ---- faults */

void fake_give_up(void) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < PAIRS; i++)
    if (pairs[i] && pairs[i]->n_held) flush(pairs[i], IBV_WC_RETRY_EXC_ERR);
  pthread_mutex_unlock(&lock);
}

void fake_lose_device(int which) {
  struct ibv_async_event event = {.event_type = IBV_EVENT_DEVICE_FATAL};
  pthread_mutex_lock(&lock);
  for (int i = 0; i < OPEN; i++)
    if (contexts[i] && contexts[i]->number == which)
      CHECK(write(contexts[i]->async[1], &event, sizeof event) == sizeof event, "no room");
  for (uint32_t i = 0; i < PAIRS; i++)
    if (pairs[i] && pairs[i]->base.context->device == &devices[which])
      flush(pairs[i], IBV_WC_WR_FLUSH_ERR);
  pthread_mutex_unlock(&lock);
}

void fake_complete(int which, uint32_t immediate) {
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < PAIRS; i++)
    if (pairs[i] && pairs[i]->base.context->device == &devices[which]) {
      arrive(pairs[i], 0, htobe32(immediate));
      break;
    }
  pthread_mutex_unlock(&lock);
}
