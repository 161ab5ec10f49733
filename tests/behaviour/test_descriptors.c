/*
 * Promise: if a rank's process has no descriptor left for shared memory, or to join, its
 * collectives end on every member. Each sentence names the lack of descriptors, and blames no other
 * rank. A limit of file sizes (RLIMIT_FSIZE), which shared memory and logs can reach too, never
 * ends the process by SIGXFSZ.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { COUNT = 1000, COLL = 5 };

/* From now on, the process may open `left` more descriptors. */
static void use_up_descriptors(int left) {
  struct rlimit limit;
  int fd, last = -1;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
  limit.rlim_cur = 256;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit stays");
  while ((fd = open("/dev/null", O_RDONLY)) >= 0) last = fd;
  CHECK(last >= left, "the last descriptor was %d", last);
  for (int i = 0; i < left; i++) close(last - i);
}

typedef struct scene {
  int root;       /* the other rank is the receiver, which creates the memory */
  int left;       /* rank 1's descriptors */
  bool allocates; /* the rank can map the memory but cannot send its descriptor */
} scene;

static void take_part(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const scene *s = arg;
  static float buffer[COUNT];
  setenv("DFCCL_NET", "auto", 1); /* shared memory */
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  if (rank == 1) use_up_descriptors(s->left);
  if (rank == 1 && s->allocates) {
    void *memory;
    OK(dfcclMemAlloc(ctx, &memory, 100));
  }
  dfcclResult_t result = dfcclRegisterBroadcast(ctx, COLL, COUNT, dfcclFloat32, s->root, NULL);
  if (result == dfcclSuccess) result = dfcclRunBroadcast(ctx, COLL, buffer, buffer, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(ctx, COLL);
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(result == (rank == 1 ? dfcclOutOfMemory : dfcclRemoteError), "rank %d: %s: \"%s\"", rank,
        df_test_result_name(result), sentence);
  CHECK(df_mentions(sentence, "rank 1") && df_mentions(sentence, "descriptor"), "rank %d: \"%s\"",
        rank, sentence);
  CHECK(!df_mentions(sentence, "died"), "rank %d: \"%s\"", rank, sentence);
  df_finish(ctx);
}

static void play(int root, int left, bool allocates) {
  df_family family;
  scene s = {.root = root, .left = left, .allocates = allocates};
  df_fork(&family, 2, 30, take_part, &s);
  df_join(&family);
}

DF_TEST(descriptors, none_for_a_peers_memory, 60) { play(1, 0, false); }
DF_TEST(descriptors, none_for_memory_of_its_own, 60) { play(0, 0, false); }
DF_TEST(descriptors, none_to_send_memory, 60) { play(0, 1, false); }
DF_TEST(descriptors, none_to_send_allocated_memory, 60) { play(0, 1, true); }

typedef struct crowd {
  int left;
  atomic_int ended; /* rank 0 stays until the others have received the failure */
} crowd;

static void join(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  crowd *all = arg;
  static float buffer[COUNT];
  dfcclContext_t ctx;
  dfcclConfig_t config = df_config();
  setenv("DFCCL_NET", "auto", 1);
  if (rank == 1) use_up_descriptors(all->left);
  dfcclResult_t result = dfcclInit(&ctx, ranks, *id, rank, &config);
  const char *sentence = dfcclGetLastError(NULL);
  if (result == dfcclSuccess) {
    df_watch(ctx);
    result = dfcclRegisterBroadcast(ctx, COLL, COUNT, dfcclFloat32, 0, NULL);
    if (result == dfcclSuccess) result = dfcclRunBroadcast(ctx, COLL, buffer, buffer, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, COLL);
    sentence = dfcclGetLastError(ctx);
    df_finish(ctx);
  }
  if (result != dfcclSuccess)
    CHECK(df_mentions(sentence, "descriptor") && !df_mentions(sentence, "died"),
          "rank %d, %d descriptors: \"%s\"", rank, all->left, sentence);
  atomic_fetch_add(&all->ended, 1);
  if (rank == 0) EVENTUALLY(atomic_load(&all->ended) == ranks);
}

/* With one descriptor rank 1 cannot even send the failure to the others. */
DF_TEST(descriptors, too_few_to_join, 120) {
  for (int ranks = 2; ranks <= 4; ranks++)
    for (int left = 2; left < 10; left++) {
      df_family family;
      crowd *all = df_shared(sizeof *all);
      all->left = left;
      df_fork(&family, ranks, 30, join, all);
      df_join(&family);
    }
}

/* ---- no file may grow */

static void be_without_files(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  static float buffer[COUNT];
  dfcclContext_t ctx;
  dfcclConfig_t config = df_config();
  struct rlimit none;
  (void)arg;
  CHECK(getrlimit(RLIMIT_FSIZE, &none) == 0, "getrlimit");
  none.rlim_cur = 0;
  CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit");
  dfcclResult_t result = dfcclInit(&ctx, ranks, *id, rank, &config);
  if (result == dfcclSuccess) {
    df_watch(ctx);
    result = dfcclRegisterAllReduce(ctx, COLL, COUNT, dfcclFloat32, dfcclSum, NULL);
    if (result == dfcclSuccess) result = dfcclRunAllReduce(ctx, COLL, buffer, buffer, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, COLL);
    CHECK(result != dfcclSuccess, "rank %d has shared memory of no size", rank);
    df_finish(ctx);
  }
}

DF_TEST(descriptors, a_limit_of_file_sizes_is_an_error_and_no_signal, 60) {
  df_family family;
  df_fork(&family, 2, 30, be_without_files, NULL);
  df_join(&family);
}
