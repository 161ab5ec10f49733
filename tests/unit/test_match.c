/* Promises of src/host/registration/match.c to a rank whose peers, played by this test, send
 * announcements that are invalid for it, or in any order:
 *   - A type, operator, operation or algorithm that this version does not have differs from each
 *     that it has: a mismatch with a sentence.
 *   - The same holds for every number of the shape, in which variables and tables of the ranks may
 *     differ.
 *   - Runs before the one whose counts differ continue. That run and later ones end, or are
 *     refused, with dfcclMismatch and the sentence of the rank that found it.
 *   - Announcements of one id are dropped in whatever order they are finished, and no others with
 *     them.
 *   - If another process takes a peer's number, all announcements of the former process are dropped
 *     at once, and none of other peers: those that are bound when their collective lets them go. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "host/registration/match.h"
#include "host/runs/collective_failure.h"
#include "host/state/registry.h"
#include "stage.h"

enum { COLL = 7, COUNT = STAGE_COUNT };

static void differs_by(size_t offset, uint32_t more, const char *words) {
  df_stage s;
  int8_t buffer[COUNT] = {0};
  uint32_t number;
  stage_open_with_bell(&s);
  OK(stage_register_of_two(&s, COLL));
  df_announcement announcement = stage_announcement_of(&s, COLL);
  memcpy(&number, (uint8_t *)&announcement + offset, sizeof number);
  number += more;
  memcpy((uint8_t *)&announcement + offset, &number, sizeof number);
  stage_announce(&s, COLL, &announcement);
  RESULT(dfcclRunAllReduce(s.context, COLL, buffer, buffer, NULL, NULL), dfcclMismatch);
  CHECK(strstr(dfcclGetLastError(s.context), words) != NULL, "\"%s\"",
        dfcclGetLastError(s.context));
  stage_close(&s);
}

static void differs(size_t offset, const char *words) { differs_by(offset, 4711, words); }

DF_TEST(match, numbers_of_the_shape_differ, 60) {
  differs_by(offsetof(df_announcement, n_blocks), 1, "number of blocks");
  differs_by(offsetof(df_announcement, n_slots), 1, "number of link slots");
  differs_by(offsetof(df_announcement, stride), 64, "slot size");
  differs_by(offsetof(df_announcement, payload_offset), 8, "payload offset");
  differs_by(offsetof(df_announcement, chunk), 1, "chunk");
  differs_by(offsetof(df_announcement, loops), 1, "number of loops");
  differs_by(offsetof(df_announcement, split), 1, "levels of the group");
  differs_by(offsetof(df_announcement, form), 1, "pieces of a message");
  differs_by(offsetof(df_announcement, count), 1,
             "AllReduce: rank 0 registered 100 elements, rank 1 registered 101");
  differs_by(offsetof(df_announcement, varying), 1,
             "rank 0 registered options.varying 0, rank 1 registered 1");
}

DF_TEST(match, unknown_values_differ, 60) {
  differs(offsetof(df_announcement, type),
          "rank 0 registered data type int8, rank 1 registered unknown");
  differs(offsetof(df_announcement, op),
          "rank 0 registered reduction operator sum, rank 1 registered unknown");
  differs(offsetof(df_announcement, operation),
          "rank 0 registered operation AllReduce, rank 1 registered unknown");
  differs(offsetof(df_announcement, algorithm), "rank 1 registered unknown");
}

static dfcclResult_t status_of(const df_stage *s, uint64_t run) {
  return dfcclWaitRun(s->context, COLL, run, 0);
}

/* All runs have been submitted, and rank 1 takes part in none of them. */
static void handle_of_a_difference(df_stage *s, int8_t *buffer) {
  stage_open_with_bell(s);
  OK(stage_register_of_two(s, COLL));
  const df_announcement announcement = stage_announcement_of(s, COLL);
  stage_announce(s, COLL, &announcement);
  for (int i = 0; i < 3; i++) OK(dfcclRunAllReduce(s->context, COLL, buffer, buffer, NULL, NULL));
  stage_say(s, 1, (df_message){.kind = DF_MESSAGE_FAIL, .id = COLL, .a = dfcclMismatch, .b = 1},
            "run 1 has 5 elements on rank 1 and 6 on rank 2");
  while (dfcclRunAllReduce(s->context, COLL, buffer, buffer, NULL, NULL) == dfcclSuccess) df_nap();
  CHECK(strstr(dfcclGetLastError(s->context), "5 elements"), "\"%s\"",
        dfcclGetLastError(s->context));
  RESULT(status_of(s, 0), dfcclInProgress); /* the other ranks have sent all that it needs */
}

DF_TEST(match, runs_before_the_one_whose_counts_differ_continue, 30) {
  df_stage s;
  int8_t buffer[COUNT] = {0};
  handle_of_a_difference(&s, buffer);
  df_rank_lock(&s.context->lock);
  df_coll *coll = df_find(s.context, COLL);
  CHECK(coll->members.run_limit == 1, "runs go on up to %llu",
        (unsigned long long)coll->members.run_limit);
  coll->runs.retired = coll->runs.admitted = 1; /* simulates the completion of run 0 */
  df_check_run_limit(s.context, coll);
  coll->runs.retired = coll->runs.admitted = 0;
  CHECK(coll->failure.failed == dfcclMismatch, "%d: %s", (int)coll->failure.failed,
        coll->failure.sentence);
  CHECK(strstr(coll->failure.sentence, "5 elements"), "\"%s\"", coll->failure.sentence);
  df_rank_unlock(&s.context->lock);
  stage_close(&s);
}

/* A rank that leaves earlier ends earlier runs, too, with its own reason. */
DF_TEST(match, an_end_before_the_difference_counts, 30) {
  df_stage s;
  int8_t buffer[COUNT] = {0};
  handle_of_a_difference(&s, buffer);
  stage_handle(&s, &(df_message){.kind = DF_MESSAGE_DEREGISTER, .id = COLL}, -1);
  EVENTUALLY(status_of(&s, 0) == dfcclRemoteError);
  CHECK(strstr(dfcclGetLastError(s.context), "deregistered"), "\"%s\"",
        dfcclGetLastError(s.context));
  stage_close(&s);
}

static unsigned long records(const df_stage *s) {
  unsigned long n = 0;
  df_rank_lock(&s->context->lock);
  ck_hs_iterator_t iterator = CK_HS_ITERATOR_INITIALIZER;
  void *entry;
  while (ck_hs_next(&s->context->registry.remotes, &iterator, &entry))
    for (const df_remote *remote = entry; remote; remote = remote->next) n++;
  df_rank_unlock(&s->context->lock);
  return n;
}

/* The peer announces a second registration and deregisters it, before it deregisters the first. */
DF_TEST(match, announcements_end_in_any_order, 30) {
  df_stage s;
  stage_open_with_bell(&s);
  OK(stage_register_of_two(&s, COLL));
  const df_announcement announcement = stage_announcement_of(&s, COLL);
  stage_announce(&s, COLL, &announcement);
  OK(dfcclDeregister(s.context, COLL));
  CHECK(records(&s) == 1, "%lu records of one announcement", records(&s));
  stage_announce(&s, COLL, &announcement);
  OK(stage_register_of_two(&s, COLL));
  stage_handle(&s, &(df_message){.kind = DF_MESSAGE_DEREGISTER, .id = COLL}, -1);
  OK(dfcclDeregister(s.context, COLL));
  CHECK(records(&s) == 1, "%lu records are left of the first announcement", records(&s));
  stage_handle(&s, &(df_message){.kind = DF_MESSAGE_DEREGISTER, .id = COLL}, -1);
  CHECK(records(&s) == 0, "%lu records are left", records(&s));
  stage_close(&s);
}

static void announce_as(const df_stage *s, uint32_t peer, dfcclCollId_t id,
                        const df_announcement *announcement) {
  static const uint32_t ranks[] = {0, 1};
  df_datagram d = {.message = {.magic = DF_MESSAGE_MAGIC, .kind = DF_MESSAGE_ANNOUNCE, .id = id}};
  d.message.payload_bytes = (uint32_t)df_announcement_write(announcement, ranks, &d.message + 1);
  df_rank_lock(&s->context->lock);
  OK(df_match_announced(s->context, peer, &d.message));
  df_rank_unlock(&s->context->lock);
}

static unsigned long gone(const df_stage *s) {
  unsigned long n = 0;
  df_rank_lock(&s->context->lock);
  for (const df_remote *remote = s->context->registry.gone; remote; remote = remote->next) n++;
  df_rank_unlock(&s->context->lock);
  return n;
}

DF_TEST(match, announcements_of_a_replaced_process_are_dropped, 120) {
  enum { BOUND = 100, MANY = 16384, TWICE = 100 };
  df_stage s;
  stage_open_with_bell(&s);
  for (dfcclCollId_t id = 0; id < BOUND; id++) OK(stage_register_of_two(&s, id));
  const df_announcement announcement = stage_announcement_of(&s, 0);
  for (dfcclCollId_t id = 0; id < MANY; id++) {
    announce_as(&s, 1, id, &announcement);
    if (id % (MANY / TWICE) == 0) announce_as(&s, 1, id, &announcement);
    announce_as(&s, 2, id, &announcement);
  }
  const uint64_t begin = df_clock_ns();
  df_rank_lock(&s.context->lock);
  df_match_replaced(s.context, 1);
  df_rank_unlock(&s.context->lock);
  fprintf(stderr, "%d announcements of one peer are dropped in %.2f ms\n", MANY,
          (double)(df_clock_ns() - begin) / 1e6);
  CHECK(records(&s) == MANY, "%lu records are left of rank 2", records(&s));
  CHECK(gone(&s) == BOUND, "%lu bound records are kept", gone(&s));
  for (dfcclCollId_t id = 1; id < BOUND; id += 2) OK(dfcclDeregister(s.context, id));
  CHECK(gone(&s) == BOUND / 2, "%lu bound records are kept", gone(&s));
  for (dfcclCollId_t id = 0; id < BOUND; id += 2) OK(dfcclDeregister(s.context, id));
  CHECK(gone(&s) == 0, "%lu records are kept of collectives that are gone", gone(&s));
  stage_close(&s);
}
