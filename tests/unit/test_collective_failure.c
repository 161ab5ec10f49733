/* Promises of src/host/runs/collective_failure.c and of its callers, seen from a rank whose peers
 * are played by this test:
 *   - A peer that is given up because of a third rank's report, or of its own messages, receives
 *     the collectives that this ended: it may be alive.
 *   - Every death that a rank sees is reported to the others, not only the first one.
 *   - A rank that gives up everything also reports what had failed before, since that message may
 *     be the one that was lost.
 *   - If a registration ends before its peer has announced it, the peer receives the failure.
 *   - A peer without memory for a message is given up by the ranks of its process.
 *   - A collective that its callback has deregistered no longer counts as registered.
 *   - After a failure no peer is asked to unmap memory that it may be reading: any memory, or, if
 *     one collective has failed, the memory of its runs in the daemon.
 *   - If only the reading of a connection failed, the peer sees its end.
 *   - Runs in which a member that has left could not take part are refused, whatever became of its
 *     last messages. Registrations in which it could not take part cost nothing permanently.
 *   - Rings are kept until their sender has deregistered or left in order: a sender that lost its
 *     connection may be alive, and write to them.
 *   - The sentence of a timeout that a peer reports goes on with this rank: with what it waits for,
 *     or that it has no outstanding run.
 *   - Links that cannot lie in the memory that is offered for them are refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stage.h"
#include "base/mutex.h"
#include "host/observe/awaited_ranks.h"
#include "host/registration/match.h"
#include "two_ranks.h"
#include "host/runs/collective_failure.h"
#include "host/state/registry.h"

enum { RANKS = STAGE_RANKS, COLL = 7, COUNT = STAGE_COUNT };

static void register_on_all(const df_stage *s) {
  OK(dfcclRegisterAllReduce(s->context, COLL, COUNT, dfcclInt8, dfcclSum, NULL));
}

DF_TEST(failure, a_rank_given_up_on_a_report_is_notified, 30) {
  df_stage s;
  stage_open(&s);
  register_on_all(&s);
  stage_say(&s, 1,
            (df_message){.kind = DF_MESSAGE_FAILURE_REASON, .id = 2, .a = dfcclRemoteError, .b = 1},
            "died: its connection was lost");
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAIL, COLL), "rank 2 lives and was not notified");
  stage_close(&s);
}

DF_TEST(failure, a_sender_of_malformed_messages_is_notified_and_ignored, 30) {
  df_stage s;
  stage_open(&s);
  register_on_all(&s);
  CHECK(send(s.peers[1], "nonsense", 8, MSG_NOSIGNAL) == 8, "it cannot speak");
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_FAIL, COLL), "rank 1 was not notified");
  CHECK(!stage_has_received(&s, 1, DF_MESSAGE_KINDS, 0), "it is still connected");
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAILURE_REASON, 1),
        "rank 2 did not receive what became of rank 1");
  stage_close(&s);
}

DF_TEST(failure, a_later_death_is_reported_too, 30) {
  df_stage s;
  stage_open(&s);
  register_on_all(&s);
  df_rank_lock(&s.context->lock);
  df_break(s.context, dfcclTimeout, "something else took too long");
  df_rank_unlock(&s.context->lock);
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAILURE_REASON, DF_NOBODY),
        "rank 2 did not receive the cause");
  stage_die(&s, 1);
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAILURE_REASON, 1),
        "rank 2 was not notified of the death");
  stage_close(&s);
}

DF_TEST(failure, earlier_failures_are_reported_when_all_is_given_up, 30) {
  df_stage s;
  stage_open(&s);
  register_on_all(&s);
  df_rank_lock(&s.context->lock);
  df_coll *coll = df_find(s.context, COLL);
  df_fail_collective(s.context, coll, dfcclTimeout, 0,
                     "it took too long"); /* it was not notified: the message is lost */
  df_give_up(s.context, dfcclOutOfMemory, "no memory for a message");
  df_rank_unlock(&s.context->lock);
  OK(dfcclDestroy(s.context)); /* the connections end, so no more messages arrive */
  for (int r = 1; r < RANKS; r++) {
    CHECK(stage_has_received(&s, r, DF_MESSAGE_FAIL, COLL), "rank %d was not notified", r);
    close(s.peers[r]);
  }
}

/* The message may belong to an earlier registration. Then the peer has not given up this one. */
DF_TEST(failure, a_registration_that_ends_unmatched_is_reported, 30) {
  df_stage s;
  stage_open(&s);
  register_on_all(&s);
  stage_say(&s, 1, (df_message){.kind = DF_MESSAGE_FAIL, .id = COLL, .a = dfcclOutOfMemory},
            "no memory for a link");
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAILURE_REASON, DF_NOBODY),
        "the failure was not received");
  OK(dfcclDestroy(s.context)); /* the connections end, so no more messages arrive */
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_FAIL, COLL), "rank 1 was not notified");
  for (int r = 1; r < RANKS; r++) close(s.peers[r]);
}

DF_TEST(failure, a_broken_rank_reports_a_later_loss, 30) {
  df_stage s;
  const int ranks[] = {0, 2};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  stage_open(&s);
  OK(dfcclRegisterAllReduce(s.context, COLL, COUNT, dfcclInt8, dfcclSum, &options));
  const df_message first = {
      .kind = DF_MESSAGE_FAILURE_REASON, .id = DF_NOBODY, .a = dfcclTimeout, .b = 1};
  const df_message second = {.kind = DF_MESSAGE_FAILURE_REASON, .id = 2, .a = dfcclTimeout, .b = 1};
  stage_say(&s, 1, first, "something took too long");
  stage_say(&s, 1, second, "died: its connection was lost");
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAIL, COLL), "rank 2 lives and was not notified");
  stage_close(&s);
}

DF_TEST(failure, a_connection_that_cannot_be_read_is_ended, 30) {
  df_stage s;
  stage_open(&s);
  CHECK(shutdown(s.context->mesh.sockets[1], SHUT_RD) == 0, "its reading does not fail");
  CHECK(!stage_has_received(&s, 1, DF_MESSAGE_KINDS, 0), "it is still connected");
  stage_close(&s);
}

/* ---- sentences of timeouts */

#define LATE "run 0 of rank 1 did not complete within 9 ms; it waits for a message from rank 0"

static void report_timeout(const df_stage *s) {
  stage_say(s, 1, (df_message){.kind = DF_MESSAGE_FAIL, .id = COLL, .a = dfcclTimeout}, LATE);
}

DF_TEST(failure, a_reported_timeout_goes_on_with_the_wait_of_this_rank, 30) {
  static int8_t bytes[COUNT];
  char wait[256] = "", wanted[600];
  df_stage s;
  stage_open(&s);
  stage_begin_broadcast(&s, COLL, COUNT, bytes, bytes);
  while (strstr(wait, "waits for a message from rank 1") == NULL) {
    df_rank_lock(&s.context->lock);
    df_describe_wait(s.context, df_find(s.context, COLL), wait, sizeof wait);
    df_rank_unlock(&s.context->lock);
    df_nap();
  }
  report_timeout(&s);
  RESULT(dfcclWait(s.context, COLL), dfcclTimeout);
  snprintf(wanted, sizeof wanted, LATE "; on rank 0: %s", wait);
  CHECK(strcmp(dfcclGetLastError(s.context), wanted) == 0, "\"%s\" instead of \"%s\"",
        dfcclGetLastError(s.context), wanted);
  stage_close(&s);
}

DF_TEST(failure, a_reported_timeout_says_that_this_rank_has_no_run, 30) {
  df_stage s;
  stage_open_with_bell(&s);
  OK(stage_register_of_two(&s, COLL));
  const df_announcement announcement = stage_announcement_of(&s, COLL);
  stage_announce(&s, COLL, &announcement);
  report_timeout(&s);
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAILURE_REASON, DF_NOBODY), "nothing has failed");
  RESULT(dfcclRunAllReduce(s.context, COLL, &s, &s, NULL, NULL), dfcclTimeout);
  CHECK(strcmp(dfcclGetLastError(s.context),
               LATE "; rank 0 has no outstanding run (its next one is run 0)") == 0,
        "\"%s\"", dfcclGetLastError(s.context));
  stage_close(&s);
}

/* ---- memory that may be read */

DF_TEST(failure, no_peer_unmaps_after_a_failure, 30) {
  static df_datagram datagram;
  df_stage s;
  void *memory;
  stage_open(&s);
  OK(dfcclMemAlloc(s.context, &memory, 1 << 16));
  stage_die(&s, 1); /* rank 2 may still be reading, and has not been notified */
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_FAILURE_REASON, 1),
        "rank 2 was not notified of the death");
  OK(dfcclMemFree(s.context, memory));
  OK(dfcclDestroy(s.context));
  while (stage_receive(&s, 2, &datagram))
    CHECK(datagram.message.kind != DF_MESSAGE_UNMAP, "it is asked to unmap what it may be reading");
  close(s.peers[2]);
}

DF_TEST(failure, otherwise_it_is_unmapped, 30) {
  df_stage s;
  void *memory;
  stage_open(&s);
  OK(dfcclMemAlloc(s.context, &memory, 1 << 16));
  OK(dfcclMemFree(s.context, memory));
  CHECK(stage_has_received(&s, 2, DF_MESSAGE_UNMAP, 1), "rank 2 keeps it mapped");
  stage_close(&s);
}

/* Rank 1's broadcast fails, while rank 0 has given it `send` and `recv`. */
static void fail_a_broadcast(const df_stage *s, const void *send, void *recv) {
  stage_begin_broadcast(s, COLL, COUNT, send, recv);
  stage_say(s, 1, (df_message){.kind = DF_MESSAGE_FAIL, .id = COLL, .a = dfcclMismatch},
            "it is another one");
  RESULT(dfcclWait(s->context, COLL), dfcclMismatch);
}

DF_TEST(failure, memory_of_a_failed_run_stays_mapped, 30) {
  static df_datagram datagram;
  int8_t buffer[COUNT];
  for (int sends = 0; sends < 2; sends++) {
    df_stage s;
    void *given, *other;
    int unmapped = 0;
    stage_open(&s);
    OK(dfcclMemAlloc(s.context, &given, 1 << 16));
    OK(dfcclMemAlloc(s.context, &other, 1 << 16));
    fail_a_broadcast(&s, sends ? given : NULL, sends ? buffer : given);
    OK(dfcclMemFree(s.context, given));
    OK(dfcclMemFree(s.context, other));
    OK(dfcclDestroy(s.context));
    while (stage_receive(&s, 2, &datagram))
      if (datagram.message.kind == DF_MESSAGE_UNMAP) {
        CHECK(datagram.message.id == 2, "it is asked to unmap what it may be reading");
        unmapped++;
      }
    CHECK(unmapped == 1, "it is asked %d times to unmap what nobody can be reading", unmapped);
    for (int r = 1; r < RANKS; r++) stage_die(&s, r);
  }
}

/* ---- a rank that has left */

/* Rank 2 had no memory for its deregistration: its announcement arrives before our registration, or
 * after. */
DF_TEST(failure, no_run_waits_for_a_rank_that_has_left, 30) {
  int8_t buffer[COUNT] = {0};
  for (int early = 0; early < 2; early++) {
    df_stage s;
    stage_open_with_bell(&s);
    OK(stage_register_of_two(&s, COLL));
    const df_announcement announcement = stage_announcement_of(&s, COLL);
    stage_announce(&s, COLL, &announcement);
    if (early) stage_announce(&s, COLL + 1, &announcement);
    OK(dfcclRunAllReduce(s.context, COLL, buffer, buffer, NULL, NULL)); /* possibly with rank 1 */
    stage_handle(&s, &(df_message){.kind = DF_MESSAGE_BYE}, -1);
    if (early) OK(stage_register_of_two(&s, COLL + 1));
    RESULT(dfcclRunAllReduce(s.context, COLL + early, buffer, buffer, NULL, NULL),
           dfcclRemoteError);
    const char *sentence = dfcclGetLastError(s.context);
    CHECK(strstr(sentence, "rank 1 left the job") != NULL, "\"%s\"", sentence);
    OK(dfcclAbort(s.context)); /* the first run */
    stage_close(&s);
  }
}

DF_TEST(failure, a_rank_that_has_left_takes_no_memory, 30) {
  df_stage s;
  stage_open(&s);
  stage_handle(&s, &(df_message){.kind = DF_MESSAGE_BYE}, -1);
  for (dfcclCollId_t id = 0; id < 100; id++) {
    OK(stage_register_of_two(&s, id));
    OK(dfcclDeregister(s.context, id));
  }
  CHECK(ck_hs_count(&s.context->registry.remotes) == 0, "%lu records are kept",
        (unsigned long)ck_hs_count(&s.context->registry.remotes));
  stage_close(&s);
}

/* ---- malformed offers */

static int has_offer(const df_stage *s) {
  df_rank_lock(&s->context->lock);
  int has = df_match_newest(s->context, 1, &(df_message){.id = COLL})->ends.has_offer;
  df_rank_unlock(&s->context->lock);
  return has;
}

/* Rank 1 offers rings for a collective of both, in two pages. */
static dfcclResult_t register_after_offer(df_shm_offer offer) {
  df_stage s;
  stage_open(&s);
  stage_offer_segment(&s, 0, DF_PAGE, DF_SEGMENT_HOME);
  stage_offer_segment(&s, 1, 2 * DF_PAGE, DF_SEGMENT_USER);
  stage_offer_segment(&s, DF_FIRST_LINKS_SEGMENT, 2 * DF_PAGE, DF_SEGMENT_LINKS);
  OK(stage_register_of_two(&s, COLL));
  const df_announcement announcement = stage_announcement_of(&s, COLL);
  CHECK(df_link_ring_bytes(announcement.stride, 2 * announcement.n_slots) <= DF_PAGE,
        "rings of %u slots of %u bytes", announcement.n_slots, announcement.stride);
  stage_announce(&s, COLL, &announcement);
  offer.n_slots *= announcement.n_slots;
  stage_offer_rings(&s, 1, COLL, &offer);
  EVENTUALLY(has_offer(&s));
  dfcclResult_t result = dfcclRegisterAllReduce(s.context, 1, 1, dfcclInt8, dfcclSum, NULL);
  stage_close(&s);
  return result;
}

/* n_slots: times the number that was agreed on. */
DF_TEST(failure, a_malformed_offer_is_refused, 60) {
  const df_shm_offer good = {.segment = DF_FIRST_LINKS_SEGMENT, .n_slots = 1};
  df_shm_offer offers[] = {good, good, good, good, good, good, good, good, good, good};
  RESULT(register_after_offer(good), dfcclSuccess);
  offers[0].segment++;                /* an unknown segment */
  offers[1].segment = 1;              /* memory that may be unmapped */
  offers[2].n_slots = 0;              /* less than was agreed on */
  offers[3].n_slots = 3;              /* no power of two */
  offers[4].n_slots = 1 << 16;        /* more than the library's limit */
  offers[5].offset = 32;              /* within a line */
  offers[6].offset = 2 * DF_PAGE;     /* behind the segment */
  offers[7].offset = UINT64_MAX - 63; /* its end wraps around into the segment */
  offers[8].release_mask = 2;         /* no power of two */
  offers[9].release_mask = 1023;      /* more slots than the ring has */
  for (size_t i = 0; i < DF_COUNT_OF(offers); i++)
    CHECK(register_after_offer(offers[i]) == dfcclRemoteError, "offer %zu", i);
  offers[0] = good;
  offers[0].offset = DF_PAGE;
  offers[0].n_slots = 2;
  offers[0].release_mask = 1;
  RESULT(register_after_offer(offers[0]), dfcclSuccess);
}

/* ---- rings of a peer that may live */

static int is_lost(const df_stage *s) {
  df_rank_lock(&s->context->lock);
  int is = s->context->control.peers[1].state == DF_PEER_DEAD;
  df_rank_unlock(&s->context->lock);
  return is;
}

static uint64_t ring_bytes_of(const df_stage *s) {
  df_rank_lock(&s->context->lock);
  uint64_t bytes = s->context->transports.shm->arena.used_bytes;
  df_rank_unlock(&s->context->lock);
  return bytes;
}

/* The end of its connection does not prove that rank 1 has stopped writing to its rings. */
static void keeps_rings(void (*end)(df_stage *s)) {
  static int8_t received[STAGE_COUNT];
  df_stage s;
  stage_open(&s);
  stage_begin_broadcast(&s, COLL, STAGE_COUNT, NULL, received);
  uint64_t bytes = ring_bytes_of(&s);
  CHECK(bytes > 0, "rank 1 writes nowhere");
  end(&s);
  RESULT(dfcclWait(s.context, COLL), dfcclRemoteError);
  EVENTUALLY(is_lost(&s));
  OK(dfcclDeregister(s.context, COLL));
  CHECK(ring_bytes_of(&s) == bytes, "somebody else may take the rings");
  stage_close(&s);
}

static void talk_nonsense(df_stage *s) {
  CHECK(send(s->peers[1], "nonsense", 8, MSG_NOSIGNAL) == 8, "rank 1 cannot speak");
}
static void hang_up(df_stage *s) { stage_die(s, 1); }

DF_TEST(failure, rings_of_a_disconnected_rank_are_kept, 30) { keeps_rings(talk_nonsense); }
DF_TEST(failure, rings_of_a_rank_that_ended_its_connection_are_kept, 30) { keeps_rings(hang_up); }

/* It no longer writes. */
DF_TEST(failure, rings_of_a_rank_that_deregistered_are_released, 30) {
  static int8_t received[STAGE_COUNT];
  df_stage s;
  stage_open(&s);
  stage_begin_broadcast(&s, COLL, STAGE_COUNT, NULL, received);
  df_message deregister = {.kind = DF_MESSAGE_DEREGISTER, .id = COLL};
  stage_handle(&s, &deregister, -1);
  RESULT(dfcclWait(s.context, COLL), dfcclRemoteError);
  OK(dfcclDeregister(s.context, COLL));
  CHECK(ring_bytes_of(&s) == 0, "nobody uses the rings");
  stage_close(&s);
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

static int has_received(dfcclContext_t context, uint32_t peer) {
  df_rank_lock(&context->lock);
  int broken = context->control.peers[peer].broken;
  df_rank_unlock(&context->lock);
  return broken;
}

static df_peer_state state_of(dfcclContext_t context, uint32_t peer) {
  df_rank_lock(&context->lock);
  df_peer_state state = context->control.peers[peer].state;
  df_rank_unlock(&context->lock);
  return state;
}

DF_TEST(failure, a_rank_without_memory_for_a_message_is_given_up, 30) {
  dfcclContext_t ctxs[2];
  int8_t send[COUNT] = {0}, recv[COUNT];
  two_ranks_open(ctxs);
  for (int r = 0; r < 2; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], COLL, COUNT, dfcclInt8, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctxs[1], COLL, send, recv, NULL, NULL));
  df_process_inbox_set_silent(ctxs[0]->control.process_inbox, 0);
  RESULT(dfcclWait(ctxs[1], COLL), dfcclRemoteError);
  CHECK(state_of(ctxs[1], 0) == DF_PEER_GIVEN_UP, "it is not given up");
  two_ranks_close(ctxs);
}

DF_TEST(failure, a_deregistered_collective_cannot_fail, 30) {
  dfcclContext_t ctxs[2];
  callback_gate gate = {0};
  int8_t buffers[2][2][COUNT] = {0};
  two_ranks_open(ctxs);
  gate.context = ctxs[0];
  for (int r = 0; r < 2; r++) {
    OK(dfcclRegisterAllReduce(ctxs[r], COLL, COUNT, dfcclInt8, dfcclSum, NULL));
    OK(dfcclRunAllReduce(ctxs[r], COLL, buffers[r][0], buffers[r][1],
                         r == 0 ? deregister_and_stay : NULL, &gate));
  }
  EVENTUALLY(df_observe_u32(&gate.inside) == 1);
  df_rank_lock(&ctxs[1]->lock);
  df_break(ctxs[1], dfcclTimeout, "something else took too long");
  df_rank_unlock(&ctxs[1]->lock);
  EVENTUALLY(has_received(ctxs[0], 1));
  int alone = 0; /* rank 1 is no member of the group */
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = &alone;
  options.nRanks = 1;
  OK(dfcclRegisterAllReduce(ctxs[0], COLL + 1, COUNT, dfcclInt8, dfcclSum, &options));
  df_publish_u32(&gate.open, 1);
  two_ranks_close(ctxs);
}
