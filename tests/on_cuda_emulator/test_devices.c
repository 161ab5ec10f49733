/*
 * Promises of the CUDA device's host side about the device and its memory, by the public API on the
 * emulated runtime:
 *   - The library uses its own device and no other, and a thread that calls it keeps its current
 *     context, or has none if it had none.
 *   - A closed context leaves nothing on the device, and frees nothing that another process has
 *     mapped; nor does dfcclMemFree, also after a failure.
 *   - The daemon is launched at the greatest priority, on a stream that does not wait for the
 *     default one, as wide as the widest collective that has run, in the remote domain. Every
 *     kernel is loaded before it is first launched.
 *   - If a process's launches wait for the launched kernel, the library fails with a sentence.
 *   - Memory of another device is mapped if the link between the two supports atomic accesses, and
 *     only then.
 *   - Ranks that share a GPU divide its blocks; a rank alone has more.
 *   - Ten idle communicators hold no block and launch nothing. Each has two streams and an event,
 *     and memory that docs/CUDA.md states.
 *   - Messages of ranks on one GPU in one process may be longer than their slots: messages that are
 *     not lent fit them, in place or not.
 *   - Ten communicators whose peers never submit launch seldom, each no more often than one alone.
 *   - A rank whose daemon has left, since only a peer can help, is launched again when the peer's
 *     message arrives, however long its pause would be; peers are threads or processes.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"
#include "support/buffers.h"
#include "support/processes.h"
#include "support/rounds.h"

enum { RANKS = 2, COLLECTIVES = 3, COUNT = 700, ROUNDS = 4, BYTES = COUNT * sizeof(uint32_t) };

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

DF_TEST(emulated_devices, the_current_context_stays_what_it_is, 120) {
  dfcclContext_t ctxs[RANKS];
  cuda_emulator_counts counts;
  dfcclConfig_t config = df_config();
  config.device = 1;
  for (int before = 0; before < 2; before++) { /* no current context, then device 0's */
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

static void run_once(dfcclContext_t *ctxs, dfcclCollId_t id, void *memory, size_t bytes) {
  for (int rank = 0; rank < RANKS; rank++) {
    char *input = (char *)memory + (size_t)rank * 2 * bytes;
    OK(dfcclRunAllReduce(ctxs[rank], id, input, input + bytes, NULL, NULL));
  }
  df_waiting_for("dfcclWait");
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[rank], id));
  df_waiting_for(NULL);
}

DF_TEST(emulated_devices, the_daemon_is_launched_as_promised, 60) {
  enum { WIDE = 4000, BLOCKS = 3 };
  dfcclContext_t ctxs[RANKS];
  cuda_emulator_counts counts;
  cuda_emulator_launch launch;
  int least, greatest;
  void *memory;
  df_collective narrow = df_simple(COUNT / 10, RANKS), wide = df_simple(WIDE, RANKS);
  setenv("DFCCL_MAX_BLOCKS", "3", 1);
  df_tune("block_min", "4096");
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  df_make_contexts(ctxs, RANKS, NULL);
  df_register_all(ctxs, 0, &narrow);
  df_register_all(ctxs, 1, &wide);
  CUDA(cudaHostAlloc(&memory, (size_t)2 * RANKS * WIDE * sizeof(uint32_t), cudaHostAllocMapped));
  memset(memory, 0, (size_t)2 * RANKS * WIDE * sizeof(uint32_t));
  for (int c = 0; c < 2; c++) {
    run_once(ctxs, (dfcclCollId_t)c, memory, (size_t)WIDE * sizeof(uint32_t));
    cuda_emulator_latest_launch(&launch);
    CHECK(strcmp(launch.kernel, "df_daemon_cuda") == 0, "%s was launched", launch.kernel);
    CHECK(launch.blocks == (c == 0 ? 1 : BLOCKS), "collective %d: %u blocks", c, launch.blocks);
    CHECK(launch.priority == greatest && greatest < least, "priority %d of %d to %d",
          launch.priority, least, greatest);
    CHECK(launch.non_blocking, "on a stream that waits for the default one");
    CHECK(launch.remote_domain, "not in the remote domain");
  }
  cuda_emulator_count(&counts);
  CHECK(counts.loading_launches == 0, "%llu launches loaded their kernel",
        (unsigned long long)counts.loading_launches);
  CUDA(cudaFreeHost(memory));
  df_free_contexts(ctxs, RANKS);
  nothing_is_left();
}

static uint32_t blocks_of_wide_run(int ranks) {
  enum { WIDE = 1 << 20 };
  dfcclContext_t ctxs[RANKS];
  cuda_emulator_launch launch;
  void *memory;
  df_collective coll = df_simple(WIDE / sizeof(uint32_t), ranks);
  df_make_contexts(ctxs, ranks, NULL);
  df_register_all(ctxs, 0, &coll);
  CUDA(cudaMalloc(&memory, (size_t)2 * RANKS * WIDE));
  for (int rank = 0; rank < ranks; rank++) {
    char *input = (char *)memory + (size_t)2 * (size_t)rank * WIDE;
    OK(dfcclRunAllReduce(ctxs[rank], 0, input, input + WIDE, NULL, NULL));
  }
  df_waiting_for("dfcclWait");
  for (int rank = 0; rank < ranks; rank++) OK(dfcclWait(ctxs[rank], 0));
  df_waiting_for(NULL);
  cuda_emulator_latest_launch(&launch);
  df_free_contexts(ctxs, ranks);
  CUDA(cudaFree(memory));
  return launch.blocks;
}

DF_TEST(emulated_devices, ranks_that_share_a_gpu_have_fewer_blocks, 120) {
  setenv("CUDA_EMULATOR_MULTIPROCESSORS", "48", 1);
  uint32_t alone = blocks_of_wide_run(1), together = blocks_of_wide_run(RANKS);
  CHECK(alone == 12 && together == 6, "%u blocks alone, %u of each of two", alone, together);
  nothing_is_left();
}

/* ---- messages that are longer than their slots */

/* A daemon that goes on may not have written its counters back yet. */
static uint64_t primitives_of(dfcclContext_t ctx) {
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  OK(dfcclDeviceSynchronize(ctx));
  OK(dfcclGetStats(ctx, &stats));
  return stats.primitivesExecuted;
}

/* The last message of a block is short, and goes through a slot. */
static void reduce_long(int ranks, int in_place) {
  enum { MOST = 3, LONG = 100 * 1024 + 3 };
  dfcclContext_t ctxs[MOST];
  uint32_t *memory;
  df_collective coll = df_simple(LONG, ranks);
  coll.type = dfcclUint32;
  coll.algorithm = "direct";
  df_make_contexts(ctxs, ranks, NULL);
  df_register_all(ctxs, 0, &coll);
  CUDA(cudaHostAlloc((void **)&memory, (size_t)2 * MOST * LONG * sizeof *memory,
                     cudaHostAllocMapped));
  for (int round = 0; round < ROUNDS; round++) {
    const uint64_t before = primitives_of(ctxs[0]);
    for (int rank = 0; rank < ranks; rank++)
      df_round_fill(memory + (size_t)2 * rank * LONG, LONG, rank, 0, round);
    for (int rank = 0; rank < ranks; rank++) {
      uint32_t *input = memory + (size_t)2 * rank * LONG;
      OK(dfcclRunAllReduce(ctxs[rank], 0, input, in_place ? input : input + LONG, NULL, NULL));
    }
    df_waiting_for("dfcclWait");
    for (int rank = 0; rank < ranks; rank++) OK(dfcclWait(ctxs[rank], 0));
    df_waiting_for(NULL);
    for (int rank = 0; rank < ranks; rank++)
      df_round_check(memory + (size_t)2 * rank * LONG + (in_place ? 0 : LONG), LONG, ranks, 0,
                     round);
    /* Loops of 3 (n - 1) primitives, and the end of lending: with slots there would be 34. */
    const uint64_t loops = (primitives_of(ctxs[0]) - before) / (3 * (uint64_t)(ranks - 1));
    CHECK(loops >= 1 && loops <= 4, "%llu loops", (unsigned long long)loops);
  }
  CUDA(cudaFreeHost(memory));
  df_free_contexts(ctxs, ranks);
  nothing_is_left();
}

DF_TEST(emulated_devices, long_messages_need_no_long_slots, 120) {
  df_tune("slot_bytes", "4096");
  df_tune("lend_min", "4000");
  df_tune("cuda_lent_bytes", "65536");
  df_tune("block_min", "1000000000");
  for (int ranks = 2; ranks <= 3; ranks++)
    for (int in_place = 0; in_place < 2; in_place++) reduce_long(ranks, in_place);
}

static void use_once(dfcclContext_t ctxs[][RANKS], int n, char *memory) {
  for (int i = 0; i < n; i++)
    for (int rank = 0; rank < RANKS; rank++) {
      char *input = memory + (size_t)2 * (size_t)rank * BYTES;
      OK(dfcclRunAllReduce(ctxs[i][rank], 0, input, input + BYTES, NULL, NULL));
    }
  df_waiting_for("dfcclWait");
  for (int i = 0; i < n; i++)
    for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[i][rank], 0));
  df_waiting_for(NULL);
}

static cuda_emulator_counts counts_now(void) {
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  return counts;
}

DF_TEST(emulated_devices, communicators_that_are_idle_cost_memory_only, 120) {
  enum { COMMUNICATORS = 10, CONTEXTS = COMMUNICATORS * RANKS, MOST = 8 << 20 };
  const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};
  static dfcclContext_t ctxs[COMMUNICATORS][RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  void *memory;
  for (int i = 0; i < COMMUNICATORS; i++) {
    df_make_contexts(ctxs[i], RANKS, NULL);
    df_register_all(ctxs[i], 0, &coll);
  }
  CUDA(cudaMalloc(&memory, (size_t)2 * RANKS * BYTES));
  use_once(ctxs, COMMUNICATORS, memory);
  EVENTUALLY(counts_now().resident_blocks == 0);
  const cuda_emulator_counts idle = counts_now();
  nanosleep(&moment, NULL);
  CHECK(counts_now().launches == idle.launches && counts_now().resident_blocks == 0,
        "an idle daemon was launched");
  CHECK(idle.streams == 2 * CONTEXTS, "%llu streams", (unsigned long long)idle.streams);
  CHECK(idle.device_bytes <= (uint64_t)CONTEXTS * MOST, "%llu bytes of the device",
        (unsigned long long)idle.device_bytes);
  use_once(ctxs, 1, memory); /* the other ranks do not submit */
  CHECK(counts_now().streams == idle.streams, "a stream more");
  CUDA(cudaFree(memory));
  for (int i = 0; i < COMMUNICATORS; i++) df_free_contexts(ctxs[i], RANKS);
  nothing_is_left();
}

/* Each is on the device for cuda_quit_us in every cuda_restart_most_us, once its pauses have
 * grown. */
DF_TEST(emulated_devices, communicators_that_are_stuck_launch_seldom, 120) {
  enum { COMMUNICATORS = 10, PAUSE_MS = 50 };
  const struct timespec settle = {.tv_nsec = 500 * 1000 * 1000}, moment = settle;
  static dfcclContext_t ctxs[COMMUNICATORS][RANKS];
  df_collective coll = df_simple(COUNT, RANKS);
  void *memory;
  for (int i = 0; i < COMMUNICATORS; i++) {
    df_make_contexts(ctxs[i], RANKS, NULL);
    df_register_all(ctxs[i], 0, &coll);
  }
  CUDA(cudaMalloc(&memory, (size_t)2 * RANKS * BYTES));
  use_once(ctxs, COMMUNICATORS, memory);
  for (int i = 0; i < COMMUNICATORS; i++)
    OK(dfcclRunAllReduce(ctxs[i][0], 0, memory, (char *)memory + BYTES, NULL, NULL));
  nanosleep(&settle, NULL);
  const uint64_t before = counts_now().launches, begin = df_now_ns();
  nanosleep(&moment, NULL);
  const uint64_t launches = counts_now().launches - before;
  const uint64_t pauses = (df_now_ns() - begin) / (PAUSE_MS * 1000000ull) + 1;
  CHECK(launches <= COMMUNICATORS * pauses, "%llu launches in %llu pauses",
        (unsigned long long)launches, (unsigned long long)pauses);
  for (int i = 0; i < COMMUNICATORS; i++) /* the peers submit */
    OK(dfcclRunAllReduce(ctxs[i][1], 0, memory, (char *)memory + BYTES, NULL, NULL));
  df_waiting_for("peers that came late");
  for (int i = 0; i < COMMUNICATORS; i++)
    for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[i][rank], 0));
  df_waiting_for(NULL);
  CUDA(cudaFree(memory));
  for (int i = 0; i < COMMUNICATORS; i++) df_free_contexts(ctxs[i], RANKS);
  nothing_is_left();
}

/* A launch would wait until the daemon leaves. */
DF_TEST(emulated_devices, launches_that_block_are_refused, 60) {
  static const char *const values[] = {"1", "0", ""};
  dfcclConfig_t config = df_config();
  for (int i = 0; i < 3; i++) {
    dfcclContext_t ctx = NULL;
    setenv("CUDA_LAUNCH_BLOCKING", values[i], 1);
    RESULT(dfcclInitAll(&ctx, 1, &config), i == 0 ? dfcclInvalidUsage : dfcclSuccess);
    if (ctx != NULL) OK(dfcclDestroy(ctx));
    if (i == 0)
      CHECK(strstr(dfcclGetLastError(NULL), "CUDA_LAUNCH_BLOCKING") != NULL, "%s",
            dfcclGetLastError(NULL));
  }
  nothing_is_left();
}

/* ---- ranks as processes: the emulator ends a process that frees memory that another one has
 * mapped */

/* The last rank runs it once, the others run it a second time. */
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

DF_TEST(emulated_devices, memory_goes_back_when_other_processes_have_unmapped_it, 120) {
  for (int fails = 0; fails < 2; fails++) {
    df_family family;
    df_fork(&family, RANKS, 100, free_what_a_peer_maps, &fails);
    df_join(&family);
  }
}

/* ---- lent memory */

static uint64_t mappings(void) {
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  return counts.ipc_mappings;
}

static void reduce(dfcclContext_t ctx, dfcclCollId_t id, int rank, uint32_t *memory) {
  df_collective coll = df_simple(COUNT, RANKS);
  coll.type = dfcclUint32;
  OK(df_register(ctx, id, &coll));
  df_waiting_for("dfcclWait");
  for (int round = 0; round < ROUNDS; round++) {
    df_round_fill(memory, COUNT, rank, 0, round);
    OK(dfcclRunAllReduce(ctx, id, memory, memory + COUNT, NULL, NULL));
    OK(dfcclWait(ctx, id));
    df_round_check(memory + COUNT, COUNT, RANKS, 0, round);
  }
  df_waiting_for(NULL);
}

typedef struct {
  int native;
  atomic_int *counted; /* ranks; a peer maps memory as soon as it is allocated */
  atomic_int *checked; /* ranks; one that leaves frees its memory */
} across_devices;

static void reduce_across_devices(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const across_devices *across = arg;
  const int native = across->native;
  dfcclConfig_t config = df_config();
  config.device = rank;
  cuda_emulator_set_native_atomics(native);
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  uint32_t *memory;
  CUDA(cudaHostAlloc((void **)&memory, (size_t)2 * BYTES, cudaHostAllocMapped));
  reduce(ctx, 0, rank, memory);
  const uint64_t before = mappings();
  atomic_fetch_add(across->counted, 1);
  EVENTUALLY(atomic_load(across->counted) == ranks);
  void *shared;
  OK(dfcclMemAlloc(ctx, &shared, (size_t)2 * BYTES));
  reduce(ctx, 1, rank,
         memory); /* its peer has received the memory's handle before its links are connected */
  CHECK(mappings() == before + (uint64_t)native, "%llu mappings before, %llu now",
        (unsigned long long)before, (unsigned long long)mappings());
  atomic_fetch_add(across->checked, 1);
  EVENTUALLY(atomic_load(across->checked) == ranks);
  OK(dfcclMemFree(ctx, shared));
  df_finish(ctx);
  CUDA(cudaFreeHost(memory));
  nothing_is_left();
}

DF_TEST(emulated_devices, memory_is_mapped_between_devices_with_native_atomics_only, 120) {
  for (int native = 0; native < 2; native++) {
    df_family family;
    across_devices across = {native, df_shared(sizeof(atomic_int)), df_shared(sizeof(atomic_int))};
    df_fork(&family, RANKS, 100, reduce_across_devices, &across);
    df_join(&family);
  }
}

/* ---- pauses */

static const char *const longest_pause = "1000000000"; /* us: longer than any test */

static uint64_t quits_of(dfcclContext_t ctx) {
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  OK(dfcclGetStats(ctx, &stats));
  return stats.voluntaryQuits;
}

/* Both ranks set up the links. Then, in each round, one rank is alone until its daemon has left. */
static void be_alone_in_turn(dfcclContext_t ctx, int rank, char *memory, atomic_int *left) {
  OK(dfcclRunAllReduce(ctx, 0, memory, memory + BYTES, NULL, NULL));
  df_waiting_for("the first run");
  OK(dfcclWait(ctx, 0));
  df_waiting_for(NULL);
  for (int round = 0; round < ROUNDS; round++) {
    const uint64_t before = quits_of(ctx);
    const int is_first = rank == round % RANKS;
    if (!is_first) EVENTUALLY(atomic_load(left) > round);
    OK(dfcclRunAllReduce(ctx, 0, memory, memory + BYTES, NULL, NULL));
    if (is_first) EVENTUALLY(quits_of(ctx) > before);
    if (is_first) atomic_store(left, round + 1);
    df_waiting_for("a daemon that has left, and a peer's message");
    OK(dfcclWait(ctx, 0));
    df_waiting_for(NULL);
  }
}

typedef struct {
  dfcclContext_t ctxs[RANKS];
  char *memory;
  atomic_int *left;
} pausing;

static void pause_as_thread(int rank, void *arg) {
  pausing *p = arg;
  be_alone_in_turn(p->ctxs[rank], rank, p->memory + (size_t)2 * (size_t)rank * BYTES, p->left);
}

DF_TEST(emulated_devices, a_message_of_a_peer_ends_a_pause, 60) {
  pausing p = {.left = df_shared(sizeof *p.left)};
  df_collective coll = df_simple(COUNT, RANKS);
  void *memory;
  df_tune("cuda_restart_us", longest_pause);
  df_make_contexts(p.ctxs, RANKS, NULL);
  df_register_all(p.ctxs, 0, &coll);
  CUDA(cudaMalloc(&memory, (size_t)2 * RANKS * BYTES));
  p.memory = memory;
  df_in_threads(RANKS, pause_as_thread, &p);
  CUDA(cudaFree(memory));
  df_free_contexts(p.ctxs, RANKS);
  nothing_is_left();
}

static void pause_as_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  df_collective coll = df_simple(COUNT, ranks);
  df_tune("cuda_restart_us", longest_pause);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  void *memory = NULL;
  OK(dfcclMemAlloc(ctx, &memory, (size_t)2 * BYTES));
  OK(df_register(ctx, 0, &coll));
  be_alone_in_turn(ctx, rank, memory, arg);
  OK(dfcclMemFree(ctx, memory));
  df_finish(ctx);
  nothing_is_left();
}

DF_TEST(emulated_devices, a_message_of_another_process_ends_a_pause, 60) {
  df_family family;
  df_fork(&family, RANKS, 50, pause_as_process, df_shared(sizeof(atomic_int)));
  df_join(&family);
}
