#include "control/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/assert.h"
#include "base/attributes.h"
#include "base/clock.h"
#include "bootstrap/net/sockets.h"
#include "control/reconnect.h"

enum {
  DF_SERVICE_EVENT = UINT16_MAX,
  DF_SERVICE_SOURCE = UINT16_MAX - 1,
  DF_EVENTS_AT_ONCE = 32,
  DF_SERVICE_STACK_BYTES = 512 * 1024
};

void df_service_wake(df_control *control) {
  uint64_t one = 1;
  ssize_t written = write(control->event_fd, &one, sizeof one);
  (void)written; /* EAGAIN: the counter is full, which wakes the thread as well */
}

void df_service_add_job(df_control *control, void *room, int (*tick_ms)(void *room),
                        void (*run)(void *room)) {
  DF_ASSERT(control->n_jobs < DF_MAX_SERVICE_JOBS);
  control->jobs[control->n_jobs++] = (df_service_job){.room = room, .tick_ms = tick_ms, .run = run};
}

/* fd -1: a free place. NULL: there is none. */
static df_service_source *source_of(df_control *control, int fd) {
  for (uint32_t i = 0; i < DF_MAX_SERVICE_SOURCES; i++) {
    df_service_source *source = &control->sources[i];
    if (fd < 0 ? source->ready == NULL : source->ready != NULL && source->fd == fd) return source;
  }
  return NULL;
}

static int control_source(df_control *control, int operation, const df_service_source *source,
                          int fd, int on) {
  struct epoll_event event = {.events = on ? EPOLLIN : 0u,
                              .data.u32 =
                                  DF_SERVICE_SOURCE - (uint32_t)(source - control->sources)};
  return epoll_ctl(control->epoll_fd, operation, fd, &event) == 0;
}

int df_service_add_source(df_control *control, int fd, void *room, void (*ready)(void *room)) {
  df_service_source *source = source_of(control, -1);
  DF_ASSERT(source != NULL);
  if (!control_source(control, EPOLL_CTL_ADD, source, fd, 1)) return 0;
  *source = (df_service_source){.fd = fd, .room = room, .ready = ready};
  return 1;
}

void df_service_watch_source(df_control *control, int fd, int on) {
  control_source(control, EPOLL_CTL_MOD, source_of(control, fd), fd, on);
}

void df_service_forget_source(df_control *control, int fd) {
  df_service_source *source = fd < 0 ? NULL : source_of(control, fd);
  if (source == NULL) return;
  epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
  *source = (df_service_source){.fd = -1};
}

/* Returns 1 if the messages of a rank that is alive pass the relay. */
static int has_behind(const df_control *control, uint32_t relay) {
  for (uint32_t r = 0; control->routes && r < control->n_ranks; r++)
    if (r != control->rank && r != relay && control->peers[r].state == DF_PEER_ALIVE &&
        df_routes_pass(control->routes, r, relay))
      return 1;
  return 0;
}

void df_service_announce_lost(df_control *control, uint32_t rank, const char *why) {
  char sentence[DF_SENTENCE_BYTES];
  if (control->routes == NULL) return;
  snprintf(sentence, sizeof sentence, "%.500s", why);
  const df_message message = {
      .kind = DF_MESSAGE_LOST, .payload_bytes = (uint32_t)strlen(sentence) + 1, .id = rank};
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (r != control->rank && r != rank && control->peers[r].next == r)
      df_messenger_send(control, r, &message, sentence, -1);
}

void df_service_lose_ranks_behind(df_control *control, uint32_t relay) {
  const df_control_events *events = &control->events;
  char why[DF_SENTENCE_BYTES / 2];
  if (control->routes == NULL) return;
  if (!control->said_goodbye && control->peers[relay].state != DF_PEER_LEFT) return;
  if (control->peers[relay].state == DF_PEER_LEFT && has_behind(control, relay))
    df_service_announce_lost(control, relay, "has left");
  snprintf(why, sizeof why, "cannot be reached: rank %u, which passed its messages on, has left",
           relay);
  for (uint32_t r = 0; r < control->n_ranks; r++) {
    if (r == control->rank || r == relay || control->peers[r].state != DF_PEER_ALIVE ||
        !df_routes_pass(control->routes, r, relay))
      continue;
    if (control->said_goodbye)
      events->left(events->owner, r);
    else
      events->lost(events->owner, r, DF_PEER_GIVEN_UP, why);
  }
}

static void collect_messages(df_control *control) {
  const df_control_events *events = &control->events;
  /* Read the number of departures before the messages, so that the last messages of a rank that has
   * departed are read. */
  uint32_t seen = control->departures_seen,
           departures = df_process_inbox_departures(control->process_inbox);
  control->departures_seen = departures;
  df_queued_message *queued = df_process_inbox_collect(control->process_inbox, control->rank);
  df_rank_lock(control->lock);
  while (queued) {
    df_queued_message *next = queued->next;
    df_messenger_deliver(control, queued->from, &queued->message, queued->fd);
    free(queued);
    queued = next;
  }
  for (uint32_t i = seen; i < departures; i++) {
    df_departure departure = df_process_inbox_departed(control->process_inbox, i);
    if (departure.rank == control->rank) continue;
    if (departure.is_silent)
      events->lost(events->owner, departure.rank, DF_PEER_GIVEN_UP,
                   "had no memory to report what it has given up");
    else
      events->left(events->owner, departure.rank); /* The BYE message may have been lost. */
    if (!departure.is_silent) df_service_lose_ranks_behind(control, departure.rank);
  }
  df_rank_unlock(control->lock);
}

/* Returns the first descriptor, -1 if there is none, or DF_FD_LOST. Closes all others, because no
 * message of this library has a second descriptor. */
static int passed_descriptor(struct msghdr *header) {
  int first = header->msg_flags & MSG_CTRUNC ? DF_FD_LOST : -1;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (first < 0)
        first = fd;
      else
        close(fd);
    }
  }
  return first;
}

/* Describes the loss of a rank. A rank of another host may be lost because its host or the network
 * between has failed. lost_ms: how long its channel has had no connection; 0: the connection was
 * established until this moment. */
static void say_why(const df_peer *peer, int error, uint64_t lost_ms, char *why, size_t bytes) {
  char text[DF_ADDRESS_TEXT], place[DF_ADDRESS_TEXT + DF_HOST_NAME + 4];
  snprintf(place, sizeof place, "%s%s%s", peer->host, peer->host[0] ? ", " : "",
           df_address_text(&peer->address, text));
  if (peer->channel == NULL)
    snprintf(why, bytes, "died: its connection was lost");
  else if (lost_ms && error == ECONNREFUSED)
    snprintf(why, bytes, "died: its connection (%s) was lost, and nobody listens there any more",
             place);
  else if (lost_ms)
    snprintf(
        why, bytes,
        "cannot be reached (%s): %sits connection was lost, and could not be made anew for %llu ms",
        place, error == ETIMEDOUT && peer->has_paths ? "Connection timed out: " : "",
        (unsigned long long)lost_ms);
  else
    snprintf(why, bytes,
             error == 0 || error == ECONNRESET ? "died: its connection (%s) was lost%s%s"
                                               : "cannot be reached (%s)%s%s",
             place, error ? ": " : "", error ? strerror(error) : "");
}

static void lose(df_control *control, uint32_t rank, int error) DF_RANK_LOCKED {
  const df_control_events *events = &control->events;
  df_peer *peer = &control->peers[rank];
  char why[DF_SENTENCE_BYTES / 2];
  const uint64_t lost_ms = peer->lost_ns ? (df_clock_ns() - peer->lost_ns) / 1000000 + 1 : 0;
  say_why(peer, error, lost_ms, why, sizeof why);
  peer->cut_off |= error != 0;
  peer->has_refused = peer->channel && lost_ms && error == ECONNREFUSED;
  if (peer->channel) df_resume_end(control, rank);
  df_messenger_forget(peer);
  events->disconnected(events->owner, rank);
  if (control->said_goodbye) { /* the peer has received the goodbye and need not answer */
    if (peer->state == DF_PEER_ALIVE) df_service_announce_lost(control, rank, why);
    events->left(events->owner, rank);
  } else if (peer->state != DF_PEER_LEFT)
    events->lost(events->owner, rank, DF_PEER_DEAD, why);
  df_service_lose_ranks_behind(control, rank);
}

/* error: 0 if the other end closed the connection; otherwise reading failed, and the peer may be
 * alive. */
static void connection_lost(df_control *control, uint32_t rank, int error) {
  df_peer *peer = &control->peers[rank];
  df_rank_lock(control->lock);
  epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, peer->socket, NULL);
  shutdown(peer->socket, SHUT_RDWR); /* a peer that is alive sees the end */
  peer->socket = -1;                 /* The mesh closes the descriptor. */
  if (peer->channel && df_resume_begin(control, rank, error)) goto out;
  if (error == EPROTO && peer->state != DF_PEER_LEFT)
    control->events.refused(control->events.owner, rank);
  lose(control, rank, error);
out:
  df_rank_unlock(control->lock);
}

static void take(df_control *control, uint32_t rank, const uint8_t *message, size_t length,
                 int fd) DF_RANK_LOCKED {
  const df_control_events *events = &control->events;
  if (df_message_is_valid(message, length)) {
    df_messenger_deliver(control, rank, (const df_message *)message, fd);
    return;
  }
  if (fd >= 0) close(fd);
  if (control->peers[rank].state != DF_PEER_LEFT) events->refused(events->owner, rank);
}

/* Returns 0 if nothing more may be read from this connection. */
static int take_record(df_control *control, uint32_t rank, size_t length) DF_RANK_LOCKED {
  df_remote_channel *channel = control->peers[rank].channel;
  const df_remote_channel_event event = df_remote_channel_take(channel);
  if (event == DF_REMOTE_CHANNEL_MALFORMED) return 0;
  df_messenger_acknowledge(control, rank);
  df_resume_received(control, rank);
  if (event == DF_REMOTE_CHANNEL_END) {
    control->peers[rank].has_finished = 1;
    df_messenger_end(control, rank); /* the other end may wait for this record */
  }
  if (event == DF_REMOTE_CHANNEL_MESSAGE) take(control, rank, control->receive_buffer, length, -1);
  return event != DF_REMOTE_CHANNEL_END;
}

/* Receives from another host. Each message is acknowledged at once. */
static void receive_channel(df_control *control, uint32_t rank) {
  df_peer *peer = &control->peers[rank];
  int error = 0, goes_on = 1;
  for (int i = 0; i < DF_EVENTS_AT_ONCE && goes_on; i++) {
    size_t length = 0;
    const df_remote_channel_event event = df_remote_channel_read(
        peer->channel, peer->socket, control->receive_buffer, &length, &error);
    if (event == DF_REMOTE_CHANNEL_NOTHING) break;
    if (event == DF_REMOTE_CHANNEL_MALFORMED)
      error = EPROTO; /* the start of the next record is unknown */
    goes_on = event == DF_REMOTE_CHANNEL_RECORD;
    if (!goes_on) break;
    df_rank_lock(control->lock);
    goes_on = take_record(control, rank, length);
    if (!goes_on && !peer->has_finished) error = EPROTO;
    df_rank_unlock(control->lock);
  }
  if (!goes_on) {
    connection_lost(control, rank, error);
    return;
  }
  df_rank_lock(control->lock);
  peer->channel->owes_count |= peer->channel->reported != peer->channel->received;
  df_messenger_flush(control, rank);
  df_rank_unlock(control->lock);
}

/* Gives up the channels that have had no connection for too long. */
static void judge_channels(df_control *control) {
  int error;
  df_resume_take(control);
  if (control->n_lost == 0) return; /* Only this thread changes n_lost. */
  df_rank_lock(control->lock);
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (df_resume_has_failed(control, r, &error)) {
      if (control->peers[r].socket >= 0) /* a new connection on which nothing has arrived */
        epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, control->peers[r].socket, NULL);
      control->peers[r].socket = -1;
      df_socket_close(control->peers[r].mesh_socket);
      lose(control, r, error);
    }
  df_rank_unlock(control->lock);
}

/* Receives a bounded number of messages at a time, so that other sockets are served too. */
static void receive(df_control *control, uint32_t rank) {
  uint8_t *buffer = control->receive_buffer;
  int ended = 0;
  for (int i = 0; i < DF_EVENTS_AT_ONCE; i++) {
    union {
      struct cmsghdr align;
      char bytes[CMSG_SPACE(4 * sizeof(int))];
    } passed;
    struct iovec part = {.iov_base = buffer, .iov_len = DF_MAX_MESSAGE_BYTES};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = passed.bytes,
                            .msg_controllen = sizeof passed.bytes};
    ssize_t length = recvmsg(control->peers[rank].socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    /* The peer has closed its socket without reading our messages. Its own messages can still be
     * read. */
    if (length < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    /* Linux checks for a message first and for the end of the connection afterwards, so it misses a
     * last message that arrives in between. The next read returns that message. */
    if (length == 0 && !ended) {
      ended = 1;
      continue;
    }
    if (length <= 0) {
      connection_lost(control, rank, length < 0 ? errno : 0);
      return;
    }
    ended = 0;
    int fd = passed_descriptor(&header);
    df_rank_lock(control->lock);
    take(control, rank, buffer, header.msg_flags & MSG_TRUNC ? 0 : (size_t)length, fd);
    df_rank_unlock(control->lock);
  }
}

/* Returns the time until the next job is due; -1: no job can become due. */
static int tick_ms(df_control *control) {
  int least = df_resume_tick_ms(control);
  for (uint32_t i = 0; i < control->n_jobs; i++) {
    const df_service_job *job = &control->jobs[i];
    int ms = job->tick_ms ? job->tick_ms(job->room) : -1;
    if (ms >= 0 && (least < 0 || ms < least)) least = ms;
  }
  return least;
}

static void handle_event(df_control *control, const struct epoll_event *event) {
  uint32_t who = event->data.u32;
  if (who == DF_SERVICE_EVENT) {
    uint64_t count;
    ssize_t got = read(control->event_fd, &count, sizeof count);
    (void)got;
    return;
  }
  if (who <= DF_SERVICE_SOURCE && who > DF_SERVICE_SOURCE - DF_MAX_SERVICE_SOURCES) {
    const df_service_source *source = &control->sources[DF_SERVICE_SOURCE - who];
    if (source->ready) source->ready(source->room);
    return;
  }
  if (control->peers[who].socket < 0) return;
  if (event->events & EPOLLOUT) {
    df_rank_lock(control->lock);
    df_messenger_flush(control, who);
    df_rank_unlock(control->lock);
  }
  if (!(event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || control->peers[who].socket < 0) return;
  if (control->peers[who].channel)
    receive_channel(control, who);
  else
    receive(control, who);
}

static void report_losses(df_control *control) {
  df_rank_lock(control->lock);
  df_messenger_report_losses(control);
  df_rank_unlock(control->lock);
}

static void *service(void *argument) {
  df_control *control = argument;
  struct epoll_event events[DF_EVENTS_AT_ONCE];
  while (!df_load_relaxed_u32(&control->stopping)) {
    int n = epoll_wait(control->epoll_fd, events, DF_EVENTS_AT_ONCE, tick_ms(control));
    for (int i = 0; i < n; i++) handle_event(control, &events[i]);
    collect_messages(control);
    judge_channels(control);
    for (uint32_t i = 0; i < control->n_jobs; i++) control->jobs[i].run(control->jobs[i].room);
    report_losses(control);
  }
  report_losses(control);
  return NULL;
}

dfcclResult_t df_service_open(df_control *control) {
  control->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (control->event_fd >= 0 && control->epoll_fd >= 0) return dfcclSuccess;
  int error = errno;
  char why[DF_WHY_BYTES];
  return df_fail(df_is_out_of_descriptors(error) ? dfcclOutOfMemory : dfcclSystemError,
                 "no descriptor for the service thread: %s", df_why(error, why));
}

void df_service_close(df_control *control) {
  if (control->event_fd >= 0) close(control->event_fd);
  if (control->epoll_fd >= 0) close(control->epoll_fd);
  control->event_fd = control->epoll_fd = -1;
  free(control->receive_buffer);
  control->receive_buffer = NULL;
}

static dfcclResult_t watch(df_control *control, int fd, uint32_t who) {
  int waiting = who < control->n_ranks && control->peers[who].writable_wanted;
  struct epoll_event event = {.events = EPOLLIN | (waiting ? EPOLLOUT : 0u), .data.u32 = who};
  if (epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return dfcclSuccess;
  return df_fail(dfcclSystemError, "epoll refused descriptor %d: %s", fd, strerror(errno));
}

dfcclResult_t df_service_replace_peer(df_control *control, uint32_t rank, int socket) {
  DF_ASSERT_RANK_LOCKED(control->lock);
  df_peer *peer = &control->peers[rank];
  DF_ASSERT(peer->socket < 0 && !peer->local && !peer->is_remote);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = rank};
  if (epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, socket, &event) != 0)
    return df_fail(dfcclSystemError, "epoll refused descriptor %d: %s", socket, strerror(errno));
  df_messenger_forget(peer);
  free(peer->failure_reason);
  df_socket_close(peer->mesh_socket);
  *peer->mesh_socket = socket;
  *peer = (df_peer){.next = rank, .socket = socket, .mesh_socket = peer->mesh_socket};
  peer->last = &peer->first;
  return dfcclSuccess;
}

dfcclResult_t df_service_start(df_control *control) {
  control->receive_buffer = malloc(DF_MAX_MESSAGE_BYTES);
  if (control->receive_buffer == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the service thread's receive buffer");
  dfcclResult_t result = watch(control, control->event_fd, DF_SERVICE_EVENT);
  for (uint32_t r = 0; r < control->n_ranks && result == dfcclSuccess; r++)
    if (control->peers[r].socket >= 0) result = watch(control, control->peers[r].socket, r);
  if (result != dfcclSuccess) return result;
  int error = df_thread_create(&control->thread, DF_SERVICE_STACK_BYTES, 0, service, control);
  if (error)
    return df_fail(dfcclOutOfMemory, "could not start the service thread: %s", strerror(error));
  control->started = 1;
  return dfcclSuccess;
}

void df_service_stop(df_control *control) {
  if (!control->started) return;
  df_publish_u32(&control->stopping, 1);
  df_service_wake(control);
  pthread_join(control->thread, NULL);
  control->started = 0;
}
