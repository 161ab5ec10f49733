/*
 * Promise of src/control/process_inbox.c: who leaves early is heard by the ranks of its process that come
 * late, as long as any may come; then nothing is kept of a job that never formed, also where not
 * all of its ranks know which it was.
 */
#include "control/process_inbox.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

enum { RANKS = 4 }; /* and each look at it counts as one that comes */

static int has_left(const unsigned char *job, uint32_t rank) {
  df_world *world = df_world_join(job, RANKS, RANKS);
  CHECK(world != NULL, "no memory");
  int left = df_world_has_left(world, rank);
  df_world_release(world);
  return left;
}

DF_TEST(world, of_a_job_that_failed_while_it_formed, 30) {
  df_mesh mesh = {.job = {42}, .n_ranks = RANKS, .n_local = RANKS};
  for (int i = 0; i < 2; i++) df_world_arriving();
  df_world_miss(&mesh); /* rank 0, which does not know what others have heard */
  df_world_arrived();
  CHECK(has_left(mesh.job, 0), "rank 1 may have heard that the job stands, and waits for rank 0");
  df_world_arrived(); /* rank 1, which has failed before it knew the job */
  CHECK(!has_left(mesh.job, 0), "a record of the job is kept");
  df_world_expect_less(mesh.job, RANKS - 1);
}

/* Each loss wakes all ranks of the process; a second one of the same rank is none. */
DF_TEST(world, a_rank_falls_silent_once, 30) {
  const unsigned char job[16] = {9};
  df_world *world = df_world_join(job, RANKS, RANKS);
  CHECK(world != NULL, "no memory");
  const uint32_t before = df_world_departures(world);
  for (int time = 0; time < 2; time++) {
    df_world_mute(world, 2);
    CHECK(df_world_departures(world) == before + 1, "time %d: %u departures", time,
          df_world_departures(world) - before);
  }
  CHECK(df_world_is_mute(world, 2) && !df_world_is_mute(world, 1), "who is mute");
  df_world_expect_less(job, RANKS - 1);
  df_world_release(world);
}

DF_TEST(world, in_which_somebody_is, 30) {
  const unsigned char job[16] = {7};
  df_world *world = df_world_join(job, RANKS, RANKS);
  CHECK(world != NULL, "no memory");
  df_world_detach(world, 0);
  df_world_arriving();
  df_world_arrived();
  CHECK(has_left(job, 0), "it was freed");
  df_world_expect_less(job, RANKS - 2);
  df_world_release(world);
}

static atomic_int stop_arriving;

static void *arrive(void *arg) {
  (void)arg;
  while (!atomic_load(&stop_arriving)) {
    df_world_arriving();
    df_world_arrived();
  }
  return NULL;
}

/* A child has none of the threads that may have held the lock. */
DF_TEST(world, a_forked_child_finds_it_unlocked, 60) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, arrive, NULL) == 0, "no thread");
  for (int i = 0; i < 300; i++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      alarm(5); /* ends a child that waits for ever */
      df_world_arriving();
      df_world_arrived();
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "fork %d: status 0x%x", i, status);
  }
  atomic_store(&stop_arriving, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}
