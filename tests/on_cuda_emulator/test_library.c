/*
 * Promises of the CUDA device's host side, by the public API on the emulated runtime:
 *   - dfcclRun*OnStream: the run reads its input when the stream has reached it, and later work on
 *     the stream finds the output, in any order of collectives on streams of their own, with the
 *     driver's stream memory operations and with kernels in their place.
 *   - A stream that is being captured is refused.
 *   - cudaMalloc, cudaFree and cudaDeviceSynchronize between disordered collectives return.
 *   - While links are set up, and the device makes those calls wait, registering, submitting,
 *     testing and aborting do not wait.
 *   - dfcclDeviceSynchronize returns when the runs on streams for which it waits are complete, also
 *     if they need runs that any rank submits after the call.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"
#include "support/buffers.h"
#include "support/rounds.h"

enum { RANKS = 2, COLLECTIVES = 3, COUNT = 700, ROUNDS = 4, BYTES = COUNT * sizeof(uint32_t) };

/* ---- streams */

/* One collective of one rank: input and output in device memory, filled and read by its stream. */
typedef struct {
  cudaStream_t stream;
  uint32_t *input, *output, *seen; /* seen: page-locked */
} lane;

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
  df_round_fill(source, COUNT, rank, collective, round);
  CUDA(cudaMemcpyAsync(l->input, source, BYTES, cudaMemcpyHostToDevice, l->stream));
  OK(dfcclRunAllReduceOnStream(ctx, (dfcclCollId_t)collective, l->input, l->output, l->stream, NULL,
                               NULL));
  CUDA(cudaMemcpyAsync(l->seen, l->output, BYTES, cudaMemcpyDeviceToHost, l->stream));
}

static void collect(const lane *l, int collective, int round) {
  df_waiting_for("cudaStreamSynchronize behind a run");
  CUDA(cudaStreamSynchronize(l->stream));
  df_waiting_for(NULL);
  df_round_check(l->seen, COUNT, RANKS, collective, round);
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

/* A graph that is launched again would use a run's numbers again. */
DF_TEST(emulated_library, a_stream_that_is_captured_is_refused, 60) {
  dfcclContext_t ctx;
  lane l;
  df_make_contexts(&ctx, 1, NULL);
  OK(dfcclRegisterAllReduce(ctx, 0, COUNT, dfcclUint32, dfcclSum, NULL));
  open_lane(&l);
  cuda_emulator_set_capturing(1);
  RESULT(dfcclRunAllReduceOnStream(ctx, 0, l.input, l.output, l.stream, NULL, NULL),
         dfcclInvalidUsage);
  CHECK(strstr(dfcclGetLastError(ctx), "captured") != NULL, "%s", dfcclGetLastError(ctx));
  cuda_emulator_set_capturing(0);
  OK(dfcclRunAllReduceOnStream(ctx, 0, l.input, l.output, l.stream, NULL, NULL));
  CUDA(cudaStreamSynchronize(l.stream));
  OK(dfcclWaitAll(ctx));
  close_lane(&l);
  df_free_contexts(&ctx, 1);
  nothing_is_left();
}

/* ---- calls that wait for the device */

static void call_between(int rank, void *arg) {
  dfcclContext_t ctx = ((dfcclContext_t *)arg)[rank];
  uint32_t *memory = NULL;
  void *other = NULL;
  CUDA(cudaMalloc((void **)&memory, (size_t)2 * COLLECTIVES * BYTES));
  CUDA(cudaMemset(memory, 0, (size_t)2 * COLLECTIVES * BYTES));
  CUDA(cudaStreamSynchronize(cudaStreamLegacy));
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

/* ---- link set-up while calls of the device wait */

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

/* The rings of collective 9 need another segment of the arena, and the allocation waits for a
 * stream. */
static void let_set_up_wait(occupation *o) {
  df_collective coll = df_simple(COUNT, RANKS);
  df_tune("slots", "256");
  df_tune("slot_bytes", "65536");
  df_make_contexts(o->ctxs, RANKS, NULL);
  df_register_all(o->ctxs, 1, &coll);
  for (int rank = 0; rank < RANKS; rank++) open_lane(&o->lanes[rank]);
  for (int rank = 0; rank < RANKS; rank++) /* the links of collective 1 are connected */
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

/* Lasts half a second, in which link set-up reaches its calls. */
static void call_meanwhile(occupation *o) {
  df_collective coll = df_simple(COUNT, RANKS);
  const uint64_t end = df_now_ns() + 500000000u;
  df_waiting_for("calls that link set-up must not hold up");
  for (dfcclCollId_t id = 100; df_now_ns() < end; id++)
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
  CUDA(cudaStreamSynchronize(cudaStreamLegacy));
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

DF_TEST(emulated_library, link_set_up_delays_no_call, 60) { set_up_while_the_device_waits(0); }
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
  lane lanes[RANKS][COLLECTIVES]; /* created before: an allocation would wait for the streams */
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

/* Rank `on_stream` waits on a stream for the run that the other rank submits during the call. */
static void submit_during_synchronisation(dfcclContext_t *ctxs, int on_stream, int round) {
  const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
  int other = 1 - on_stream;
  lane lanes[RANKS];
  pthread_t thread;
  for (int rank = 0; rank < RANKS; rank++) {
    open_lane(&lanes[rank]);
    df_round_fill(lanes[rank].seen, COUNT, rank, 0, round);
    CUDA(cudaMemcpyAsync(lanes[rank].input, lanes[rank].seen, BYTES, cudaMemcpyHostToDevice,
                         lanes[rank].stream));
    CUDA(cudaStreamSynchronize(lanes[rank].stream));
  }
  enqueue(ctxs[on_stream], &lanes[on_stream], on_stream, 0, round);
  CHECK(pthread_create(&thread, NULL, synchronize, ctxs[0]) == 0, "no thread");
  nanosleep(&moment, NULL); /* most likely the other thread is in the call by now */
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
