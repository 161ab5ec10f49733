/*
 * Promise of src/control/process_inbox.c: ranks of a process that join late receive the messages of
 * ranks that left early, as long as any rank may join. Afterwards nothing is kept of a job that
 * never formed, also if not all of its ranks had its number.
 */
#include "control/process_inbox.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

enum { RANKS = 4 }; /* and each look at it counts as one that comes */

static int has_left(const unsigned char *job, uint32_t rank) {
  df_process_inbox *process_inbox = df_process_inbox_join(job, RANKS, RANKS);
  CHECK(process_inbox != NULL, "no memory");
  int left = df_process_inbox_has_left(process_inbox, rank);
  df_process_inbox_release(process_inbox);
  return left;
}

DF_TEST(process_inbox, of_a_job_that_failed_while_it_formed, 30) {
  df_mesh mesh = {.job = {42}, .n_ranks = RANKS, .n_local = RANKS};
  for (int i = 0; i < 2; i++) df_process_inbox_arriving();
  df_process_inbox_miss(&mesh); /* rank 0, without the messages that the others have received */
  df_process_inbox_arrived();
  CHECK(has_left(mesh.job, 0), "rank 1 may have heard that the job stands, and waits for rank 0");
  df_process_inbox_arrived(); /* rank 1, which has failed before it knew the job */
  CHECK(!has_left(mesh.job, 0), "a record of the job is kept");
  df_process_inbox_expect_less(mesh.job, RANKS - 1);
}

/* Each loss wakes all ranks of the process; a second loss of the same rank is ignored. */
DF_TEST(process_inbox, a_rank_falls_silent_once, 30) {
  const unsigned char job[16] = {9};
  df_process_inbox *process_inbox = df_process_inbox_join(job, RANKS, RANKS);
  CHECK(process_inbox != NULL, "no memory");
  const uint32_t before = df_process_inbox_departures(process_inbox);
  for (int time = 0; time < 2; time++) {
    df_process_inbox_set_silent(process_inbox, 2);
    CHECK(df_process_inbox_departures(process_inbox) == before + 1, "time %d: %u departures", time,
          df_process_inbox_departures(process_inbox) - before);
  }
  CHECK(df_process_inbox_is_silent(process_inbox, 2) &&
            !df_process_inbox_is_silent(process_inbox, 1),
        "who is mute");
  df_process_inbox_expect_less(job, RANKS - 1);
  df_process_inbox_release(process_inbox);
}

DF_TEST(process_inbox, in_which_somebody_is, 30) {
  const unsigned char job[16] = {7};
  df_process_inbox *process_inbox = df_process_inbox_join(job, RANKS, RANKS);
  CHECK(process_inbox != NULL, "no memory");
  df_process_inbox_detach(process_inbox, 0);
  df_process_inbox_arriving();
  df_process_inbox_arrived();
  CHECK(has_left(job, 0), "it was freed");
  df_process_inbox_expect_less(job, RANKS - 2);
  df_process_inbox_release(process_inbox);
}

static atomic_int stop_arriving;

static void *arrive(void *arg) {
  (void)arg;
  while (!atomic_load(&stop_arriving)) {
    df_process_inbox_arriving();
    df_process_inbox_arrived();
  }
  return NULL;
}

/* A child has none of the threads that may have held the lock. */
DF_TEST(process_inbox, a_forked_child_finds_it_unlocked, 60) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, arrive, NULL) == 0, "no thread");
  for (int i = 0; i < 300; i++) {
    int status;
    pid_t child = fork();
    if (child == 0) {
      alarm(5); /* ends a child that waits for ever */
      df_process_inbox_arriving();
      df_process_inbox_arrived();
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "fork %d: status 0x%x", i, status);
  }
  atomic_store(&stop_arriving, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}
