/*
 * gpu-nccl [--json] LIBNCCL allreduce RANKS MIN MAX: NCCL's ranks as threads on one GPU, float
 * sums, run and wait as dfccl-bench does, and back to back on the stream. gpu-nccl [--json] LIBNCCL
 * disorder RANKS COLLECTIVES SECONDS: each rank its own order on one stream, a communicator for
 * each collective; whether all come through within so many seconds.
 *
 * NCCL 2.30 or newer with NCCL_MULTI_RANK_GPU_ENABLE=1: an older one refuses two ranks on a GPU.
 * Status 77: it is older.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLOAT32 = 7, SUM = 0, OLDEST = 23000, SKIPPED = 77 }; /* NCCL's numbers */
enum { MOST_RANKS = 16, MOST_COLLECTIVES = 64, RUNS = 200, FEW_RUNS = 20, WARMUP = 5, BURST = 20 };

typedef struct unique_id {
  char internal[128];
} unique_id;

static struct {
  int (*version)(int *version);
  int (*id)(unique_id *id);
  int (*init)(void **communicator, int ranks, unique_id id, int rank);
  int (*all_reduce)(const void *send, void *recv, size_t count, int type, int op,
                    void *communicator, cudaStream_t stream);
  const char *(*error)(int result);
} nccl;

static struct {
  bool disorder, json;
  int ranks, collectives;
  size_t least, most;
  double seconds;
} wanted;

static unique_id ids[MOST_COLLECTIVES];
static pthread_barrier_t barrier;
static double alone_us[MOST_RANKS], burst_us[MOST_RANKS];
static atomic_int done[MOST_RANKS];

static void try_cuda(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "gpu-nccl: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}
static void try_nccl(int result, const char *what) {
  if (result == 0) return;
  fprintf(stderr, "gpu-nccl: %s: %s\n", what, nccl.error(result));
  exit(1);
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* ---- one rank */

typedef struct rank_state {
  void *communicators[MOST_COLLECTIVES];
  cudaStream_t stream;
  float *send, *recv;
} rank_state;

static void all_reduce(const rank_state *rank, int collective, size_t bytes) {
  try_nccl(nccl.all_reduce(rank->send, rank->recv, bytes / sizeof(float), FLOAT32, SUM,
                           rank->communicators[collective], rank->stream),
           "ncclAllReduce");
}
static void finish(const rank_state *rank) {
  try_cuda(cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
}

static double time_alone(const rank_state *rank, size_t bytes) {
  double times[RUNS];
  int runs = bytes > (8u << 20) ? FEW_RUNS : RUNS;
  for (int i = -WARMUP; i < runs; i++) {
    pthread_barrier_wait(&barrier);
    double begun = now_us();
    all_reduce(rank, 0, bytes);
    finish(rank);
    if (i >= 0) times[i] = now_us() - begun;
  }
  qsort(times, (size_t)runs, sizeof *times, by_value);
  return times[runs / 2];
}

static double time_burst(const rank_state *rank, size_t bytes, cudaEvent_t events[2]) {
  float ms = 0;
  pthread_barrier_wait(&barrier);
  try_cuda(cudaEventRecord(events[0], rank->stream), "cudaEventRecord");
  for (int i = 0; i < BURST; i++) all_reduce(rank, 0, bytes);
  try_cuda(cudaEventRecord(events[1], rank->stream), "cudaEventRecord");
  finish(rank);
  try_cuda(cudaEventElapsedTime(&ms, events[0], events[1]), "cudaEventElapsedTime");
  return ms * 1e3 / BURST;
}

static void print_size(size_t bytes) {
  double alone = 0, burst = 0, factor = 2.0 * (wanted.ranks - 1) / wanted.ranks;
  for (int r = 0; r < wanted.ranks; r++) {
    if (alone_us[r] > alone) alone = alone_us[r];
    if (burst_us[r] > burst) burst = burst_us[r];
  }
  char text[200];
  snprintf(
      text, sizeof text,
      "NCCL all-reduce, %d ranks, %zu B: %.1f us run and wait, %.1f GB/s; %.1f us back to back, "
      "%.1f GB/s",
      wanted.ranks, bytes, alone, (double)bytes / alone / 1e3 * factor, burst,
      (double)bytes / burst / 1e3 * factor);
  if (wanted.json)
    printf("{\"ranks\": %d, \"bytes\": %zu, \"time_us_median\": %.3f, \"busbw_GBps\": %.3f, "
           "\"back_to_back_us\": %.3f, \"back_to_back_busbw_GBps\": %.3f, \"text\": \"%s\"}\n",
           wanted.ranks, bytes, alone, (double)bytes / alone / 1e3 * factor, burst,
           (double)bytes / burst / 1e3 * factor, text);
  else
    puts(text);
  fflush(stdout);
}

static void time_sizes(const rank_state *rank, int r) {
  cudaEvent_t events[2];
  for (int i = 0; i < 2; i++) try_cuda(cudaEventCreate(&events[i]), "cudaEventCreate");
  for (size_t bytes = wanted.least; bytes <= wanted.most; bytes *= 8) {
    alone_us[r] = time_alone(rank, bytes);
    burst_us[r] = time_burst(rank, bytes, events);
    pthread_barrier_wait(&barrier);
    if (r == 0) print_size(bytes);
    pthread_barrier_wait(&barrier);
  }
}

/* The first time in order, which connects everything; then rotated: no two ranks begin alike. */
static void run_in_disorder(const rank_state *rank, int r) {
  for (int c = 0; c < wanted.collectives; c++) all_reduce(rank, c, wanted.most);
  finish(rank);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < wanted.collectives; i++)
    all_reduce(rank, (i + r) % wanted.collectives, wanted.most);
  while (cudaStreamQuery(rank->stream) == cudaErrorNotReady) usleep(1000);
}

static void *rank_main(void *argument) {
  int r = (int)(intptr_t)argument;
  rank_state rank;
  try_cuda(cudaSetDevice(0), "cudaSetDevice");
  try_cuda(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  try_cuda(cudaMalloc((void **)&rank.send, wanted.most), "cudaMalloc");
  try_cuda(cudaMalloc((void **)&rank.recv, wanted.most), "cudaMalloc");
  try_cuda(cudaMemset(rank.send, 0, wanted.most), "cudaMemset");
  for (int c = 0; c < wanted.collectives; c++)
    try_nccl(nccl.init(&rank.communicators[c], wanted.ranks, ids[c], r), "ncclCommInitRank");
  if (wanted.disorder)
    run_in_disorder(&rank, r);
  else
    time_sizes(&rank, r);
  atomic_store(&done[r], 1);
  return NULL;
}

/* ---- the job */

static int load(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  const struct {
    const char *name;
    void *entry;
  } entries[] = {{"ncclGetVersion", &nccl.version},
                 {"ncclGetUniqueId", &nccl.id},
                 {"ncclCommInitRank", &nccl.init},
                 {"ncclAllReduce", &nccl.all_reduce},
                 {"ncclGetErrorString", &nccl.error}};
  int version = 0;
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    void *symbol = library ? dlsym(library, entries[i].name) : NULL;
    if (symbol == NULL) {
      fprintf(stderr, "gpu-nccl: %s\n", dlerror());
      exit(1);
    }
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  try_nccl(nccl.version(&version), "ncclGetVersion");
  return version;
}

/* Returns whether all came through; a rank that hangs is left as it is. */
static bool await(double seconds) {
  double end = now_us() + seconds * 1e6;
  for (int r = 0; r < wanted.ranks; r++)
    while (!atomic_load(&done[r])) {
      usleep(10000);
      if (seconds > 0 && now_us() > end) return false;
    }
  return true;
}

static bool parse(int argc, char **argv) {
  if (argc != 6) return false;
  wanted.disorder = strcmp(argv[2], "disorder") == 0;
  if (!wanted.disorder && strcmp(argv[2], "allreduce") != 0) return false;
  wanted.ranks = atoi(argv[3]);
  wanted.collectives = wanted.disorder ? atoi(argv[4]) : 1;
  wanted.least = wanted.disorder ? 0 : strtoull(argv[4], NULL, 10);
  wanted.most = wanted.disorder ? 1 << 20 : strtoull(argv[5], NULL, 10);
  wanted.seconds = wanted.disorder ? atof(argv[5]) : 0;
  return wanted.ranks >= 1 && wanted.ranks <= MOST_RANKS && wanted.collectives >= 1 &&
         wanted.collectives <= MOST_COLLECTIVES && (wanted.disorder || wanted.least >= 4);
}

int main(int argc, char **argv) {
  pthread_t threads[MOST_RANKS];
  wanted.json = argc > 1 && strcmp(argv[1], "--json") == 0;
  if (!parse(argc - wanted.json, argv + wanted.json)) {
    fprintf(stderr, "usage: gpu-nccl [--json] LIBNCCL allreduce RANKS MIN MAX | disorder RANKS "
                    "COLLECTIVES SECONDS\n");
    return 2;
  }
  int version = load(argv[1 + wanted.json]);
  if (version < OLDEST) {
    printf("NCCL %d.%d.%d is older than 2.30, which lets several ranks share a GPU\n",
           version / 10000, version / 100 % 100, version % 100);
    return SKIPPED;
  }
  pthread_barrier_init(&barrier, NULL, (unsigned)wanted.ranks);
  for (int c = 0; c < wanted.collectives; c++) try_nccl(nccl.id(&ids[c]), "ncclGetUniqueId");
  for (int r = 0; r < wanted.ranks; r++)
    if (pthread_create(&threads[r], NULL, rank_main, (void *)(intptr_t)r) != 0) return 1;
  bool through = await(wanted.seconds);
  if (wanted.disorder)
    printf("NCCL %d, %d collectives of %d ranks in disorder: %s\n", version, wanted.collectives,
           wanted.ranks, through ? "complete" : "HANG");
  fflush(stdout);
  if (!through) _exit(0); /* whose threads cannot be joined */
  for (int r = 0; r < wanted.ranks; r++) pthread_join(threads[r], NULL);
  return 0;
}
