/* Promise of src/host/registration/link_setup.c: no caller of the library waits while large rings
 * get their pages, and every event meanwhile ends as it would without rings. Pages come before the
 * first run, after the runs of pages_after, or never, and a collective that runs less often
 * requests none. The test decides when the pages come: its own madvise takes the place of the C
 * library's. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stage.h"
#include "two_ranks.h"
#include "base/mutex.h"
#include "host/state/registry.h"

enum { SHORT = 1, LARGE = 2, OTHER = 3, ROOT = 0, COUNT = 1 << 20, POPULATE = 23, LINKS = 1 };

static atomic_bool is_closed, fails;
static atomic_int waiting, requests, longest;

int madvise(void *address, size_t bytes, int advice) {
  if (advice == POPULATE) {
    atomic_fetch_add(&requests, 1);
    if ((int)bytes > atomic_load(&longest)) atomic_store(&longest, (int)bytes);
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&is_closed)) df_nap();
    atomic_fetch_sub(&waiting, 1);
    if (atomic_load(&fails)) return errno = ENOMEM, -1;
  }
  return (int)syscall(SYS_madvise, address, bytes, advice);
}

/* Service threads of ranks that leave continue after the goodbye. */
static dfcclContext_t leaving[2];
static pthread_t services[2];
static atomic_bool waits_for_goodbye;

static int has_said_goodbye(dfcclContext_t context) {
  df_rank_lock(&context->lock);
  const int has_said = context->control.said_goodbye;
  df_rank_unlock(&context->lock);
  return has_said;
}

int sched_yield(void) {
  for (int r = 0; r < 2 && atomic_load(&waits_for_goodbye); r++)
    while (pthread_equal(pthread_self(), services[r]) && !has_said_goodbye(leaving[r])) df_nap();
  return (int)syscall(SYS_sched_yield);
}

/* ---- two ranks of this process ---- */

static int8_t buffers[2][COUNT], zeros[2][COUNT];

static void open_two(dfcclContext_t ctxs[2], const char *pages_after) {
  df_tune("pages_after", pages_after);
  two_ranks_open(ctxs);
  for (int r = 0; r < 2; r++) {
    OK(dfcclRegisterAllReduce(ctxs[r], SHORT, 1, dfcclInt8, dfcclSum, NULL));
    OK(dfcclRegisterAllReduce(ctxs[r], LARGE, COUNT, dfcclInt8, dfcclSum, NULL));
    memset(buffers[r], r + 1, COUNT);
  }
}

static void run_large(dfcclContext_t ctxs[2]) {
  for (int r = 0; r < 2; r++)
    OK(dfcclRunAllReduce(ctxs[r], LARGE, buffers[r], buffers[r], NULL, NULL));
}

static void run_short(dfcclContext_t ctxs[2]) {
  int8_t values[2] = {4, 5};
  for (int r = 0; r < 2; r++)
    OK(dfcclRunAllReduce(ctxs[r], SHORT, &values[r], &values[r], NULL, NULL));
  for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], SHORT));
  CHECK(values[0] == 9 && values[1] == 9, "%d and %d", values[0], values[1]);
}

static void check_large(void) {
  for (int r = 0; r < 2; r++)
    for (int i = 0; i < COUNT; i++)
      CHECK(buffers[r][i] == 3, "rank %d, element %d: %d", r, i, buffers[r][i]);
}

DF_TEST(link_setup, keeps_nobody_waiting, 60) {
  dfcclContext_t ctxs[2];
  int done = 1;
  open_two(ctxs, "0");
  run_short(ctxs); /* its links stand */
  atomic_store(&is_closed, true);
  run_large(ctxs);
  EVENTUALLY(atomic_load(&waiting) == 2);
  for (int i = 0; i < 10; i++) run_short(ctxs);
  for (int r = 0; r < 2; r++) {
    OK(dfcclRegisterAllReduce(ctxs[r], OTHER, 1, dfcclInt8, dfcclSum, NULL));
    OK(dfcclDeregister(ctxs[r], OTHER));
    RESULT(dfcclDeregister(ctxs[r], LARGE), dfcclInvalidUsage);
    OK(dfcclTest(ctxs[r], LARGE, &done));
    CHECK(!done, "without rings");
  }
  for (int r = 0; r < 2; r++) /* once more: rings are under way already */
    OK(dfcclRunAllReduce(ctxs[r], LARGE, zeros[r], zeros[r], NULL, NULL));
  atomic_store(&is_closed, false);
  for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], LARGE));
  check_large();
  two_ranks_close(ctxs);
}

DF_TEST(link_setup, ends_before_the_context, 60) {
  dfcclContext_t ctxs[2];
  pthread_t threads[2];
  open_two(ctxs, "0");
  atomic_store(&is_closed, true);
  run_large(ctxs);
  EVENTUALLY(atomic_load(&waiting) == 2);
  two_ranks_begin(threads, two_ranks_destroy, ctxs);
  atomic_store(&is_closed, false);
  two_ranks_end(threads);
  check_large();
}

DF_TEST(link_setup, does_without_pages, 60) {
  dfcclContext_t ctxs[2];
  open_two(ctxs, "0");
  atomic_store(&fails, true);
  run_large(ctxs);
  for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], LARGE));
  atomic_store(&fails, false);
  check_large();
  two_ranks_close(ctxs);
}

DF_TEST(link_setup, is_given_up_with_the_runs, 60) {
  dfcclContext_t ctxs[2];
  open_two(ctxs, "0");
  run_short(ctxs);
  df_rank_lock(&ctxs[0]->lock);
  uint64_t used = ctxs[0]->transports.shm->arena.used_bytes;
  df_rank_unlock(&ctxs[0]->lock);
  atomic_store(&is_closed, true);
  run_large(ctxs);
  EVENTUALLY(atomic_load(&waiting) == 2);
  OK(dfcclAbort(ctxs[0]));
  RESULT(dfcclWait(ctxs[0], LARGE), dfcclAborted);
  atomic_store(&is_closed, false);
  RESULT(dfcclWait(ctxs[1], LARGE), dfcclRemoteError);
  EVENTUALLY(atomic_load(&waiting) == 0);
  uint64_t now;
  do { /* the range goes back once the thread that had it has the lock */
    df_nap();
    df_rank_lock(&ctxs[0]->lock);
    now = ctxs[0]->transports.shm->arena.used_bytes;
    df_rank_unlock(&ctxs[0]->lock);
  } while (now != used);
  two_ranks_close(ctxs);
}

static void wait_large(dfcclContext_t ctxs[2]) {
  for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], LARGE));
}

/* The service thread holds a reference meanwhile. */
static int has_all_pages(dfcclContext_t context) {
  df_rank_lock(&context->lock);
  const df_coll *coll = df_find(context, LARGE);
  const int has_all = coll->exec.pages == DF_PAGES_AS_USED && coll->references == 1;
  df_rank_unlock(&context->lock);
  return has_all;
}

static df_ring_memory ring_memory(dfcclContext_t context) {
  df_ring_memory memory = {0};
  df_rank_lock(&context->lock);
  df_shm_add_all_memory(&context->transports.shm->base, &memory);
  df_rank_unlock(&context->lock);
  return memory;
}

DF_TEST(link_setup, gets_pages_when_runs_repeat, 60) {
  dfcclContext_t ctxs[2];
  open_two(ctxs, "2");
  run_short(ctxs);
  run_large(ctxs);
  wait_large(ctxs);
  check_large();
  for (int i = 0; i < 10; i++) run_short(ctxs);
  CHECK(atomic_load(&requests) == 0, "%d requests for pages", atomic_load(&requests));
  run_large(ctxs);
  wait_large(ctxs);
  for (int r = 0; r < 2; r++) {
    EVENTUALLY(has_all_pages(ctxs[r]));
    const df_ring_memory memory = ring_memory(ctxs[r]);
    CHECK(memory.used >= memory.reserved, "%llu of %llu bytes", (unsigned long long)memory.used,
          (unsigned long long)memory.reserved);
  }
  CHECK(atomic_load(&longest) <= (DF_PAGES_UNDER_LOCK + 1) * DF_PAGE,
        "%d bytes at one time, under the lock", atomic_load(&longest));
  const int all = atomic_load(&requests);
  run_large(ctxs);
  wait_large(ctxs);
  run_short(ctxs);
  CHECK(all > 0 && atomic_load(&requests) == all, "pages are requested again");
  two_ranks_close(ctxs);
}

/* Both ranks deregister while the pages come, or one of them aborts. Nothing is left of them. */
DF_TEST(link_setup, gets_no_pages_for_what_has_gone, 60) {
  for (int round = 0; round < 200; round++) {
    dfcclContext_t ctxs[2];
    open_two(ctxs, "1");
    run_large(ctxs);
    wait_large(ctxs);
    for (int i = 0; i < round % 8; i++) df_nap();
    if (round % 10 == 0) OK(dfcclAbort(ctxs[0]));
    for (int r = 0; r < 2; r++) OK(dfcclDeregister(ctxs[r], LARGE));
    for (int r = 0; r < 2 && round % 10; r++) {
      EVENTUALLY(ring_memory(ctxs[r]).reserved == 0 && ring_memory(ctxs[r]).used == 0);
      df_nap();
      CHECK(ring_memory(ctxs[r]).used == 0, "%llu bytes are left on rank %d",
            (unsigned long long)ring_memory(ctxs[r]).used, r);
    }
    two_ranks_close(ctxs);
  }
}

/* A rank that has deregistered everything and leaves: the peer may give its rings back. */
DF_TEST(link_setup, gets_no_pages_after_its_goodbye, 60) {
  dfcclContext_t ctxs[2];
  pthread_t threads[2];
  open_two(ctxs, "1");
  for (int r = 0; r < 2; r++) {
    leaving[r] = ctxs[r];
    services[r] = ctxs[r]->control.thread;
  }
  atomic_store(&is_closed, true);
  run_large(ctxs);
  EVENTUALLY(atomic_load(&waiting) == 2);
  atomic_store(&waits_for_goodbye, true);
  two_ranks_begin(threads, two_ranks_destroy, ctxs);
  atomic_store(&is_closed, false);
  two_ranks_end(threads);
  CHECK(atomic_load(&requests) == 2, "%d requests for pages", atomic_load(&requests));
}

/* ---- rank 0, and rank 1 played by the test ---- */

/* The announcements of the members, which are ranks 0 and 1. */
static df_announcement register_broadcast(const df_stage *s, uint32_t root) {
  static const int ranks[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  OK(dfcclRegisterBroadcast(s->context, LARGE, COUNT, dfcclInt8, (int)root, &options));
  return stage_announcement_of(s, LARGE);
}

static void call_alone(const df_stage *s) {
  static const int self = 0;
  int8_t value = 7;
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = &self;
  options.nRanks = 1;
  OK(dfcclRegisterAllReduce(s->context, OTHER, 1, dfcclInt8, dfcclSum, &options));
  OK(dfcclRunAllReduce(s->context, OTHER, &value, &value, NULL, NULL));
  OK(dfcclWait(s->context, OTHER));
  OK(dfcclDeregister(s->context, OTHER));
}

/* As many slots again as the members agreed on, in a segment of their own. */
static void offer_deep_rings(const df_stage *s, const df_announcement *a) {
  uint64_t id = DF_FIRST_LINKS_SEGMENT + LINKS;
  uint32_t n_slots = 2 * a->n_slots;
  uint64_t bytes = df_link_ring_bytes(a->stride, n_slots) * a->n_blocks;
  stage_offer_segment(s, id, DF_ALIGN_UP(bytes, (uint64_t)DF_PAGE), DF_SEGMENT_LINKS);
  stage_offer_rings(s, 1, LARGE, &(df_shm_offer){.segment = id, .n_slots = n_slots});
  EVENTUALLY(atomic_load(&waiting) == 1);
}

static int is_ready(const df_stage *s) {
  df_rank_lock(&s->context->lock);
  int ready = df_find(s->context, LARGE)->exec.ready;
  df_rank_unlock(&s->context->lock);
  return ready;
}

DF_TEST(link_setup, keeps_nobody_waiting_for_a_peers_rings, 60) {
  df_stage s;
  df_tune("pages_after", "0");
  stage_open_with_bell(&s);
  atomic_store(&is_closed, true);
  const df_announcement announcement = register_broadcast(&s, ROOT);
  stage_announce(&s, LARGE, &announcement);
  OK(dfcclRunBroadcast(s.context, LARGE, buffers[0], buffers[0], NULL, NULL));
  offer_deep_rings(&s, &announcement);
  call_alone(&s);
  CHECK(!is_ready(&s), "without rings");
  atomic_store(&is_closed, false);
  EVENTUALLY(is_ready(&s));
  stage_die(&s, 1);
  dfcclResult_t result = dfcclWait(s.context, LARGE); /* all of it may fit into the rings */
  CHECK(result == dfcclSuccess || result == dfcclRemoteError, "%s", dfcclGetErrorString(result));
  stage_close(&s);
}

/* Both ends deregister meanwhile: there is nothing left that rings could be of. */
DF_TEST(link_setup, forgets_rings_of_what_has_gone, 60) {
  df_stage s;
  df_tune("pages_after", "0");
  stage_open_with_bell(&s);
  atomic_store(&is_closed, true);
  const df_announcement announcement = register_broadcast(&s, ROOT);
  stage_announce(&s, LARGE, &announcement);
  offer_deep_rings(&s, &announcement);
  OK(dfcclDeregister(s.context, LARGE));
  df_message deregister = {.kind = DF_MESSAGE_DEREGISTER, .id = LARGE};
  stage_handle(&s, &deregister, -1);
  atomic_store(&is_closed, false);
  EVENTUALLY(atomic_load(&waiting) == 0);
  call_alone(&s);
  stage_close(&s);
}

/* The collective fails, is deregistered, and registered anew while its first rings are made. */
DF_TEST(link_setup, is_given_up_with_the_registration, 60) {
  df_stage s;
  df_tune("pages_after", "0");
  stage_open_with_bell(&s);
  atomic_store(&is_closed, true);
  df_announcement announcement = register_broadcast(&s, 1);
  stage_announce(&s, LARGE, &announcement);
  OK(dfcclRunBroadcast(s.context, LARGE, buffers[0], buffers[0], NULL, NULL));
  EVENTUALLY(atomic_load(&waiting) == 1);
  df_message fail = {.kind = DF_MESSAGE_DEREGISTER, .id = LARGE};
  stage_handle(&s, &fail, -1); /* without the run that rank 0 has submitted */
  CHECK(dfcclWait(s.context, LARGE) != dfcclSuccess, "a run that the root does not make");
  OK(dfcclDeregister(s.context, LARGE));
  announcement = register_broadcast(&s, 1);
  stage_announce(&s, LARGE, &announcement);
  OK(dfcclRunBroadcast(s.context, LARGE, buffers[0], buffers[0], NULL, NULL));
  atomic_store(&is_closed, false);
  EVENTUALLY(is_ready(&s));
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_LINKS, LARGE), "where rank 0 receives");
  stage_die(&s, 1);
  CHECK(dfcclWait(s.context, LARGE) == dfcclRemoteError, "the root died");
  stage_close(&s);
}

/* The sender dies while rank 0 makes the rings that it would have written to. */
DF_TEST(link_setup, outlives_the_peer, 60) {
  df_stage s;
  df_tune("pages_after", "0");
  stage_open_with_bell(&s);
  atomic_store(&is_closed, true);
  const df_announcement announcement = register_broadcast(&s, 1);
  stage_announce(&s, LARGE, &announcement);
  OK(dfcclRunBroadcast(s.context, LARGE, buffers[0], buffers[0], NULL, NULL));
  EVENTUALLY(atomic_load(&waiting) == 1);
  stage_die(&s, 1);
  call_alone(&s);
  atomic_store(&is_closed, false);
  CHECK(dfcclWait(s.context, LARGE) == dfcclRemoteError, "the root died");
  stage_close(&s);
}
