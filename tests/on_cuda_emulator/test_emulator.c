/*
 * Promises of the emulated CUDA runtime (tests/cuda_emulator), on which the tests of the CUDA
 * device depend. CUDA's guarantees about streams, events and blocks hold, errors of device code are
 * found, and calls that may wait on a GPU do wait.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/processes.h"
#include "visitor.h"

/* ---- blocks and lanes */

DF_TEST(emulator, every_thread_of_every_block_runs_once, 60) {
  uint64_t *total = mapped(sizeof *total), value = 3;
  void *arguments[] = {&total, &value};
  CUDA(launch(test_add, 50, 1024, arguments, NULL));
  value = 1000; /* arguments are copied at the launch */
  CUDA(cudaDeviceSynchronize());
  CHECK(*total == 50 * 1024 * 3, "%llu", (unsigned long long)*total);
}

DF_TEST(emulator, barriers_order_lanes, 60) {
  uint32_t *sums = mapped(20 * sizeof *sums);
  void *arguments[] = {&sums};
  for (int repetition = 0; repetition < 20; repetition++) {
    CUDA(launch(test_tree_sum, 20, TEST_THREADS, arguments, NULL));
    CUDA(cudaDeviceSynchronize());
    for (uint32_t b = 0; b < 20; b++)
      CHECK(sums[b] == TEST_THREADS * (TEST_THREADS - 1) / 2 + TEST_THREADS * b, "block %u: %u", b,
            sums[b]);
  }
}

DF_TEST(emulator, warps_shuffle_and_vote, 60) {
  uint32_t *out = mapped(TEST_THREADS * sizeof *out);
  void *arguments[] = {&out};
  for (int repetition = 0; repetition < 20; repetition++) {
    CUDA(launch(test_warp, 1, TEST_THREADS, arguments, NULL));
    CUDA(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < TEST_THREADS; i++) {
      const uint32_t first = i / 32 * 32;
      CHECK(out[i] == 32 * first + 496 + first, "thread %u: %u", i, out[i]);
    }
  }
}

/* A missing __syncwarp must have an effect, and a present one must be enough. */
DF_TEST(emulator, a_missing_barrier_shows, 60) {
  uint32_t *wrong = mapped(2 * sizeof *wrong);
  for (uint32_t synced = 0; synced < 2; synced++) {
    uint32_t *counter = &wrong[synced];
    void *arguments[] = {&counter, &synced};
    for (int repetition = 0; repetition < 50; repetition++)
      CUDA(launch(test_handover, 1, 32, arguments, NULL));
  }
  CUDA(cudaDeviceSynchronize());
  CHECK(wrong[0] > 0, "nobody has read too early");
  CHECK(wrong[1] == 0, "%u have read too early", wrong[1]);
}

DF_TEST(emulator, halves_are_exact, 60) {
  uint16_t *back = mapped(65536 * sizeof *back);
  void *arguments[] = {&back};
  CUDA(launch(test_halves, 1, 64, arguments, NULL));
  CUDA(cudaDeviceSynchronize());
  for (uint32_t i = 0; i < 65536; i++) {
    const bool is_nan = (i & 0x7fff) > 0x7c00;
    CHECK(back[i] == (is_nan ? 0x7fff : i), "%04x became %04x", i, back[i]);
  }
}

/* ---- errors of device code end the process, with a sentence */

typedef struct mistaken {
  void (*make)(void *argument);
  void *argument;
  int output;
} mistaken;

static void make_mistake(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)rank;
  (void)ranks;
  (void)id;
  const mistaken *m = arg;
  dup2(m->output, STDERR_FILENO);
  m->make(m->argument);
}

static void expect_mistake(void (*make)(void *argument), void *argument, const char *words) {
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  mistaken m = {make, argument, ends[1]};
  df_family family;
  df_fork(&family, 1, 60, make_mistake, &m);
  const int status = df_reap(&family, 0);
  close(ends[1]);
  char text[8192];
  size_t length = 0;
  ssize_t n;
  while ((n = read(ends[0], text + length, sizeof text - 1 - length)) > 0) length += (size_t)n;
  text[length] = 0;
  close(ends[0]);
  CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) == 0), "the mistake was not found");
  CHECK(strstr(text, "CUDA emulator: ") && strstr(text, words), "it says: %s", text);
}

static void launch_mistake(void *argument) {
  uint32_t what = *(uint32_t *)argument;
  void *arguments[] = {&what};
  CUDA(launch(test_mistake, 1, 32, arguments, NULL));
  cudaDeviceSynchronize();
}

DF_TEST(emulator, divergent_barriers_are_found, 120) {
  static const struct {
    uint32_t what;
    const char *words;
  } cases[] = {{MISTAKE_DIVERGENT, "meet at different barriers"},
               {MISTAKE_ENDED, "ended"},
               {MISTAKE_WARP, "ended"},
               {MISTAKE_ASSUMED, "not true: me != 9"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t what = cases[i].what;
    expect_mistake(launch_mistake, &what, cases[i].words);
  }
}

static void copy_from_pageable(void *argument) {
  (void)argument;
  static uint8_t pageable[64];
  const uint8_t *from = pageable;
  uint8_t *to = mapped(64);
  uint32_t bytes = 64;
  void *arguments[] = {&to, &from, &bytes};
  CUDA(launch(test_copy, 1, 32, arguments, NULL));
  cudaDeviceSynchronize();
}

static void copy_from_peer(void *argument) {
  uint8_t *from, *to;
  uint32_t bytes = 64;
  CUDA(cudaSetDevice(1));
  CUDA(cudaMalloc((void **)&from, bytes));
  CUDA(cudaMemset(from, 7, bytes));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaSetDevice(0));
  CUDA(cudaMalloc((void **)&to, bytes));
  if (*(int *)argument) CUDA(cudaDeviceEnablePeerAccess(1, 0));
  void *arguments[] = {&to, &from, &bytes};
  CUDA(launch(test_copy, 1, 32, arguments, NULL));
  uint8_t got[64];
  CUDA(cudaMemcpy(got, to, bytes, cudaMemcpyDeviceToHost));
  for (uint32_t i = 0; i < bytes; i++) CHECK(got[i] == 7, "%u: %u", i, got[i]);
}

DF_TEST(emulator, memory_out_of_reach_is_found, 120) {
  int enabled = 0;
  expect_mistake(copy_from_pageable, NULL, "no device memory and no page-locked memory");
  expect_mistake(copy_from_peer, &enabled, "no access to");
  enabled = 1;
  copy_from_peer(&enabled);
}

static void touch_device_memory(void *argument) {
  (void)argument;
  volatile char *p;
  CUDA(cudaMalloc((void **)&p, 100));
  p[50] = 1;
}

/* Only if AddressSanitizer checks accesses. */
DF_TEST(emulator, a_host_that_touches_device_memory_is_found, 60) {
  if (!cuda_emulator_guards_device_memory()) DF_SKIP("AddressSanitizer finds it, and is not here");
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  mistaken m = {touch_device_memory, NULL, ends[1]};
  df_family family;
  df_fork(&family, 1, 60, make_mistake, &m);
  const int status = df_reap(&family, 0);
  CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) == 0), "the host touched device memory");
  close(ends[0]);
  close(ends[1]);
}

/* ---- streams and events */

DF_TEST(emulator, a_stream_is_in_order_and_others_go_on, 60) {
  cudaStream_t one = new_stream(), other = new_stream();
  uint32_t *log = mapped(8 * sizeof *log), *next = mapped(sizeof *next);
  const visitor v = new_visitor();
  invite(v, 1, one);
  note(one, log, next, 2);
  note(other, log, next, 1);
  CUDA(cudaStreamSynchronize(other));
  REFUSED(cudaStreamQuery(one), cudaErrorNotReady);
  cudaGetLastError();
  CHECK(*next == 1 && log[0] == 1, "the second stream waited for the first");
  set(v.go, 1);
  CUDA(cudaStreamSynchronize(one));
  CHECK(*next == 2 && log[1] == 2, "%u noted", *next);
}

DF_TEST(emulator, the_legacy_stream_waits_for_blocking_streams, 60) {
  cudaStream_t blocking, apart = new_stream();
  CUDA(cudaStreamCreate(&blocking));
  uint32_t *log = mapped(8 * sizeof *log), *next = mapped(sizeof *next);
  const visitor v = new_visitor(), other = new_visitor();
  invite(v, 1, blocking);
  invite(other, 1, apart);
  note(NULL, log, next, 1);     /* waits for the work in `blocking`, not for `apart` */
  note(blocking, log, next, 2); /* waits for the legacy stream's work */
  cudaEvent_t event;
  CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUDA(cudaEventRecord(event, NULL));
  REFUSED(cudaEventQuery(event), cudaErrorNotReady);
  CHECK(look(next) == 0, "the legacy stream did not wait");
  set(v.go, 1);
  CUDA(cudaEventSynchronize(event));
  CUDA(cudaStreamSynchronize(blocking));
  CHECK(*next == 2 && log[0] == 1 && log[1] == 2, "%u noted: %u %u", *next, log[0], log[1]);
  REFUSED(cudaStreamQuery(apart), cudaErrorNotReady);
  set(other.go, 1);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaEventDestroy(event));
}

/* cudaMemset returns although it is behind a kernel of a blocking stream; a copy waits for both. */
DF_TEST(emulator, a_fill_is_not_waited_for, 60) {
  cudaStream_t blocking;
  uint8_t *memory, got = 0;
  CUDA(cudaMalloc((void **)&memory, 1));
  CUDA(cudaStreamCreate(&blocking));
  const visitor v = new_visitor();
  invite(v, 1, blocking);
  CUDA(cudaMemset(memory, 7, 1));
  set(v.go, 1);
  CUDA(cudaMemcpy(&got, memory, 1, cudaMemcpyDeviceToHost));
  CHECK(got == 7, "%u", got);
}

DF_TEST(emulator, events_order_streams, 60) {
  cudaStream_t one = new_stream(), other = new_stream();
  uint32_t *log = mapped(8 * sizeof *log), *next = mapped(sizeof *next);
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  const visitor v = new_visitor();
  invite(v, 1, one);
  note(one, log, next, 1);
  CUDA(cudaEventRecord(event, one));
  CUDA(cudaStreamWaitEvent(other, event, 0));
  note(other, log, next, 2);
  CUDA(cudaEventDestroy(event)); /* the wait has been queued */
  REFUSED(cudaStreamQuery(other), cudaErrorNotReady);
  set(v.go, 1);
  CUDA(cudaDeviceSynchronize());
  CHECK(*next == 2 && log[0] == 1 && log[1] == 2, "%u noted: %u %u", *next, log[0], log[1]);
}

static void CUDART_CB count_call(void *argument) {
  __atomic_fetch_add((uint32_t *)argument, 1, __ATOMIC_ACQ_REL);
}

typedef int (*value_function)(cudaStream_t, uint64_t address, uint64_t value, unsigned flags);

DF_TEST(emulator, streams_wait_for_values, 60) {
  value_function wait, write;
  enum cudaDriverEntryPointQueryResult found;
  CUDA(cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", (void **)&wait, 12000, 0, &found));
  CHECK(found == cudaDriverEntryPointSuccess, "no cuStreamWaitValue64");
  CUDA(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", (void **)&write, 12000, 0, &found));
  cudaStream_t stream = new_stream();
  uint64_t *words = mapped(2 * sizeof *words);
  uint32_t *calls = mapped(sizeof *calls);
  words[0] = UINT64_MAX - 1; /* the comparison is cyclic */
  CHECK(wait(stream, (uint64_t)(uintptr_t)&words[0], 1, 0) == 0, "refused");
  CHECK(write(stream, (uint64_t)(uintptr_t)&words[1], 77, 0) == 0, "refused");
  CUDA(cudaLaunchHostFunc(stream, count_call, calls));
  REFUSED(cudaStreamQuery(stream), cudaErrorNotReady);
  CHECK(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0, "it did not wait");
  __atomic_store_n(&words[0], 2, __ATOMIC_RELEASE);
  CUDA(cudaStreamSynchronize(stream));
  CHECK(words[1] == 77 && *calls == 1, "%llu, %u", (unsigned long long)words[1], *calls);
  cuda_emulator_set_memory_operations(0);
  int usable = 1;
  CUDA(cudaDeviceGetAttribute(&usable, (enum cudaDeviceAttr)122, 0));
  CHECK(!usable, "still there");
  CHECK(write(stream, (uint64_t)(uintptr_t)&words[1], 78, 0) != 0, "not refused");
}

/* ---- waiting for the device */

typedef struct waiter {
  int what;
  uint32_t over;
} waiter;

static void *wait_for_device(void *argument) {
  waiter *w = argument;
  void *p = NULL;
  if (w->what == 0) CUDA(cudaDeviceSynchronize());
  if (w->what == 1) CUDA(cudaMalloc(&p, 1000));
  if (w->what == 2) CUDA(cudaHostAlloc(&p, 1000, cudaHostAllocMapped));
  set(&w->over, 1);
  return NULL;
}

DF_TEST(emulator, synchronisation_and_allocation_wait_for_resident_kernels, 60) {
  for (int what = 0; what < 3; what++) {
    cudaStream_t stream = new_stream();
    const visitor v = new_visitor();
    invite(v, 2, stream);
    while (look(v.here) < 2) df_nap();
    waiter w = {what, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_device, &w) == 0, "no thread");
    for (int i = 0; i < 50; i++) df_nap();
    CHECK(look(&w.over) == 0, "%d did not wait for the kernel", what);
    set(v.go, 1);
    pthread_join(thread, NULL);
    CUDA(cudaStreamDestroy(stream));
  }
}

DF_TEST(emulator, a_device_holds_so_many_blocks, 60) {
  int multiprocessors;
  CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const uint32_t most = (uint32_t)multiprocessors;
  cudaStream_t one = new_stream(), other = new_stream();
  const visitor first = new_visitor(), second = new_visitor();
  invite(first, most - 1, one);
  while (look(first.here) < most - 1) df_nap();
  invite(second, 2, other); /* there is room for one of its blocks */
  while (look(second.here) < 1) df_nap();
  set(second.go, 1);
  CUDA(cudaStreamSynchronize(other));
  set(first.go, 1);
  CUDA(cudaDeviceSynchronize());
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  CHECK(counts.most_resident_blocks == most, "%llu blocks at a time",
        (unsigned long long)counts.most_resident_blocks);
  CHECK(counts.resident_blocks == 0, "blocks are left");
}

/* The device is full. The first waiting grid of the greatest priority starts first. */
DF_TEST(emulator, priority_decides_who_is_next, 60) {
  int least, greatest, multiprocessors;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const uint32_t all = (uint32_t)multiprocessors;
  cudaStream_t low, high, first = new_stream();
  CUDA(cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least));
  CUDA(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
  const visitor v = new_visitor(), l = new_visitor(), h = new_visitor();
  invite(v, all, first);
  while (look(v.here) < all) df_nap();
  invite(l, all, low);
  invite(h, all, high);
  cuda_emulator_counts counts;
  do {
    df_nap();
    cuda_emulator_count(&counts);
  } while (counts.waiting_grids < 2);
  set(h.go, 1);
  set(v.go, 1);
  CUDA(cudaStreamSynchronize(high)); /* would hang if `low` held a place */
  set(l.go, 1);
  CUDA(cudaDeviceSynchronize());
  CHECK(look(l.here) == all && look(h.here) == all, "a grid is lost");
}
