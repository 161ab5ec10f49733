/* Peers: sending control messages, to inboxes of this process or through sockets that are never
 * waited for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/context.h"
#include "control/peers.h"
#include "host/failure.h"

dfcclResult_t df_peers_init(dfcclContext_t context) {
  context->control.peers = calloc(context->n_ranks, sizeof *context->control.peers);
  if (context->control.peers == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the records of %u peers", context->n_ranks);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    df_peer *peer = &context->control.peers[r];
    peer->local = context->mesh.local[r];
    peer->socket = context->mesh.sockets[r];
    peer->last = &peer->first;
    peer->windows = peer->local ? NULL : calloc(1, sizeof *peer->windows);
    if (!peer->local && peer->windows == NULL)
      return df_fail(dfcclOutOfMemory, "no memory for what rank %u may lend", r);
  }
  return dfcclSuccess;
}

static void free_outgoing(df_peer *peer) {
  while (peer->first) {
    df_outgoing *next = peer->first->next;
    if (peer->first->fd >= 0) close(peer->first->fd);
    free(peer->first);
    peer->first = next;
  }
  peer->last = &peer->first;
}

void df_peers_free(dfcclContext_t context) {
  if (context->control.peers == NULL) return;
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    df_peer *peer = &context->control.peers[r];
    free_outgoing(peer);
    free(peer->told);
    free(peer->cause);
    free(peer->windows);
    while (peer->segments) {
      df_segment *next = peer->segments->next;
      df_segment_destroy(peer->segments);
      peer->segments = next;
    }
  }
  free(context->control.peers);
  context->control.peers = NULL;
}

/* Returns 1 sent, 0 not now, -1 the connection is lost. */
static int send_one(int socket, const df_outgoing *outgoing) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {.iov_base = (void *)&outgoing->message, .iov_len = outgoing->bytes};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
  if (outgoing->fd >= 0) {
    memset(&control, 0, sizeof control);
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &outgoing->fd, sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent >= 0) return 1;
  /* Too many descriptors in flight, or no buffers: the receiver will take some. */
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS ||
                 errno == ENOMEM
             ? 0
             : -1;
}

static void want_writable(dfcclContext_t context, uint32_t rank, int wanted) {
  df_peer *peer = &context->control.peers[rank];
  if (peer->writable_wanted == wanted || peer->socket < 0) return;
  peer->writable_wanted = wanted;
  struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0u), .data.u32 = rank};
  epoll_ctl(context->control.epoll_fd, EPOLL_CTL_MOD, peer->socket, &event);
}

static void end_connection(df_peer *peer) {
  if (peer->socket >= 0) shutdown(peer->socket, SHUT_RDWR);
}

void df_peer_cut_off(df_peer *peer) {
  peer->cut_off = 1;
  end_connection(peer);
}

void df_peer_flush(dfcclContext_t context, uint32_t rank) {
  df_peer *peer = &context->control.peers[rank];
  while (peer->first && peer->socket >= 0) {
    int sent = send_one(peer->socket, peer->first);
    if (sent == 0) break;
    if (sent < 0) {
      int by_peer = errno == EPIPE || errno == ECONNRESET;
      free_outgoing(peer);
      /* A connection that loses messages is worse than none: both ends see it end. What the peer
       * has sent can still be read. */
      if (!by_peer) peer->cut_off = 1; /* else it had ended, as if we had only read */
      end_connection(peer);
      break;
    }
    df_outgoing *done = peer->first;
    peer->first = done->next;
    if (peer->first == NULL) peer->last = &peer->first;
    if (done->fd >= 0) close(done->fd);
    free(done);
  }
  want_writable(context, rank, peer->first != NULL);
}

/* After a goodbye, ours or the peer's, only what its device's memory still waits for. */
static int is_told(dfcclContext_t context, const df_peer *peer, uint32_t kind) {
  if (peer->state == DF_PEER_DEAD) return 0;
  return kind == DF_MESSAGE_UNMAPPED ||
         (!context->failure.said_goodbye && peer->state != DF_PEER_LEFT);
}

/* For want of memory a message may be lost, and those that give everything up for it, too: so the
 * peer sees an end, which needs none. */
void df_send(dfcclContext_t context, uint32_t rank, const df_message *message, const void *payload,
             int fd) {
  df_peer *peer = &context->control.peers[rank];
  df_message header = *message;
  header.magic = DF_MESSAGE_MAGIC;
  if (!is_told(context, peer, header.kind)) return;
  if (peer->local) {
    if (df_world_post(context->control.world, rank, context->rank, &header, payload) !=
        dfcclSuccess) {
      df_give_up(context, dfcclOutOfMemory, df_last_sentence());
      df_world_mute(context->control.world, context->rank);
    }
    return;
  }
  df_outgoing *outgoing = malloc(sizeof *outgoing + header.payload_bytes);
  int copy = fd >= 0 ? dup(fd) : -1;
  if (outgoing == NULL || (fd >= 0 && copy < 0)) {
    char sentence[DF_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence,
             "no memory or descriptor for a message from rank %u to rank %u", context->rank, rank);
    if (copy >= 0) close(copy);
    free(outgoing);
    df_give_up(context, dfcclOutOfMemory, sentence);
    df_peer_cut_off(peer);
    return;
  }
  outgoing->next = NULL;
  outgoing->fd = copy;
  outgoing->bytes = sizeof header + header.payload_bytes;
  outgoing->message = header;
  if (header.payload_bytes) memcpy(&outgoing->message + 1, payload, header.payload_bytes);
  *peer->last = outgoing;
  peer->last = &outgoing->next;
  if (peer->first == outgoing) df_peer_flush(context, rank);
}

int df_send_segment(dfcclContext_t context, uint32_t rank, const df_segment *segment,
                    uint64_t use) {
  df_message message = {
      .kind = DF_MESSAGE_SEGMENT, .id = segment->id, .a = segment->bytes, .b = use};
  int maps =
      segment->has_handle && is_told(context, &context->control.peers[rank], DF_MESSAGE_SEGMENT);
  if (segment->has_handle) message.payload_bytes = DF_SEGMENT_HANDLE_BYTES;
  context->control.peers[rank].maps |= maps;
  df_send(context, rank, &message, segment->handle, segment->fd);
  return maps;
}

/* Tells everybody that we leave in order, and gives the messages that still wait time to go out: a
 * peer that does not get them takes the end of the connection for our death. Bounded, since a peer
 * may be stopped for ever. */
void df_peers_say_goodbye(dfcclContext_t context) {
  uint64_t begin = df_clock_ns();
  pthread_mutex_lock(&context->lock);
  df_message bye = {.kind = DF_MESSAGE_BYE};
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (rank != context->rank) df_send(context, rank, &bye, NULL, -1);
  context->failure.said_goodbye = 1;
  for (int waiting = 1; waiting;) {
    waiting = 0;
    for (uint32_t rank = 0; rank < context->n_ranks; rank++) {
      df_peer_flush(context, rank);
      if (context->control.peers[rank].first && context->control.peers[rank].state == DF_PEER_ALIVE)
        waiting = 1;
    }
    if (df_clock_ns() - begin >= DF_GOODBYE_NS) break;
    if (waiting) {
      pthread_mutex_unlock(&context->lock);
      usleep(1000);
      pthread_mutex_lock(&context->lock);
    }
  }
  pthread_mutex_unlock(&context->lock);
}
