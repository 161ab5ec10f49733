/*
 * Promises of streams, for a GPU (on other devices dfcclRun*OnStream fails: there are no streams):
 *   - dfcclRun*OnStream reads its input when the stream has reached it, and later work on the
 *     stream finds the output, in any order of collectives on streams of their own. The same holds
 *     for dfcclRun with a stream, and its run has a number to wait for.
 *   - Allocating and freeing device memory and page-locked memory, work on the default stream, and
 *     waiting for the device return between disordered collectives, whose results are right.
 * The test calls the installed CUDA driver.
 */
#include <stdint.h>
#include <string.h>

#include "support/memory.h"
#include "support/ranks.h"
#include "support/rounds.h"

enum { RANKS = 2, COLLECTIVES = 3, COUNT = 700, ROUNDS = 3 };
#define BYTES (COUNT * sizeof(uint32_t))

/* Functions of the driver, with their types written out, by their exported names. */
static struct {
  int (*synchronize)(void);
  int (*alloc)(uintptr_t *memory, size_t bytes);
  int (*give)(uintptr_t memory);
  int (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  int (*host_give)(void *memory);
  int (*to_device)(uintptr_t to, const void *from, size_t bytes, void *stream);
  int (*to_host)(void *to, uintptr_t from, size_t bytes, void *stream);
  int (*fill)(uintptr_t to, unsigned char value, size_t bytes);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_synchronize)(void *stream);
  int (*stream_destroy)(void *stream);
} driver;

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    const int error_ = (call);                                                                     \
    CHECK(error_ == 0, "%s: error %d", #call, error_);                                             \
  } while (0)

static void load_driver(void) {
  const df_driver_entry entries[] = {{"cuCtxSynchronize", &driver.synchronize},
                                     {"cuMemAlloc_v2", &driver.alloc},
                                     {"cuMemFree_v2", &driver.give},
                                     {"cuMemHostAlloc", &driver.host_alloc},
                                     {"cuMemFreeHost", &driver.host_give},
                                     {"cuMemcpyHtoDAsync_v2", &driver.to_device},
                                     {"cuMemcpyDtoHAsync_v2", &driver.to_host},
                                     {"cuMemsetD8_v2", &driver.fill},
                                     {"cuStreamCreate", &driver.stream_create},
                                     {"cuStreamSynchronize", &driver.stream_synchronize},
                                     {"cuStreamDestroy_v2", &driver.stream_destroy}};
  df_driver_find(entries, sizeof entries / sizeof entries[0]);
  df_driver_enter();
}

/* One collective of one rank: input and output in device memory, and the host's copies of them. */
typedef struct {
  void *stream;
  uintptr_t input, output;
  uint32_t *source, *seen; /* page-locked */
} lane;

typedef struct {
  dfcclContext_t ctxs[RANKS];
  lane lanes[RANKS][COLLECTIVES];
} job;

static void open_job(job *j) {
  const unsigned non_blocking = 1, portable_and_mapped = 1 | 2;
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  load_driver();
  df_make_contexts(j->ctxs, RANKS, NULL);
  for (int c = 0; c < COLLECTIVES; c++) df_register_all(j->ctxs, (dfcclCollId_t)c, &coll);
  for (int i = 0; i < RANKS * COLLECTIVES; i++) {
    lane *l = &j->lanes[i / COLLECTIVES][i % COLLECTIVES];
    void *memory = NULL;
    CUDA(driver.stream_create(&l->stream, non_blocking));
    CUDA(driver.alloc(&l->input, 2 * BYTES));
    l->output = l->input + BYTES;
    CUDA(driver.host_alloc(&memory, 2 * BYTES, portable_and_mapped));
    l->source = memory;
    l->seen = l->source + COUNT;
  }
}

static void close_job(job *j) {
  df_free_contexts(j->ctxs, RANKS);
  for (int i = 0; i < RANKS * COLLECTIVES; i++) {
    lane *l = &j->lanes[i / COLLECTIVES][i % COLLECTIVES];
    CUDA(driver.stream_destroy(l->stream));
    CUDA(driver.give(l->input));
    CUDA(driver.host_give(l->source));
  }
}

static void send_input(lane *l, int rank, int collective, int round) {
  df_round_fill(l->source, COUNT, rank, collective, round);
  CUDA(driver.to_device(l->input, l->source, BYTES, l->stream));
}

static void check_output(const lane *l, int collective, int round) {
  df_waiting_for("the stream behind a run");
  CUDA(driver.stream_synchronize(l->stream));
  df_waiting_for(NULL);
  df_round_check(l->seen, COUNT, RANKS, collective, round);
}

/* Each second round calls dfcclRun, which numbers its runs. */
static void run_on_stream(dfcclContext_t ctx, int collective, const lane *l, int round) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  if (round % 2 == 0) {
    OK(dfcclRunAllReduceOnStream(ctx, (dfcclCollId_t)collective, (void *)l->input,
                                 (void *)l->output, l->stream, NULL, NULL));
    return;
  }
  run.sendBuf = (void *)l->input;
  run.recvBuf = (void *)l->output;
  run.stream = l->stream;
  run.flags = DFCCL_RUN_ON_STREAM;
  OK(dfcclRun(ctx, (dfcclCollId_t)collective, &run));
  CHECK(run.run == (uint64_t)round, "run %d is numbered %d", round, (int)run.run);
}

DF_TEST(streams, runs_in_the_order_of_streams, 120) {
  job j;
  if (!df_on_cuda()) DF_SKIP("no streams without a GPU");
  open_job(&j);
  for (int round = 0; round < ROUNDS; round++) {
    for (int rank = 0; rank < RANKS; rank++)
      for (int i = 0; i < COLLECTIVES; i++) {
        int c = rank == 0 ? i : COLLECTIVES - 1 - i; /* opposite orders */
        lane *l = &j.lanes[rank][c];
        send_input(l, rank, c, round);
        run_on_stream(j.ctxs[rank], c, l, round);
        CUDA(driver.to_host(l->seen, l->output, BYTES, l->stream));
      }
    for (int rank = 0; rank < RANKS; rank++)
      for (int c = 0; c < COLLECTIVES; c++) {
        OK(dfcclWaitRun(j.ctxs[rank], (dfcclCollId_t)c, (uint64_t)round, -1));
        check_output(&j.lanes[rank][c], c, round);
      }
  }
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWaitAll(j.ctxs[rank]));
  close_job(&j);
}

/* Calls that wait for the device, and therefore for the daemon to leave it. */
static void call_what_waits(void) {
  uintptr_t memory = 0;
  void *locked = NULL;
  df_waiting_for("allocating device memory");
  CUDA(driver.alloc(&memory, 1000));
  df_waiting_for("the default stream");
  CUDA(driver.fill(memory, 1, 1000));
  df_waiting_for("allocating page-locked memory");
  CUDA(driver.host_alloc(&locked, 1000, 0));
  df_waiting_for("waiting for the device");
  CUDA(driver.synchronize());
  df_waiting_for("freeing");
  CUDA(driver.give(memory));
  CUDA(driver.host_give(locked));
  df_waiting_for(NULL);
}

static void call_between(int rank, void *arg) {
  job *j = arg;
  df_driver_enter();
  for (int round = 0; round < ROUNDS; round++) {
    for (int c = 0; c < COLLECTIVES; c++) {
      send_input(&j->lanes[rank][c], rank, c, round);
      CUDA(driver.stream_synchronize(j->lanes[rank][c].stream));
    }
    for (int i = 0; i < COLLECTIVES; i++) {
      int c = rank == 0 ? i : COLLECTIVES - 1 - i;
      OK(dfcclRunAllReduce(j->ctxs[rank], (dfcclCollId_t)c, (void *)j->lanes[rank][c].input,
                           (void *)j->lanes[rank][c].output, NULL, NULL));
      call_what_waits();
    }
    df_waiting_for("dfcclWaitAll");
    OK(dfcclWaitAll(j->ctxs[rank]));
    df_waiting_for(NULL);
    for (int c = 0; c < COLLECTIVES; c++) {
      lane *l = &j->lanes[rank][c];
      CUDA(driver.to_host(l->seen, l->output, BYTES, l->stream));
      check_output(l, c, round);
    }
  }
}

DF_TEST(streams, calls_that_wait_for_the_device, 120) {
  job j;
  if (!df_on_cuda()) DF_SKIP("nothing waits for the device without a GPU");
  open_job(&j);
  df_in_threads(RANKS, call_between, &j);
  close_job(&j);
}

DF_TEST(streams, there_are_none_on_the_cpu, 30) {
  dfcclContext_t ctx;
  uint32_t value = 1;
  if (df_on_cuda()) DF_SKIP("a GPU has streams");
  df_make_contexts(&ctx, 1, NULL);
  OK(dfcclRegisterAllReduce(ctx, 1, 1, dfcclUint32, dfcclSum, NULL));
  CHECK(dfcclRunAllReduceOnStream(ctx, 1, &value, &value, NULL, NULL, NULL) == dfcclInvalidUsage,
        "it ran on a stream");
  CHECK(strstr(dfcclGetLastError(ctx), "stream") != NULL, "%s", dfcclGetLastError(ctx));
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = run.recvBuf = &value;
  run.flags = DFCCL_RUN_ON_STREAM;
  RESULT(dfcclRun(ctx, 1, &run), dfcclInvalidUsage);
  CHECK(strstr(dfcclGetLastError(ctx), "stream") != NULL, "%s", dfcclGetLastError(ctx));
  df_free_contexts(&ctx, 1);
}
