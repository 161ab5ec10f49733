/*
 * The service thread of a context: receives control messages, drives link set-up, watches peers and
 * deadlines, writes dumps and recordings. It sleeps in epoll and uses no processor while nothing
 * arrives.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/context.h"
#include "control/peers.h"
#include "control/service.h"
#include "host/dump.h"
#include "host/failure.h"
#include "host/link_setup.h"
#include "host/match.h"
#include "host/memory.h"
#include "host/record.h"
#include "host/registry.h"
#include "host/runs.h"
#include "transports/ipc/unmap.h"
#include "transports/shm/common_slots.h"

enum { DF_SERVICE_EVENT = UINT16_MAX, DF_EVENTS_AT_ONCE = 32, DF_SERVICE_STACK_BYTES = 512 * 1024 };

void df_service_wake(dfcclContext_t context) {
  uint64_t one = 1;
  ssize_t written = write(context->control.event_fd, &one, sizeof one);
  (void)written; /* a full counter wakes as well */
}

/* ---- messages ---- */

/* A segment's number says what it is for: so it cannot be unmapped while links point into it. */
static int is_sound_segment(const df_message *message) {
  switch (message->b) {
  case DF_SEGMENT_HOME:
    return message->id == 0 && message->a >= sizeof(df_bell);
  case DF_SEGMENT_LINKS:
    return message->id >= DF_FIRST_LINKS_SEGMENT;
  default:
    return message->b == DF_SEGMENT_USER && message->id > 0 && message->id < DF_FIRST_LINKS_SEGMENT;
  }
}

/* Without a window the memory is copied through slots: the peer is not told that it may be lent. A
 * device does not see windows. */
static int may_lend(dfcclContext_t context, df_peer *peer, const df_segment *segment) {
  if (!context->device.memory->host_sees_links) return 1;
  return peer->windows && df_windows_open(peer->windows, segment->base, segment->bytes);
}

static void handle_segment(dfcclContext_t context, uint32_t from, const df_message *message,
                           int fd) {
  df_peer *peer = &context->control.peers[from];
  df_segment *segment;
  char sentence[DF_SENTENCE_BYTES];
  if (fd < 0 && message->payload_bytes == 0) {
    snprintf(sentence, sizeof sentence,
             "rank %u announced shared memory to rank %u without its descriptor", from,
             context->rank);
    df_give_up(context, dfcclRemoteError, sentence);
    return;
  }
  if (!is_sound_segment(message)) {
    if (fd >= 0) close(fd);
    df_peer_refuse(context, from);
    return;
  }
  for (segment = peer->segments; segment; segment = segment->next)
    if (segment->id == message->id) { /* told again */
      if (fd >= 0) close(fd);
      return;
    }
  /* The device may let the call wait; nobody else changes the list of segments. */
  pthread_mutex_unlock(&context->lock);
  dfcclResult_t result = context->device.memory->map(context, from, &segment, message, fd);
  pthread_mutex_lock(&context->lock);
  if (result != dfcclSuccess) {
    snprintf(sentence, sizeof sentence, "rank %u cannot map rank %u's memory: %.300s",
             context->rank, from, df_last_sentence());
    if (message->b == DF_SEGMENT_USER) return; /* that memory is copied through slots then */
    df_give_up(context, result, sentence);
    return;
  }
  segment->next = peer->segments;
  peer->segments = segment;
  if (message->b == DF_SEGMENT_HOME) peer->bell = (df_bell *)segment->base;
  if (message->b == DF_SEGMENT_USER && may_lend(context, peer, segment)) {
    df_message reply = {
        .kind = DF_MESSAGE_MAPPED, .id = message->id, .a = (uint64_t)(uintptr_t)segment->base};
    df_send(context, from, &reply, NULL, -1);
  }
}

static void handle_unmap(dfcclContext_t context, uint32_t from, uint64_t id, int may_be_read) {
  if (id == 0 || id >= DF_FIRST_LINKS_SEGMENT) return; /* home and links stay mapped */
  if (context->device.memory->exports_memory) {
    df_unmap(context, from, id, may_be_read);
    return;
  }
  /* Its owner says so when nobody reads it; who is broken keeps everything until the end. */
  if (context->failure.broken != dfcclSuccess) return;
  df_segment **at = &context->control.peers[from].segments;
  while (*at && (*at)->id != id) at = &(*at)->next;
  df_segment *segment = *at;
  if (segment == NULL) return;
  *at = segment->next;
  if (context->control.peers[from].windows)
    df_windows_close(context->control.peers[from].windows, segment->base);
  df_segment_destroy(segment);
}

/* The sender's announcement of it may be what was lost: our registration would wait for it. */
static void fail_unmet(dfcclContext_t context, uint32_t from, dfcclCollId_t id,
                       dfcclResult_t status, const char *sentence) {
  df_coll *coll = df_find(context, id);
  for (uint32_t i = 0; coll && i < coll->n; i++)
    if (coll->ranks[i] == from && coll->remotes[i] == NULL) {
      df_fail_collective(context, coll, status, 0, sentence);
      return;
    }
}

static void handle_failure(dfcclContext_t context, uint32_t from, const df_message *message) {
  df_remote *remote = df_match_newest(context, from, message->id);
  dfcclResult_t status = message->a == dfcclMismatch || message->a == dfcclTimeout
                             ? (dfcclResult_t)message->a
                             : dfcclRemoteError;
  const char *sentence = df_message_payload(message);
  if (status != dfcclMismatch) df_break(context, status, sentence);
  if (status != dfcclMismatch && (remote == NULL || remote->bound == NULL))
    fail_unmet(context, from, message->id, status, sentence);
  if (remote == NULL) return;
  remote->failed = status;
  free(remote->sentence);
  remote->sentence = strdup(sentence);
  if (remote->bound) df_fail_collective(context, remote->bound, status, 0, sentence);
}

void df_service_handle(dfcclContext_t context, uint32_t from, const df_message *message, int fd) {
  df_remote *remote;
  df_peer *peer = &context->control.peers[from];
  if (peer->state == DF_PEER_LEFT) { /* after its goodbye it knows no more about us or others */
    if (fd >= 0) close(fd);
    if (message->kind == DF_MESSAGE_UNMAPPED) df_unmapped(context, from, message->id);
    return;
  }
  if (peer->local && peer->bell == NULL) peer->bell = df_world_bell(context->control.world, from);
  switch ((df_message_kind)message->kind) {
  case DF_MESSAGE_SEGMENT:
    handle_segment(context, from, message, fd);
    return; /* fd is used up */
  case DF_MESSAGE_MAPPED:
    df_memory_mapped(context, from, message->id, message->a);
    df_common_mapped(context, from, message->id, message->a);
    break;
  case DF_MESSAGE_UNMAP:
    handle_unmap(context, from, message->id, message->a != 0);
    break;
  case DF_MESSAGE_ANNOUNCE:
    if (peer->bell == NULL) { /* its home comes first: links need its bell */
      df_peer_refuse(context, from);
      break;
    }
    if (df_match_announced(context, from, message) != dfcclSuccess)
      df_give_up(context, dfcclOutOfMemory, df_last_sentence());
    break;
  case DF_MESSAGE_LINKS:
    remote = df_match_newest(context, from, message->id);
    if (remote) df_links_told(context, remote, message->a, message->b);
    break;
  case DF_MESSAGE_DEREGISTER:
    remote = df_match_newest(context, from, message->id);
    if (remote && !remote->deregistered)
      df_match_deregistered(context, remote, message->a, message->b != 0);
    break;
  case DF_MESSAGE_FAIL:
    handle_failure(context, from, message);
    break;
  case DF_MESSAGE_ABORT:
    df_peer_lost(context, from, DF_PEER_GIVEN_UP, "called dfcclAbort");
    break;
  case DF_MESSAGE_CAUSE:
    df_hear_cause(context, from, message);
    break;
  case DF_MESSAGE_LIMIT:
    remote = df_match_newest(context, from, message->id);
    if (remote && !remote->deregistered) df_match_limited(context, remote, message->a);
    break;
  case DF_MESSAGE_BYE:
    df_peer_left(context, from);
    df_unmap_all(context, from);
    break;
  case DF_MESSAGE_UNMAPPED:
    df_unmapped(context, from, message->id);
    break;
  case DF_MESSAGE_KINDS:
    break;
  }
  if (fd >= 0) close(fd);
}

/* Ranks of this process that have gone: looked up before their last letters are read. */
static int note_departing(dfcclContext_t context) {
  uint32_t departures = df_world_departures(context->control.world);
  if (departures == context->control.departures_seen) return 0;
  context->control.departures_seen = departures;
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (context->control.peers[r].local && r != context->rank) {
      context->control.peers[r].departing = df_world_has_left(context->control.world, r);
      context->control.peers[r].is_mute = df_world_is_mute(context->control.world, r);
    }
  return 1;
}

static void collect_letters(dfcclContext_t context) {
  int departures = note_departing(context);
  df_letter *letter = df_world_collect(context->control.world, context->rank);
  pthread_mutex_lock(&context->lock);
  while (letter) {
    df_letter *next = letter->next;
    df_service_handle(context, letter->from, &letter->message, letter->fd);
    free(letter);
    letter = next;
  }
  for (uint32_t r = 0; departures && r < context->n_ranks; r++) {
    if (context->control.peers[r].is_mute)
      df_peer_lost(context, r, DF_PEER_GIVEN_UP, "had no memory to tell what it has given up");
    if (context->control.peers[r].departing) df_peer_left(context, r); /* if its BYE was lost */
  }
  pthread_mutex_unlock(&context->lock);
}

/* ---- sockets ---- */

/* The first descriptor that came along, or -1. More than one is nobody's message of ours: they are
 * closed. */
static int passed_descriptor(struct msghdr *header) {
  int first = -1;
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

/* unreadable: reading failed, and the peer may live. */
static void connection_lost(dfcclContext_t context, uint32_t rank, int unreadable) {
  df_peer *peer = &context->control.peers[rank];
  pthread_mutex_lock(&context->lock);
  epoll_ctl(context->control.epoll_fd, EPOLL_CTL_DEL, peer->socket, NULL);
  shutdown(peer->socket, SHUT_RDWR); /* a peer that lives sees the end */
  peer->socket = -1;                 /* closed with the mesh */
  peer->cut_off |= unreadable;
  context->endpoint.unmaps_due = context->device.memory->exports_memory;
  if (context->failure
          .said_goodbye) /* who knows that we leave need not tell us that it leaves too */
    df_peer_left(context, rank);
  else if (peer->state != DF_PEER_LEFT)
    df_peer_lost(context, rank, DF_PEER_DEAD, "died: its connection was lost");
  pthread_mutex_unlock(&context->lock);
}

/* Takes what has arrived, a bounded number of messages at a time. */
static void receive(dfcclContext_t context, uint32_t rank, uint8_t *buffer) {
  int ended = 0;
  for (int i = 0; i < DF_EVENTS_AT_ONCE; i++) {
    union {
      struct cmsghdr align;
      char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = buffer, .iov_len = DF_MAX_MESSAGE_BYTES};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    ssize_t length =
        recvmsg(context->control.peers[rank].socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    /* A peer that left with messages from us unread: what it sent before is still to be read. */
    if (length < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    /* Linux looks for a message first and at the connection afterwards: a peer that sends its last
     * message and closes in between seems to have ended without it. The next look finds it. */
    if (length == 0 && !ended) {
      ended = 1;
      continue;
    }
    if (length <= 0) {
      connection_lost(context, rank, length < 0);
      return;
    }
    ended = 0;
    int fd = passed_descriptor(&header);
    pthread_mutex_lock(&context->lock);
    if (!(header.msg_flags & MSG_TRUNC) && df_message_is_valid(buffer, (size_t)length)) {
      df_service_handle(context, rank, (const df_message *)buffer, fd);
    } else {
      if (fd >= 0) close(fd);
      if (context->control.peers[rank].state != DF_PEER_LEFT) df_peer_refuse(context, rank);
    }
    pthread_mutex_unlock(&context->lock);
  }
}

/* ---- the loop ---- */

/* Milliseconds until something may be due; -1: nothing can be. */
static int tick_ms(dfcclContext_t context) {
  if (context->endpoint.unmaps_due) return 1;
  if (context->recorder && df_has_outstanding(context)) return 100;
  if (context->settings.timeout_ms == 0) return -1;
  df_store_relaxed_u32(&context->control.service_idle, 1);
  df_wake_fence();
  if (!df_has_outstanding(context)) return -1;
  df_store_relaxed_u32(&context->control.service_idle, 0);
  long long ms = context->settings.timeout_ms / 8;
  return (int)DF_MAX(1, DF_MIN(ms, 100));
}

static void do_due(dfcclContext_t context) {
  df_store_relaxed_u32(&context->control.service_idle, 0);
  pthread_mutex_lock(&context->lock);
  df_check_deadlines(context);
  df_tell_broken(context);
  if (context->recorder) df_record_flush(context);
  char *late = context->failure.timeout_dump;
  context->failure.timeout_dump = NULL;
  pthread_mutex_unlock(&context->lock);
  if (late) df_dump_write(late, STDERR_FILENO);
  uint32_t signals =
      context->settings.debug_signal ? df_dump_signals_seen() : context->control.signals_handled;
  if (signals != context->control.signals_handled) {
    context->control.signals_handled = signals;
    df_dump(context, STDERR_FILENO);
  }
}

static void *service(void *argument) {
  dfcclContext_t context = argument;
  struct epoll_event events[DF_EVENTS_AT_ONCE];
  while (!df_load_relaxed_u32(&context->control.stopping)) {
    int n = epoll_wait(context->control.epoll_fd, events, DF_EVENTS_AT_ONCE, tick_ms(context));
    for (int i = 0; i < n; i++) {
      uint32_t who = events[i].data.u32;
      if (who == DF_SERVICE_EVENT) {
        uint64_t count;
        ssize_t got = read(context->control.event_fd, &count, sizeof count);
        (void)got;
        continue;
      }
      if (context->control.peers[who].socket < 0) continue;
      if (events[i].events & EPOLLOUT) {
        pthread_mutex_lock(&context->lock);
        df_peer_flush(context, who);
        pthread_mutex_unlock(&context->lock);
      }
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(context, who, context->control.receive_buffer);
    }
    collect_letters(context);
    df_links_progress_due(context);
    df_unmap_due(context);
    do_due(context);
  }
  return NULL;
}

static dfcclResult_t watch(dfcclContext_t context, int fd, uint32_t who) {
  int waiting = who < context->n_ranks && context->control.peers[who].writable_wanted;
  struct epoll_event event = {.events = EPOLLIN | (waiting ? EPOLLOUT : 0u), .data.u32 = who};
  if (epoll_ctl(context->control.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return dfcclSuccess;
  return df_fail(dfcclSystemError, "epoll refused descriptor %d: %s", fd, strerror(errno));
}

dfcclResult_t df_service_start(dfcclContext_t context) {
  context->control.signals_handled = df_dump_signals_seen(); /* the thread's from here on */
  context->control.receive_buffer = malloc(DF_MAX_MESSAGE_BYTES);
  if (context->control.receive_buffer == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the service thread's receive buffer");
  dfcclResult_t result = watch(context, context->control.event_fd, DF_SERVICE_EVENT);
  for (uint32_t r = 0; r < context->n_ranks && result == dfcclSuccess; r++)
    if (context->control.peers[r].socket >= 0)
      result = watch(context, context->control.peers[r].socket, r);
  if (result != dfcclSuccess) return result;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, DF_SERVICE_STACK_BYTES);
  int error = pthread_create(&context->control.thread, &attributes, service, context);
  pthread_attr_destroy(&attributes);
  if (error)
    return df_fail(dfcclOutOfMemory, "could not start the service thread: %s", strerror(error));
  context->control.service_started = 1;
  return dfcclSuccess;
}

void df_service_stop(dfcclContext_t context) {
  if (!context->control.service_started) return;
  df_publish_u32(&context->control.stopping, 1);
  df_service_wake(context);
  pthread_join(context->control.thread, NULL);
  context->control.service_started = 0;
}
