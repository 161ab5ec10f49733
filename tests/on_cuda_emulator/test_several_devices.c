/*
 * Promises of jobs whose ranks are threads of one process on GPUs of their own, by the public API
 * on the emulated runtime:
 *   - dfcclInitAllDevices gives each rank the device of its entry, and NULL gives all ranks
 *     config.device. The calling thread's current context stays what it is.
 *   - Every element of collectives in random orders is right, in memory of cudaMalloc and of
 *     dfcclMemAlloc, with two and four ranks on two and four devices.
 *   - Devices that cannot access each other's memory are refused with a sentence that names both.
 *   - A wrong entry is refused with a sentence that names the rank and the entry, and makes no
 *     context.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "support/buffers.h"
#include "support/rounds.h"

enum { RANKS_MAX = 4, SIZES = 4, ROUNDS = 3 };
static const int counts[SIZES] = {1, 700, 20011, 70001};

typedef struct {
  dfcclContext_t ctxs[RANKS_MAX];
  int devices[RANKS_MAX];
  int ranks, by_library; /* memory of dfcclMemAlloc */
} job;

static uint32_t contexts_now(void) {
  cuda_emulator_counts now;
  cuda_emulator_count(&now);
  return now.primary_contexts;
}

static void *allocate(const job *j, int rank, size_t bytes) {
  void *memory = NULL;
  if (j->by_library)
    OK(dfcclMemAlloc(j->ctxs[rank], &memory, bytes));
  else
    CUDA(cudaMalloc(&memory, bytes));
  return memory;
}

/* Each rank submits the collectives in an order of its own. */
static void play_rank(int rank, void *arg) {
  const job *j = arg;
  uint32_t *memory[SIZES], *host[SIZES];
  CUDA(cudaSetDevice(j->devices[rank]));
  for (int c = 0; c < SIZES; c++) {
    memory[c] = allocate(j, rank, (size_t)2 * (size_t)counts[c] * sizeof(uint32_t));
    host[c] = malloc((size_t)counts[c] * sizeof(uint32_t));
    CHECK(host[c] != NULL, "no memory");
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int c = 0; c < SIZES; c++) {
      df_round_fill(host[c], counts[c], rank, c, round);
      CUDA(cudaMemcpy(memory[c], host[c], (size_t)counts[c] * sizeof(uint32_t),
                      cudaMemcpyHostToDevice));
    }
    CUDA(cudaStreamSynchronize(cudaStreamLegacy));
    for (int i = 0; i < SIZES; i++) {
      const int c = (i * (rank % 2 ? 3 : 1) + rank + round) % SIZES;
      OK(dfcclRunAllReduce(j->ctxs[rank], (dfcclCollId_t)c, memory[c], memory[c] + counts[c], NULL,
                           NULL));
    }
    df_waiting_for("dfcclWaitAll");
    OK(dfcclWaitAll(j->ctxs[rank]));
    df_waiting_for(NULL);
    for (int c = 0; c < SIZES; c++) {
      CUDA(cudaMemcpy(host[c], memory[c] + counts[c], (size_t)counts[c] * sizeof(uint32_t),
                      cudaMemcpyDeviceToHost));
      df_round_check(host[c], counts[c], j->ranks, c, round);
    }
  }
  for (int c = 0; c < SIZES; c++) {
    if (j->by_library)
      OK(dfcclMemFree(j->ctxs[rank], memory[c]));
    else
      CUDA(cudaFree(memory[c]));
    free(host[c]);
  }
}

static void expect_current_device(int expected) {
  int device = -1;
  CUDA(cudaGetDevice(&device));
  CHECK(device == expected, "the current device is %d, not %d", device, expected);
}

static void play(int ranks, int devices, int by_library) {
  job j = {.ranks = ranks, .by_library = by_library};
  dfcclConfig_t config = df_config();
  for (int rank = 0; rank < ranks; rank++) j.devices[rank] = rank % devices;
  CUDA(cudaSetDevice(1));
  OK(dfcclInitAllDevices(j.ctxs, ranks, j.devices, &config));
  expect_current_device(1);
  for (int rank = 0; rank < ranks; rank++) df_watch(j.ctxs[rank]);
  CHECK(contexts_now() == (1u << devices) - 1, "contexts on devices of mask %x", contexts_now());
  for (int c = 0; c < SIZES; c++) {
    df_collective coll = df_simple((size_t)counts[c], ranks);
    coll.type = dfcclUint32;
    df_register_all(j.ctxs, (dfcclCollId_t)c, &coll);
  }
  df_in_threads(ranks, play_rank, &j);
  df_free_contexts(j.ctxs, ranks);
  nothing_is_left();
}

DF_TEST(emulated_several_devices, ranks_on_two_devices, 120) {
  for (int ranks = 2; ranks <= RANKS_MAX; ranks += 2)
    for (int by_library = 0; by_library < 2; by_library++) play(ranks, 2, by_library);
}

DF_TEST(emulated_several_devices, ranks_on_four_devices, 120) {
  setenv("CUDA_EMULATOR_DEVICES", "4", 1);
  for (int by_library = 0; by_library < 2; by_library++) play(4, 4, by_library);
}

DF_TEST(emulated_several_devices, no_list_of_devices_means_the_configured_one, 60) {
  dfcclContext_t ctxs[2];
  dfcclConfig_t config = df_config();
  config.device = 1;
  OK(dfcclInitAllDevices(ctxs, 2, NULL, &config));
  CHECK(contexts_now() == 2, "contexts on devices of mask %x", contexts_now());
  df_free_contexts(ctxs, 2);
  CHECK(contexts_now() == 0, "contexts on devices of mask %x are left", contexts_now());
  nothing_is_left();
}

/* Ranks on one device need no access to another one. */
DF_TEST(emulated_several_devices, devices_without_peer_access_have_a_sentence, 60) {
  const int apart[] = {0, 1}, together[] = {1, 1};
  dfcclContext_t ctxs[2] = {NULL, NULL};
  dfcclConfig_t config = df_config();
  setenv("CUDA_EMULATOR_PEERS", "0", 1);
  RESULT(dfcclInitAllDevices(ctxs, 2, apart, &config), dfcclInvalidUsage);
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(strstr(sentence, "device 0") != NULL && strstr(sentence, "device 1") != NULL &&
            strstr(sentence, "memory") != NULL,
        "it says: %s", sentence);
  CHECK(ctxs[0] == NULL && ctxs[1] == NULL, "a refused call made a context");
  OK(dfcclInitAllDevices(ctxs, 2, together, &config));
  df_free_contexts(ctxs, 2);
  nothing_is_left();
}

static void refuse(const int *devices, const char *words, const char *more) {
  dfcclContext_t ctxs[2] = {NULL, NULL};
  dfcclConfig_t config = df_config();
  CUDA(cudaSetDevice(1));
  RESULT(dfcclInitAllDevices(ctxs, 2, devices, &config), dfcclInvalidArgument);
  expect_current_device(1);
  CHECK(strstr(dfcclGetLastError(NULL), words) != NULL &&
            strstr(dfcclGetLastError(NULL), more) != NULL,
        "it says: %s", dfcclGetLastError(NULL));
  CHECK(ctxs[0] == NULL && ctxs[1] == NULL, "a refused call made a context");
}

DF_TEST(emulated_several_devices, wrong_entries_have_a_sentence, 60) {
  const int too_large[] = {0, 7}, negative[] = {-2, 0}, current[] = {-1, 1};
  dfcclContext_t ctxs[2];
  dfcclConfig_t config = df_config();
  refuse(too_large, "rank 1", "CUDA device 7 does not exist");
  refuse(negative, "devices[0]", "-2");
  config.device = 7;
  RESULT(dfcclInitAll(ctxs, 2, &config), dfcclInvalidArgument);
  CHECK(strstr(dfcclGetLastError(NULL), "CUDA device 7 does not exist") != NULL, "it says: %s",
        dfcclGetLastError(NULL));
  OK(dfcclInitAllDevices(ctxs, 2, current, &config)); /* config.device is not used */
  df_free_contexts(ctxs, 2);
  nothing_is_left();
}
