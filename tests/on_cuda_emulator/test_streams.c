/*
 * Promises of runs on streams if streams share hardware queues, on the emulated runtime:
 *   - Before a stream waits for a run, every rank of the process has launched its daemon, also
 *     ranks without work. So a wait in a daemon's queue delays nothing.
 *   - A launch that cannot begin while a stream waits ends the runs on streams with a sentence that
 *     states the remedy, and then begins. The rank stays usable.
 *   - A launch that only begins late ends nothing.
 *   - If there is one hardware queue, a second rank's run on a stream is refused while the first
 *     one's is outstanding, because it would be queued behind a wait that needs it.
 *   - A daemon stays for cuda_keep_us after the last run on a stream, so an application that waits
 *     for each run causes no launch at each run. Calls of the library that wait for the device end
 *     that time.
 *   - Without a stream, a run is on the default stream of its rank's device, whatever device the
 *     calling thread uses.
 *   - A run that is refused causes no launch and leaves the stream as it is.
 *   - A call of the driver that fails is reported with the driver's own error.
 *   - While the input of all runs is missing, nothing is launched, and a resident daemon polls
 *     seldom across the bus, however many runs there are. A run whose input is ready is executed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"
#include "support/buffers.h"
#include "support/rounds.h"

enum { RANKS = 2, COUNT = 700, BYTES = COUNT * sizeof(uint32_t) };
enum { QUEUES = 4 }; /* a stream of the application in each */

typedef struct {
  dfcclContext_t ctxs[RANKS];
  cudaStream_t streams[QUEUES];
  uint32_t *memory[RANKS]; /* page-locked: input, output */
} scene;

static _Atomic int ended, failed;

static void note_end(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id;
  (void)arg;
  atomic_fetch_add(&failed, status != dfcclSuccess);
  atomic_fetch_add(&ended, 1);
}

static void open_scene(scene *s, uint32_t queues) {
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  cuda_emulator_set_queues(queues, 0);
  df_make_contexts(s->ctxs, RANKS, NULL);
  for (dfcclCollId_t id = 0; id < QUEUES; id++) df_register_all(s->ctxs, id, &coll);
  for (uint32_t i = 0; i < QUEUES; i++)
    CUDA(cudaStreamCreateWithFlags(&s->streams[i], cudaStreamNonBlocking));
  for (int rank = 0; rank < RANKS; rank++)
    CUDA(cudaHostAlloc((void **)&s->memory[rank], 2 * BYTES, cudaHostAllocMapped));
}

static void close_scene(scene *s) {
  df_free_contexts(s->ctxs, RANKS);
  for (uint32_t i = 0; i < QUEUES; i++) CUDA(cudaStreamDestroy(s->streams[i]));
  for (int rank = 0; rank < RANKS; rank++) CUDA(cudaFreeHost(s->memory[rank]));
  nothing_is_left();
}

static void fill(const scene *s, int collective, int round) {
  for (int rank = 0; rank < RANKS; rank++)
    df_round_fill(s->memory[rank], COUNT, rank, collective, round);
}

static void check(const scene *s, int collective, int round) {
  for (int rank = 0; rank < RANKS; rank++)
    df_round_check(s->memory[rank] + COUNT, COUNT, RANKS, collective, round);
}

static void run(const scene *s, int rank, dfcclCollId_t id) {
  OK(dfcclRunAllReduce(s->ctxs[rank], id, s->memory[rank], s->memory[rank] + COUNT, NULL, NULL));
}

static void run_on(const scene *s, int rank, dfcclCollId_t id, int queue) {
  OK(dfcclRunAllReduceOnStream(s->ctxs[rank], id, s->memory[rank], s->memory[rank] + COUNT,
                               s->streams[queue], note_end, NULL));
}

static void await(cudaStream_t stream) {
  df_waiting_for("a stream behind a run");
  CUDA(cudaStreamSynchronize(stream));
  df_waiting_for(NULL);
}

static void run_without_streams(const scene *s, dfcclCollId_t id) {
  for (int rank = 0; rank < RANKS; rank++) run(s, rank, id);
  df_waiting_for("dfcclWait");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(s->ctxs[rank], id));
  df_waiting_for(NULL);
}

static void expect_failure(dfcclContext_t ctx, dfcclCollId_t id) {
  const dfcclResult_t status = dfcclWait(ctx, id);
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(status == dfcclAborted, "it ends with %s", dfcclGetErrorString(status));
  CHECK(strstr(sentence, "CUDA_DEVICE_MAX_CONNECTIONS") != NULL, "it says: %s", sentence);
}

/* Rank 0's streams wait in every queue before rank 1 has any work. */
DF_TEST(emulated_streams, a_wait_in_a_daemons_queue, 60) {
  scene s;
  open_scene(&s, QUEUES);
  for (int id = 0; id < QUEUES; id++) run_without_streams(&s, (dfcclCollId_t)id);
  for (int round = 0; round < 20; round++) {
    fill(&s, 0, round);
    for (int queue = 0; queue < QUEUES; queue++) run_on(&s, 0, (dfcclCollId_t)queue, queue);
    for (int queue = 0; queue < QUEUES; queue++) run(&s, 1, (dfcclCollId_t)queue);
    for (int queue = 0; queue < QUEUES; queue++) await(s.streams[queue]);
    for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(s.ctxs[rank]));
    check(&s, 0, round);
  }
  CHECK(atomic_load(&failed) == 0, "%d runs failed", atomic_load(&failed));
  close_scene(&s);
}

/* A wider collective needs a wider launch, which is queued behind the waits: they are in every
 * queue. */
DF_TEST(emulated_streams, a_launch_behind_a_wait_ends_runs_on_streams, 60) {
  enum { WIDE = 4000 };
  scene s;
  float *memory;
  df_collective wide = df_simple(WIDE, RANKS);
  setenv("DFCCL_MAX_BLOCKS", "3", 1);
  df_tune("block_min", "4096");
  df_tune("cuda_patience_ms", "100");
  CUDA(cudaHostAlloc((void **)&memory, 2 * RANKS * WIDE * sizeof *memory, cudaHostAllocMapped));
  memset(memory, 0, 2 * RANKS * WIDE * sizeof *memory);
  open_scene(&s, QUEUES);
  for (int queue = 0; queue < QUEUES; queue++) {
    run_without_streams(&s, (dfcclCollId_t)queue);
    run_on(&s, 0, (dfcclCollId_t)queue, queue); /* rank 1 does not */
  }
  df_register_all(s.ctxs, WIDE, &wide);
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(s.ctxs[rank], WIDE, memory + 2 * rank * WIDE,
                         memory + (2 * rank + 1) * WIDE, NULL, NULL));
  for (int queue = 0; queue < QUEUES; queue++) await(s.streams[queue]);
  for (int queue = 0; queue < QUEUES; queue++) expect_failure(s.ctxs[0], (dfcclCollId_t)queue);
  df_waiting_for("a run that is not on a stream");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(s.ctxs[rank], WIDE));
  df_waiting_for(NULL);
  EVENTUALLY(atomic_load(&ended) == QUEUES);
  CUDA(cudaFreeHost(memory));
  close_scene(&s);
}

static void CUDART_CB take_long(void *argument) {
  (void)argument;
  const struct timespec time = {.tv_sec = 3};
  nanosleep(&time, NULL);
}

/* Queued behind commands that end by themselves, and behind no wait. When they have ended, streams
 * wait while the launch begins, which takes some time on a busy machine. */
DF_TEST(emulated_streams, a_launch_that_begins_late_ends_nothing, 60) {
  scene s;
  df_tune("cuda_patience_ms", "5000"); /* half of it is late, and the other half for the launch */
  open_scene(&s, QUEUES);
  run_without_streams(&s, 0);
  for (int queue = 0; queue < QUEUES; queue++)
    CUDA(cudaLaunchHostFunc(s.streams[queue], take_long, NULL));
  fill(&s, 0, 1);
  run_on(&s, 0, 0, 0); /* its input is late, too */
  run(&s, 1, 0);
  await(s.streams[0]);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(s.ctxs[rank]));
  CHECK(atomic_load(&failed) == 0, "%d runs failed", atomic_load(&failed));
  check(&s, 0, 1);
  close_scene(&s);
}

DF_TEST(emulated_streams, a_circle_through_one_queue_is_refused, 60) {
  scene s;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  open_scene(&s, 1);
  run_without_streams(&s, 0);
  for (int round = 0; round < 3; round++) {
    const int first = round % RANKS, second = 1 - first;
    fill(&s, 0, round);
    run_on(&s, first, 0, 0);
    RESULT(dfcclRunAllReduceOnStream(s.ctxs[second], 0, s.memory[second], s.memory[second] + COUNT,
                                     s.streams[1], note_end, NULL),
           dfcclInvalidUsage);
    CHECK(strstr(dfcclGetLastError(s.ctxs[second]), "CUDA_DEVICE_MAX_CONNECTIONS") != NULL,
          "it says: %s", dfcclGetLastError(s.ctxs[second]));
    run(&s, second, 0);
    await(s.streams[0]);
    for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(s.ctxs[rank]));
    check(&s, 0, round);
  }
  CHECK(atomic_load(&failed) == 0, "%d runs failed", atomic_load(&failed));
  close_scene(&s);
}

/* ---- daemons that stay */

static cuda_emulator_counts counts_now(void) {
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  return counts;
}

static void run_and_wait(const scene *s, int round) {
  fill(s, 0, round);
  for (int rank = 0; rank < RANKS; rank++) run_on(s, rank, 0, rank);
  for (int rank = 0; rank < RANKS; rank++) await(s->streams[rank]);
  CHECK(atomic_load(&failed) == 0, "%d runs failed", atomic_load(&failed));
  check(s, 0, round);
}

/* The pauses between the runs are longer than cuda_quit_us. */
DF_TEST(emulated_streams, runs_that_are_waited_for_find_the_daemon, 60) {
  enum { ROUNDS = 10 };
  const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
  scene s;
  df_tune("cuda_keep_us", "60000000");
  df_tune("cuda_patience_ms", "30000"); /* the machine may be busy */
  open_scene(&s, QUEUES);
  run_and_wait(&s, 0);
  const uint64_t launches = counts_now().launches;
  for (int round = 1; round < ROUNDS; round++) {
    nanosleep(&pause, NULL);
    run_and_wait(&s, round);
  }
  CHECK(counts_now().launches == launches, "%llu launches more",
        (unsigned long long)(counts_now().launches - launches));
  CHECK(counts_now().resident_blocks > 0, "no daemon has stayed");
  df_waiting_for("a daemon that stays for a minute");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclDeviceSynchronize(s.ctxs[rank]));
  run_and_wait(&s, ROUNDS);
  void *memory;
  OK(dfcclMemAlloc(s.ctxs[0], &memory, BYTES));
  run_and_wait(&s, ROUNDS + 1);
  OK(dfcclMemFree(s.ctxs[0], memory));
  run_and_wait(&s, ROUNDS + 2);
  df_waiting_for(NULL);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(s.ctxs[rank]));
  close_scene(&s);
}

DF_TEST(emulated_streams, a_daemon_leaves_when_streams_have_been_idle, 60) {
  static const char *const times_us[] = {"0", "2000"};
  for (int i = 0; i < 2; i++) {
    scene s;
    df_tune("cuda_keep_us", times_us[i]);
    df_tune("cuda_patience_ms", "30000");
    open_scene(&s, QUEUES);
    run_and_wait(&s, 0);
    EVENTUALLY(counts_now().resident_blocks == 0);
    run_and_wait(&s, 1);
    close_scene(&s);
  }
}

/* ---- calls that are refused, and the default stream */

DF_TEST(emulated_streams, the_default_stream_is_that_of_the_ranks_device, 60) {
  enum { DEVICE = 1 };
  scene s;
  dfcclConfig_t config = df_config();
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  config.device = DEVICE;
  CUDA(cudaSetDevice(0));
  df_make_contexts(s.ctxs, RANKS, &config);
  df_register_all(s.ctxs, 0, &coll);
  for (int rank = 0; rank < RANKS; rank++)
    CUDA(cudaHostAlloc((void **)&s.memory[rank], 2 * BYTES, cudaHostAllocMapped));
  fill(&s, 0, 0);
  OK(dfcclRunAllReduceOnStream(s.ctxs[0], 0, s.memory[0], s.memory[0] + COUNT, NULL, note_end,
                               NULL));
  int device = -1;
  CUDA(cudaGetDevice(&device));
  CHECK(device == 0, "the current device is %d", device);
  REFUSED(cudaStreamQuery(NULL), cudaSuccess); /* nothing is on the default stream of device 0 */
  CUDA(cudaSetDevice(DEVICE));
  REFUSED(cudaStreamQuery(NULL), cudaErrorNotReady); /* rank 1 has not submitted */
  run(&s, 1, 0);
  await(NULL);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(s.ctxs[rank]));
  check(&s, 0, 0);
  df_free_contexts(s.ctxs, RANKS);
  for (int rank = 0; rank < RANKS; rank++) CUDA(cudaFreeHost(s.memory[rank]));
  nothing_is_left();
}

DF_TEST(emulated_streams, a_run_that_is_refused_leaves_the_stream_as_it_is, 60) {
  enum { UNKNOWN = 999 };
  scene s;
  open_scene(&s, QUEUES);
  run_without_streams(&s, 0);
  EVENTUALLY(counts_now().resident_blocks == 0);
  const cuda_emulator_counts before = counts_now();
  RESULT(dfcclRunAllReduceOnStream(s.ctxs[0], UNKNOWN, s.memory[0], s.memory[0] + COUNT,
                                   s.streams[0], note_end, NULL),
         dfcclInvalidArgument);
  RESULT(dfcclRunAllReduceOnStream(s.ctxs[0], 0, NULL, s.memory[0], s.streams[0], note_end, NULL),
         dfcclInvalidArgument);
  const cuda_emulator_counts after = counts_now();
  CHECK(after.launches == before.launches, "a refused run launched the daemon");
  CUDA(cudaStreamQuery(s.streams[0]));
  CHECK(atomic_load(&ended) == 0, "a refused run called back");
  close_scene(&s);
}

/* The calls of a submission fail one after the other. The launchers make no calls meanwhile. */
DF_TEST(emulated_streams, an_error_of_the_driver_keeps_its_name, 60) {
  enum { MOST_CALLS = 20 };
  scene s;
  int is_named = 0;
  df_tune("cuda_keep_us", "60000000");
  df_tune("cuda_patience_ms", "30000");
  open_scene(&s, QUEUES);
  run_and_wait(&s, 0);
  for (uint64_t call = 1; call <= MOST_CALLS && !is_named; call++) {
    cuda_emulator_fail_at(call, cudaErrorNotSupported);
    const dfcclResult_t result = dfcclRunAllReduceOnStream(
        s.ctxs[0], 0, s.memory[0], s.memory[0] + COUNT, s.streams[0], note_end, NULL);
    cuda_emulator_fail_at(0, 0);
    CHECK(result == dfcclUnhandledCudaError, "call %llu fails, and the run: %s",
          (unsigned long long)call, dfcclGetErrorString(result));
    const char *sentence = dfcclGetLastError(s.ctxs[0]);
    if (strstr(sentence, "enqueueing a write") == NULL) continue;
    CHECK(strstr(sentence, "cudaErrorNotSupported") != NULL, "it says: %s", sentence);
    is_named = 1;
  }
  CHECK(is_named, "no write on a stream has failed");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclDeviceSynchronize(s.ctxs[rank]));
  close_scene(&s);
}

/* ---- missing input */

static void CUDART_CB hold_up(void *argument) {
  pthread_mutex_lock(argument);
  pthread_mutex_unlock(argument);
}

/* Loads across the bus in a millisecond, and launches, of two ranks whose runs all wait for
 * input. */
static void look_at_waiting(double *loads_of_ms, uint64_t *launches) {
  enum { TIME_NS = 200 * 1000 * 1000 };
  const struct timespec settle = {.tv_nsec = 100 * 1000 * 1000}, moment = {.tv_nsec = TIME_NS};
  nanosleep(&settle, NULL);
  *launches = counts_now().launches;
  const uint64_t loads = cuda_emulator_bus_loads(), begin = df_now_ns();
  nanosleep(&moment, NULL);
  *loads_of_ms =
      (double)(cuda_emulator_bus_loads() - loads) / ((double)(df_now_ns() - begin) * 1e-6);
  *launches = counts_now().launches - *launches;
}

/* Collective 0 waits on streams of both ranks, and other collectives wait on streams of rank 0. */
DF_TEST(emulated_streams, missing_input_is_not_polled_for_across_the_bus, 60) {
  enum {
    MANY_QUEUES = 32,
    LOADS_OF_LOOK = 16
  }; /* the largest number; polls are a millisecond or more apart */
  scene s;
  double loads_of_ms;
  uint64_t launches;
  pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
  df_tune("cuda_doze_us", "1000");
  open_scene(&s, MANY_QUEUES); /* a command that delays a stream delays no daemon */
  for (int id = 0; id < QUEUES; id++) run_without_streams(&s, (dfcclCollId_t)id);
  pthread_mutex_lock(&held);
  for (int queue = 0; queue < QUEUES; queue++)
    CUDA(cudaLaunchHostFunc(s.streams[queue], hold_up, &held));
  fill(&s, 0, 1);
  for (int queue = 1; queue < QUEUES; queue++) run_on(&s, 0, (dfcclCollId_t)queue - 1, queue);
  run_on(&s, 1, 0, 0);
  look_at_waiting(&loads_of_ms, &launches);
  CHECK(launches == 0, "%llu launches while all input is missing", (unsigned long long)launches);
  CHECK(loads_of_ms < RANKS * LOADS_OF_LOOK, "%.0f loads across the bus in a ms", loads_of_ms);
  run_without_streams(&s, QUEUES - 1); /* behind runs without input in the queue */
  pthread_mutex_unlock(&held);
  for (dfcclCollId_t id = 1; id < QUEUES - 1; id++) run(&s, 1, id);
  for (int queue = 0; queue < QUEUES; queue++) await(s.streams[queue]);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(s.ctxs[rank]));
  CHECK(atomic_load(&failed) == 0, "%d runs failed", atomic_load(&failed));
  check(&s, 0, 1);
  close_scene(&s);
}
