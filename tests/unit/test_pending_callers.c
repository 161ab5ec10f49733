/*
 * Promise of src/bootstrap/bootstrap.h: unauthenticated callers who connect to the port of the
 * rendezvous, many at once, and stay connected until the job has formed, neither prevent that nor
 * learn anything. A caller that is silent, slow or malformed receives no byte. A caller that speaks
 * the protocol without the secret receives the challenge, and is then refused. If there are more
 * callers than the root holds, and they call again as soon as they are refused, they displace each
 * other, and a rank at most briefly.
 *
 * No time is measured: the callers stop when the ranks have joined.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap_crew.h"
#include "bootstrap/rendezvous/root_state.h"
#include "bootstrap/net/sockets.h"
#include "support/rest.h"

enum {
  STRANGERS = 240, /* fewer than the root holds, so that no rank is displaced */
  FLOOD = DF_UNPROVEN_MAX + 88,
  CALLS_MAX = 4,
  SCRIPT_MAX = 1024
};

typedef enum {
  SILENT,
  DRIP,
  PATIENT_BEHAVIOURS,
  GARBAGE = PATIENT_BEHAVIOURS,
  IMPOSTOR,
  BEHAVIOURS
} behaviour;

typedef struct {
  int fd; /* -1: to call again */
  behaviour behaviour;
  int calls; /* a refused caller calls again, but not for ever: the host has few ports */
  size_t sent, received;
  unsigned char script[SCRIPT_MAX]; /* the bytes that it sends */
  size_t script_bytes;
} caller;

typedef struct {
  uint16_t port;
  int n, n_behaviours; /* callers, and their behaviour */
  int all_here;        /* every caller has been connected at the same time */
  int stop;
  int answers; /* bytes received by callers that must receive none */
  int challenges, refused;
} affair; /* shared by the callers' process and the test's */

static int flag(const int *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static void connect_caller(caller *s, const affair *a, df_random *random) {
  s->calls++;
  s->fd = df_connect_loopback(a->port);
  if (s->fd < 0) return; /* the job has formed, so nobody listens any more */
  s->sent = s->received = 0;
  s->script_bytes = 0;
  if (s->behaviour == SILENT) return;
  if (s->behaviour == IMPOSTOR) {
    unsigned char wrong[DF_KEY_BYTES] = {1};
    df_hello hello;
    df_join_request join;
    memset(&hello, 0, sizeof hello);
    memset(&join, 0, sizeof join);
    df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
    df_message_start(&join, DF_MESSAGE_JOIN, sizeof join);
    join.n_ranks = 4;
    df_message_seal(&join, sizeof join, wrong);
    memcpy(s->script, &hello, sizeof hello);
    memcpy(s->script + sizeof hello, &join, sizeof join);
    s->script_bytes = sizeof hello + sizeof join;
    return;
  }
  s->script_bytes = (size_t)(1 + df_random_below(random, 600));
  for (size_t i = 0; i < s->script_bytes; i++) s->script[i] = (unsigned char)df_random_next(random);
  if (s->behaviour == DRIP) { /* the beginning of a valid message, without its end */
    df_hello hello;
    memset(&hello, 0, sizeof hello);
    df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
    memcpy(s->script, &hello, sizeof hello);
    s->script_bytes = sizeof hello - 1;
  }
}

/* Sends the next byte, or all bytes. The connection may not exist yet, or no longer. */
static void send_next(caller *s) {
  size_t left = s->script_bytes - s->sent;
  if (left == 0) return;
  if (s->behaviour == IMPOSTOR) { /* HELLO; JOIN once the challenge has come */
    if (s->sent < sizeof(df_hello))
      left = sizeof(df_hello) - s->sent;
    else if (s->received < sizeof(df_challenge))
      return;
  }
  ssize_t sent = send(s->fd, s->script + s->sent, s->behaviour == DRIP ? 1 : left,
                      MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) s->sent += (size_t)sent;
}

/* Reads the bytes that have arrived; -1 when the root has closed. */
static int read_answer(caller *s, affair *a) {
  unsigned char bytes[SCRIPT_MAX];
  for (;;) {
    ssize_t got = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) return 0;
    if (got <= 0) return -1;
    s->received += (size_t)got;
    size_t due = s->behaviour == IMPOSTOR ? sizeof(df_challenge) : 0;
    if (s->received > due) __atomic_add_fetch(&a->answers, (int)got, __ATOMIC_RELEASE);
    if (s->behaviour == IMPOSTOR && s->received == due)
      __atomic_add_fetch(&a->challenges, 1, __ATOMIC_RELEASE);
  }
}

static void be_callers(affair *a) {
  static caller all[FLOOD];
  df_random random = {11};
  for (int i = 0; i < a->n; i++) {
    all[i] = (caller){.behaviour = (behaviour)(i % a->n_behaviours)};
    connect_caller(&all[i], a, &random);
    CHECK(all[i].fd >= 0, "caller %d: %s", i, strerror(-all[i].fd));
    CHECK(df_socket_wait(all[i].fd, POLLOUT, UINT64_MAX) == 1, "caller %d is not connected", i);
  }
  __atomic_store_n(&a->all_here, 1, __ATOMIC_RELEASE);
  while (!flag(&a->stop)) {
    for (int i = 0; i < a->n; i++) {
      caller *s = &all[i];
      if (s->fd < 0) {
        if (s->calls < CALLS_MAX) connect_caller(s, a, &random);
        continue;
      }
      send_next(s);
      if (read_answer(s, a) == 0) continue;
      __atomic_add_fetch(&a->refused, 1, __ATOMIC_RELEASE);
      close(s->fd);
      s->fd = -1;
    }
    poll(NULL, 0, 1); /* yields the processor to the others */
  }
}

static pid_t start_callers(affair *a) {
  fflush(NULL);
  df_quiet_before_fork();
  pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid == 0) {
    df_watchdog_start("the callers", 120);
    be_callers(a);
    df_watchdog_stop();
    _exit(0);
  }
  df_watch_child(pid);
  return pid;
}

/* A job of four ranks, which call when that many callers have been refused and an impostor, if
 * there is one, has been challenged. */
static void join_among_callers(int n, int n_behaviours, int refused) {
  affair *a = shared_memory(sizeof *a);
  df_id_content content;
  crew *c = make_crew(false, 4, 1);
  OK(df_bootstrap_create_id(&c->id, NULL));
  OK(df_id_read(&c->id, &content));
  a->port = content.port;
  a->n = n;
  a->n_behaviours = n_behaviours;
  pid_t callers = start_callers(a);
  EVENTUALLY(flag(&a->all_here) == 1);
  EVENTUALLY(flag(&a->refused) >= refused);
  if (n_behaviours > IMPOSTOR) EVENTUALLY(flag(&a->challenges) >= 1);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 4; i++) check_code(c, i, dfcclSuccess);
  __atomic_store_n(&a->stop, 1, __ATOMIC_RELEASE);
  CHECK(reap(callers) == 0, "the callers failed");
  CHECK(a->answers == 0, "callers got %d bytes", a->answers);
}

DF_TEST(pending_callers, learn_nothing_and_do_not_prevent_the_job, 120) {
  join_among_callers(STRANGERS, BEHAVIOURS, STRANGERS / BEHAVIOURS);
}

DF_TEST(pending_callers, more_than_the_root_holds_do_not_prevent_the_job, 120) {
  join_among_callers(FLOOD, PATIENT_BEHAVIOURS, FLOOD - DF_UNPROVEN_MAX);
}
