#include "control/messenger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "control/relay.h"
#include "control/reconnect.h"
#include "control/service.h"

static df_message_handler handle_relayed;

dfcclResult_t df_messenger_open(df_control *control, df_rank_mutex *lock, const df_mesh *mesh,
                                const df_control_events *events) {
  control->rank = (uint32_t)mesh->rank;
  control->n_ranks = (uint32_t)mesh->n_ranks;
  control->lock = lock;
  control->events = *events;
  control->routes = mesh->routes;
  df_messenger_subscribe(control, DF_MESSAGE_RELAYED, handle_relayed, control, 0);
  df_mutex_init(&control->arrivals_lock);
  control->peers = calloc(control->n_ranks, sizeof *control->peers);
  if (control->peers == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the records of %u peers", control->n_ranks);
  for (uint32_t r = 0; r < control->n_ranks; r++) {
    df_peer *peer = &control->peers[r];
    peer->local = mesh->local[r];
    peer->mesh_socket = &mesh->sockets[r];
    peer->socket = *peer->mesh_socket;
    peer->last = &peer->first;
    peer->next = mesh->routes && r != control->rank ? df_routes_next(mesh->routes, r) : r;
    if (mesh->remote == NULL || !mesh->remote[r].is_remote) continue;
    peer->is_remote = 1;
    peer->address = mesh->remote[r].address;
    if (!mesh->remote[r].has_channel) continue;
    peer->calls = mesh->remote[r].calls;
    peer->channel = df_remote_channel_open(mesh->remote[r].key, control->rank, r);
    if (control->record == NULL)
      control->record = malloc(DF_MAX_MESSAGE_BYTES + DF_REMOTE_CHANNEL_OVERHEAD);
    if (peer->channel == NULL || control->record == NULL)
      return df_fail(dfcclOutOfMemory, "no memory for the control channel to rank %u", r);
  }
  return dfcclSuccess;
}

void df_messenger_forget(df_peer *peer) {
  while (peer->first) {
    df_outgoing *next = peer->first->next;
    if (peer->first->fd >= 0) close(peer->first->fd);
    free(peer->first);
    peer->first = next;
  }
  peer->last = &peer->first;
  peer->unsent = NULL;
}

void df_messenger_close(df_control *control) {
  if (control->peers) df_resume_close(control);
  for (uint32_t r = 0; control->peers && r < control->n_ranks; r++) {
    df_rank_lock(control->lock);
    df_messenger_end(control, r);
    df_messenger_forget(&control->peers[r]);
    df_rank_unlock(control->lock);
    free(control->peers[r].failure_reason);
    df_remote_channel_close(control->peers[r].channel);
  }
  free(control->peers);
  free(control->record);
  control->peers = NULL;
  control->record = NULL;
}

void df_messenger_subscribe(df_control *control, df_message_kind kind, df_message_handler *handle,
                            void *room, int takes_fd) {
  DF_ASSERT(control->subscriptions[kind].handle == NULL);
  control->subscriptions[kind] =
      (df_subscription){.handle = handle, .room = room, .takes_fd = takes_fd};
}

/* Returns 1: sent; 0: the socket accepts nothing at the moment; -1: the connection is lost. */
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
  /* Too many descriptors are in flight, or there are no buffers: both end when the receiver
   * reads. */
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS ||
                 errno == ENOMEM
             ? 0
             : -1;
}

static void want_writable(df_control *control, uint32_t rank, int wanted) {
  df_peer *peer = &control->peers[rank];
  if (peer->writable_wanted == wanted || peer->socket < 0) return;
  peer->writable_wanted = wanted;
  struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0u), .data.u32 = rank};
  epoll_ctl(control->epoll_fd, EPOLL_CTL_MOD, peer->socket, &event);
}

static void end_connection(df_peer *peer) {
  if (peer->socket >= 0) shutdown(peer->socket, SHUT_RDWR);
}

/* ---- messages that wait */

static void release_first(df_peer *peer) {
  df_outgoing *done = peer->first;
  peer->first = done->next;
  if (peer->first == NULL) peer->last = &peer->first;
  if (peer->unsent == done) peer->unsent = done->next;
  if (done->fd >= 0) close(done->fd);
  free(done);
}

void df_messenger_acknowledge(df_control *control, uint32_t rank) {
  df_peer *peer = &control->peers[rank];
  for (; peer->n_released < peer->channel->acknowledged && peer->first; peer->n_released++)
    release_first(peer);
}

/* A peer that is cut off first receives the messages with the reason. Returns as
 * df_remote_channel_send. */
static int send_record(df_control *control, df_peer *peer) {
  df_remote_channel *channel = peer->channel;
  const df_outgoing *next = channel->may_send ? peer->unsent : NULL;
  const df_record_kind kind = channel->may_send && peer->cut_off ? DF_RECORD_END : DF_RECORD_COUNT;
  const size_t bytes = next ? df_remote_channel_encrypt(channel, DF_RECORD_MESSAGE, &next->message,
                                                        next->bytes, control->record)
                            : df_remote_channel_encrypt(channel, kind, NULL, 0, control->record);
  if (next) peer->unsent = next->next;
  return df_remote_channel_send(channel, peer->socket, control->record, bytes);
}

/* Messages that the other end of the channel has not acknowledged stay in the list. Returns as
 * df_remote_channel_flush. */
static int flush_channel(df_control *control, df_peer *peer) {
  const df_remote_channel *channel = peer->channel;
  int sent = df_remote_channel_flush(peer->channel, peer->socket);
  while (sent == 1 && !channel->has_ended &&
         (channel->owes_count || (channel->may_send && (peer->unsent || peer->cut_off))))
    sent = send_record(control, peer);
  return sent;
}

/* Returns as df_remote_channel_flush. */
static int flush_socket(df_peer *peer) {
  int sent = 1;
  while (peer->first && (sent = send_one(peer->socket, peer->first)) == 1) release_first(peer);
  return sent;
}

void df_messenger_flush(df_control *control, uint32_t rank) {
  df_peer *peer = &control->peers[rank];
  if (peer->socket < 0) return;
  const int sent = peer->channel ? flush_channel(control, peer) : flush_socket(peer);
  if (sent < 0) {
    const int by_peer = errno == EPIPE || errno == ECONNRESET;
    /* Both ends must see the loss. Messages that the peer has sent can still be read. */
    if (!peer->channel) df_messenger_forget(peer);
    if (!peer->channel && !by_peer)
      peer->cut_off = 1; /* otherwise the peer has ended the connection */
    end_connection(peer);
  }
  want_writable(control, rank, sent == 0);
}

void df_messenger_end(df_control *control, uint32_t rank) {
  DF_ASSERT_RANK_LOCKED(control->lock);
  df_peer *peer = &control->peers[rank];
  if (peer->channel == NULL || peer->channel->has_ended || peer->socket < 0) return;
  if (df_remote_channel_flush(peer->channel, peer->socket) != 1)
    return; /* the other end calls again and is refused */
  const size_t bytes =
      df_remote_channel_encrypt(peer->channel, DF_RECORD_END, NULL, 0, control->record);
  /* If there is no memory for the part that the socket does not accept, the other end would wait
   * for that part. */
  if (df_remote_channel_send(peer->channel, peer->socket, control->record, bytes) < 0)
    end_connection(peer);
}

void df_messenger_cut_off(df_control *control, uint32_t rank) {
  df_peer *peer = &control->peers[rank];
  peer->cut_off = 1;
  if (peer->channel) df_messenger_flush(control, rank);
  /* The other end ends the connection, or first sends the number from which to continue. */
  if (peer->channel && (peer->channel->has_ended || !peer->channel->may_send)) return;
  end_connection(peer);
}

/* The kinds of messages that a relay forwards, needs and sends while it waits in its goodbye. */
static int outlives_goodbye(const df_control *control, df_message_kind kind) {
  return control->routes &&
         (kind == DF_MESSAGE_RELAYED || kind == DF_MESSAGE_BYE || kind == DF_MESSAGE_LOST);
}

/* After the goodbye of this rank or of the peer, only messages that device memory and relays wait
 * for are sent. */
int df_messenger_reaches(const df_control *control, uint32_t rank, df_message_kind kind) {
  const df_peer *peer = &control->peers[rank];
  if (peer->state == DF_PEER_DEAD) return 0;
  if (outlives_goodbye(control, kind))
    return peer->next != rank || peer->local || peer->socket >= 0 || peer->lost_ns != 0;
  return kind == DF_MESSAGE_UNMAPPED || (!control->said_goodbye && peer->state != DF_PEER_LEFT);
}

/* The caller may hold any state, so the service thread notifies the owner later. */
void df_messenger_lose(df_control *control, uint32_t rank) {
  control->peers[rank].message_lost = DF_LOST;
  if (control->loss == dfcclSuccess)
    snprintf(control->loss_sentence, sizeof control->loss_sentence,
             "no memory or descriptor for a message from rank %u to rank %u", control->rank, rank);
  control->loss = dfcclOutOfMemory;
  df_service_wake(control);
}

/* ---- through relays */

static void give(void *control, uint32_t hop, const df_message *message,
                 const void *payload) DF_RANK_LOCKED {
  df_messenger_send(control, hop, message, payload, -1);
}
static void lose(void *control, uint32_t hop) DF_RANK_LOCKED { df_messenger_lose(control, hop); }

/* Changes the order of `ranks`. */
static void send_by_relays(df_control *control, uint32_t *ranks, uint32_t n,
                           const df_message *message, const void *payload) {
  const df_relay_giver to = {.giver = control, .give = give, .lose = lose};
  df_message whole = *message;
  whole.magic = DF_MESSAGE_MAGIC;
  df_relay_split(&to, control->routes, control->rank, DF_HOPS_MOST, ranks, n, &whole, payload);
}

/* A rank that sends a malformed message is refused, as with any message. */
static void handle_relayed(void *room, uint32_t from, const df_message *message,
                           int fd) DF_RANK_LOCKED {
  df_control *control = room;
  DF_ASSERT_RANK_LOCKED(control->lock);
  const df_relay_giver to = {.giver = control, .give = give, .lose = lose};
  const df_message *inner;
  uint32_t ranks[DF_MAX_RANKS], source, n;
  int is_mine;
  (void)fd;
  if (control->routes == NULL ||
      !df_relay_read(control->routes, message, &source, ranks, &n, &is_mine, &inner)) {
    if (control->peers[from].state != DF_PEER_LEFT)
      control->events.refused(control->events.owner, from);
    return;
  }
  df_relay_split(&to, control->routes, source, message->id - 1, ranks, n, inner,
                 df_message_payload(inner));
  if (is_mine) df_messenger_deliver(control, source, inner, -1);
}

/* ---- sending */

void df_messenger_send(df_control *control, uint32_t rank, const df_message *message,
                       const void *payload, int fd) {
  DF_ASSERT_RANK_LOCKED(control->lock);
  df_peer *peer = &control->peers[rank];
  df_message header = *message;
  header.magic = DF_MESSAGE_MAGIC;
  if (!df_messenger_reaches(control, rank, (df_message_kind)header.kind) ||
      peer->message_lost == DF_LOST ||
      (peer->channel &&
       peer->cut_off)) /* after a lost message, a goodbye would report an orderly end */
    return;
  if (peer->next != rank) {
    send_by_relays(control, &rank, 1, &header, payload);
    return;
  }
  if (peer->local) {
    if (df_process_inbox_send(control->process_inbox, rank, control->rank, &header, payload) !=
        dfcclSuccess)
      df_messenger_lose(control, rank);
    return;
  }
  df_outgoing *outgoing = malloc(sizeof *outgoing + header.payload_bytes);
  int copy = fd >= 0 ? dup(fd) : -1;
  if (outgoing == NULL || (fd >= 0 && copy < 0)) {
    if (copy >= 0) close(copy);
    free(outgoing);
    df_messenger_lose(control, rank);
    return;
  }
  outgoing->next = NULL;
  outgoing->fd = copy;
  outgoing->bytes = sizeof header + header.payload_bytes;
  outgoing->message = header;
  if (header.payload_bytes) memcpy(&outgoing->message + 1, payload, header.payload_bytes);
  *peer->last = outgoing;
  peer->last = &outgoing->next;
  if (peer->unsent == NULL) peer->unsent = outgoing;
  if (peer->unsent == outgoing) df_messenger_flush(control, rank);
}

void df_messenger_send_many(df_control *control, const uint32_t *ranks, uint32_t n,
                            const df_message *message, const void *payload) {
  uint32_t *behind = control->routes ? malloc(n * sizeof *behind) : NULL, n_behind = 0;
  for (uint32_t i = 0; i < n; i++) {
    const df_peer *peer = &control->peers[ranks[i]];
    if (behind == NULL || peer->next == ranks[i])
      df_messenger_send(control, ranks[i], message, payload, -1);
    else if (df_messenger_reaches(control, ranks[i], (df_message_kind)message->kind))
      behind[n_behind++] = ranks[i];
  }
  if (n_behind) send_by_relays(control, behind, n_behind, message, payload);
  free(behind);
}

/* Sends to the ranks behind a relay before sending to the relay: when a relay receives a goodbye,
 * it has forwarded the goodbyes for all ranks behind it. */
static void send_all(df_control *control, int also_local, const df_message *message,
                     const void *payload) DF_RANK_LOCKED {
  uint32_t *ranks = control->routes ? malloc(control->n_ranks * sizeof *ranks) : NULL;
  for (uint32_t relays = DF_RELAYS_MOST + 1; ranks && relays-- > 0;) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < control->n_ranks; r++)
      if (r != control->rank && (also_local || !control->peers[r].local) &&
          df_routes_relays(control->routes, r) == relays)
        ranks[n++] = r;
    df_messenger_send_many(control, ranks, n, message, payload);
  }
  for (uint32_t r = 0; ranks == NULL && r < control->n_ranks; r++)
    if (r != control->rank && (also_local || !control->peers[r].local))
      df_messenger_send(control, r, message, payload, -1);
  free(ranks);
}

void df_messenger_send_all(df_control *control, const df_message *message, const void *payload) {
  send_all(control, 1, message, payload);
}

/* The messages of the owner may be lost too, but ending a connection needs no memory. */
void df_messenger_report_losses(df_control *control) {
  if (control->loss == dfcclSuccess) return;
  dfcclResult_t status = control->loss;
  char sentence[DF_SENTENCE_BYTES];
  memcpy(sentence, control->loss_sentence, sizeof sentence);
  control->loss = dfcclSuccess;
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (control->peers[r].message_lost == DF_LOST)
      control->peers[r].message_lost = DF_LOSS_IS_REPORTED;
  control->events.message_lost(control->events.owner, status, sentence);
  int is_silent = 0;
  for (uint32_t r = 0; r < control->n_ranks; r++) {
    df_peer *peer = &control->peers[r];
    if (peer->message_lost == DF_NOTHING_LOST) continue;
    peer->message_lost = DF_NOTHING_LOST;
    is_silent |= peer->local;
    if (!peer->local) df_messenger_cut_off(control, r);
  }
  if (is_silent) df_process_inbox_set_silent(control->process_inbox, control->rank);
}

void df_messenger_deliver(df_control *control, uint32_t from, const df_message *message, int fd) {
  DF_ASSERT_RANK_LOCKED(control->lock);
  const df_subscription *subscription = &control->subscriptions[message->kind];
  /* After its goodbye a peer has no state of this rank or of others. */
  int is_accepted = control->peers[from].state != DF_PEER_LEFT ||
                    message->kind == DF_MESSAGE_UNMAPPED ||
                    outlives_goodbye(control, (df_message_kind)message->kind);
  is_accepted &= !control->ignores_lost || control->peers[from].state != DF_PEER_GIVEN_UP;
  if (is_accepted && subscription->takes_fd) {
    subscription->handle(subscription->room, from, message, fd);
    return;
  }
  if (fd >= 0) close(fd);
  if (is_accepted && subscription->handle)
    subscription->handle(subscription->room, from, message, -1);
}

int df_peer_has_unsent(const df_peer *peer) {
  int bytes = 0;
  if (peer->unsent || (peer->channel && peer->channel->rest)) return 1;
  return peer->channel && peer->socket >= 0 && ioctl(peer->socket, SIOCOUTQ, &bytes) == 0 &&
         bytes > 0;
}

/* A relay stays until all other ranks have said goodbye, because their messages may pass it. */
static int is_needed(const df_control *control) {
  if (control->routes == NULL || !df_routes_is_relay(control->routes)) return 0;
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (r != control->rank && control->peers[r].state == DF_PEER_ALIVE) return 1;
  return 0;
}

/* A relay that has left may still forward messages to others. */
static int must_have_the_rest(const df_control *control, uint32_t rank) {
  const df_peer *peer = &control->peers[rank];
  if (peer->first == NULL) return 0;
  return peer->state == DF_PEER_ALIVE || (control->routes && peer->state == DF_PEER_LEFT);
}

void df_messenger_goodbye(df_control *control, uint64_t patience_ns) {
  uint64_t begin = df_clock_ns();
  df_rank_lock(control->lock);
  df_messenger_report_losses(control); /* nothing follows a goodbye */
  if (control->events.leaving) control->events.leaving(control->events.owner);
  df_message bye = {.kind = DF_MESSAGE_BYE};
  send_all(control, 0, &bye, NULL);
  control->said_goodbye = 1;
  for (int waiting = 1; waiting;) {
    waiting = is_needed(control);
    for (uint32_t rank = 0; rank < control->n_ranks; rank++) {
      df_messenger_flush(control, rank);
      waiting |= must_have_the_rest(control, rank);
    }
    if (df_clock_ns() - begin >= patience_ns) break;
    if (waiting) {
      df_rank_unlock(control->lock);
      usleep(1000);
      df_rank_lock(control->lock);
    }
  }
  for (uint32_t rank = 0; rank < control->n_ranks; rank++) df_messenger_end(control, rank);
  df_rank_unlock(control->lock);
}
