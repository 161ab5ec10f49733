/*
 * The cost of an idle job, and the delay that a computing rank causes: one rank of two, joined from
 * the environment (docs/CONFIGURATION.md). For development, not installed.
 *
 *   idle      150 all-reduces, then 5 s of sleep: CPU time and wake-ups of the process from 100 ms
 *             after the last run on
 *   compute   rank 1 submits an all-reduce, computes for a second and waits; how long rank 0 waits
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "dfccl.h"

enum { RUNS = 150, TRIES = 3, IDLE_MS = 5000, BEFORE_MS = 100 };

static dfcclContext_t ctx;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void must(dfcclResult_t result) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "bench-rest: %s\n", dfcclGetLastError(ctx));
  exit(1);
}

static void run(dfcclCollId_t id, float *data) {
  must(dfcclRunAllReduce(ctx, id, data, data, NULL, NULL));
  must(dfcclWait(ctx, id));
}

static double cpu_ms(const struct rusage *usage) {
  return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1e3 +
         (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e3;
}

static void idle(int rank, float *data) {
  struct rusage before, after;
  for (int i = 0; i < RUNS; i++) run(0, data);
  usleep(BEFORE_MS * 1000);
  getrusage(RUSAGE_SELF, &before);
  usleep(IDLE_MS * 1000);
  getrusage(RUSAGE_SELF, &after);
  printf("rank %d: idle for %d ms: %.2f ms of CPU, %ld wake-ups\n", rank, IDLE_MS,
         cpu_ms(&after) - cpu_ms(&before),
         after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw);
}

static void compute(int rank, dfcclCollId_t id, size_t count, float *data) {
  for (int i = 0; i < TRIES; i++) {
    run(0, data); /* both begin */
    if (rank == 0) usleep(100000);
    const double begin = now_ms();
    must(dfcclRunAllReduce(ctx, id, data, data, NULL, NULL));
    while (rank == 1 && now_ms() - begin < 1000) {
    }
    must(dfcclWait(ctx, id));
    if (rank == 0)
      printf("rank 0 waits for rank 1, which computes: %zu bytes: %.2f ms\n", count * sizeof *data,
             now_ms() - begin);
  }
}

int main(void) {
  static const size_t counts[] = {2, 16384, 1048576};
  int rank = 0;
  float *data = calloc(counts[2], sizeof *data);
  if (data == NULL) return 1;
  must(dfcclInitFromEnv(&ctx, NULL));
  must(dfcclGetRank(ctx, &rank, NULL));
  for (int i = 0; i < 3; i++)
    must(dfcclRegisterAllReduce(ctx, (dfcclCollId_t)i, counts[i], dfcclFloat32, dfcclSum, NULL));
  for (int i = 0; i < 3; i++) run((dfcclCollId_t)i, data);
  idle(rank, data);
  for (int i = 0; i < 3; i++) compute(rank, (dfcclCollId_t)i, counts[i], data);
  must(dfcclDestroy(ctx));
  free(data);
  return 0;
}
