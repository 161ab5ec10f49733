#include "host/observe/snapshot_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/net/sockets.h"
#include "control/service.h"
#include "host/observe/flight.h"
#include "host/observe/snapshot_callers.h"

enum { LISTENER = DF_SNAPSHOT_CALLERS, EVENTS = DF_SNAPSHOT_CALLERS + 1 };

/* ---- callers ---- */

/* When all places are taken, further callers wait in the socket's own queue, which is short. */
static void listen_again(df_snapshot_server *server, int on) {
  struct epoll_event event = {.events = on ? EPOLLIN : 0u, .data.u32 = LISTENER};
  if (server->is_full == !on) return;
  server->is_full = !on;
  epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listener.fd, &event);
}

void df_caller_hang_up(df_snapshot_server *server, df_caller *caller) {
  if (caller->fd < 0) return;
  df_socket_close(&caller->fd);
  server->n_callers--;
  listen_again(server, 1);
}

static void accept_one(df_snapshot_server *server) {
  uint32_t place = 0;
  int fd = df_accept(server->listener.fd);
  if (fd < 0) return;
  while (place < DF_SNAPSHOT_CALLERS && server->callers[place].fd >= 0) place++;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = place};
  if (place == DF_SNAPSHOT_CALLERS || !df_socket_same_user(fd, NULL) ||
      epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
    df_socket_close(&fd);
    return;
  }
  server->callers[place] = (df_caller){.fd = fd, .asked_ns = df_clock_ns()};
  if (++server->n_callers == DF_SNAPSHOT_CALLERS) listen_again(server, 0);
}

/* A caller that does not read has a full socket. */
int df_caller_send(const df_caller *caller, const void *answer, size_t bytes) {
  return send(caller->fd, answer, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* The caller compares the versions. */
static void refuse_version(const df_caller *caller) {
  const df_snapshot_header header = {
      .magic = DF_SNAPSHOT_MAGIC, .version = DF_SNAPSHOT_VERSION, .bytes = sizeof header};
  df_caller_send(caller, &header, sizeof header);
}

/* The text is in memory that the caller gets a descriptor of, so it costs no wait, however long. */
static int answer_flight(dfcclContext_t context, const df_caller *caller, uint64_t number) {
  df_snapshot head;
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {.bytes = {0}};
  struct iovec part = {&head, sizeof head};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  const int fd = df_flight_memory(context);
  df_snapshot_begin(context, context->rank, DF_SNAPSHOT_FLIGHT, &head);
  head.number = number;
  if (fd < 0) {
    snprintf(head.sentence, sizeof head.sentence, "%s", strerror(-fd));
  } else {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    control.head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
  }
  const int is_sent = sendmsg(caller->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  if (fd >= 0) close(fd);
  return is_sent;
}

static int answer(dfcclContext_t context, df_caller *caller) {
  df_snapshot_server *server = context->snapshots;
  const df_snapshot_question *question = &server->question;
  df_snapshot_buffer *buffer = &server->answer;
  if (question->n_asked > DF_SNAPSHOT_ASKED) return 0;
  if (question->wants_own == DF_SNAPSHOT_WANTS_FLIGHT)
    return answer_flight(context, caller, question->number);
  df_callers_want(context, caller, question);
  if (!question->wants_own) return 1;
  df_rank_lock(&context->lock);
  df_snapshot_take(context, question->asked, question->n_asked, buffer);
  df_rank_unlock(&context->lock);
  buffer->snapshot.number = question->number;
  return df_caller_send(caller, buffer, buffer->snapshot.header.bytes);
}

/* Returns 0 if the connection is to end. */
static int serve(dfcclContext_t context, df_caller *caller) {
  df_snapshot_server *server = context->snapshots;
  df_snapshot_question *question = &server->question;
  const ssize_t got = recv(caller->fd, question, sizeof *question, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
  if (got < (ssize_t)sizeof question->header || question->header.magic != DF_SNAPSHOT_MAGIC)
    return 0;
  if (question->header.version != DF_SNAPSHOT_VERSION) {
    refuse_version(caller);
    return 0;
  }
  if (got != sizeof *question || question->header.bytes != sizeof *question) return 0;
  caller->asked_ns = df_clock_ns();
  return answer(context, caller);
}

/* ---- the service thread ---- */

/* A caller that asks twice a second is answered at once, and causes no other wake-up. The second
 * look finds the questions of the callers that the first one has accepted. */
static void pass(void *room) {
  dfcclContext_t context = room;
  df_snapshot_server *server = context->snapshots;
  struct epoll_event events[EVENTS];
  const uint64_t begin = df_clock_ns();
  if (begin < server->next_pass_ns) {
    server->is_paused = 1;
    df_service_watch_source(&context->control, server->epoll_fd, 0);
    return;
  }
  server->next_pass_ns = begin + DF_SNAPSHOT_PASS_MS * UINT64_C(1000000);
  for (int look = 0; look < 2; look++) {
    const int n = epoll_wait(server->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
      const uint32_t place = events[i].data.u32;
      if (place == LISTENER)
        for (int j = 0; j < DF_SNAPSHOT_CALLERS && !server->is_full; j++) accept_one(server);
      else if (server->callers[place].fd >= 0 && !serve(context, &server->callers[place]))
        df_caller_hang_up(server, &server->callers[place]);
    }
  }
  df_callers_step(context);
}

static int tick(void *room) {
  dfcclContext_t context = room;
  const df_snapshot_server *server = context->snapshots;
  const int timing_ms = df_snapshot_expire(context);
  const int step_ms = df_callers_wait_ms(server);
  if (server->is_paused) return DF_SNAPSHOT_PASS_MS;
  if (step_ms >= 0) return step_ms;
  return server->n_callers ? DF_SNAPSHOT_IDLE_MS : timing_ms;
}

static void run(void *room) {
  dfcclContext_t context = room;
  df_snapshot_server *server = context->snapshots;
  if (!server->is_paused && server->n_callers == 0) return;
  df_callers_step(context);
  const uint64_t now = df_clock_ns(), patience_ns = DF_SNAPSHOT_IDLE_MS * UINT64_C(1000000);
  for (int i = 0; i < DF_SNAPSHOT_CALLERS; i++)
    if (server->callers[i].fd >= 0 && now - server->callers[i].asked_ns >= patience_ns)
      df_caller_hang_up(server, &server->callers[i]);
  if (server->is_paused && now >= server->next_pass_ns) {
    server->is_paused = 0;
    df_service_watch_source(&context->control, server->epoll_fd, 1);
  }
}

/* ---- opening and closing ---- */

/* The first rank of a process removes the sockets of dead processes. */
static int is_first_of_process(dfcclContext_t context) {
  for (uint32_t r = 0; r < context->rank; r++)
    if (context->mesh.local[r]) return 0;
  return 1;
}

static int listen_in(dfcclContext_t context, df_snapshot_server *server, const char *directory) {
  df_snapshot_name name = {.process = (uint32_t)getpid(), .rank = context->rank};
  for (int i = 0; i < 8; i++) name.job = name.job << 8 | context->mesh.job[i];
  if (directory[0] == '\0') return -ENOENT;
  if (is_first_of_process(context)) df_snapshot_sweep(directory);
  return df_snapshot_listen(directory, &name, server->path);
}

static int start_listening(dfcclContext_t context, df_snapshot_server *server) {
  int fd = listen_in(context, server, context->settings.view_directory);
  if (fd < 0) fd = listen_in(context, server, "/tmp");
  if (fd < 0) return -fd;
  df_listener_open(&server->listener, fd);
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = LISTENER};
  server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (server->epoll_fd >= 0 && epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 &&
      df_service_add_source(&context->control, server->epoll_fd, context, pass))
    return 0;
  return errno;
}

void df_snapshot_server_open(dfcclContext_t context) {
  if (!context->settings.view) return;
  df_snapshot_server *server = calloc(1, sizeof *server);
  if (server == NULL) return;
  context->snapshots = server;
  server->epoll_fd = server->listener.fd = -1;
  for (int i = 0; i < DF_SNAPSHOT_CALLERS; i++) server->callers[i].fd = -1;
  const int error = start_listening(context, server);
  if (error) {
    char why[DF_WHY_BYTES];
    df_log(DF_LOG_INFO, "rank %u has no socket for dfccl-top: %s", context->rank,
           df_why(error, why));
    df_snapshot_server_close(context);
    return;
  }
  df_service_add_job(&context->control, context, tick, run);
}

static void close_descriptors(df_snapshot_server *server) {
  for (int i = 0; i < DF_SNAPSHOT_CALLERS; i++) df_socket_close(&server->callers[i].fd);
  if (server->epoll_fd >= 0) close(server->epoll_fd);
  server->epoll_fd = -1;
}

void df_snapshot_server_close(dfcclContext_t context) {
  df_snapshot_server *server = context->snapshots;
  if (server == NULL) return;
  if (server->listener.fd >= 0) unlink(server->path);
  df_service_forget_source(&context->control, server->epoll_fd);
  close_descriptors(server);
  if (server->listener.fd >= 0) df_listener_close(&server->listener);
  free(server);
  context->snapshots = NULL;
}

/* The fork guard has closed the connections and the listener. */
void df_snapshot_server_close_in_child(dfcclContext_t context) {
  df_snapshot_server *server = context->snapshots;
  if (server && server->epoll_fd >= 0) close(server->epoll_fd);
}
