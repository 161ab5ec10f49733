/* Devices of verbs: their list, their addresses, and their completions. */
#include "transports/net/verbs/verbs_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
  COMPLETIONS_AT_ONCE = 16,
  GIDS_MOST = 256, /* GIDs of a device that are examined */
  TRIAL_BYTES = 1 << 20,
  PAGE = 4096
};

dfcclResult_t df_verbs_failure(const df_verbs_device *device, const char *what, int error) {
  const char *name = ibv_get_device_name(device->context->device);
  struct rlimit limit;
  if (error == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    return df_fail(dfcclOutOfMemory,
                   "%s with device %s failed: the limit of locked memory is %llu KB; raise it "
                   "(ulimit -l unlimited, LimitMEMLOCK=infinity)",
                   what, name, (unsigned long long)limit.rlim_cur >> 10);
  const int is_shortage = error == ENOMEM || error == EMFILE || error == ENFILE;
  return df_fail(is_shortage ? dfcclOutOfMemory : dfcclSystemError, "%s with device %s failed: %s",
                 what, name, strerror(error));
}

/* ---- completions */

static df_verbs_stream *stream_of(const df_verbs *verbs, uint64_t work) {
  const uint32_t serial = (uint32_t)(work >> 32);
  df_verbs_stream *stream = verbs->streams[serial % DF_VERBS_STREAMS];
  return stream && df_verbs_stream_serial(stream) == serial ? stream : NULL;
}

/* Completions of streams that have ended may still arrive. */
static int poll_queue(const df_verbs *verbs, df_verbs_queue *queue) {
  struct ibv_wc completions[COMPLETIONS_AT_ONCE];
  int n = ibv_poll_cq(queue->cq, COMPLETIONS_AT_ONCE, completions);
  for (int i = 0; i < n; i++) {
    df_verbs_stream *stream = stream_of(verbs, completions[i].wr_id);
    if (stream) df_verbs_stream_complete(stream, &completions[i]);
  }
  return n > 0;
}

static void fail_streams(const df_verbs_device *device, uint32_t number, const char *reason) {
  for (uint32_t i = 0; i < DF_VERBS_STREAMS; i++) {
    df_verbs_stream *stream = device->verbs->streams[i];
    if (stream && df_verbs_stream_device(stream) == device &&
        (number == 0 || df_verbs_stream_number(stream) == number))
      df_verbs_stream_fail(stream, reason);
  }
}

/* A port that goes down may come back in time; otherwise the retries end. */
static void handle_device_events(df_verbs_device *device) {
  struct ibv_async_event event;
  while (ibv_get_async_event(device->context, &event) == 0) {
    const enum ibv_event_type type = event.event_type;
    if (type == IBV_EVENT_DEVICE_FATAL) {
      device->is_gone = 1;
      fail_streams(device, 0, "the device is gone");
    }
    if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
        type == IBV_EVENT_QP_ACCESS_ERR)
      fail_streams(device, event.element.qp->qp_num, ibv_event_type_str(type));
    if (type == IBV_EVENT_CQ_ERR) fail_streams(device, 0, ibv_event_type_str(type));
    ibv_ack_async_event(&event);
  }
}

int df_verbs_poll(df_verbs *verbs) {
  int did = 0;
  for (df_verbs_device *device = verbs->devices; device; device = device->next)
    for (df_verbs_queue *queue = device->queues; queue; queue = queue->next)
      while (poll_queue(verbs, queue)) did = 1;
  return did;
}

static void take_events(df_verbs_device *device) {
  struct ibv_cq *cq;
  void *queue;
  while (ibv_get_cq_event(device->channel, &cq, &queue) == 0) {
    ((df_verbs_queue *)queue)->is_armed = 0;
    ibv_ack_cq_events(cq, 1);
  }
}

/* Completions between the last poll and the request for an event are found by the poll that
 * follows. */
void df_verbs_look(df_verbs *verbs) {
  for (df_verbs_device *device = verbs->devices; device; device = device->next) {
    handle_device_events(device);
    take_events(device);
    for (df_verbs_queue *queue = device->queues; queue; queue = queue->next)
      if (!queue->is_armed && ibv_req_notify_cq(queue->cq, 0) == 0) queue->is_armed = 1;
  }
  df_verbs_poll(verbs);
}

df_verbs_queue *df_verbs_queue_take(df_verbs_device *device) {
  df_verbs_queue *queue = device->queues;
  while (queue && queue->n_streams == DF_VERBS_SHARE) queue = queue->next;
  if (queue == NULL) {
    queue = calloc(1, sizeof *queue);
    if (queue == NULL) return NULL;
    const int entries = DF_VERBS_SHARE * (DF_VERBS_SENDS + DF_VERBS_RECEIVES);
    queue->cq = ibv_create_cq(device->context, entries, queue, device->channel, 0);
    if (queue->cq == NULL) {
      const int error = errno;
      free(queue);
      errno = error;
      return NULL;
    }
    queue->next = device->queues;
    device->queues = queue;
    queue->is_armed = ibv_req_notify_cq(queue->cq, 0) == 0;
  }
  queue->n_streams++;
  return queue;
}

/* ---- opening */

static int add_port(df_verbs *verbs, const df_verbs_port *port) {
  if (verbs->n_ports == verbs->ports_capacity) {
    const uint32_t more = verbs->ports_capacity ? 2 * verbs->ports_capacity : 8;
    df_verbs_port *ports = realloc(verbs->ports, more * sizeof *ports);
    if (ports == NULL) return 0;
    verbs->ports = ports;
    verbs->ports_capacity = more;
  }
  verbs->ports[verbs->n_ports++] = *port;
  return 1;
}

/* Uses the first GID of InfiniBand, and over Ethernet the GIDs of RoCE v2, which is routable. */
static dfcclResult_t find_ports(df_verbs_device *device) {
  struct ibv_gid_entry gids[GIDS_MOST];
  const ssize_t n = ibv_query_gid_table(device->context, gids, GIDS_MOST, 0);
  for (ssize_t i = 0; i < n; i++) {
    struct ibv_port_attr attributes;
    if (ibv_query_port(device->context, (uint8_t)gids[i].port_num, &attributes) != 0 ||
        attributes.state != IBV_PORT_ACTIVE)
      continue;
    const int is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (is_ethernet ? gids[i].gid_type != IBV_GID_TYPE_ROCE_V2 : gids[i].gid_index != 0) continue;
    const df_verbs_port port = {.device = device,
                                .gid = gids[i].gid,
                                .lid = is_ethernet ? 0 : attributes.lid,
                                .number = (uint8_t)gids[i].port_num,
                                .gid_index = (uint8_t)gids[i].gid_index,
                                .link_layer = attributes.link_layer,
                                .mtu = (uint8_t)attributes.active_mtu};
    if (!add_port(device->verbs, &port))
      return df_fail(dfcclOutOfMemory, "no memory for the record of a device's port");
  }
  return dfcclSuccess;
}

/* Tries to register memory when opening: the failure is then reported with a sentence, and not at
 * the first connection. */
static dfcclResult_t try_memory(const df_verbs_device *device) {
  void *memory = aligned_alloc(PAGE, TRIAL_BYTES);
  if (memory == NULL) return df_fail(dfcclOutOfMemory, "no memory for the ring of a connection");
  struct ibv_mr *region = ibv_reg_mr(device->pd, memory, TRIAL_BYTES, IBV_ACCESS_LOCAL_WRITE);
  dfcclResult_t result = dfcclSuccess;
  if (region == NULL) result = df_verbs_failure(device, "registering 1024 KB", errno);
  if (region) ibv_dereg_mr(region);
  free(memory);
  return result;
}

static int watch(const df_verbs *verbs, int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
         fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
         epoll_ctl(verbs->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_device(df_verbs_device *device) {
  while (device->queues) {
    df_verbs_queue *queue = device->queues;
    device->queues = queue->next;
    ibv_destroy_cq(queue->cq);
    free(queue);
  }
  if (device->channel) ibv_destroy_comp_channel(device->channel);
  if (device->pd) ibv_dealloc_pd(device->pd);
  ibv_close_device(device->context);
  free(device);
}

/* Closes a device without an address again. */
static dfcclResult_t open_device(df_verbs *verbs, struct ibv_device *which, int *error) {
  struct ibv_context *context = ibv_open_device(which);
  *error = context ? 0 : errno;
  if (context == NULL) return dfcclSuccess;
  df_verbs_device *device = calloc(1, sizeof *device);
  if (device == NULL) {
    ibv_close_device(context);
    return df_fail(dfcclOutOfMemory, "no memory for the record of a device");
  }
  *device = (df_verbs_device){.verbs = verbs, .context = context};
  const uint32_t before = verbs->n_ports;
  dfcclResult_t result = find_ports(device);
  if (result == dfcclSuccess && verbs->n_ports == before) {
    close_device(device);
    return dfcclSuccess;
  }
  if (result == dfcclSuccess) {
    device->pd = ibv_alloc_pd(context);
    device->channel = device->pd ? ibv_create_comp_channel(context) : NULL;
    if (device->channel == NULL || !watch(verbs, device->channel->fd) ||
        !watch(verbs, context->async_fd))
      result = df_verbs_failure(device, "opening a channel", errno);
  }
  if (result == dfcclSuccess) result = try_memory(device);
  if (result != dfcclSuccess) {
    verbs->n_ports = before;
    close_device(device);
    return result;
  }
  device->next = verbs->devices;
  verbs->devices = device;
  return dfcclSuccess;
}

static dfcclResult_t open_devices(df_verbs *verbs) {
  int n = 0, error = 0, n_refused = 0;
  struct ibv_device **all = ibv_get_device_list(&n);
  const char *refused = "";
  dfcclResult_t result = dfcclSuccess;
  for (int i = 0; all && i < n && result == dfcclSuccess; i++) {
    int why;
    result = open_device(verbs, all[i], &why);
    if (result != dfcclSuccess || why == 0) continue;
    n_refused++;
    error = why;
    refused = ibv_get_device_name(all[i]);
  }
  if (result == dfcclSuccess && verbs->n_ports == 0 && n_refused)
    result =
        df_fail(dfcclInvalidUsage, "device %s could not be opened: %s", refused, strerror(error));
  else if (result == dfcclSuccess && verbs->n_ports == 0)
    result = df_fail(dfcclInvalidUsage,
                     "this host has no RDMA device with an active port (%d devices); DFCCL_NET=tcp "
                     "needs none",
                     n);
  if (all) ibv_free_device_list(all);
  return result;
}

dfcclResult_t df_verbs_open(df_verbs **out) {
  df_verbs *verbs = calloc(1, sizeof *verbs);
  if (verbs == NULL) return df_fail(dfcclOutOfMemory, "no memory for the record of devices");
  verbs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  dfcclResult_t result = dfcclSuccess;
  if (verbs->epoll_fd < 0)
    result = df_fail(dfcclSystemError, "making an epoll descriptor failed: %s", strerror(errno));
  if (result == dfcclSuccess) result = open_devices(verbs);
  if (result == dfcclSuccess)
    *out = verbs;
  else
    df_verbs_close(verbs);
  return result;
}

void df_verbs_close(df_verbs *verbs) {
  for (uint32_t i = 0; i < DF_VERBS_STREAMS; i++)
    if (verbs->streams[i]) df_verbs_stream_end(verbs->streams[i]);
  while (verbs->devices) {
    df_verbs_device *device = verbs->devices;
    verbs->devices = device->next;
    close_device(device);
  }
  if (verbs->epoll_fd >= 0) close(verbs->epoll_fd);
  free(verbs->ports);
  free(verbs);
}

/* Copies of the descriptors would keep the queue pairs of the parent alive. */
void df_verbs_close_in_child(const df_verbs *verbs) {
  for (const df_verbs_device *device = verbs->devices; device; device = device->next) {
    close(device->channel->fd);
    close(device->context->async_fd);
    close(device->context->cmd_fd);
  }
  close(verbs->epoll_fd);
}

int df_verbs_fd(const df_verbs *verbs) { return verbs->epoll_fd; }
