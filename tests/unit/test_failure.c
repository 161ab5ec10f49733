/*
 * Promises of src/host/failure.c and of those who ask it, seen from a rank whose peers are played
 * by this test:
 *   - A rank that is given up on the word of a third rank, or for what it sends, is told which
 *     collectives that ended: it may be alive.
 *   - Every death that a rank sees is told to the others, not only the first.
 *   - What its callback has deregistered counts as registered no more.
 *   - After a failure no peer is told to unmap memory that it may be reading.
 *   - Where only the reading of a connection failed, the peer sees it end.
 *   - Runs that a member which has left could have no part in are refused, whatever became of its
 *     last words, and registrations that it could have no part in cost nothing for ever.
 *   - Links are refused that cannot lie in the memory that is offered for them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/context.h"
#include "support/harness.h"

enum { RANKS = 3, COLL = 7, COUNT = 100 };

typedef struct stage {
  dfcclContext_t context; /* rank 0 */
  int peers[RANKS];       /* the ends of ranks 1 and 2 */
} stage;

typedef union datagram {
  df_message message;
  uint8_t bytes[DF_MAX_MESSAGE_BYTES];
} datagram;

static void open_stage(stage *s) {
  df_settings settings;
  df_mesh mesh = {.n_ranks = RANKS};
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu; /* host buffers, and peers that are played on the CPU */
  OK(df_settings_read(&settings, &config));
  mesh.cards = calloc(RANKS, sizeof *mesh.cards);
  mesh.sockets = calloc(RANKS, sizeof *mesh.sockets);
  mesh.local = calloc(RANKS, 1);
  for (int r = 0; r < RANKS; r++) {
    int pair[2];
    mesh.cards[r] = df_context_card(&settings);
    mesh.local[r] = r == 0;
    mesh.sockets[r] = s->peers[r] = -1;
    if (r == 0) continue;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
    mesh.sockets[r] = pair[0];
    s->peers[r] = pair[1];
  }
  OK(df_context_open(&s->context, RANKS, 0, &settings, &mesh));
}

static void close_stage(stage *s) {
  OK(dfcclDestroy(s->context));
  for (int r = 1; r < RANKS; r++)
    if (s->peers[r] >= 0) close(s->peers[r]);
}

/* Blocks until the rank says something to this peer. 0: the connection has ended. */
static int hear(const stage *s, int peer, datagram *heard) {
  struct iovec part = {.iov_base = heard, .iov_len = sizeof *heard};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1}; /* descriptors are dropped */
  return recvmsg(s->peers[peer], &header, 0) > 0;
}

/* ... until it is of this kind and about this. 0: the connection has ended without. */
static int hears(const stage *s, int peer, df_message_kind kind, uint64_t id) {
  static datagram heard;
  while (hear(s, peer, &heard))
    if (heard.message.kind == kind && heard.message.id == id) return 1;
  return 0;
}

static void say(const stage *s, int peer, df_message message, const char *text) {
  struct iovec parts[] = {{&message, sizeof message}, {(void *)text, strlen(text) + 1}};
  message.magic = DF_MESSAGE_MAGIC;
  message.payload_bytes = (uint32_t)strlen(text) + 1;
  struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
  CHECK(sendmsg(s->peers[peer], &header, MSG_NOSIGNAL) > 0, "peer %d cannot speak", peer);
}

static void register_on_all(const stage *s) {
  OK(dfcclRegisterAllReduce(s->context, COLL, COUNT, dfcclInt8, dfcclSum, NULL));
}

DF_TEST(failure, who_is_given_up_on_hearsay_is_told, 30) {
  stage s;
  open_stage(&s);
  register_on_all(&s);
  say(&s, 1, (df_message){.kind = DF_MESSAGE_CAUSE, .id = 2, .a = dfcclRemoteError, .b = 1},
      "died: its connection was lost");
  CHECK(hears(&s, 2, DF_MESSAGE_FAIL, COLL), "rank 2 lives and was not told");
  close_stage(&s);
}

DF_TEST(failure, who_sends_nonsense_is_told_and_heard_no_more, 30) {
  stage s;
  open_stage(&s);
  register_on_all(&s);
  CHECK(send(s.peers[1], "nonsense", 8, MSG_NOSIGNAL) == 8, "it cannot speak");
  CHECK(hears(&s, 1, DF_MESSAGE_FAIL, COLL), "rank 1 was not told");
  CHECK(!hears(&s, 1, DF_MESSAGE_KINDS, 0), "its connection stands");
  CHECK(hears(&s, 2, DF_MESSAGE_CAUSE, 1), "rank 2 was not told what became of rank 1");
  close_stage(&s);
}

DF_TEST(failure, a_later_death_is_told_too, 30) {
  stage s;
  open_stage(&s);
  register_on_all(&s);
  pthread_mutex_lock(&s.context->lock);
  df_break(s.context, dfcclTimeout, "something else took too long");
  pthread_mutex_unlock(&s.context->lock);
  CHECK(hears(&s, 2, DF_MESSAGE_CAUSE, DF_NOBODY), "rank 2 was not told the cause");
  close(s.peers[1]);
  s.peers[1] = -1;
  CHECK(hears(&s, 2, DF_MESSAGE_CAUSE, 1), "rank 2 was not told of the death");
  close_stage(&s);
}

DF_TEST(failure, a_later_loss_is_heard_from_a_broken_rank, 30) {
  stage s;
  const int ranks[] = {0, 2};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  open_stage(&s);
  OK(dfcclRegisterAllReduce(s.context, COLL, COUNT, dfcclInt8, dfcclSum, &options));
  const df_message first = {.kind = DF_MESSAGE_CAUSE, .id = DF_NOBODY, .a = dfcclTimeout, .b = 1};
  const df_message second = {.kind = DF_MESSAGE_CAUSE, .id = 2, .a = dfcclTimeout, .b = 1};
  say(&s, 1, first, "something took too long");
  say(&s, 1, second, "died: its connection was lost");
  CHECK(hears(&s, 2, DF_MESSAGE_FAIL, COLL), "rank 2 lives and was not told");
  close_stage(&s);
}

DF_TEST(failure, a_connection_that_cannot_be_read_is_ended, 30) {
  stage s;
  open_stage(&s);
  CHECK(shutdown(s.context->mesh.sockets[1], SHUT_RD) == 0, "its reading does not fail");
  CHECK(!hears(&s, 1, DF_MESSAGE_KINDS, 0), "its connection stands");
  close_stage(&s);
}

/* ---- memory that may be read */

DF_TEST(failure, nobody_unmaps_after_a_failure, 30) {
  static datagram heard;
  stage s;
  void *memory;
  open_stage(&s);
  OK(dfcclMemAlloc(s.context, &memory, 1 << 16));
  close(s.peers[1]); /* rank 1 dies; rank 2 may be reading still, and know nothing yet */
  s.peers[1] = -1;
  CHECK(hears(&s, 2, DF_MESSAGE_CAUSE, 1), "rank 2 was not told of the death");
  OK(dfcclMemFree(s.context, memory));
  OK(dfcclDestroy(s.context));
  while (hear(&s, 2, &heard))
    CHECK(heard.message.kind != DF_MESSAGE_UNMAP, "it is told to unmap what it may be reading");
  close(s.peers[2]);
}

DF_TEST(failure, otherwise_it_is_unmapped, 30) {
  stage s;
  void *memory;
  open_stage(&s);
  OK(dfcclMemAlloc(s.context, &memory, 1 << 16));
  OK(dfcclMemFree(s.context, memory));
  CHECK(hears(&s, 2, DF_MESSAGE_UNMAP, 1), "rank 2 keeps it mapped");
  close_stage(&s);
}

/* ---- messages by hand */

static void handle(const stage *s, df_message *message, int fd) {
  message->magic = DF_MESSAGE_MAGIC;
  pthread_mutex_lock(&s->context->lock);
  df_service_handle(s->context, 1, message, fd);
  pthread_mutex_unlock(&s->context->lock);
}

static void offer_segment(const stage *s, uint64_t id, uint64_t bytes, uint64_t use) {
  df_message message = {.kind = DF_MESSAGE_SEGMENT, .id = id, .a = bytes, .b = use};
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "no memory to offer");
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  handle(s, &message, fd);
}

/* Of ranks 0 and 1. */
static void announce(const stage *s, dfcclCollId_t id, const df_announcement *announcement) {
  union {
    df_message message;
    uint8_t bytes[sizeof(df_message) + sizeof(df_announcement) + 2 * sizeof(uint32_t)];
  } d = {.message = {.kind = DF_MESSAGE_ANNOUNCE, .id = id}};
  const uint32_t ranks[] = {0, 1};
  d.message.payload_bytes = df_announcement_write(announcement, ranks, &d.message + 1);
  handle(s, &d.message, -1);
}

static dfcclResult_t register_of_two(const stage *s, dfcclCollId_t id) {
  static const int ranks[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  return dfcclRegisterAllReduce(s->context, id, COUNT, dfcclInt8, dfcclSum, &options);
}

/* What a member announces that registers the same. */
static df_announcement announcement_of(const stage *s, dfcclCollId_t id) {
  pthread_mutex_lock(&s->context->lock);
  df_announcement announcement = df_coll_announcement(df_find(s->context, id));
  pthread_mutex_unlock(&s->context->lock);
  return announcement;
}

/* ---- a rank that has left */

/* It had no memory for the message that deregisters: whether its announcement comes before our
 * registration or after. */
DF_TEST(failure, who_has_left_is_waited_for_no_more, 30) {
  int8_t buffer[COUNT] = {0};
  for (int early = 0; early < 2; early++) {
    stage s;
    open_stage(&s);
    offer_segment(&s, 0, DF_PAGE, DF_SEGMENT_HOME);
    OK(register_of_two(&s, COLL));
    const df_announcement announcement = announcement_of(&s, COLL);
    announce(&s, COLL, &announcement);
    if (early) announce(&s, COLL + 1, &announcement);
    OK(dfcclRunAllReduce(s.context, COLL, buffer, buffer, NULL, NULL)); /* perhaps with rank 1 */
    handle(&s, &(df_message){.kind = DF_MESSAGE_BYE}, -1);
    if (early) OK(register_of_two(&s, COLL + 1));
    RESULT(dfcclRunAllReduce(s.context, COLL + early, buffer, buffer, NULL, NULL),
           dfcclRemoteError);
    const char *sentence = dfcclGetLastError(s.context);
    CHECK(strstr(sentence, "rank 1 left the job") != NULL, "\"%s\"", sentence);
    OK(dfcclAbort(s.context)); /* the first run */
    close_stage(&s);
  }
}

DF_TEST(failure, who_has_left_takes_no_memory, 30) {
  stage s;
  open_stage(&s);
  handle(&s, &(df_message){.kind = DF_MESSAGE_BYE}, -1);
  for (dfcclCollId_t id = 0; id < 100; id++) {
    OK(register_of_two(&s, id));
    OK(dfcclDeregister(s.context, id));
  }
  CHECK(ck_hs_count(&s.context->remotes) == 0, "%lu records are kept",
        (unsigned long)ck_hs_count(&s.context->remotes));
  close_stage(&s);
}

/* ---- offers that make no sense */

/* Rings whose bytes, all blocks together, are a multiple of 2^64. */
DF_TEST(failure, an_offer_of_more_than_can_be_counted_is_refused, 30) {
  stage s;
  const df_announcement announcement = {
      .group_size = 2, .n_blocks = 1u << 31, .n_slots = 8, .stride = (1u << 30) - 16};
  CHECK(df_link_ring_bytes(announcement.stride, 8) << 31 == 0, "the product is no such multiple");
  open_stage(&s);
  offer_segment(&s, 0, DF_PAGE, DF_SEGMENT_HOME);
  offer_segment(&s, DF_FIRST_LINKS_SEGMENT, DF_PAGE, DF_SEGMENT_LINKS);
  announce(&s, COLL, &announcement);
  handle(&s,
         &(df_message){.kind = DF_MESSAGE_LINKS, .id = COLL, .a = DF_FIRST_LINKS_SEGMENT, .b = 3},
         -1);
  RESULT(dfcclRegisterAllReduce(s.context, 1, 1, dfcclInt8, dfcclSum, NULL), dfcclRemoteError);
  close_stage(&s);
}

/* ---- deregistered inside its callback, which has not returned */

typedef struct callback_gate {
  dfcclContext_t context;
  uint32_t inside, open;
} callback_gate;

static void deregister_and_stay(dfcclCollId_t coll, dfcclResult_t status, void *argument) {
  callback_gate *gate = argument;
  OK(status);
  OK(dfcclDeregister(gate->context, coll));
  df_publish_u32(&gate->inside, 1);
  EVENTUALLY(df_observe_u32(&gate->open) == 1);
}

static int has_heard(dfcclContext_t context, uint32_t peer) {
  pthread_mutex_lock(&context->lock);
  int broken = context->peers[peer].broken;
  pthread_mutex_unlock(&context->lock);
  return broken;
}

static void *destroy(void *ctx) {
  OK(dfcclDestroy(ctx));
  return NULL;
}

DF_TEST(failure, what_is_deregistered_cannot_fail, 30) {
  dfcclContext_t ctxs[2];
  callback_gate gate = {0};
  pthread_t threads[2];
  int8_t buffers[2][2][COUNT] = {0};
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  OK(dfcclInitAll(ctxs, 2, &config));
  gate.context = ctxs[0];
  for (int r = 0; r < 2; r++) {
    OK(dfcclRegisterAllReduce(ctxs[r], COLL, COUNT, dfcclInt8, dfcclSum, NULL));
    OK(dfcclRunAllReduce(ctxs[r], COLL, buffers[r][0], buffers[r][1],
                         r == 0 ? deregister_and_stay : NULL, &gate));
  }
  EVENTUALLY(df_observe_u32(&gate.inside) == 1);
  pthread_mutex_lock(&ctxs[1]->lock);
  df_break(ctxs[1], dfcclTimeout, "something else took too long");
  pthread_mutex_unlock(&ctxs[1]->lock);
  EVENTUALLY(has_heard(ctxs[0], 1));
  int alone = 0; /* a group that rank 1 has no part in */
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = &alone;
  options.nRanks = 1;
  OK(dfcclRegisterAllReduce(ctxs[0], COLL + 1, COUNT, dfcclInt8, dfcclSum, &options));
  df_publish_u32(&gate.open, 1);
  for (int r = 0; r < 2; r++) pthread_create(&threads[r], NULL, destroy, ctxs[r]);
  for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
}
