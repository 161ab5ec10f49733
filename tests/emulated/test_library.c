/*
 * Promises of the CUDA device's host side, by the public API on the emulated runtime:
 *   - dfcclRun*OnStream: the run takes its input when the stream has come to it, what is behind it
 *     on the stream finds the output, in any order of collectives on streams of their own; with the
 *     driver's stream memory operations and with kernels in their place.
 *   - cudaMalloc, cudaFree and cudaDeviceSynchronize between disordered collectives return.
 *   - While links are set up, and the device lets the calls wait, registering, submitting, testing
 *     and aborting do not wait.
 *   - dfcclDeviceSynchronize returns when the runs on streams that it waits for are through, also
 *     where they need runs that are submitted after the call, by any rank.
 *   - When a device is lost every run ends, once, with an error.
 *   - A closed context leaves nothing on the device, and takes nothing away that another process
 *     has mapped; nor does dfcclMemFree, also after a failure.
 *   - dfcclGetTimes: with timers each SQE, CQE, load and save of a context is noted once, between
 * the run's submission and its callback; without, it says so.
 *   - The library uses its own device and no other, and a thread that calls it has the current
 *     context that it had before, or none.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "cuda_emulator.h"
#include "support/buffers.h"
#include "support/processes.h"

enum { RANKS = 2, COLLECTIVES = 3, COUNT = 700, ROUNDS = 4, BYTES = COUNT * sizeof(uint32_t) };

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    const cudaError_t error_ = (call);                                                             \
    CHECK(error_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(error_));                     \
  } while (0)

static void nothing_is_left(void) {
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  CHECK(counts.device_allocations == 0 && counts.host_allocations == 0 && counts.streams == 0,
        "left: %llu and %llu allocations, %llu streams",
        (unsigned long long)counts.device_allocations, (unsigned long long)counts.host_allocations,
        (unsigned long long)counts.streams);
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- streams */

/* One collective of one rank: input and output in device memory, filled and read by its stream. */
typedef struct {
  cudaStream_t stream;
  uint32_t *input, *output, *seen; /* seen: page-locked */
} lane;

static uint32_t value_of(int rank, int collective, int round, int element) {
  return (uint32_t)(rank * 1000003 + collective * 10007 + round * 101 + element);
}

static void open_lane(lane *l) {
  void *memory = NULL;
  CUDA(cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&memory, 2 * BYTES));
  l->input = memory;
  l->output = l->input + COUNT;
  CUDA(cudaHostAlloc(&memory, 2 * BYTES, cudaHostAllocMapped));
  l->seen = memory;
}

static void close_lane(lane *l) {
  CUDA(cudaStreamDestroy(l->stream));
  CUDA(cudaFree(l->input));
  CUDA(cudaFreeHost(l->seen));
}

static void enqueue(dfcclContext_t ctx, lane *l, int rank, int collective, int round) {
  uint32_t *source = l->seen + COUNT;
  for (int e = 0; e < COUNT; e++) source[e] = value_of(rank, collective, round, e);
  CUDA(cudaMemcpyAsync(l->input, source, BYTES, cudaMemcpyHostToDevice, l->stream));
  OK(dfcclRunAllReduceOnStream(ctx, (dfcclCollId_t)collective, l->input, l->output, l->stream, NULL,
                               NULL));
  CUDA(cudaMemcpyAsync(l->seen, l->output, BYTES, cudaMemcpyDeviceToHost, l->stream));
}

static void collect(const lane *l, int collective, int round) {
  df_waiting_for("cudaStreamSynchronize behind a run");
  CUDA(cudaStreamSynchronize(l->stream));
  df_waiting_for(NULL);
  for (int e = 0; e < COUNT; e++) {
    uint32_t expected = 0;
    for (int rank = 0; rank < RANKS; rank++) expected += value_of(rank, collective, round, e);
    CHECK(l->seen[e] == expected, "collective %d, round %d, element %d: %u, not %u", collective,
          round, e, l->seen[e], expected);
  }
}

static void in_the_order_of_streams(void) {
  dfcclContext_t ctxs[RANKS];
  lane lanes[RANKS][COLLECTIVES];
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  df_make_contexts(ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(ctxs, (dfcclCollId_t)c, &coll);
  for (int rank = 0; rank < RANKS; rank++)
    for (int c = 0; c < COLLECTIVES; c++) open_lane(&lanes[rank][c]);
  for (int round = 0; round < ROUNDS; round++) {
    for (int rank = 0; rank < RANKS; rank++)
      for (int i = 0; i < COLLECTIVES; i++) {
        int c = rank == 0 ? i : COLLECTIVES - 1 - i; /* opposite orders */
        enqueue(ctxs[rank], &lanes[rank][c], rank, c, round);
      }
    for (int rank = 0; rank < RANKS; rank++)
      for (int c = 0; c < COLLECTIVES; c++) collect(&lanes[rank][c], c, round);
  }
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(ctxs[rank]));
  for (int rank = 0; rank < RANKS; rank++)
    for (int c = 0; c < COLLECTIVES; c++) close_lane(&lanes[rank][c]);
  df_free_contexts(ctxs, RANKS);
  nothing_is_left();
}

DF_TEST(emulated_library, streams_with_memory_operations, 120) { in_the_order_of_streams(); }

DF_TEST(emulated_library, streams_with_kernels, 120) {
  cuda_emulator_set_memory_operations(0);
  in_the_order_of_streams();
}

/* ---- calls that wait for the device */

static void call_between(int rank, void *arg) {
  dfcclContext_t ctx = ((dfcclContext_t *)arg)[rank];
  uint32_t *memory = NULL;
  void *other = NULL;
  CUDA(cudaMalloc((void **)&memory, (size_t)2 * COLLECTIVES * BYTES));
  CUDA(cudaMemset(memory, 0, (size_t)2 * COLLECTIVES * BYTES));
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COLLECTIVES; i++) {
      int c = (rank == 0 ? i : COLLECTIVES - 1 - i);
      uint32_t *input = memory + (size_t)2 * c * COUNT;
      OK(dfcclRunAllReduce(ctx, (dfcclCollId_t)c, input, input + COUNT, NULL, NULL));
      df_waiting_for("cudaMalloc, cudaDeviceSynchronize, cudaFree");
      CUDA(cudaMalloc(&other, 1000));
      CUDA(cudaDeviceSynchronize());
      CUDA(cudaFree(other));
      df_waiting_for(NULL);
    }
    df_waiting_for("dfcclWaitAll");
    OK(dfcclWaitAll(ctx));
    df_waiting_for(NULL);
  }
  CUDA(cudaFree(memory));
}

DF_TEST(emulated_library, calls_that_wait_for_the_device, 120) {
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  df_make_contexts(ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(ctxs, (dfcclCollId_t)c, &coll);
  df_in_threads(RANKS, call_between, ctxs);
  df_free_contexts(ctxs, RANKS);
  nothing_is_left();
}

/* ---- link set-up while the device lets calls wait */

typedef struct {
  dfcclContext_t ctxs[RANKS];
  lane lanes[RANKS];
  cudaStream_t stream;
  pthread_mutex_t occupied;
  atomic_int callbacks;
} occupation;

static void occupy(void *arg) {
  pthread_mutex_t *occupied = arg;
  pthread_mutex_lock(occupied);
  pthread_mutex_unlock(occupied);
}

static void count_callback(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id;
  (void)status;
  atomic_fetch_add((atomic_int *)arg, 1);
}

/* The rings of collective 9 need another segment of the arena, and allocating waits for a stream.
 */
static void let_set_up_wait(occupation *o) {
  df_collective coll = df_simple(COUNT, RANKS);
  setenv("DFCCL_SLOTS", "256", 1);
  setenv("DFCCL_SLOT_BYTES", "65536", 1);
  df_make_contexts(o->ctxs, RANKS, NULL);
  df_register_all(o->ctxs, 1, &coll);
  for (int rank = 0; rank < RANKS; rank++) open_lane(&o->lanes[rank]);
  for (int rank = 0; rank < RANKS; rank++) /* the links of collective 1 stand */
    OK(dfcclRunAllReduce(o->ctxs[rank], 1, o->lanes[rank].input, o->lanes[rank].output, NULL,
                         NULL));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(o->ctxs[rank]));
  CUDA(cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking));
  CHECK(pthread_mutex_init(&o->occupied, NULL) == 0, "pthread_mutex_init");
  pthread_mutex_lock(&o->occupied);
  CUDA(cudaLaunchHostFunc(o->stream, occupy, &o->occupied));
  coll.count = 1 << 20;
  df_register_all(o->ctxs, 9, &coll);
}

/* For half a second, in which set-up comes to its calls. */
static void call_meanwhile(occupation *o) {
  df_collective coll = df_simple(COUNT, RANKS);
  const uint64_t end = now_ns() + 500000000u;
  df_waiting_for("calls that link set-up must not hold up");
  for (dfcclCollId_t id = 100; now_ns() < end; id++)
    for (int rank = 0; rank < RANKS; rank++) {
      int done;
      OK(df_register(o->ctxs[rank], id, &coll));
      OK(dfcclTest(o->ctxs[rank], 9, &done));
      CHECK(!done, "it ran without memory");
      OK(dfcclDeregister(o->ctxs[rank], id));
    }
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(o->ctxs[rank], 1, o->lanes[rank].input, o->lanes[rank].output,
                         count_callback, &o->callbacks));
  df_waiting_for(NULL);
}

static void set_up_while_the_device_waits(int aborts) {
  occupation o = {.callbacks = 0};
  void *memory;
  const size_t bytes = sizeof(float) << 20;
  CUDA(cudaMalloc(&memory, 2 * RANKS * bytes));
  CUDA(cudaMemset(memory, 0, 2 * RANKS * bytes));
  let_set_up_wait(&o);
  for (int rank = 0; rank < RANKS; rank++) {
    char *input = (char *)memory + (size_t)2 * (size_t)rank * bytes;
    OK(dfcclRunAllReduce(o.ctxs[rank], 9, input, input + bytes, count_callback, &o.callbacks));
  }
  call_meanwhile(&o);
  df_waiting_for("dfcclAbort");
  for (int rank = 0; rank < RANKS && aborts; rank++) OK(dfcclAbort(o.ctxs[rank]));
  df_waiting_for(NULL);
  pthread_mutex_unlock(&o.occupied);
  df_waiting_for("dfcclWaitAll");
  for (int rank = 0; rank < RANKS && !aborts; rank++) OK(dfcclWaitAll(o.ctxs[rank]));
  CUDA(cudaStreamSynchronize(o.stream));
  CUDA(cudaStreamDestroy(o.stream));
  df_free_contexts(o.ctxs, RANKS);
  df_waiting_for(NULL);
  CHECK(atomic_load(&o.callbacks) == 2 * RANKS, "%d callbacks", atomic_load(&o.callbacks));
  for (int rank = 0; rank < RANKS; rank++) close_lane(&o.lanes[rank]);
  CUDA(cudaFree(memory));
  nothing_is_left();
}

DF_TEST(emulated_library, link_set_up_holds_nobody_up, 60) { set_up_while_the_device_waits(0); }
DF_TEST(emulated_library, link_set_up_that_is_given_up_meanwhile, 60) {
  set_up_while_the_device_waits(1);
}

/* ---- dfcclDeviceSynchronize */

static void *synchronize(void *arg) {
  OK(dfcclDeviceSynchronize(arg));
  return NULL;
}

typedef struct {
  dfcclContext_t ctxs[RANKS];
  lane lanes[RANKS][COLLECTIVES]; /* made before: an allocation would wait for the streams */
} streaming;

/* Every rank has runs on streams, and synchronises before and while its peer submits its own. */
static void stream_and_synchronize(int rank, void *arg) {
  streaming *s = arg;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COLLECTIVES; i++) {
      int c = rank == 0 ? i : COLLECTIVES - 1 - i;
      enqueue(s->ctxs[rank], &s->lanes[rank][c], rank, c, round);
    }
    df_waiting_for("dfcclDeviceSynchronize with runs on streams");
    OK(dfcclDeviceSynchronize(s->ctxs[rank]));
    df_waiting_for(NULL);
    for (int c = 0; c < COLLECTIVES; c++) collect(&s->lanes[rank][c], c, round);
  }
  OK(dfcclWaitAll(s->ctxs[rank]));
}

DF_TEST(emulated_library, synchronisations_with_runs_on_streams, 120) {
  static streaming s;
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  df_make_contexts(s.ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(s.ctxs, (dfcclCollId_t)c, &coll);
  for (int rank = 0; rank < RANKS; rank++)
    for (int c = 0; c < COLLECTIVES; c++) open_lane(&s.lanes[rank][c]);
  df_in_threads(RANKS, stream_and_synchronize, &s);
  for (int rank = 0; rank < RANKS; rank++)
    for (int c = 0; c < COLLECTIVES; c++) close_lane(&s.lanes[rank][c]);
  df_free_contexts(s.ctxs, RANKS);
  nothing_is_left();
}

/* Rank `on_stream` waits on a stream for the run that the other one submits during the call. */
static void submit_during_synchronisation(dfcclContext_t *ctxs, int on_stream, int round) {
  const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
  int other = 1 - on_stream;
  lane lanes[RANKS];
  pthread_t thread;
  for (int rank = 0; rank < RANKS; rank++) {
    open_lane(&lanes[rank]);
    for (int e = 0; e < COUNT; e++) lanes[rank].seen[e] = value_of(rank, 0, round, e);
    CUDA(cudaMemcpyAsync(lanes[rank].input, lanes[rank].seen, BYTES, cudaMemcpyHostToDevice,
                         lanes[rank].stream));
    CUDA(cudaStreamSynchronize(lanes[rank].stream));
  }
  enqueue(ctxs[on_stream], &lanes[on_stream], on_stream, 0, round);
  CHECK(pthread_create(&thread, NULL, synchronize, ctxs[0]) == 0, "no thread");
  nanosleep(&moment, NULL); /* it is in the call by now, most likely */
  OK(dfcclRunAllReduce(ctxs[other], 0, lanes[other].input, lanes[other].output, NULL, NULL));
  df_waiting_for("dfcclDeviceSynchronize of rank 0");
  pthread_join(thread, NULL);
  df_waiting_for(NULL);
  collect(&lanes[on_stream], 0, round);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(ctxs[rank]));
  for (int rank = 0; rank < RANKS; rank++) close_lane(&lanes[rank]);
}

DF_TEST(emulated_library, runs_submitted_during_a_synchronisation_that_needs_them, 120) {
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  df_make_contexts(ctxs, RANKS, NULL);
  df_register_all(ctxs, 0, &coll);
  for (int round = 0; round < ROUNDS; round++)
    submit_during_synchronisation(ctxs, round % 2, round);
  df_free_contexts(ctxs, RANKS);
  nothing_is_left();
}

/* ---- contexts of devices */

static void *current_context(void) {
  typedef int (*get_current)(void **context);
  get_current get;
  void *entry = NULL, *context = NULL;
  enum cudaDriverEntryPointQueryResult found;
  CUDA(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 11070, 0, &found));
  memcpy(&get, &entry, sizeof get);
  CHECK(get(&context) == 0, "cuCtxGetCurrent");
  return context;
}

static void use_every_call(dfcclContext_t *ctxs) {
  df_collective coll = df_simple(COUNT, RANKS);
  void *memory[RANKS];
  df_register_all(ctxs, 0, &coll);
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclMemAlloc(ctxs[rank], &memory[rank], 2 * BYTES));
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 0, memory[rank], (char *)memory[rank] + BYTES, NULL, NULL));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[rank], 0));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclDeviceSynchronize(ctxs[rank]));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclMemFree(ctxs[rank], memory[rank]));
}

DF_TEST(emulated_library, the_current_context_stays_what_it_is, 120) {
  dfcclContext_t ctxs[RANKS];
  cuda_emulator_counts counts;
  dfcclConfig_t config = df_config();
  config.device = 1;
  for (int before = 0; before < 2; before++) { /* none, then device 0's */
    if (before) CUDA(cudaSetDevice(0));
    void *context = current_context();
    CHECK((context != NULL) == before, "the test begins with context %p", context);
    df_make_contexts(ctxs, RANKS, &config);
    use_every_call(ctxs);
    CHECK(current_context() == context, "the current context is %p, it was %p", current_context(),
          context);
    cuda_emulator_count(&counts);
    CHECK((counts.primary_contexts & 1) == (uint32_t)before, "device 0 has a context");
    df_free_contexts(ctxs, RANKS);
    cuda_emulator_count(&counts);
    CHECK(counts.primary_contexts == (uint32_t)before, "contexts on devices of mask %x are left",
          counts.primary_contexts);
  }
  nothing_is_left();
}

/* ---- ranks as processes: the emulator ends a process that frees what another one has mapped */

/* The last rank runs it once, the others once more. */
static void fail_with(dfcclContext_t ctx, dfcclCollId_t id, void *memory, int is_last) {
  for (int run = 0; run < 2 - is_last; run++) {
    dfcclResult_t result = dfcclRunAllReduce(ctx, id, memory, (char *)memory + BYTES, NULL, NULL);
    df_waiting_for("dfcclWait");
    if (result == dfcclSuccess) result = dfcclWait(ctx, id);
    df_waiting_for(NULL);
    CHECK((result == dfcclSuccess) == (run == 0), "run %d: %s", run, dfcclGetErrorString(result));
  }
  if (is_last) OK(dfcclDeregister(ctx, id));
}

static void free_what_a_peer_maps(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  int fails = *(const int *)arg;
  df_collective coll = df_simple(COUNT, ranks);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(df_register(ctx, 0, &coll));
  for (int round = 0; round < ROUNDS; round++) {
    void *memory = NULL;
    OK(dfcclMemAlloc(ctx, &memory, 2 * BYTES));
    for (int run = 0; run < 2; run++) {
      OK(dfcclRunAllReduce(ctx, 0, memory, (char *)memory + BYTES, NULL, NULL));
      df_waiting_for("dfcclWait");
      OK(dfcclWait(ctx, 0));
      df_waiting_for(NULL);
    }
    if (fails && round == 1) {
      OK(df_register(ctx, 1, &coll));
      fail_with(ctx, 1, memory, rank == ranks - 1);
    }
    OK(dfcclMemFree(ctx, memory));
  }
  df_finish(ctx);
  nothing_is_left();
}

DF_TEST(emulated_library, memory_goes_back_when_other_processes_have_unmapped_it, 120) {
  for (int fails = 0; fails < 2; fails++) {
    df_family family;
    df_fork(&family, RANKS, 100, free_what_a_peer_maps, &fails);
    df_join(&family);
  }
}

/* ---- a lost device */

static _Atomic int calls;
static _Atomic int successes;

static void count_call(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)arg;
  atomic_fetch_add(&successes, status == dfcclSuccess);
  atomic_fetch_add(&calls, 1);
}

/* While rank 0 has runs, and nobody else has any. */
static void lose_device(dfcclContext_t *ctxs, void *memory) {
  const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};
  for (int c = 0; c < COLLECTIVES; c++)
    OK(dfcclRunAllReduce(ctxs[0], (dfcclCollId_t)c, memory, (char *)memory + BYTES, count_call,
                         NULL));
  nanosleep(&moment, NULL); /* what rank 0 can set up alone is set up by now, most likely */
  cuda_emulator_lose_device(0);
  EVENTUALLY(atomic_load(&calls) == COLLECTIVES);
  CHECK(atomic_load(&successes) == 0, "%d runs succeeded alone", atomic_load(&successes));
  CHECK(dfcclRunAllReduce(ctxs[0], 0, memory, (char *)memory + BYTES, NULL, NULL) != dfcclSuccess,
        "a run on a lost device was accepted");
  for (int rank = 0; rank < RANKS; rank++) {
    df_unwatch(ctxs[rank]);
    df_waiting_for("dfcclAbort and dfcclDestroy with a lost device");
    OK(dfcclAbort(ctxs[rank]));
    (void)dfcclDestroy(ctxs[rank]);
    df_waiting_for(NULL);
  }
  CHECK(atomic_load(&calls) == COLLECTIVES, "%d callbacks of %d runs", atomic_load(&calls),
        (int)COLLECTIVES);
}

/* ---- timers */

enum { TIMED_RUNS = 30 };
typedef struct {
  uint64_t submitted, called; /* CLOCK_MONOTONIC */
} timed_run;

static void note_call(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id;
  OK(status);
  *(uint64_t *)arg = now_ns();
}

static void expect_times(dfcclContext_t ctx, dfcclTime_t kind, size_t expected,
                         const timed_run *runs) {
  /* The clocks are compared by messages between two threads, which may not run for a while. */
  const uint64_t slack = 2000000000u;
  uint64_t durations[TIMED_RUNS], moments[TIMED_RUNS];
  size_t count = 0;
  OK(dfcclGetTimes(ctx, kind, NULL, NULL, &count));
  CHECK(count == expected, "kind %d: %zu, not %zu", (int)kind, count, expected);
  durations[0] = moments[0] = 0;
  count = 1; /* an array that is too short */
  OK(dfcclGetTimes(ctx, kind, durations, moments, &count));
  CHECK(count == expected, "kind %d: %zu, not %zu", (int)kind, count, expected);
  OK(dfcclGetTimes(ctx, kind, durations, moments, &count));
  for (size_t i = 0; i < count; i++) {
    const timed_run *run = runs ? &runs[i] : NULL;
    CHECK(i == 0 || moments[i] >= moments[i - 1], "kind %d: %zu is before its predecessor",
          (int)kind, i);
    CHECK(durations[i] < slack, "kind %d: %llu ns", (int)kind, (unsigned long long)durations[i]);
    CHECK(run == NULL ||
              (moments[i] + slack >= run->submitted && moments[i] <= run->called + slack),
          "kind %d, run %zu: %llu, not from %llu to %llu", (int)kind, i,
          (unsigned long long)moments[i], (unsigned long long)run->submitted,
          (unsigned long long)run->called);
  }
}

static void note_times(dfcclContext_t ctx, timed_run *runs) {
  for (int i = 0; i < TIMED_RUNS; i++) {
    const dfcclCollId_t c = (dfcclCollId_t)(i % 2);
    runs[i].submitted = now_ns();
    OK(dfcclRunAllReduce(ctx, c, NULL, NULL, note_call, &runs[i].called));
    OK(dfcclWait(ctx, c));
  }
  OK(dfcclDeviceSynchronize(ctx));
}

static void times_with(const char *relay, size_t passed) {
  dfcclContext_t ctx;
  timed_run runs[TIMED_RUNS];
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  setenv("DFCCL_CUDA_TIMERS", "1", 1);
  setenv("DFCCL_CUDA_RELAY", relay, 1);
  setenv("DFCCL_CONTEXT_SLOTS", "1", 1); /* two collectives in turn: each run saves and loads one */
  df_make_contexts(&ctx, 1, NULL);
  for (dfcclCollId_t c = 0; c < 2; c++)
    OK(dfcclRegisterAllReduce(ctx, c, 0, dfcclFloat32, dfcclSum, NULL));
  note_times(ctx, runs);
  OK(dfcclGetStats(ctx, &stats));
  expect_times(ctx, dfcclTimePass, passed, passed ? runs : NULL);
  expect_times(ctx, dfcclTimeFetch, TIMED_RUNS, runs);
  expect_times(ctx, dfcclTimeCqeWrite, TIMED_RUNS, runs);
  /* A launch begins with empty slots, and leaves by saving what is in them, which is not timed. */
  expect_times(ctx, dfcclTimeContextLoad, (size_t)stats.contextLoads, NULL);
  CHECK(stats.contextLoads >= TIMED_RUNS, "%llu loads", (unsigned long long)stats.contextLoads);
  size_t saves = 0;
  OK(dfcclGetTimes(ctx, dfcclTimeContextSave, NULL, NULL, &saves));
  CHECK(saves > 0 && saves + stats.daemonStarts >= stats.contextSaves &&
            saves <= stats.contextSaves,
        "%zu of %llu saves", saves, (unsigned long long)stats.contextSaves);
  df_free_contexts(&ctx, 1);
}

DF_TEST(emulated_library, times_with_the_relay, 120) { times_with("1", TIMED_RUNS); }
DF_TEST(emulated_library, times_without_the_relay, 120) { times_with("0", 0); }

DF_TEST(emulated_library, no_times_without_timers, 60) {
  dfcclContext_t ctx;
  size_t count = 0;
  df_make_contexts(&ctx, 1, NULL);
  CHECK(dfcclGetTimes(ctx, dfcclTimeFetch, NULL, NULL, &count) == dfcclInvalidUsage,
        "there are times");
  CHECK(strstr(dfcclGetLastError(ctx), "DFCCL_CUDA_TIMERS") != NULL, "%s", dfcclGetLastError(ctx));
  df_free_contexts(&ctx, 1);
}

DF_TEST(emulated_library, a_lost_device_ends_every_run, 120) {
  void *memory;
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  df_make_contexts(ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(ctxs, (dfcclCollId_t)c, &coll);
  CUDA(cudaMalloc(&memory, (size_t)2 * RANKS * BYTES));
  for (int rank = 0; rank < RANKS; rank++) { /* the links stand, or runs would wait for them */
    char *input = (char *)memory + (size_t)2 * rank * BYTES;
    for (int c = 0; c < COLLECTIVES; c++)
      OK(dfcclRunAllReduce(ctxs[rank], (dfcclCollId_t)c, input, input + BYTES, NULL, NULL));
  }
  df_waiting_for("dfcclWaitAll");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(ctxs[rank]));
  df_waiting_for(NULL);
  lose_device(ctxs, memory); /* the runs are in the daemon */
}

DF_TEST(emulated_library, a_lost_device_ends_runs_that_wait_for_a_peer_outside_of_it, 120) {
  void *memory;
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  df_make_contexts(ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) OK(df_register(ctxs[0], (dfcclCollId_t)c, &coll));
  CUDA(cudaMalloc(&memory, (size_t)2 * BYTES));
  lose_device(ctxs, memory);
}
