/*
 * Promises of the emulated CUDA runtime about resources that streams and threads of a GPU share:
 *   - Streams share hardware queues in turn. A command that cannot begin delays the later ones in
 *     its queue, and none in other queues.
 *   - Streams of raised priority have queues of their own if the emulator is configured so.
 *   - A query waits while another thread waits for the device.
 *   - The first launch of a kernel that is not loaded waits until the device is idle.
 */
#include <pthread.h>
#include <stdlib.h>

#include "visitor.h"

typedef int (*value_function)(cudaStream_t, uint64_t address, uint64_t value, unsigned flags);

/* Streams, kernels that record their names, and a word for which a stream waits. */
typedef struct scene {
  value_function wait;
  uint64_t *word;
  uint32_t *log, *next;
} scene;

static scene new_scene(void) {
  scene s;
  enum cudaDriverEntryPointQueryResult found;
  CUDA(cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", (void **)&s.wait, 12000, 0, &found));
  s.word = mapped(sizeof *s.word);
  s.log = mapped(8 * sizeof *s.log);
  s.next = mapped(sizeof *s.next);
  return s;
}

static void wait_for_word(const scene *s, cudaStream_t stream) {
  CHECK(s->wait(stream, (uint64_t)(uintptr_t)s->word, 1, 0) == 0, "refused");
}

static void write_word(const scene *s) { __atomic_store_n(s->word, 1, __ATOMIC_RELEASE); }

/* Long enough for all commands that can begin. */
static void some_time(void) {
  for (int i = 0; i < 50; i++) df_nap();
}

DF_TEST(emulator_queues, a_wait_holds_its_queue_and_no_other, 60) {
  cuda_emulator_set_queues(2, 0);
  const scene s = new_scene();
  cudaStream_t first = new_stream(), second = new_stream(), third = new_stream();
  wait_for_word(&s, first);
  note(third, s.log, s.next, 3); /* in the first one's queue */
  note(second, s.log, s.next, 2);
  CUDA(cudaStreamSynchronize(second));
  some_time();
  CHECK(look(s.next) == 1 && s.log[0] == 2, "%u began", look(s.next));
  REFUSED(cudaStreamQuery(third), cudaErrorNotReady);
  write_word(&s);
  CUDA(cudaStreamSynchronize(third));
  CHECK(look(s.next) == 2, "%u began", look(s.next));
}

/* The kernel has begun, so the first command in the queue is the one that waits for it. */
DF_TEST(emulator_queues, a_command_behind_a_long_kernel_holds_its_queue, 60) {
  cuda_emulator_set_queues(1, 0);
  const scene s = new_scene();
  const visitor v = new_visitor();
  cudaStream_t first = new_stream(), second = new_stream();
  invite(v, 1, first);
  note(second, s.log, s.next, 2);
  CUDA(cudaStreamSynchronize(second)); /* the kernel delays nothing */
  note(first, s.log, s.next, 1);
  note(second, s.log, s.next, 3);
  some_time();
  CHECK(look(s.next) == 1, "%u began", look(s.next));
  set(v.go, 1);
  CUDA(cudaDeviceSynchronize());
  CHECK(look(s.next) == 3 && s.log[1] == 1 && s.log[2] == 3, "%u began", look(s.next));
}

DF_TEST(emulator_queues, an_event_holds_the_queue_of_its_waiting_stream, 60) {
  cuda_emulator_set_queues(3, 0);
  const scene s = new_scene();
  cudaStream_t recorded = new_stream(), waiting = new_stream(), apart = new_stream(),
               behind = new_stream(), shares = new_stream();
  cudaEvent_t event;
  CUDA(cudaEventCreate(&event));
  wait_for_word(&s, recorded);
  CUDA(cudaEventRecord(event, recorded));
  CUDA(cudaStreamWaitEvent(waiting, event, 0));
  note(apart, s.log, s.next, 1);
  CUDA(cudaStreamSynchronize(apart));
  note(shares, s.log, s.next, 2); /* in the waiting one's queue */
  some_time();
  CHECK(look(s.next) == 1, "%u began", look(s.next));
  write_word(&s);
  CUDA(cudaStreamSynchronize(shares));
  CUDA(cudaStreamDestroy(behind));
  CUDA(cudaEventDestroy(event));
}

static void wait_beside_priority(int apart) {
  cuda_emulator_set_queues(1, apart);
  const scene s = new_scene();
  cudaStream_t plain = new_stream(), urgent;
  int least, greatest;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
  wait_for_word(&s, plain);
  note(urgent, s.log, s.next, 1);
  if (apart) CUDA(cudaStreamSynchronize(urgent));
  some_time();
  CHECK(look(s.next) == (uint32_t)apart, "%u began", look(s.next));
  write_word(&s);
  CUDA(cudaDeviceSynchronize());
  CHECK(look(s.next) == 1, "it is lost");
}

DF_TEST(emulator_queues, priority_shares_queues, 60) { wait_beside_priority(0); }
DF_TEST(emulator_queues, priority_has_queues_of_its_own_if_configured, 60) {
  wait_beside_priority(1);
}

/* ---- calls that wait for the device delay others */

typedef struct asker {
  cudaStream_t stream;
  uint32_t allocates, asked, over;
} asker;

static void *occupy_driver(void *argument) {
  asker *a = argument;
  void *memory;
  if (a->allocates)
    CUDA(cudaMalloc(&memory, 1000));
  else
    CUDA(cudaDeviceSynchronize());
  return NULL;
}

static void *ask(void *argument) {
  asker *a = argument;
  const cudaError_t answer = cudaStreamQuery(a->stream);
  CHECK(answer == cudaSuccess, "the query says %s", cudaGetErrorName(answer));
  set(&a->over, 1);
  return NULL;
}

DF_TEST(emulator_queues, a_query_waits_while_another_thread_waits_for_the_device, 60) {
  for (uint32_t allocates = 0; allocates < 2; allocates++) {
    asker a = {.stream = new_stream(), .allocates = allocates};
    cudaStream_t busy = new_stream();
    const visitor v = new_visitor();
    pthread_t occupier, questioner;
    invite(v, 1, busy);
    while (look(v.here) < 1) df_nap();
    CHECK(pthread_create(&occupier, NULL, occupy_driver, &a) == 0, "no thread");
    /* A query does not wait before the occupier has its turn. */
    df_waiting_for("a query that waits");
    for (;;) {
      set(&a.over, 0);
      CHECK(pthread_create(&questioner, NULL, ask, &a) == 0, "no thread");
      some_time();
      if (look(&a.over) == 0) break;
      pthread_join(questioner, NULL);
    }
    df_waiting_for(NULL);
    set(v.go, 1);
    pthread_join(occupier, NULL);
    pthread_join(questioner, NULL);
  }
}

typedef struct launcher {
  scene s;
  cudaStream_t stream;
  uint32_t over;
} launcher;

static void *launch_unloaded(void *argument) {
  launcher *l = argument;
  note(l->stream, l->s.log, l->s.next, 1);
  set(&l->over, 1);
  return NULL;
}

DF_TEST(emulator_queues, a_kernel_that_is_not_loaded_needs_a_quiet_device, 60) {
  unsetenv("CUDA_MODULE_LOADING");
  for (int loaded = 0; loaded < 2; loaded++) {
    launcher l = {.s = new_scene(), .stream = new_stream()};
    cudaStream_t busy = new_stream();
    const visitor v = new_visitor();
    pthread_t thread;
    invite(v, 1, busy);
    while (look(v.here) < 1) df_nap();
    CHECK(pthread_create(&thread, NULL, launch_unloaded, &l) == 0, "no thread");
    some_time();
    CHECK(look(&l.over) == (uint32_t)loaded, "a launch of a kernel %s",
          loaded ? "that is loaded waits" : "does not wait");
    set(v.go, 1);
    pthread_join(thread, NULL);
    CUDA(cudaDeviceSynchronize());
  }
}
