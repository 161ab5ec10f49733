/*
 * Two processes: one makes the unique id, which the others get by any means (here: a pipe); then
 * every process joins the job with its rank. Across launchers such as mpirun or torchrun
 * dfcclInitFromEnv does this by itself.
 */
#include <dfccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 1000 };

static void must(dfcclResult_t result, const char *what) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "%s: %s\n", what, dfcclGetLastError(NULL));
  exit(1);
}

static int run_rank(int rank, dfcclUniqueId id) {
  static int data[COUNT];
  dfcclContext_t ctx;
  for (int i = 0; i < COUNT; i++) data[i] = i * (rank + 1);
  must(dfcclInit(&ctx, RANKS, id, rank, NULL), "dfcclInit");
  must(dfcclRegisterAllReduce(ctx, 1, COUNT, dfcclInt32, dfcclSum, NULL), "register");
  must(dfcclRunAllReduce(ctx, 1, data, data, NULL, NULL), "run");
  must(dfcclWait(ctx, 1), "wait");
  must(dfcclDestroy(ctx), "dfcclDestroy");
  printf("rank %d, process %d: the last element is %d\n", rank, (int)getpid(), data[COUNT - 1]);
  return data[COUNT - 1] == 3 * (COUNT - 1) ? 0 : 1;
}

int main(void) {
  int ends[2];
  dfcclUniqueId id;
  if (pipe(ends) != 0) return 1;
  pid_t child = fork(); /* before any call of the library */
  if (child < 0) return 1;
  if (child == 0) {
    if (read(ends[0], &id, sizeof id) != sizeof id) return 1;
    return run_rank(1, id);
  }
  must(dfcclGetUniqueId(&id), "dfcclGetUniqueId");
  if (write(ends[1], &id, sizeof id) != sizeof id) return 1;
  int status = run_rank(0, id), child_status = 1;
  waitpid(child, &child_status, 0);
  return status != 0 || child_status != 0;
}
