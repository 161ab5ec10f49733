/*
 * Promises of src/control/reconnect.h, between two ranks of one process that have a channel:
 *   - Whatever moment connections break at, and whatever is lost with them, each message arrives
 *     once, in order, in both directions, the goodbye too.
 *   - A rank whose host refuses calls is reported as dead, and a rank that is not reached in time
 *     as unreachable. Without a reconnector the first loss is reported.
 *   - A rank that was cut off, or that has ended its channel, is notified, and nobody waits for it.
 */
#include "base/mutex.h"
#include "control/reconnect.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/net/sockets.h"
#include "control/service.h"
#include "support/harness.h"

enum { RANKS = 2, MESSAGES = 1000, SMALL_BUFFER = 4096 };

typedef struct {
  df_control control;
  df_rank_mutex lock;
  df_mesh mesh;
  int sockets[RANKS];
  df_remote_rank remote[RANKS];
  unsigned char local[RANKS];
  uint64_t n_received; /* messages */
  int has_left, is_lost;
  char why[DF_SENTENCE_BYTES];
} rank;

static struct {
  rank ranks[RANKS];
  uint32_t wanted; /* a bit for each rank */
  _Atomic int may_make;
  _Atomic uint64_t refused_ns;
  pthread_mutex_t lock; /* as above */
} job;

/* ---- events of the owner */

static rank *rank_of(void *owner) { return owner; }
static void refused(void *owner, uint32_t peer) {
  (void)owner;
  CHECK(0, "rank %u sent nonsense", peer);
}
static void lost(void *owner, uint32_t peer, df_peer_state state, const char *why) {
  rank *r = rank_of(owner);
  r->control.peers[peer].state = state;
  r->is_lost = 1;
  snprintf(r->why, sizeof r->why, "%s", why);
}
static void left(void *owner, uint32_t peer) {
  rank_of(owner)->control.peers[peer].state = DF_PEER_LEFT;
  rank_of(owner)->has_left = 1;
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

static void take_message(void *room, uint32_t from, const df_message *message, int fd) {
  rank *r = room;
  const uint8_t *payload = df_message_payload(message);
  (void)fd;
  CHECK(message->id == r->n_received, "message %llu of rank %u in the place of %llu",
        (unsigned long long)message->id, from, (unsigned long long)r->n_received);
  for (uint32_t i = 0; i + 1 < message->payload_bytes; i++)
    CHECK(payload[i] == 1 + message->id % 100, "byte %u of message %llu", i,
          (unsigned long long)message->id);
  r->n_received++;
}
static void handle_goodbye(void *room, uint32_t from, const df_message *message, int fd) {
  (void)message;
  (void)fd;
  left(room, from);
}

/* ---- connections, which rank 1 makes */

static void make_connection(void) {
  unsigned char key[DF_REMOTE_CHANNEL_KEY];
  int ends[2], bytes = SMALL_BUFFER;
  CHECK(df_connected_pair(ends) == 0, "no sockets");
  for (int i = 0; i < 2; i++) setsockopt(ends[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  randombytes_buf(key, sizeof key);
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(df_resume_arrived(&job.ranks[r].control, 1 - r, ends[r], key), "no memory");
}

/* Either end may notice first. The lock of a rank is held. */
static void want(void *maker, uint32_t peer, df_reconnect_request request) {
  const int is_wanted = request != DF_RECONNECT_NOT_WANTED;
  const uint32_t r = (uint32_t)(rank_of(maker) - job.ranks);
  (void)peer;
  pthread_mutex_lock(&job.lock);
  job.wanted = is_wanted ? job.wanted | 1u << r : job.wanted & ~(1u << r);
  if (is_wanted && job.may_make && r == 1) make_connection();
  pthread_mutex_unlock(&job.lock);
}
static uint64_t refused_ns(void *maker, uint32_t peer) {
  (void)maker;
  (void)peer;
  return job.refused_ns;
}

static void open_rank(uint32_t number, int fd, int resume_ms) {
  rank *r = &job.ranks[number];
  const df_control_events events = {.owner = r,
                                    .refused = refused,
                                    .lost = lost,
                                    .left = left,
                                    .disconnected = disconnected,
                                    .message_lost = message_lost};
  memset(r, 0, sizeof *r);
  df_rank_mutex_init(&r->lock);
  r->mesh = (df_mesh){.n_ranks = RANKS,
                      .rank = (int)number,
                      .n_local = 1,
                      .sockets = r->sockets,
                      .remote = r->remote,
                      .local = r->local,
                      .job = {(unsigned char)(1 + number)}};
  r->sockets[number] = -1;
  r->sockets[1 - number] = fd;
  r->remote[1 - number] =
      (df_remote_rank){.is_remote = 1, .has_channel = 1, .calls = number == 1, .key = {7}};
  r->local[number] = 1;
  r->control.process_inbox = df_process_inbox_join(r->mesh.job, RANKS, 1);
  r->control.epoll_fd = r->control.event_fd = -1;
  OK(df_messenger_open(&r->control, &r->lock, &r->mesh, &events));
  if (resume_ms)
    r->control.reconnector = (df_reconnector){
        .owner = r, .want = want, .refused_ns = refused_ns, .resume_ms = (uint32_t)resume_ms};
  df_messenger_subscribe(&r->control, DF_MESSAGE_FAIL, take_message, r, 0);
  df_messenger_subscribe(&r->control, DF_MESSAGE_BYE, handle_goodbye, r, 0);
  OK(df_service_open(&r->control));
}

/* The service of ranks below `first` starts later. */
static void open_job_with(int resume_ms, uint32_t first) {
  int ends[2];
  OK(df_handshake_ready());
  memset(&job, 0, sizeof job);
  pthread_mutex_init(&job.lock, NULL);
  job.may_make = 1;
  CHECK(df_connected_pair(ends) == 0, "no sockets");
  for (uint32_t r = 0; r < RANKS; r++) open_rank(r, ends[r], resume_ms);
  for (uint32_t r = first; r < RANKS; r++) OK(df_service_start(&job.ranks[r].control));
}

static void open_job(int resume_ms) { open_job_with(resume_ms, 0); }

/* Later losses make no connection to a rank that has ended. */
static void stop_rank(uint32_t number) {
  rank *r = &job.ranks[number];
  pthread_mutex_lock(&job.lock);
  job.may_make = 0;
  pthread_mutex_unlock(&job.lock);
  df_service_stop(&r->control);
  df_messenger_close(&r->control);
  df_service_close(&r->control);
  df_process_inbox_detach(r->control.process_inbox, number);
  df_process_inbox_release(r->control.process_inbox);
  df_socket_close(&r->sockets[1 - number]);
}

static void send_one(uint32_t number, uint64_t which) {
  rank *r = &job.ranks[number];
  char text[DF_SENTENCE_BYTES];
  const uint32_t bytes = 1 + (uint32_t)(which * 7919 % (which % 8 ? 50 : sizeof text));
  memset(text, (int)(1 + which % 100), bytes);
  text[bytes - 1] = '\0';
  const df_message message = {.kind = DF_MESSAGE_FAIL, .payload_bytes = bytes, .id = which};
  df_rank_lock(&r->lock);
  df_messenger_send(&r->control, 1 - number, &message, text, -1);
  df_rank_unlock(&r->lock);
}

static uint64_t n_received(uint32_t number) {
  rank *r = &job.ranks[number];
  df_rank_lock(&r->lock);
  const uint64_t n = r->n_received;
  df_rank_unlock(&r->lock);
  return n;
}

static int is_notified(uint32_t number) {
  rank *r = &job.ranks[number];
  df_rank_lock(&r->lock);
  const int is_lost = r->is_lost;
  df_rank_unlock(&r->lock);
  return is_lost;
}

static int has_goodbye(uint32_t number) {
  rank *r = &job.ranks[number];
  df_rank_lock(&r->lock);
  const int has = r->control.peers[1 - number].state == DF_PEER_LEFT;
  df_rank_unlock(&r->lock);
  return has;
}

static int is_lost_line(uint32_t number) {
  rank *r = &job.ranks[number];
  df_rank_lock(&r->lock);
  const int lost = r->control.peers[1 - number].lost_ns != 0;
  df_rank_unlock(&r->lock);
  return lost;
}

static uint32_t resumes(uint32_t number) {
  rank *r = &job.ranks[number];
  df_rank_lock(&r->lock);
  const uint32_t n = r->control.peers[1 - number].resumes;
  df_rank_unlock(&r->lock);
  return n;
}

/* Also takes some bytes away that were on their way. */
static void break_connection(uint32_t number, uint32_t loses) {
  rank *r = &job.ranks[number];
  char gone[SMALL_BUFFER];
  df_rank_lock(&r->lock);
  const int socket = r->control.peers[1 - number].socket;
  if (socket >= 0) {
    (void)!recv(socket, gone, loses, MSG_DONTWAIT);
    shutdown(socket, SHUT_RDWR);
  }
  df_rank_unlock(&r->lock);
}

/* ---- */

static _Atomic int is_over;

static void *break_often(void *unused) {
  for (uint32_t i = 0; !is_over; i++) {
    usleep(100 + i * 37 % 900);
    break_connection(i / 3 % RANKS, i % 4 ? i * 131 % SMALL_BUFFER : 0);
  }
  return unused;
}

static void *leave(void *number) {
  df_messenger_goodbye(&job.ranks[(uintptr_t)number].control, 30000000000u);
  return NULL;
}

/* Rank `first` leaves first, or both at once if it is RANKS. A rank that has left does not wait for
 * the goodbyes of others. */
static void leave_all(uint32_t first) {
  pthread_t leavers[RANKS];
  for (uint32_t i = 0; i < RANKS; i++) {
    const uintptr_t r = first == RANKS ? i : (first + i) % RANKS;
    CHECK(pthread_create(&leavers[r], NULL, leave, (void *)r) == 0, "no thread");
    if (r == first) EVENTUALLY(has_goodbye(1 - first));
  }
  for (uint32_t r = 0; r < RANKS; r++) pthread_join(leavers[r], NULL);
  CHECK(has_goodbye(0) || has_goodbye(1), "neither rank has the goodbye of the other one");
}

DF_TEST(resume, each_message_arrives_once_and_in_order, 60) {
  for (uint32_t first = 0; first <= RANKS; first++) {
    pthread_t breaker;
    open_job(20000);
    is_over = 0;
    CHECK(pthread_create(&breaker, NULL, break_often, NULL) == 0, "no thread");
    for (uint64_t i = 0; i < MESSAGES; i++) {
      for (uint32_t r = 0; r < RANKS; r++) send_one(r, i);
      if (i % 10 == 0) usleep(300);
    }
    for (uint32_t r = 0; r < RANKS; r++) EVENTUALLY(n_received(r) == MESSAGES);
    leave_all(first);
    is_over = 1;
    pthread_join(breaker, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
      CHECK(resumes(r) > 5, "only %u breaks", resumes(r));
      CHECK(!is_notified(r), "rank %u was notified of a loss: %s", r, job.ranks[r].why);
    }
    for (uint32_t r = 0; r < RANKS; r++) stop_rank(r);
  }
}

DF_TEST(resume, who_refuses_calls_has_died, 20) {
  open_job(20000);
  job.may_make = 0;
  job.refused_ns = df_clock_ns();
  break_connection(0, 0);
  for (uint32_t r = 0; r < RANKS; r++) {
    EVENTUALLY(is_notified(r));
    CHECK(strstr(job.ranks[r].why, "died"), "%s", job.ranks[r].why);
  }
  for (uint32_t r = 0; r < RANKS; r++) stop_rank(r);
}

DF_TEST(resume, who_is_not_reached_in_time_is_lost, 20) {
  open_job(100);
  job.may_make = 0;
  break_connection(0, 0);
  for (uint32_t r = 0; r < RANKS; r++) {
    EVENTUALLY(is_notified(r));
    CHECK(strstr(job.ranks[r].why, "cannot be reached"), "%s", job.ranks[r].why);
  }
  for (uint32_t r = 0; r < RANKS; r++) stop_rank(r);
}

DF_TEST(resume, without_a_maker_the_first_loss_is_reported, 20) {
  open_job(0);
  break_connection(1, 0);
  for (uint32_t r = 0; r < RANKS; r++) EVENTUALLY(is_notified(r));
  for (uint32_t r = 0; r < RANKS; r++) stop_rank(r);
}

/* Either end, and also if its word of it is lost. */
DF_TEST(resume, a_rank_that_is_cut_off_is_notified, 20) {
  for (uint32_t which = 0; which < 6; which++) {
    rank *r = &job.ranks[which % RANKS];
    open_job(20000);
    df_rank_lock(&r->lock);
    df_messenger_cut_off(&r->control, 1 - which % RANKS);
    df_rank_unlock(&r->lock);
    if (which >= RANKS) break_connection(which / RANKS % RANKS, SMALL_BUFFER);
    for (uint32_t i = 0; i < RANKS; i++) EVENTUALLY(is_notified(i));
    for (uint32_t i = 0; i < RANKS; i++) stop_rank(i);
  }
}

/* The earlier message, with the reason for the cut, comes first. */
DF_TEST(resume, a_rank_cut_off_without_a_connection_receives_the_reason, 20) {
  for (uint32_t which = 0; which < RANKS; which++) {
    rank *r = &job.ranks[which];
    open_job(20000);
    job.may_make = 0;
    break_connection(which, 0);
    EVENTUALLY(is_lost_line(0) && is_lost_line(1));
    send_one(which, 0);
    df_rank_lock(&r->lock);
    df_messenger_cut_off(&r->control, 1 - which);
    df_rank_unlock(&r->lock);
    make_connection();
    for (uint32_t i = 0; i < RANKS; i++) EVENTUALLY(is_notified(i));
    CHECK(n_received(1 - which) == 1, "rank %u did not receive the reason", 1 - which);
    for (uint32_t i = 0; i < RANKS; i++) stop_rank(i);
  }
}

/* ---- a rank that reads late */

/* Returns how many messages the socket takes while nobody reads; of the last one it may take
 * nothing. */
static uint64_t send_until(uint64_t most) {
  const df_remote_channel *channel = job.ranks[1].control.peers[0].channel;
  uint64_t sent = 0;
  for (; sent < most && channel->rest == NULL; sent++) send_one(1, sent);
  return channel->rest ? sent - 1 : sent;
}

DF_TEST(resume, a_late_reader_receives_the_end, 20) {
  rank *r = &job.ranks[1];
  open_job_with(20000, 1);
  const uint64_t most = send_until(UINT64_MAX);
  for (uint32_t i = 0; i < RANKS; i++) stop_rank(i);
  open_job_with(20000, 1);
  CHECK(send_until(most) == most, "the socket took less");
  df_rank_lock(&r->lock);
  df_messenger_cut_off(&r->control, 0);
  const int waits = r->control.peers[0].channel->has_ended && r->control.peers[0].channel->rest;
  df_rank_unlock(&r->lock);
  CHECK(waits, "the socket took the end");
  OK(df_service_start(&job.ranks[0].control));
  for (uint32_t i = 0; i < RANKS; i++) EVENTUALLY(is_notified(i));
  CHECK(n_received(0) == most && resumes(0) == 0, "rank 0 received %llu of %llu messages",
        (unsigned long long)n_received(0), (unsigned long long)most);
  for (uint32_t i = 0; i < RANKS; i++) stop_rank(i);
}

/* The record that ends the channel was lost, but an end that calls again receives it. */
DF_TEST(resume, a_caller_of_a_rank_that_gave_it_up_is_notified, 20) {
  open_job(20000);
  df_rank_lock(&job.ranks[0].lock);
  df_resume_end(&job.ranks[0].control, 1);
  df_rank_unlock(&job.ranks[0].lock);
  break_connection(1, 0);
  for (uint32_t r = 0; r < RANKS; r++) EVENTUALLY(is_notified(r));
  for (uint32_t r = 0; r < RANKS; r++) stop_rank(r);
}
