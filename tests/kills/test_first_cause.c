/*
 * Promise: survivors name the rank that died, also when they first receive that another survivor
 * has left because of that death. The first cause is sent to all ranks.
 *
 * There are three ranks. Ranks 0 and 1 are contexts of this process that are connected by a socket,
 * as processes are. Rank 2 consists of two sockets that the test holds, so that the test decides
 * when each of the others sees its death.
 */
#include <pthread.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutex.h"
#include "host/state/context.h"
#include "host/state/peer_info.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/registration/announcement.h"
#include "host/state/registry.h"
#include "support/harness.h"

enum { RANKS = 3, DEAD = 2, COUNT = 100, ALL = 5, PAIR = 6 };

typedef struct {
  dfcclContext_t ctxs[2];
  int dead_ends[2]; /* rank 2's ends of its sockets to ranks 0 and 1 */
} scene;

static int32_t send_buffer[COUNT], recv_buffers[2][COUNT];

static void make_pair(int pair[2]) {
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
        "no pair of sockets");
}

static dfcclContext_t open_rank(int rank, int to_other, int to_dead, const dfcclConfig_t *config) {
  dfcclContext_t ctx = NULL;
  df_settings settings;
  df_mesh mesh = {.n_ranks = RANKS, .rank = rank};
  OK(df_settings_read(&settings, config));
  mesh.peer_info = calloc(RANKS, sizeof *mesh.peer_info);
  mesh.sockets = calloc(RANKS, sizeof *mesh.sockets);
  mesh.local = calloc(RANKS, 1);
  CHECK(mesh.peer_info != NULL && mesh.sockets != NULL && mesh.local != NULL, "no memory");
  for (int r = 0; r < RANKS; r++) mesh.peer_info[r] = df_make_peer_info(&settings);
  memset(mesh.job, rank + 1,
         sizeof mesh.job); /* pretends that the ranks are in different processes */
  mesh.local[rank] = 1;
  mesh.n_local = 1;
  mesh.sockets[rank] = -1;
  mesh.sockets[1 - rank] = to_other;
  mesh.sockets[DEAD] = to_dead;
  OK(df_context_open(&ctx, RANKS, (uint32_t)rank, &settings, &mesh));
  df_watch(ctx);
  return ctx;
}

static scene make_scene(int timeout_ms) {
  scene s;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  int between[2], to_dead[2][2];
  make_pair(between);
  for (int rank = 0; rank < 2; rank++) make_pair(to_dead[rank]);
  for (int rank = 0; rank < 2; rank++) {
    config.timeoutMs = rank == 0 ? timeout_ms : 0;
    s.ctxs[rank] = open_rank(rank, between[rank], to_dead[rank][0], &config);
    s.dead_ends[rank] = to_dead[rank][1];
  }
  return s;
}

static int peer_socket(dfcclContext_t ctx, int peer) {
  df_rank_lock(&ctx->lock);
  int socket = ctx->control.peers[peer].socket;
  df_rank_unlock(&ctx->lock);
  return socket;
}

static df_peer_state state_of_peer(dfcclContext_t ctx, int peer) {
  df_rank_lock(&ctx->lock);
  df_peer_state state = ctx->control.peers[peer].state;
  df_rank_unlock(&ctx->lock);
  return state;
}

static void leave(scene *s, int rank) {
  df_unwatch(s->ctxs[rank]);
  OK(dfcclDestroy(s->ctxs[rank]));
}

/* On both ranks, registers a collective of all ranks, and one of ranks 0 and 1 that works. */
static void register_both(scene *s) {
  static const int pair[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = pair;
  options.nRanks = 2;
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclRegisterAllReduce(s->ctxs[rank], ALL, COUNT, dfcclInt32, dfcclSum, NULL));
    OK(dfcclRegisterAllReduce(s->ctxs[rank], PAIR, COUNT, dfcclInt32, dfcclSum, &options));
  }
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRunAllReduce(s->ctxs[rank], PAIR, send_buffer, recv_buffers[rank], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(s->ctxs[rank], PAIR));
}

static void expect_named(dfcclContext_t ctx, const char *words) {
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(strstr(sentence, words) != NULL, "\"%s\" does not say \"%s\"", sentence, words);
  RESULT(dfcclRegisterAllReduce(ctx, 99, 1, dfcclInt32, dfcclSum, NULL), dfcclRemoteError);
  sentence = dfcclGetLastError(ctx);
  CHECK(strstr(sentence, words) != NULL, "\"%s\" does not say \"%s\"", sentence, words);
}

/* Rank 0 sees rank 2 die and leaves. Rank 1, whose socket to rank 2 is still open, waits for
 * both. */
DF_TEST(first_reason, a_rank_that_leaves_names_the_dead_one, 30) {
  scene s = make_scene(0);
  register_both(&s);
  OK(dfcclRunAllReduce(s.ctxs[1], ALL, send_buffer, recv_buffers[1], NULL, NULL));
  close(s.dead_ends[0]);
  df_waiting_for("rank 0 to see rank 2's death");
  EVENTUALLY(strstr(dfcclGetLastError(s.ctxs[0]), "rank 2 died") != NULL);
  leave(&s, 0);
  RESULT(dfcclWait(s.ctxs[1], ALL), dfcclRemoteError);
  expect_named(s.ctxs[1], "rank 2 died");
  CHECK(strstr(dfcclGetLastError(s.ctxs[1]), "(seen by rank 0)") != NULL, "\"%s\"",
        dfcclGetLastError(s.ctxs[1]));
  close(s.dead_ends[1]); /* rank 1 sees the death itself now: nothing changes */
  expect_named(s.ctxs[1], "rank 2 died");
  leave(&s, 1);
}

/* The same if only a run with the leaving rank is outstanding. */
DF_TEST(first_reason, runs_with_the_leaving_rank_end_too, 30) {
  scene s = make_scene(0);
  register_both(&s);
  close(s.dead_ends[0]);
  EVENTUALLY(strstr(dfcclGetLastError(s.ctxs[0]), "rank 2 died") != NULL);
  leave(&s, 0);
  dfcclResult_t result =
      dfcclRunAllReduce(s.ctxs[1], PAIR, send_buffer, recv_buffers[1], NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(s.ctxs[1], PAIR);
  CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  EVENTUALLY(strstr(dfcclGetLastError(s.ctxs[1]), "rank 2 died") != NULL ||
             strstr(dfcclGetLastError(s.ctxs[1]), "deregistered") != NULL);
  RESULT(dfcclRegisterAllReduce(s.ctxs[1], 99, 1, dfcclInt32, dfcclSum, NULL), dfcclRemoteError);
  CHECK(strstr(dfcclGetLastError(s.ctxs[1]), "rank 2 died") != NULL, "\"%s\"",
        dfcclGetLastError(s.ctxs[1]));
  close(s.dead_ends[1]);
  leave(&s, 1);
}

/* Each of the survivors waits for a run that the other one has not submitted and can no longer
 * submit. Both runs end, though neither rank leaves. */
DF_TEST(first_reason, survivors_do_not_wait_for_each_other, 30) {
  enum { SECOND = 7 };
  static const int pair[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = pair;
  options.nRanks = 2;
  scene s = make_scene(0);
  register_both(&s);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterAllReduce(s.ctxs[rank], SECOND, COUNT, dfcclInt32, dfcclSum, &options));
  OK(dfcclRunAllReduce(s.ctxs[0], PAIR, send_buffer, recv_buffers[0], NULL, NULL));
  OK(dfcclRunAllReduce(s.ctxs[1], SECOND, send_buffer, recv_buffers[1], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) close(s.dead_ends[rank]);
  df_waiting_for("rank 0's run that rank 1 never submitted");
  RESULT(dfcclWait(s.ctxs[0], PAIR), dfcclRemoteError);
  df_waiting_for("rank 1's run that rank 0 never submitted");
  RESULT(dfcclWait(s.ctxs[1], SECOND), dfcclRemoteError);
  for (int rank = 0; rank < 2; rank++) expect_named(s.ctxs[rank], "rank 2 died");
  for (int rank = 0; rank < 2; rank++) leave(&s, rank);
}

/* The same with a collective that the other rank has not even registered, before this rank has seen
 * the death itself. */
DF_TEST(first_reason, no_rank_waits_for_a_registration_that_is_refused, 30) {
  enum { SECOND = 7 };
  static const int pair[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = pair;
  options.nRanks = 2;
  scene s = make_scene(0);
  register_both(&s);
  OK(dfcclRegisterAllReduce(s.ctxs[1], SECOND, COUNT, dfcclInt32, dfcclSum, &options));
  OK(dfcclRunAllReduce(s.ctxs[1], SECOND, send_buffer, recv_buffers[1], NULL, NULL));
  close(s.dead_ends[0]);
  df_waiting_for("rank 1's run of what rank 0 never registered");
  RESULT(dfcclWait(s.ctxs[1], SECOND), dfcclRemoteError);
  expect_named(s.ctxs[1], "rank 2 died");
  close(s.dead_ends[1]);
  for (int rank = 0; rank < 2; rank++) leave(&s, rank);
}

/* Ranks that leave close their connections to ranks that have left earlier, without another
 * message. Such an end is no death, and no reason for other ranks to fail. */
DF_TEST(first_reason, a_rank_that_has_left_sees_no_death, 30) {
  scene s = make_scene(0);
  register_both(&s);
  df_messenger_goodbye(&s.ctxs[0]->control, DF_GOODBYE_NS);
  close(s.dead_ends[0]); /* rank 2 has received it, and leaves */
  df_waiting_for("rank 0 to see the end of its connection to rank 2");
  while (peer_socket(s.ctxs[0], DEAD) >= 0) df_nap();
  leave(&s, 0);
  df_waiting_for("rank 1 to see the end of its connection to rank 0");
  while (peer_socket(s.ctxs[1], 0) >= 0) df_nap();
  OK(dfcclRegisterAllReduce(s.ctxs[1], 99, 1, dfcclInt32, dfcclSum, NULL));
  leave(&s, 1);
  close(s.dead_ends[1]);
}

/* ---- rank 2's messages, sent when the test decides */

static void deliver(dfcclContext_t ctx, df_message message, const void *payload, int fd) {
  DF_ALIGNED(8) uint8_t bytes[sizeof message + 256];
  message.magic = DF_MESSAGE_MAGIC;
  memcpy(bytes, &message, sizeof message);
  if (message.payload_bytes > 0) memcpy(bytes + sizeof message, payload, message.payload_bytes);
  CHECK(df_message_is_valid(bytes, sizeof message + message.payload_bytes), "no message");
  df_rank_lock(&ctx->lock);
  df_messenger_deliver(&ctx->control, DEAD, (const df_message *)bytes, fd);
  df_rank_unlock(&ctx->lock);
}

/* Rank 2's memory, then the same registration as the receiver's. */
static void deliver_registration(dfcclContext_t ctx, dfcclCollId_t id) {
  uint8_t payload[sizeof(df_announcement) + RANKS * sizeof(uint32_t)];
  int fd = memfd_create("rank 2", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, DF_PAGE) == 0, "no memory to share");
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "no seals");
  deliver(ctx, (df_message){.kind = DF_MESSAGE_SEGMENT, .a = DF_PAGE, .b = DF_SEGMENT_HOME}, "",
          fd);
  df_rank_lock(&ctx->lock);
  const df_coll *coll = df_find(ctx, id);
  df_announcement announcement = df_coll_announcement(coll);
  uint32_t bytes = df_announcement_write(&announcement, coll->ranks, payload);
  df_rank_unlock(&ctx->lock);
  deliver(ctx, (df_message){.kind = DF_MESSAGE_ANNOUNCE, .payload_bytes = bytes, .id = id}, payload,
          -1);
}

/* Rank 2 has completed all its runs, and dies after its goodbye to rank 0 and before its goodbye to
 * rank 1. Rank 1 gives up runs that rank 0 waits for. */
DF_TEST(first_reason, a_death_among_goodbyes, 30) {
  scene s = make_scene(0);
  register_both(&s);
  OK(dfcclRunAllReduce(s.ctxs[0], ALL, send_buffer, recv_buffers[0], NULL, NULL));
  OK(dfcclRunAllReduce(s.ctxs[1], ALL, send_buffer, recv_buffers[1], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) deliver_registration(s.ctxs[rank], ALL);
  deliver(s.ctxs[0], (df_message){.kind = DF_MESSAGE_DEREGISTER, .id = ALL, .a = 1, .b = 1}, "",
          -1);
  deliver(s.ctxs[0], (df_message){.kind = DF_MESSAGE_BYE}, "", -1);
  for (int rank = 0; rank < 2; rank++) close(s.dead_ends[rank]);
  df_waiting_for("rank 1's run with rank 2, which it saw die");
  RESULT(dfcclWait(s.ctxs[1], ALL), dfcclRemoteError);
  df_waiting_for("rank 0's run with rank 1, which has given it up");
  RESULT(dfcclWait(s.ctxs[0], ALL), dfcclRemoteError);
  for (int rank = 0; rank < 2; rank++) expect_named(s.ctxs[rank], "rank 2 died");
  for (int rank = 0; rank < 2; rank++) leave(&s, rank);
}

/* Rank 0 fails by a time-out of a collective of which rank 1 is no member. When rank 1 misses rank
 * 0, it receives the reason. */
DF_TEST(first_reason, a_time_out_is_passed_on, 30) {
  static const int others[] = {0, DEAD};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = others;
  options.nRanks = 2;
  scene s = make_scene(50);
  OK(dfcclRegisterAllReduce(s.ctxs[1], ALL, COUNT, dfcclInt32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(s.ctxs[1], ALL, send_buffer, recv_buffers[1], NULL, NULL));
  OK(dfcclRegisterAllReduce(s.ctxs[0], 7, COUNT, dfcclInt32, dfcclSum, &options));
  OK(dfcclRunAllReduce(s.ctxs[0], 7, send_buffer, recv_buffers[0], NULL, NULL));
  RESULT(dfcclWait(s.ctxs[0], 7), dfcclTimeout);
  leave(&s, 0);
  RESULT(dfcclWait(s.ctxs[1], ALL), dfcclTimeout);
  CHECK(strstr(dfcclGetLastError(s.ctxs[1]), "did not complete within 50 ms") != NULL, "\"%s\"",
        dfcclGetLastError(s.ctxs[1]));
  leave(&s, 1);
  for (int rank = 0; rank < 2; rank++) close(s.dead_ends[rank]);
}

static void say(int end, df_message message, const char *text) {
  struct {
    df_message message;
    char text[64];
  } d = {.message = message};
  d.message.magic = DF_MESSAGE_MAGIC;
  if (text != NULL) {
    d.message.payload_bytes = (uint32_t)strlen(text) + 1;
    memcpy(d.text, text, d.message.payload_bytes);
  }
  size_t bytes = sizeof message + d.message.payload_bytes;
  CHECK(write(end, &d, bytes) == (ssize_t)bytes, "rank 2 cannot write");
}

/* A rank that leaves may see other ranks leave before it, without a goodbye to it. Its reports
 * about them after its own goodbye have no effect. */
DF_TEST(first_reason, reports_after_the_goodbye_have_no_effect, 30) {
  scene s = make_scene(0);
  register_both(&s);
  say(s.dead_ends[1], (df_message){.kind = DF_MESSAGE_BYE}, NULL);
  say(s.dead_ends[1],
      (df_message){.kind = DF_MESSAGE_FAILURE_REASON, .id = 0, .a = dfcclRemoteError, .b = 2},
      "died: its connection was lost");
  df_sleep_ms(20); /* most likely the message has been read by then */
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRunAllReduce(s.ctxs[rank], PAIR, send_buffer, recv_buffers[rank], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(s.ctxs[rank], PAIR));
  close(s.dead_ends[1]);
  df_sleep_ms(20);
  OK(dfcclRunAllReduce(s.ctxs[0], PAIR, send_buffer, recv_buffers[0], NULL, NULL));
  OK(dfcclRunAllReduce(s.ctxs[1], PAIR, send_buffer, recv_buffers[1], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(s.ctxs[rank], PAIR));
  for (int rank = 0; rank < 2; rank++) leave(&s, rank);
  close(s.dead_ends[0]);
}

static void *leave_as_rank_0(void *argument) {
  leave(argument, 0);
  return NULL;
}

/* The kind of the next message that rank 2 receives from rank 0; DF_MESSAGE_KINDS at the end. */
static unsigned receive_kind(scene *s) {
  static union {
    df_message message;
    char bytes[DF_MAX_MESSAGE_BYTES];
  } in;
  ssize_t bytes;
  EVENTUALLY((bytes = read(s->dead_ends[0], &in, sizeof in)) >= 0);
  return bytes == 0 ? DF_MESSAGE_KINDS : in.message.kind;
}

/* Rank 0's goodbye to rank 2, which does not read, takes long. Meanwhile rank 1 leaves. Rank 0 must
 * not report that end to rank 2 as a failure. */
DF_TEST(first_reason, a_rank_that_leaves_blames_no_other, 30) {
  enum { MANY = 2000 };
  static const int others[] = {0, DEAD};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = others;
  options.nRanks = 2;
  scene s = make_scene(0);
  for (unsigned id = 0; id < MANY; id++) /* more announcements than a socket buffer holds */
    OK(dfcclRegisterAllReduce(s.ctxs[0], id, COUNT, dfcclInt32, dfcclSum, &options));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, leave_as_rank_0, &s) == 0, "no thread");
  df_waiting_for("rank 1 to hear rank 0's goodbye");
  EVENTUALLY(state_of_peer(s.ctxs[1], 0) == DF_PEER_LEFT);
  leave(&s, 1);
  df_sleep_ms(50); /* rank 0 sees rank 1's end */
  unsigned kind, byes = 0;
  for (int n = 0; (kind = receive_kind(&s)) != DF_MESSAGE_KINDS; n++) {
    CHECK(kind != DF_MESSAGE_FAILURE_REASON && kind != DF_MESSAGE_LIMIT, "message %d is of kind %u",
          n, kind);
    byes += kind == DF_MESSAGE_BYE;
  }
  CHECK(byes == 1, "%u goodbyes", byes);
  pthread_join(thread, NULL);
  for (int rank = 0; rank < 2; rank++) close(s.dead_ends[rank]);
}
