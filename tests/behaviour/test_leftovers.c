/*
 * Promise: nothing stays behind: after dfcclDestroy no descriptors, threads or children of this
 * process and no names in /dev/shm or among the Unix sockets; and after all ranks were killed with
 * SIGKILL none of the latter either once the next job runs.
 */
#include "support/buffers.h"
#include "support/leftovers.h"
#include "support/processes.h"

#include <signal.h>
#include <unistd.h>

static char before[1 << 17], during[1 << 17];

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
  void *forgotten = NULL; /* dfcclDestroy frees what was not freed */
  OK(dfcclMemAlloc(ctxs[0], &forgotten, 1 << 20));
}

DF_TEST(leftovers, after_destroy, 60) {
  dfcclContext_t ctxs[3];
  use_everything(ctxs, 3); /* what the C library keeps from the first time is not ours */
  df_free_contexts(ctxs, 3);
  int threads = df_thread_count(), descriptors = df_descriptor_count(), children = df_child_count();
  int shm = df_shm_entry_count();
  df_unix_socket_names(before, sizeof before);
  for (int i = 0; i < 5; i++) {
    use_everything(ctxs, 3);
    df_unix_socket_names(during, sizeof during);
    df_free_contexts(ctxs, 3);
  }
  EVENTUALLY(df_thread_count() <= threads); /* a joined thread may be listed for a moment */
  CHECK(df_descriptor_count() == descriptors, "%d descriptors, %d before", df_descriptor_count(),
        descriptors);
  CHECK(df_child_count() == children, "%d children, %d before", df_child_count(), children);
  CHECK(df_shm_entry_count() == shm, "%d entries in /dev/shm, %d before", df_shm_entry_count(),
        shm);
  EVENTUALLY(df_unix_sockets_left(before, during) == 0);
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
  EVENTUALLY(df_thread_count() <= threads);
  CHECK(df_child_count() == 0, "%d children", df_child_count());
}

DF_TEST(leftovers, after_all_ranks_were_killed, 60) {
  enum { RANKS = 3 };
  atomic_int *busy = df_shared(sizeof *busy);
  int shm = df_shm_entry_count();
  df_unix_socket_names(before, sizeof before);
  df_family family;
  df_fork(&family, RANKS, 50, work_for_ever, busy);
  EVENTUALLY(atomic_load(busy) == RANKS);
  df_unix_socket_names(during, sizeof during);
  for (int rank = 0; rank < RANKS; rank++) kill(family.pids[rank], SIGKILL);
  for (int rank = 0; rank < RANKS; rank++) df_reap(&family, rank);
  df_fork(&family, RANKS, 30, work_a_little, NULL);
  df_join(&family);
  CHECK(df_shm_entry_count() == shm, "%d entries in /dev/shm, %d before", df_shm_entry_count(),
        shm);
  EVENTUALLY(df_unix_sockets_left(before, during) == 0);
}
