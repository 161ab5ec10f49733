#include "stage.h"
#include "base/mutex.h"
#include "control/service.h"
#include "host/registration/announcement.h"
#include "host/state/registry.h"
#include "host/state/peer_info.h"
#include "host/runs/runs.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

dfcclResult_t stage_open_with(df_stage *s, void (*change)(df_peer_info *peer_info)) {
  df_settings settings;
  df_mesh mesh = {.n_ranks = STAGE_RANKS};
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu; /* host buffers, and peers that the test plays on the CPU */
  OK(df_settings_read(&settings, &config));
  mesh.peer_info = calloc(STAGE_RANKS, sizeof *mesh.peer_info);
  mesh.sockets = calloc(STAGE_RANKS, sizeof *mesh.sockets);
  mesh.local = calloc(STAGE_RANKS, 1);
  for (int r = 0; r < STAGE_RANKS; r++) {
    int pair[2];
    mesh.peer_info[r] = df_make_peer_info(&settings);
    mesh.local[r] = r == 0;
    mesh.n_local += mesh.local[r];
    mesh.sockets[r] = s->peers[r] = -1;
    if (r == 0) continue;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
    mesh.sockets[r] = pair[0];
    s->peers[r] = pair[1];
  }
  if (change) change(mesh.peer_info);
  return df_context_open(&s->context, STAGE_RANKS, 0, &settings, &mesh);
}

void stage_open(df_stage *s) { OK(stage_open_with(s, NULL)); }

void stage_open_with_bell(df_stage *s) {
  stage_open(s);
  stage_offer_segment(s, 0, DF_PAGE, DF_SEGMENT_HOME);
}

void stage_die(df_stage *s, int peer) {
  if (s->peers[peer] >= 0) close(s->peers[peer]);
  s->peers[peer] = -1;
}

void stage_close(df_stage *s) {
  OK(dfcclDestroy(s->context));
  for (int r = 1; r < STAGE_RANKS; r++) stage_die(s, r);
}

int stage_receive(const df_stage *s, int peer, df_datagram *datagram) {
  struct iovec part = {.iov_base = datagram, .iov_len = sizeof *datagram};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1}; /* descriptors are dropped */
  return recvmsg(s->peers[peer], &header, 0) > 0;
}

int stage_has_received(const df_stage *s, int peer, df_message_kind kind, uint64_t id) {
  static df_datagram datagram;
  while (stage_receive(s, peer, &datagram))
    if (datagram.message.kind == kind && datagram.message.id == id) return 1;
  return 0;
}

void stage_say(const df_stage *s, int peer, df_message message, const char *text) {
  size_t length = text ? strlen(text) + 1 : 0;
  struct iovec parts[] = {{&message, sizeof message}, {(void *)text, length}};
  message.magic = DF_MESSAGE_MAGIC;
  message.payload_bytes = (uint32_t)length;
  struct msghdr header = {.msg_iov = parts, .msg_iovlen = text ? 2 : 1};
  CHECK(sendmsg(s->peers[peer], &header, MSG_NOSIGNAL) > 0, "peer %d cannot speak", peer);
}

void stage_handle(const df_stage *s, df_message *message, int fd) {
  message->magic = DF_MESSAGE_MAGIC;
  df_rank_lock(&s->context->lock);
  df_messenger_deliver(&s->context->control, 1, message, fd);
  df_rank_unlock(&s->context->lock);
}

void stage_offer_segment(const df_stage *s, uint64_t id, uint64_t bytes, uint64_t use) {
  df_message message = {.kind = DF_MESSAGE_SEGMENT, .id = id, .a = bytes, .b = use};
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "no memory to offer");
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  stage_handle(s, &message, fd);
}

void stage_offer_rings(const df_stage *s, uint32_t peer, dfcclCollId_t id,
                       const df_shm_offer *offer) {
  union {
    df_message message;
    uint8_t bytes[sizeof(df_message) + DF_OFFER_BYTES];
  } d = {.message = {.magic = DF_MESSAGE_MAGIC,
                     .kind = DF_MESSAGE_LINKS,
                     .payload_bytes = DF_OFFER_BYTES,
                     .id = id}};
  memcpy(&d.message + 1, offer, DF_OFFER_BYTES);
  CHECK(send(s->peers[peer], &d, sizeof d, MSG_NOSIGNAL) == sizeof d, "peer %u cannot speak", peer);
}

void stage_announce(const df_stage *s, dfcclCollId_t id, const df_announcement *announcement) {
  union {
    df_message message;
    uint8_t bytes[sizeof(df_message) + sizeof(df_announcement) + 2 * sizeof(uint32_t)];
  } d = {.message = {.kind = DF_MESSAGE_ANNOUNCE, .id = id}};
  const uint32_t ranks[] = {0, 1};
  d.message.payload_bytes = df_announcement_write(announcement, ranks, &d.message + 1);
  stage_handle(s, &d.message, -1);
}

df_announcement stage_announcement_of(const df_stage *s, dfcclCollId_t id) {
  df_rank_lock(&s->context->lock);
  df_announcement announcement = df_coll_announcement(df_find(s->context, id));
  df_rank_unlock(&s->context->lock);
  return announcement;
}

static dfcclCollOptions_t of_two(void) {
  static const int ranks[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  return options;
}

dfcclResult_t stage_register_of_two(const df_stage *s, dfcclCollId_t id) {
  const dfcclCollOptions_t options = of_two();
  return dfcclRegisterAllReduce(s->context, id, STAGE_COUNT, dfcclInt8, dfcclSum, &options);
}

static int is_in_daemon(const df_stage *s, dfcclCollId_t id) {
  df_rank_lock(&s->context->lock);
  int runs = df_runs_in_device(df_find(s->context, id)) > 0;
  df_rank_unlock(&s->context->lock);
  return runs;
}

void stage_begin_broadcast(const df_stage *s, dfcclCollId_t id, size_t count, const void *send,
                           void *recv) {
  const dfcclCollOptions_t options = of_two();
  stage_offer_segment(s, 0, DF_PAGE, DF_SEGMENT_HOME);
  OK(dfcclRegisterBroadcast(s->context, id, count, dfcclInt8, 1, &options));
  const df_announcement announcement = stage_announcement_of(s, id);
  stage_announce(s, id, &announcement);
  OK(dfcclRunBroadcast(s->context, id, send, recv, NULL, NULL));
  EVENTUALLY(is_in_daemon(s, id));
}
