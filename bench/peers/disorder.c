/*
 * Usage: disorder-LIBRARY DIRECTORY RANKS RANK|-1 PROGRAM COLLECTIVES ITERATIONS SECONDS; the
 * driver (bench/peers/disorder) starts it. Every rank, from one thread, runs the same all-reduces,
 * each rank in its own order. PROGRAM:
 *
 * blocking: blocking calls, one after the other.
 *
 * mixed: the first is a blocking call on every rank, at its place in the rank's order; the others
 * are started without waiting, and waited for at the end. (Blocking and non-blocking calls of MPI
 * do not match: a collective is blocking on all ranks or on none.)
 *
 * started: all are started, then all are waited for, in the same order.
 *
 * same: as started, with one communicator for all collectives.
 */
#include "disorder.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST_COLLECTIVES = 64, SMALLEST_BYTES = 256, SIZES = 13 /* to 1 MB */, CANNOT = 3 };

static disorder_job job;
static disorder_collective all[MOST_COLLECTIVES];

static uint64_t next_random(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t value = *state;
  value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
  return value ^ (value >> 31);
}

/* First the plainest disorder, forwards on even ranks and backwards on odd ones; then any. */
static void choose_order(int *order, int iteration) {
  uint64_t random = (uint64_t)iteration * 1000003 + (uint64_t)job.rank;
  for (int i = 0; i < job.collectives; i++) {
    int j = iteration == 0 ? i : (int)(next_random(&random) % (uint64_t)(i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  for (int i = 0; iteration == 0 && job.rank % 2 == 1 && i < job.collectives / 2; i++) {
    int other = job.collectives - 1 - i, kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

/* Whole numbers: every order of additions gives the same sum. */
static float element(int rank, int number, int iteration, size_t position) {
  return (float)((size_t)(rank + 1) * 3 + (size_t)number * 7 + (size_t)iteration + position % 61);
}

static void fill(int iteration) {
  for (int c = 0; c < job.collectives; c++)
    for (size_t i = 0; i < all[c].count; i++) {
      all[c].send[i] = element(job.rank, c, iteration, i);
      all[c].recv[i] = -1;
    }
}

static long long wrong_elements(int iteration) {
  long long wrong = 0;
  for (int c = 0; c < job.collectives; c++)
    for (size_t i = 0; i < all[c].count; i++) {
      float sum = 0;
      for (int r = 0; r < job.n_ranks; r++) sum += element(r, c, iteration, i);
      wrong += all[c].recv[i] != sum;
    }
  return wrong;
}

static bool run_once(const char *program, const int *order) {
  bool blocking = strcmp(program, "blocking") == 0, mixed = strcmp(program, "mixed") == 0;
  for (int i = 0; i < job.collectives; i++) {
    const disorder_collective *one = &all[order[i]];
    bool calls = blocking || (mixed && one->number == 0);
    if (!(calls ? disorder_call(one) : disorder_start(one))) return false;
  }
  for (int i = 0; !blocking && i < job.collectives; i++)
    if (!(mixed && order[i] == 0) && !disorder_wait(&all[order[i]])) return false;
  return true;
}

/* The driver reads "DONE WRONG" from a file for each rank. */
static bool report(int iterations, long long wrong) {
  char path[512];
  snprintf(path, sizeof path, "%s/result.%d", job.directory, job.rank);
  FILE *file = fopen(path, "w");
  if (file == NULL) return false;
  fprintf(file, "%d %lld\n", iterations, wrong);
  return fclose(file) == 0;
}

static bool make_collectives(void) {
  for (int c = 0; c < job.collectives; c++) {
    size_t bytes = (size_t)SMALLEST_BYTES << (c * 5 % SIZES);
    all[c] = (disorder_collective){c, bytes / sizeof(float), malloc(bytes), malloc(bytes)};
    if (all[c].send == NULL || all[c].recv == NULL || !disorder_register(&all[c])) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fprintf(stderr, "usage: %s DIRECTORY RANKS RANK|-1 PROGRAM COLLECTIVES ITERATIONS SECONDS\n",
            argv[0]);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives its launcher */
  const char *program = argv[4];
  int iterations = atoi(argv[6]);
  job = (disorder_job){
      argv[1],      atoi(argv[3]), atoi(argv[2]), atoi(argv[5]), strcmp(program, "same") == 0,
      atoi(argv[7])};
  if (job.collectives < 1 || job.collectives > MOST_COLLECTIVES) return 2;
  if (strcmp(program, "blocking") != 0 && !disorder_can_start()) return CANNOT;
  if (!disorder_open(&job) || !make_collectives()) return 1;
  long long wrong = 0;
  for (int i = 0; i < iterations; i++) {
    int order[MOST_COLLECTIVES];
    choose_order(order, i);
    fill(i);
    if (!run_once(program, order)) _exit(1); /* the library might wait for ever */
    wrong += wrong_elements(i);
  }
  bool is_reported = report(iterations, wrong);
  disorder_close();
  return is_reported ? 0 : 1;
}
