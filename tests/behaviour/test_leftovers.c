/*
 * Promise: nothing remains. After dfcclDestroy there are no descriptors, threads or children of the
 * library in this process, and no names in /dev/shm or among the Unix sockets. After all ranks were
 * killed with SIGKILL no such names remain either once the next job runs.
 */
#include "support/buffers.h"
#include "support/leftovers.h"
#include "support/memory.h"
#include "support/processes.h"

#include <signal.h>
#include <unistd.h>

/* Names on the whole machine, before this job's names exist and while they exist. */
enum { NAMES_BYTES = 1 << 17 };
static char sockets_before[NAMES_BYTES], sockets_during[NAMES_BYTES];
static char shm_before[NAMES_BYTES], shm_during[NAMES_BYTES];

static void look_before(void) {
  df_unix_socket_names(sockets_before, NAMES_BYTES);
  df_shm_names(shm_before, NAMES_BYTES);
}

static void look_during(void) {
  df_unix_socket_names(sockets_during, NAMES_BYTES);
  df_shm_names(shm_during, NAMES_BYTES);
}

static void expect_gone(void) {
  EVENTUALLY(df_unix_sockets_left(sockets_before, sockets_during) == 0);
  EVENTUALLY(df_shm_names_left(shm_before, shm_during) == 0);
}

static void use_everything(dfcclContext_t *ctxs, int ranks) {
  df_make_contexts(ctxs, ranks, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
    df_collective coll = {.kind = (df_kind)kind,
                          .type = dfcclFloat32,
                          .op = dfcclSum,
                          .count = 5000,
                          .members = ranks};
    df_register_all(ctxs, (dfcclCollId_t)kind, &coll);
    df_exchange(ctxs, (dfcclCollId_t)kind, &coll, 0, kind % 2 ? DF_ZERO_COPY : 0);
  }
  void *forgotten = NULL; /* dfcclDestroy frees the remaining memory */
  OK(dfcclMemAlloc(ctxs[0], &forgotten, 1 << 20));
}

DF_TEST(leftovers, after_destroy, 60) {
  dfcclContext_t ctxs[3];
  use_everything(ctxs, 3); /* memory that the C library keeps from its first use does not count */
  df_free_contexts(ctxs, 3);
  int threads = df_thread_count(), descriptors = df_descriptor_count(), children = df_child_count();
  look_before();
  for (int i = 0; i < 5; i++) {
    use_everything(ctxs, 3);
    look_during();
    df_free_contexts(ctxs, 3);
  }
  EVENTUALLY(df_thread_count() <= threads); /* a joined thread may be listed for a moment */
  CHECK(df_descriptor_count() == descriptors, "%d descriptors, %d before", df_descriptor_count(),
        descriptors);
  CHECK(df_child_count() == children, "%d children, %d before", df_child_count(), children);
  expect_gone();
}

static void work_for_ever(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  atomic_int *busy = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(20000, ranks);
  OK(df_register(ctx, 1, &coll));
  for (uint64_t run = 0;; run++) {
    df_take_part(ctx, 1, &coll, rank, run, run % 2 ? DF_ZERO_COPY : 0);
    if (run == 3) atomic_fetch_add(busy, 1);
  }
}

static void work_a_little(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  int threads = df_thread_count();
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(20000, ranks);
  OK(df_register(ctx, 1, &coll));
  df_take_part(ctx, 1, &coll, rank, 0, DF_ZERO_COPY);
  df_finish(ctx);
  /* The CUDA runtime keeps threads of its own; after_destroy counts from the moment when they
   * exist. */
  if (!df_on_cuda()) EVENTUALLY(df_thread_count() <= threads);
  CHECK(df_child_count() == 0, "%d children", df_child_count());
}

DF_TEST(leftovers, after_all_ranks_were_killed, 60) {
  enum { RANKS = 3 };
  atomic_int *busy = df_shared(sizeof *busy);
  look_before();
  df_family family;
  df_fork(&family, RANKS, 50, work_for_ever, busy);
  EVENTUALLY(atomic_load(busy) == RANKS);
  look_during();
  CHECK(sockets_during[0] != '\0', "no socket of the ranks is seen: this test could not fail");
  for (int rank = 0; rank < RANKS; rank++) kill(family.pids[rank], SIGKILL);
  for (int rank = 0; rank < RANKS; rank++) df_reap(&family, rank);
  df_fork(&family, RANKS, 30, work_a_little, NULL);
  df_join(&family);
  expect_gone();
}
