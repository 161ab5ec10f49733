/* Promises of src/control/relay.h, among 14 ranks on 7 hosts, most of which have no connection with
 * most others:   - Each message arrives once, at whom it is for, and messages of one rank to
 * another one in their order.   - A relay says goodbye, and stays until all others have: nobody's
 * goodbye is lost, and none takes long.   - The death of a rank while a relay waits in its goodbye
 * is reported to the ranks that do not see it.   - A rank that sends a malformed envelope is
 * refused. A message for a rank that is gone is dropped. */
#include "base/mutex.h"
#include "control/relay.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/net/sockets.h"
#include "control/service.h"
#include "support/harness.h"

enum { RANKS = 14, PER_HOST = 2, MESSAGES = 300, GOODBYE_S = 8 };

typedef struct {
  df_control control;
  df_rank_mutex lock;
  df_mesh mesh;
  int sockets[RANKS];
  df_remote_rank remote[RANKS];
  unsigned char local[RANKS];
  uint64_t received[RANKS], sent[RANKS]; /* by the other rank */
  uint32_t n_left, n_lost, n_refused;
  uint32_t refused; /* the latest */
  char why[RANKS][DF_SENTENCE_BYTES];
  pthread_t leaver;
  int is_gone;
} rank;

static rank ranks[RANKS];

static void refused(void *owner, uint32_t peer) {
  rank *r = owner;
  r->n_refused++;
  r->refused = peer;
}
static void lost(void *owner, uint32_t peer, df_peer_state state, const char *why) {
  rank *r = owner;
  if (r->control.peers[peer].state != DF_PEER_ALIVE) return;
  r->control.peers[peer].state = state;
  r->n_lost++;
  snprintf(r->why[peer], sizeof r->why[peer], "%s", why);
}
static void left(void *owner, uint32_t peer) {
  rank *r = owner;
  if (r->control.peers[peer].state != DF_PEER_ALIVE) return;
  r->control.peers[peer].state = DF_PEER_LEFT;
  r->n_left++;
}
static void disconnected(void *owner, uint32_t peer) {
  (void)owner;
  (void)peer;
}
static void message_lost(void *owner, dfcclResult_t status, const char *sentence) {
  (void)owner;
  (void)status;
  CHECK(0, "%s", sentence);
}

/* Its payload has as many bytes as its number says, and names its sender. */
static void take_message(void *room, uint32_t from, const df_message *message, int fd) {
  rank *r = room;
  char text[DF_SENTENCE_BYTES];
  (void)fd;
  CHECK(message->id == r->received[from],
        "rank %u receives message %llu of rank %u in the place of %llu", r->control.rank,
        (unsigned long long)message->id, from, (unsigned long long)r->received[from]);
  snprintf(text, sizeof text, "%u: %0*d", from, (int)(message->id % 400 + 1), 7);
  CHECK(strcmp(text, df_message_payload(message)) == 0, "a message of rank %u", from);
  r->received[from]++;
}
static void handle_goodbye(void *room, uint32_t from, const df_message *message, int fd) {
  (void)message;
  (void)fd;
  left(room, from);
}

/* As the host's room does. */
static void handle_lost(void *room, uint32_t from, const df_message *message, int fd) {
  rank *r = room;
  (void)from;
  (void)fd;
  if (r->control.peers[message->id].state != DF_PEER_ALIVE) return;
  df_service_announce_lost(&r->control, (uint32_t)message->id, df_message_payload(message));
  lost(room, (uint32_t)message->id, DF_PEER_GIVEN_UP, df_message_payload(message));
}

static void connect_pair(uint32_t a, uint32_t b) {
  int ends[2];
  if (a / PER_HOST == b / PER_HOST)
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "pair");
  else
    CHECK(df_connected_pair(ends) == 0, "no sockets");
  for (int i = 0; i < 2; i++) {
    const uint32_t self = i ? b : a, other = i ? a : b;
    ranks[self].sockets[other] = ends[i];
    if (a / PER_HOST != b / PER_HOST) ranks[self].remote[other].has_channel = 1;
  }
}

static void open_rank(uint32_t number) {
  rank *r = &ranks[number];
  const df_control_events events = {.owner = r,
                                    .refused = refused,
                                    .lost = lost,
                                    .left = left,
                                    .disconnected = disconnected,
                                    .message_lost = message_lost};
  r->control.process_inbox = df_process_inbox_join(r->mesh.job, RANKS, 1);
  r->control.epoll_fd = r->control.event_fd = -1;
  OK(df_messenger_open(&r->control, &r->lock, &r->mesh, &events));
  df_messenger_subscribe(&r->control, DF_MESSAGE_FAIL, take_message, r, 0);
  df_messenger_subscribe(&r->control, DF_MESSAGE_BYE, handle_goodbye, r, 0);
  df_messenger_subscribe(&r->control, DF_MESSAGE_LOST, handle_lost, r, 0);
  OK(df_service_open(&r->control));
}

static void open_job(void) {
  uint64_t hosts[RANKS];
  OK(df_handshake_ready());
  memset(ranks, 0, sizeof ranks);
  for (uint32_t r = 0; r < RANKS; r++) hosts[r] = 1 + r / PER_HOST;
  for (uint32_t r = 0; r < RANKS; r++) {
    rank *me = &ranks[r];
    df_rank_mutex_init(&me->lock);
    me->mesh = (df_mesh){.n_ranks = RANKS,
                         .rank = (int)r,
                         .n_local = 1,
                         .sockets = me->sockets,
                         .remote = me->remote,
                         .local = me->local,
                         .routes = df_routes_make(hosts, RANKS, r),
                         .job = {(unsigned char)(1 + r)}};
    me->local[r] = 1;
    for (uint32_t other = 0; other < RANKS; other++) {
      me->sockets[other] = -1;
      me->remote[other] =
          (df_remote_rank){.is_remote = hosts[r] != hosts[other],
                           .calls = r > other,
                           .key = {(unsigned char)(r + other), (unsigned char)(r * other)}};
    }
  }
  for (uint32_t a = 0; a < RANKS; a++)
    for (uint32_t b = 0; b < a; b++)
      if (df_routes_next(ranks[a].mesh.routes, b) == b) connect_pair(a, b);
  for (uint32_t r = 0; r < RANKS; r++) open_rank(r);
  for (uint32_t r = 0; r < RANKS; r++) OK(df_service_start(&ranks[r].control));
}

/* As a process that ends. */
static void end_rank(uint32_t number) {
  rank *r = &ranks[number];
  if (r->is_gone) return;
  r->is_gone = 1;
  df_service_stop(&r->control);
  df_messenger_close(&r->control);
  df_service_close(&r->control);
  df_process_inbox_detach(r->control.process_inbox, number);
  df_process_inbox_release(r->control.process_inbox);
  for (uint32_t other = 0; other < RANKS; other++) df_socket_close(&r->sockets[other]);
  df_routes_free(r->mesh.routes);
}

/* As one that is killed: nothing says that lines end. */
static void kill_rank(uint32_t number) {
  for (uint32_t other = 0; other < RANKS; other++)
    if (ranks[number].sockets[other] >= 0) shutdown(ranks[number].sockets[other], SHUT_RDWR);
  end_rank(number);
}

static void *say_goodbye(void *argument) {
  rank *r = argument;
  usleep(r->control.rank * 7919 % 20 * 1000);
  df_messenger_goodbye(&r->control, (uint64_t)GOODBYE_S * 1000000000);
  return NULL;
}

static void begin_goodbye(uint32_t number) {
  CHECK(pthread_create(&ranks[number].leaver, NULL, say_goodbye, &ranks[number]) == 0, "a thread");
}

/* Each sends to some, to many and to all in turn. */
static void send_to(uint32_t from, const uint32_t *to, uint32_t n, int to_all) {
  rank *r = &ranks[from];
  char text[DF_SENTENCE_BYTES];
  const uint64_t id = r->sent[to[0]];
  for (uint32_t i = 0; i < n; i++) r->sent[to[i]]++;
  snprintf(text, sizeof text, "%u: %0*d", from, (int)(id % 400 + 1), 7);
  const df_message message = {
      .kind = DF_MESSAGE_FAIL, .payload_bytes = (uint32_t)strlen(text) + 1, .id = id};
  df_rank_lock(&r->lock);
  if (to_all)
    df_messenger_send_all(&r->control, &message, text);
  else if (n == 1)
    df_messenger_send(&r->control, to[0], &message, text, -1);
  else
    df_messenger_send_many(&r->control, to, n, &message, text);
  df_rank_unlock(&r->lock);
}

static void *send_some(void *argument) {
  const uint32_t from = ((const rank *)argument)->control.rank;
  uint32_t others[RANKS], n = 0;
  for (uint32_t r = 0; r < RANKS; r++)
    if (r != from) others[n++] = r;
  for (int i = 0; i < MESSAGES; i++) {
    if (i % 3 == 0) send_to(from, others, n, 1);
    if (i % 3 == 1) send_to(from, others, n, 0);
    for (uint32_t k = 0; i % 3 == 2 && k < n; k++) send_to(from, &others[k], 1, 0);
  }
  return NULL;
}

static int has_all(const rank *r) {
  for (uint32_t from = 0; from < RANKS; from++)
    if (from != r->control.rank && r->received[from] < MESSAGES) return 0;
  return 1;
}

static int all_have_all(void) {
  int good = 1;
  for (uint32_t r = 0; r < RANKS; r++) {
    df_rank_lock(&ranks[r].lock);
    good &= has_all(&ranks[r]);
    df_rank_unlock(&ranks[r].lock);
  }
  return good;
}

static void leave_all(void) {
  const uint64_t begin = df_clock_ns();
  for (uint32_t r = 0; r < RANKS; r++)
    if (!ranks[r].is_gone) begin_goodbye(r);
  for (uint32_t r = 0; r < RANKS; r++)
    if (!ranks[r].is_gone) pthread_join(ranks[r].leaver, NULL);
  CHECK(df_clock_ns() - begin < (uint64_t)GOODBYE_S * 1000000000, "somebody waited to the end");
}

DF_TEST(relay, each_message_arrives_once_in_order, 120) {
  pthread_t senders[RANKS];
  open_job();
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(pthread_create(&senders[r], NULL, send_some, &ranks[r]) == 0, "a thread");
  for (uint32_t r = 0; r < RANKS; r++) pthread_join(senders[r], NULL);
  EVENTUALLY(all_have_all());
  leave_all();
  for (uint32_t r = 0; r < RANKS; r++) {
    CHECK(ranks[r].n_lost == 0 && ranks[r].n_refused == 0, "rank %u: %u lost", r, ranks[r].n_lost);
    /* A relay has heard all goodbyes. Others need not. */
    CHECK(!df_routes_is_relay(ranks[r].mesh.routes) || ranks[r].n_left == RANKS - 1,
          "rank %u: %u have left", r, ranks[r].n_left);
  }
  for (uint32_t r = 0; r < RANKS; r++) end_rank(r);
}

static uint32_t count_of(uint32_t number, const uint32_t *count) {
  df_rank_lock(&ranks[number].lock);
  const uint32_t n = *count;
  df_rank_unlock(&ranks[number].lock);
  return n;
}

/* Hosts are in rows of three. Rank 5 dies, and rank 4, its relay, says goodbye already; rank 13 is
 * of another row and column. */
DF_TEST(relay, ranks_that_leave_report_a_death, 60) {
  open_job();
  for (uint32_t r = 0; r < RANKS; r++)
    if (r != 5 && r != 13) begin_goodbye(r);
  EVENTUALLY(count_of(13, &ranks[13].n_left) == RANKS - 2);
  kill_rank(5);
  EVENTUALLY(count_of(13, &ranks[13].n_lost) == 1);
  CHECK(strstr(ranks[13].why[5], "died") != NULL, "%s", ranks[13].why[5]);
  begin_goodbye(13);
  for (uint32_t r = 0; r < RANKS; r++)
    if (r != 5) pthread_join(ranks[r].leaver, NULL);
  for (uint32_t r = 0; r < RANKS; r++) end_rank(r);
}

static void send_envelope(uint32_t from, uint32_t to, uint64_t hops, uint32_t source,
                          uint32_t target) {
  struct {
    uint32_t source, n, ranks[2];
    df_message inner;
  } payload = {.source = source,
               .n = 1,
               .ranks = {target},
               .inner = {.magic = DF_MESSAGE_MAGIC, .kind = DF_MESSAGE_PING}};
  const df_message message = {
      .kind = DF_MESSAGE_RELAYED, .payload_bytes = sizeof payload, .id = hops};
  df_rank_lock(&ranks[from].lock);
  df_messenger_send(&ranks[from].control, to, &message, &payload, -1);
  df_rank_unlock(&ranks[from].lock);
}

DF_TEST(relay, nonsense_is_refused, 60) {
  static const struct {
    uint64_t hops;
    uint32_t source, target;
  } bad[] = {{0, 3, 9},     {5, 3, 9}, {UINT64_MAX, 3, 9}, {4, RANKS, 9},
             {4, 3, RANKS}, {4, 3, 3}, {4, 2, 9}};
  open_job();
  for (uint32_t i = 0; i < DF_COUNT_OF(bad); i++) { /* from rank 3 to its relay, rank 2 */
    send_envelope(3, 2, bad[i].hops, bad[i].source, bad[i].target);
    EVENTUALLY(count_of(2, &ranks[2].n_refused) == i + 1);
    CHECK(ranks[2].refused == 3, "rank %u was refused", ranks[2].refused);
  }
  for (uint32_t hops = 1; hops <= 4; hops++)
    send_envelope(3, 2, hops, 3, 9); /* some go too short a way */
  kill_rank(9);
  send_envelope(3, 2, 4, 3, 9);
  leave_all();
  CHECK(ranks[2].n_refused == DF_COUNT_OF(bad) && ranks[8].n_refused == 0,
        "good ones were refused");
  for (uint32_t r = 0; r < RANKS; r++) end_rank(r);
}
