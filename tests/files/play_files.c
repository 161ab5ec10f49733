/*
 * Plays all files of a directory in MSCCL's XML. It runs each file's collectives with several
 * counts, types and roots, in place and not, each rank in an order of its own, among threads and
 * among processes, also preempted after every step. Each element of each result is checked. The
 * program prints a line for each file; the exit status is 1 if a file was refused.
 *
 *   play_files [DIRECTORY [LARGEST_COUNT [ROUNDS]]]
 *
 * Without a directory it plays files that it generates, for 4 ranks.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plans/msccl/file.h"
#include "support/algorithm_files.h"
#include "support/buffers.h"
#include "support/processes.h"
#include "support/rest.h"

enum { COLLECTIVES = 6, RANKS_MAX = 64, SECONDS = 300 };

typedef struct {
  int ranks;
  uint64_t rounds;
  df_collective colls[COLLECTIVES];
  dfcclContext_t ctxs[RANKS_MAX];
} game;

static size_t largest = 100003;
static uint64_t rounds = 4;

static df_kind kind_of(df_operation operation) {
  static const df_kind kinds[] = {DF_ALL_REDUCE,     DF_REDUCE,     DF_BROADCAST, DF_ALL_GATHER,
                                  DF_REDUCE_SCATTER, DF_ALL_TO_ALL, DF_GATHER,    DF_SCATTER};
  return kinds[operation];
}

/* The large count is not divisible by any number of parts that files use. */
static void fill(game *g, const df_plan_file_facts *facts, const char *algorithm) {
  const size_t counts[COLLECTIVES] = {1, 17, 1000, 4099, 32768, largest};
  const dfcclDataType_t types[COLLECTIVES] = {dfcclFloat64, dfcclInt8,    dfcclFloat32,
                                              dfcclInt64,   dfcclFloat16, dfcclFloat32};
  g->ranks = (int)facts->n;
  g->rounds = rounds;
  for (int c = 0; c < COLLECTIVES; c++) {
    df_collective *coll = &g->colls[c];
    *coll = (df_collective){.kind = kind_of(facts->operation),
                            .type = types[c],
                            .root = c % g->ranks,
                            .count = counts[c],
                            .members = g->ranks,
                            .algorithm = algorithm,
                            .seed = (uint64_t)c};
    coll->op = df_kind_operator(coll->kind, coll->type, c == 2 ? dfcclAvg : dfcclSum);
  }
}

static void be_rank_with(dfcclContext_t ctx, game *g, int rank) {
  df_random random = {(uint64_t)rank + 1};
  for (int c = 0; c < COLLECTIVES; c++) OK(df_register(ctx, (dfcclCollId_t)c, &g->colls[c]));
  df_take_part_in_disorder(ctx, g->colls, COLLECTIVES, rank, g->rounds, &random, NULL);
  for (int c = 0; c < COLLECTIVES; c++)
    for (int flags = DF_IN_PLACE; flags <= (DF_IN_PLACE | DF_ZERO_COPY); flags++)
      df_take_part(ctx, (dfcclCollId_t)c, &g->colls[c], rank, g->rounds + (uint64_t)flags, flags);
}

static void be_thread(int rank, void *arg) {
  game *g = arg;
  be_rank_with(g->ctxs[rank], g, rank);
}

static void be_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  be_rank_with(ctx, arg, rank);
  df_finish(ctx);
}

/* Runs in a process of its own, so that each file has its own environment and no other threads
 * exist. */
static void play(game *g, const char *file, const char *preempt, int processes) {
  char what[200];
  snprintf(what, sizeof what, "%s, %s%s", file, processes ? "processes" : "threads",
           *preempt == '1' ? ", preempted after every step" : "");
  df_tune("preempt_every", preempt);
  df_watchdog_start(what, SECONDS);
  if (processes) {
    df_family family;
    df_fork(&family, g->ranks, SECONDS, be_process, g);
    df_join(&family);
    df_watchdog_stop();
    return;
  }
  df_quiet_before_fork();
  const pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    df_watchdog_start(what, SECONDS);
    df_make_contexts(g->ctxs, g->ranks, NULL);
    df_in_threads(g->ranks, be_thread, g);
    df_free_contexts(g->ctxs, g->ranks);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", what, (unsigned)status);
  df_watchdog_stop();
}

static int play_file(const char *directory, const char *name) {
  char path[4096], sentence[512], algorithm[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  df_plan_file *file = df_plan_file_read(path, sentence, sizeof sentence);
  if (file == NULL) {
    printf("%s: refused: %s\n", name, sentence);
    return 0;
  }
  const df_plan_file_facts facts = df_plan_file_facts_of(file);
  snprintf(algorithm, sizeof algorithm, "file:%s", name);
  static game g;
  fill(&g, &facts, algorithm);
  for (int preempt = 0; preempt < 2; preempt++)
    for (int processes = 0; processes < 2; processes++)
      play(&g, name, preempt ? "1" : "0", processes);
  printf("%s: %s of %u ranks, %u slots: all right\n", name, df_operation_word(facts.operation),
         facts.n, facts.slots);
  fflush(stdout);
  df_plan_file_free(file);
  return 1;
}

static int is_file(const struct dirent *entry) { return strstr(entry->d_name, ".xml") != NULL; }

int main(int argc, char **argv) {
  const char *generated = argc < 2 ? df_algorithm_directory(4) : NULL;
  const char *directory = generated ? generated : argv[1];
  struct dirent **entries;
  if (df_slowdown() > 1) largest = 20011, rounds = 2;
  setenv("DFCCL_ALGORITHMS", directory, 1);
  if (argc > 2) largest = strtoull(argv[2], NULL, 10);
  if (argc > 3) rounds = strtoull(argv[3], NULL, 10);
  const int n = scandir(directory, &entries, is_file, alphasort);
  CHECK(n > 0, "no files in %s", directory);
  int fine = 0;
  for (int i = 0; i < n; i++) {
    fine += play_file(directory, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  printf("%d files, %d refused, none wrong\n", n, n - fine);
  if (generated) df_algorithm_directory_remove(generated);
  return fine == n ? 0 : 1;
}
