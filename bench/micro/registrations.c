/*
 * The memory of registrations that run once: one rank of a job that is joined from the environment
 * (docs/CONFIGURATION.md). For development, not installed.
 *
 *   bench-registrations [COLLECTIVES [STEP]]   (1000, 1)
 *
 * The i-th all-reduce has i * STEP floats. Each line has the rank's own part of the memory that
 * processes share (Pss), as the system counts it, and the library's account.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dfccl.h"

enum { SETTLED_MS = 3000 };

static dfcclContext_t ctx;

static void must(dfcclResult_t result) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "bench-registrations: %s\n", dfcclGetLastError(ctx));
  exit(1);
}

/* KB of a line of /proc/self/smaps_rollup; 0: the system does not say. */
static long pss_kb(const char *what) {
  char line[256];
  long kb = 0;
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, what, strlen(what)) == 0) kb = atol(line + strlen(what));
  if (file) fclose(file);
  return kb;
}

static void report(const char *moment, int rank) {
  dfcclMemory_t memory = DFCCL_MEMORY_INITIALIZER;
  must(dfcclGetMemory(ctx, &memory));
  printf("rank %d, %s: private %ld KB, shared %ld KB; account: %llu collectives, records %llu KB, "
         "rings %llu KB of %llu KB\n",
         rank, moment, pss_kb("Pss_Anon:"), pss_kb("Pss_Shmem:"),
         (unsigned long long)memory.collectives, (unsigned long long)memory.recordBytes / 1024,
         (unsigned long long)memory.ringBytes / 1024,
         (unsigned long long)memory.reservedBytes / 1024);
  fflush(stdout);
}

static void barrier(void) {
  must(dfcclRunBarrier(ctx, 0, NULL, NULL));
  must(dfcclWait(ctx, 0));
}

int main(int argc, char **argv) {
  const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
  const size_t step = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
  int rank = 0;
  float *data = calloc(n * step + 1, sizeof *data);
  if (data == NULL) return 1;
  must(dfcclInitFromEnv(&ctx, NULL));
  must(dfcclGetRank(ctx, &rank, NULL));
  must(dfcclRegisterBarrier(ctx, 0, NULL));
  for (size_t i = 0; i < n * step; i++) data[i] = 0;
  barrier();
  report("at the start", rank);
  for (size_t i = 1; i <= n; i++) {
    must(dfcclRegisterAllReduce(ctx, i, i * step, dfcclFloat32, dfcclSum, NULL));
    must(dfcclRunAllReduce(ctx, i, data, data, NULL, NULL));
    must(dfcclWait(ctx, i));
  }
  barrier();
  report("after the runs", rank);
  barrier();
  for (size_t i = 1; i <= n; i++) must(dfcclDeregister(ctx, i));
  usleep(SETTLED_MS * 1000);
  report("deregistered", rank);
  must(dfcclDestroy(ctx));
  free(data);
  return 0;
}
