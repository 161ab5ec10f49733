/*
 * One rank of a job that a launcher or a shell has started. It joins from the environment, or by a
 * unique id (join FILE RANK RANKS [MAKER]: rank MAKER, or 0, writes the file), runs all-reduces and
 * checks every element. It prints "rank R of N is through", or the error's sentence with exit
 * status 1.
 */
#include <dfccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 50000, ROUNDS = 20 };

static void must(dfcclResult_t result, dfcclContext_t ctx) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "%s: %s\n", dfcclGetErrorString(result), dfcclGetLastError(ctx));
  exit(1);
}

static dfcclContext_t join_by_id(const char *path, int rank, int ranks, int maker) {
  char draft[512];
  dfcclUniqueId id;
  dfcclContext_t ctx;
  FILE *file;
  if (rank == maker) {
    must(dfcclGetUniqueId(&id), NULL);
    snprintf(draft, sizeof draft, "%s.draft", path);
    file = fopen(draft, "wb");
    if (file == NULL || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 ||
        rename(draft, path) != 0)
      exit(3);
  } else {
    while ((file = fopen(path, "rb")) == NULL) usleep(10000);
    if (fread(&id, sizeof id, 1, file) != 1) exit(3);
    fclose(file);
  }
  must(dfcclInit(&ctx, ranks, id, rank, NULL), NULL);
  return ctx;
}

int main(int argc, char **argv) {
  static int32_t data[COUNT];
  dfcclContext_t ctx;
  int rank, ranks;
  if (argc >= 4)
    ctx = join_by_id(argv[1], atoi(argv[2]), atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
  else
    must(dfcclInitFromEnv(&ctx, NULL), NULL);
  must(dfcclGetRank(ctx, &rank, &ranks), ctx);
  must(dfcclRegisterAllReduce(ctx, 1, COUNT, dfcclInt32, dfcclSum, NULL), ctx);
  for (int round = 0; round < ROUNDS; round++) {
    const int all = ranks * (ranks + 1) / 2;
    for (int i = 0; i < COUNT; i++) data[i] = (rank + 1) * (i + round);
    must(dfcclRunAllReduce(ctx, 1, data, data, NULL, NULL), ctx);
    must(dfcclWait(ctx, 1), ctx);
    for (int i = 0; i < COUNT; i++)
      if (data[i] != all * (i + round)) {
        fprintf(stderr, "rank %d: element %d is %d, not %d\n", rank, i, data[i], all * (i + round));
        return 1;
      }
  }
  /* With the option to wait, the rank lives until it is killed. */
  if (getenv("STAY")) {
    printf("rank %d stays, process %d\n", rank, (int)getpid());
    fflush(stdout);
    dfcclResult_t result = dfcclSuccess;
    while (result == dfcclSuccess) {
      result = dfcclRunAllReduce(ctx, 1, data, data, NULL, NULL);
      if (result == dfcclSuccess) result = dfcclWait(ctx, 1);
    }
    fprintf(stderr, "%s: %s\n", dfcclGetErrorString(result), dfcclGetLastError(ctx));
    must(dfcclDestroy(ctx), NULL);
    printf("rank %d is out\n", rank);
    return 1;
  }
  must(dfcclDestroy(ctx), ctx);
  printf("rank %d of %d is through\n", rank, ranks);
  return 0;
}
