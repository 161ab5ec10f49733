/*
 * Many ranks of one host, one thread each: crowd FILE FIRST N RANKS. The program runs ranks FIRST
 * to FIRST + N - 1 of RANKS; rank 0 writes the unique id to FILE. The ranks join, run all-reduces,
 * barriers and broadcasts, check every element, and leave. With LEAVES=R, rank R ends its process
 * once all have run, and all other ranks must be notified. The program prints "through RANKS
 * SECONDS: joined J s, registered R s, ran U s, left L s, D descriptors". The exit status is 1
 * after a wrong element or an error.
 */
#include <dfccl.h>
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 64, ROUNDS = 3, STACK_BYTES = 256 * 1024 };
enum { JOINED, REGISTERED, RAN, LEFT, MOMENTS };

static dfcclUniqueId id;
static int ranks, dies = -1;
static _Atomic int failed;
static int n_descriptors; /* a barrier for the moment when all ranks of this process have run */
static pthread_barrier_t all_have_run;
static double begun, moments[MOMENTS]; /* the latest time of this process's ranks */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void note(int moment) {
  const double at = now();
  pthread_mutex_lock(&lock);
  if (at > moments[moment]) moments[moment] = at;
  pthread_mutex_unlock(&lock);
}

static int is_good(dfcclResult_t result, dfcclContext_t ctx, int rank) {
  if (result == dfcclSuccess) return 1;
  fprintf(stderr, "rank %d: %s: %s\n", rank, dfcclGetErrorString(result), dfcclGetLastError(ctx));
  failed = 1;
  return 0;
}

static int descriptors(void) {
  int n = 0;
  DIR *all = opendir("/proc/self/fd");
  while (all && readdir(all)) n++;
  if (all) closedir(all);
  return n;
}

static int run_all(dfcclContext_t ctx, int rank) {
  int32_t data[COUNT];
  const int32_t all = (int32_t)((int64_t)ranks * (ranks + 1) / 2);
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COUNT; i++) data[i] = (rank + 1) + i * round;
    if (!is_good(dfcclRunAllReduce(ctx, 1, data, data, NULL, NULL), ctx, rank) ||
        !is_good(dfcclWait(ctx, 1), ctx, rank))
      return 0;
    for (int i = 0; i < COUNT; i++)
      if (data[i] != all + ranks * i * round) {
        fprintf(stderr, "rank %d: element %d is %d\n", rank, i, data[i]);
        return 0;
      }
  }
  return 1;
}

static void *play(void *argument) {
  const int rank = (int)(intptr_t)argument;
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.maxBlocks = 1;
  config.queueDepth = 16;
  if (!is_good(dfcclInit(&ctx, ranks, id, rank, &config), NULL, rank)) exit(1);
  note(JOINED);
  if (!is_good(dfcclRegisterAllReduce(ctx, 1, COUNT, dfcclInt32, dfcclSum, NULL), ctx, rank))
    exit(1);
  note(REGISTERED);
  if (!run_all(ctx, rank)) failed = 1;
  note(RAN);
  /* NOLINTNEXTLINE(bugprone-posix-return): PTHREAD_BARRIER_SERIAL_THREAD is -1, and no error */
  if (pthread_barrier_wait(&all_have_run) == PTHREAD_BARRIER_SERIAL_THREAD)
    n_descriptors = descriptors();
  pthread_barrier_wait(&all_have_run);
  if (rank == dies) _exit(0);
  if (dies >= 0) {
    int32_t data[COUNT] = {0};
    dfcclResult_t result = dfcclSuccess;
    while (result == dfcclSuccess) {
      result = dfcclRunAllReduce(ctx, 1, data, data, NULL, NULL);
      if (result == dfcclSuccess) result = dfcclWait(ctx, 1);
    }
    if (result != dfcclRemoteError) is_good(result, ctx, rank);
  }
  is_good(dfcclDestroy(ctx), NULL, rank);
  note(LEFT);
  return NULL;
}

static void share_id(const char *path, int first) {
  char draft[512];
  FILE *file;
  if (first == 0) {
    snprintf(draft, sizeof draft, "%s.draft", path);
    file = fopen(draft, "wb");
    if (dfcclGetUniqueId(&id) != dfcclSuccess || file == NULL ||
        fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 || rename(draft, path) != 0)
      exit(3);
    return;
  }
  while ((file = fopen(path, "rb")) == NULL) usleep(10000);
  if (fread(&id, sizeof id, 1, file) != 1) exit(3);
  fclose(file);
}

int main(int argc, char **argv) {
  pthread_attr_t attributes;
  if (argc != 5) return 2;
  const int first = atoi(argv[2]), n = atoi(argv[3]);
  pthread_t *threads = calloc((size_t)n, sizeof *threads);
  ranks = atoi(argv[4]);
  if (getenv("LEAVES")) dies = atoi(getenv("LEAVES"));
  share_id(argv[1], first);
  begun = now();
  pthread_barrier_init(&all_have_run, NULL, (unsigned)n);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  for (int i = 0; i < n; i++)
    if (pthread_create(&threads[i], &attributes, play, (void *)(intptr_t)(first + i)) != 0) exit(3);
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  printf("through %d %.2f: joined %.2f s, registered %.2f s, ran %.2f s, left %.2f s, %d "
         "descriptors\n",
         ranks, now() - begun, moments[JOINED] - begun, moments[REGISTERED] - begun,
         moments[RAN] - begun, moments[LEFT] - begun, n_descriptors);
  free(threads);
  return failed;
}
