/*
 * Promise: the tuner tries other algorithms and slots for a collective while its runs continue, in
 * any disorder and with right results. It measures a bounded number of runs, and its search ends.
 * dfcclGetConfiguration returns what it has found. Algorithms from files are tried if all members
 * have the same files.
 */
#include "support/algorithm_files.h"
#include "support/buffers.h"
#include "support/memory.h"
#include "support/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 8, COLLECTIVES = 3 };

typedef struct {
  int ranks;
  dfcclContext_t ctxs[RANKS_MAX];
  df_collective colls[COLLECTIVES];
  /* A round of rank 0 after which all tuners have tried some variants; 0: there is none yet. */
  atomic_int rounds;
  bool has_tried[COLLECTIVES];
} scenario;

static dfcclConfiguration_t of(dfcclContext_t ctx, dfcclCollId_t id) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, id, &c));
  return c;
}

/* Whether a search has ended, in this job or in an earlier one. */
static bool all_have_tried(scenario *s) {
  enum { SOME = 4 };
  bool all = true;
  for (int c = 0; c < COLLECTIVES; c++) {
    const dfcclConfiguration_t now = of(s->ctxs[0], (dfcclCollId_t)c);
    s->has_tried[c] |= now.switches >= SOME;
    all &= s->has_tried[c];
  }
  return all;
}

static void register_tuned(const scenario *s, int rank, int c) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  const df_collective *coll = &s->colls[c];
  dfcclContext_t ctx = s->ctxs[rank];
  options.tune = 1;
  if (coll->kind == DF_ALL_GATHER)
    OK(dfcclRegisterAllGather(ctx, (dfcclCollId_t)c, coll->count, coll->type, &options));
  else if (coll->kind == DF_REDUCE_SCATTER)
    OK(dfcclRegisterReduceScatter(ctx, (dfcclCollId_t)c, coll->count, coll->type, coll->op,
                                  &options));
  else
    OK(dfcclRegisterAllReduce(ctx, (dfcclCollId_t)c, coll->count, coll->type, coll->op, &options));
}

/* Rank 0 checks; the others continue until the round that rank 0 announces. */
static void be_rank(int rank, void *arg) {
  scenario *s = arg;
  df_random random = {(uint64_t)rank + 1};
  for (int c = 0; c < COLLECTIVES; c++) register_tuned(s, rank, c);
  for (int round = 1;; round++) {
    df_take_part_in_disorder(s->ctxs[rank], s->colls, COLLECTIVES, rank, 16, &random, NULL);
    if (rank == 0 && atomic_load(&s->rounds) == 0 && all_have_tried(s))
      atomic_store(&s->rounds, round + 1);
    df_take_part(s->ctxs[rank], 0, &s->colls[0], rank, 7, 0); /* all ranks end at one round */
    if (atomic_load(&s->rounds) != 0 && atomic_load(&s->rounds) <= round) break;
  }
}

/* The tests shorten the tuner's periods, which would take minutes. */
static void hurry(void) { setenv("DFCCL_TUNE_BUDGET", "0", 1); }

static void tune(int ranks) {
  static const size_t counts[COLLECTIVES] = {2, 3000, 9000};
  static const df_kind kinds[COLLECTIVES] = {DF_ALL_REDUCE, DF_ALL_GATHER, DF_REDUCE_SCATTER};
  scenario s = {.ranks = ranks};
  hurry();
  df_make_contexts(s.ctxs, ranks, NULL);
  for (int c = 0; c < COLLECTIVES; c++) {
    s.colls[c] = df_simple(counts[c], ranks);
    s.colls[c].kind = kinds[c];
  }
  df_in_threads(ranks, be_rank, &s);
  for (int c = 0; c < COLLECTIVES; c++) {
    const dfcclConfiguration_t found = of(s.ctxs[0], (dfcclCollId_t)c);
    const char *tuner = strstr(found.why, "tuner:");
    unsigned measured = 0;
    fprintf(stderr, "%d ranks: %s; %s", ranks, found.algorithm, tuner);
    CHECK(sscanf(strchr(tuner, ';'), "; %u variants", &measured) == 1, "\"%s\"", tuner);
    CHECK(measured <= 64, "%u variants", measured);
    CHECK(found.switches >= 2, "%llu switches", (unsigned long long)found.switches);
  }
  df_free_contexts(s.ctxs, ranks);
}

DF_TEST(tuner, two_ranks_in_disorder, 120) { tune(2); }
DF_TEST(tuner, four_ranks_in_disorder, 240) { tune(4); }

/* One search up to its end, including the final comparison. */
static void run_until_it_watches(int rank, void *arg) {
  enum { LOOKS_EVERY = 256 };
  scenario *s = arg;
  int32_t send[2] = {rank, 1}, recv[2];
  register_tuned(s, rank, 0);
  for (int run = 1;; run++) {
    OK(dfcclRunAllReduce(s->ctxs[rank], 0, send, recv, NULL, NULL));
    OK(dfcclWait(s->ctxs[rank], 0));
    CHECK(recv[0] == 1 && recv[1] == 2, "run %d: %d, %d", run, recv[0], recv[1]);
    if (rank == 0 && run % LOOKS_EVERY == 0 &&
        df_mentions(of(s->ctxs[0], 0).why, "tuner: it is watching"))
      atomic_store(&s->rounds, run + 1);
    if (run % LOOKS_EVERY == 1 && atomic_load(&s->rounds) == run) break;
  }
}

DF_TEST(tuner, comes_to_an_end, 120) {
  hurry();
  scenario s = {.ranks = 2};
  df_make_contexts(s.ctxs, 2, NULL);
  s.colls[0] = df_simple(2, 2);
  df_in_threads(2, run_until_it_watches, &s);
  const dfcclConfiguration_t found = of(s.ctxs[0], 0);
  CHECK(found.measuredUs > 0 && df_mentions(found.why, "as registered"), "%f us, \"%s\"",
        found.measuredUs, found.why);
  df_free_contexts(s.ctxs, 2);
}

DF_TEST(tuner, only_where_it_is_asked_for, 30) {
  dfcclContext_t ctxs[2];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 1, 100, dfcclFloat32, dfcclSum, NULL));
  CHECK(!df_mentions(of(ctxs[0], 1).why, "tuner"), "\"%s\"", of(ctxs[0], 1).why);
  options.tune = 1;
  OK(dfcclRegisterAllReduce(ctxs[0], 2, 100, dfcclFloat32, dfcclSum, &options));
  CHECK(df_mentions(of(ctxs[0], 2).why, "tuner: it is warming up"), "\"%s\"", of(ctxs[0], 2).why);
  options.tune = 2;
  RESULT(dfcclRegisterAllReduce(ctxs[0], 3, 100, dfcclFloat32, dfcclSum, &options),
         dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "options.tune is 2"), "\"%s\"",
        dfcclGetLastError(ctxs[0]));
  df_free_contexts(ctxs, 2);
}

static unsigned variants_of(const dfcclConfiguration_t *c) {
  unsigned measured = 999;
  const char *tuner = strstr(c->why, "tuner:");
  CHECK(tuner && sscanf(strchr(tuner, ';'), "; %u variants", &measured) == 1, "\"%s\"", c->why);
  return measured;
}

static dfcclConfiguration_t a_job(void) {
  scenario s = {.ranks = 2};
  df_make_contexts(s.ctxs, 2, NULL);
  s.colls[0] = df_simple(2, 2);
  df_in_threads(2, run_until_it_watches, &s);
  const dfcclConfiguration_t found = of(s.ctxs[0], 0);
  df_free_contexts(s.ctxs, 2);
  return found;
}

/* The second job measures only the comparison, unless the saved result has not won it. */
DF_TEST(tuner, keeps_its_results, 200) {
  char file[] = "/tmp/dfccl-test-XXXXXX", text[4096] = "";
  close(mkstemp(file));
  unlink(file);
  hurry();
  setenv("DFCCL_TUNE_FILE", file, 1);
  CHECK(variants_of(&(dfcclConfiguration_t){.why = "tuner: ; 3 variants"}) == 3, "a count");
  const dfcclConfiguration_t first = a_job();
  CHECK(variants_of(&first) > 1, "%u variants", variants_of(&first));
  FILE *kept = fopen(file, "r");
  CHECK(kept != NULL, "%s", file);
  text[fread(text, 1, sizeof text - 1, kept)] = '\0';
  fclose(kept);
  CHECK(strstr(text, "# machine: dfccl ") && strstr(text, "allreduce     2      8 "), "\"%s\"",
        text);
  bool was_short = false;
  for (int i = 0; i < 5 && !was_short; i++) {
    const dfcclConfiguration_t again = a_job();
    was_short = variants_of(&again) == 0;
  }
  CHECK(was_short, "each of five jobs has searched anew; kept is \"%s\"", text);
  unlink(file);
}

#if defined(DF_WITH_FILES)

/* ---- files */

enum { FILE_RANKS = 4, FILE_COUNT = 3001 };

/* Rank 0 announces the end by adding 1 to its part of the sum. Returns whether an algorithm from a
 * file was in force. */
static bool try_files(dfcclContext_t ctx, int rank, int runs_most) {
  static int32_t send[FILE_COUNT], recv[FILE_COUNT];
  const int32_t sum = FILE_RANKS * (FILE_RANKS - 1) / 2;
  bool was_file = false, ends = false;
  OK(dfcclRegisterAllReduce(ctx, 1, FILE_COUNT, dfcclInt32, dfcclSum, NULL));
  for (int run = 0; !ends; run++) {
    for (int i = 0; i < FILE_COUNT; i++) send[i] = rank + i + run;
    send[0] = rank == 0 && (was_file || run == runs_most);
    OK(dfcclRunAllReduce(ctx, 1, send, recv, NULL, NULL));
    OK(dfcclWait(ctx, 1));
    ends = recv[0] != 0;
    for (int i = 1; i < FILE_COUNT; i++)
      CHECK(recv[i] == sum + FILE_RANKS * (i + run), "run %d, element %d: %d", run, i, recv[i]);
    const bool is_file = strncmp(of(ctx, 1).algorithm, "file:", 5) == 0;
    was_file |= is_file;
  }
  return was_file;
}

static void be_member(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const bool has_others = *(const bool *)arg;
  if (has_others && rank == FILE_RANKS - 1) unsetenv("DFCCL_ALGORITHMS");
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  const bool was_file = try_files(ctx, rank, has_others ? 10000 : 100000);
  /* A tuner stops when a member leaves, so members wait for rank 0's question. */
  const bool has_stopped = df_mentions(of(ctx, 1).why, "tuner: it has stopped");
  OK(dfcclRegisterBarrier(ctx, 2, NULL));
  OK(dfcclRunBarrier(ctx, 2, NULL, NULL));
  OK(dfcclWait(ctx, 2));
  CHECK(rank != 0 || was_file != has_others, "%s",
        was_file ? "a file that a member lacks was tried" : "no file was tried");
  CHECK(rank != 0 || !has_stopped, "the tuner has stopped: \"%s\"", of(ctx, 1).why);
  df_finish(ctx);
}

/* Copies of the ring all-reduce, with other names: a tuner whose proposals are refused so often
 * stops. */
static void add_files(const char *directory) {
  static char text[65536];
  char name[64];
  snprintf(name, sizeof name, "%s/ring.xml", directory);
  FILE *ring = fopen(name, "r");
  CHECK(ring != NULL, "%s", name);
  const size_t bytes = fread(text, 1, sizeof text - 100, ring);
  fclose(ring);
  for (int i = 0; i < 9; i++) {
    snprintf(text + bytes, 100, "<!-- %d -->\n", i);
    snprintf(name, sizeof name, "ring%d", i);
    df_algorithm_write(directory, name, text);
  }
}

static void with_files(bool has_others) {
  df_family family;
  const char *directory = df_algorithm_directory(FILE_RANKS);
  add_files(directory);
  hurry();
  setenv("DFCCL_TUNE", "1", 1);
  df_fork(&family, FILE_RANKS, 200, be_member, &has_others);
  df_join(&family);
  df_algorithm_directory_remove(directory);
}

DF_TEST(tuner, tries_algorithms_from_files, 240) { with_files(false); }
DF_TEST(tuner, tries_no_files_that_a_member_lacks, 240) { with_files(true); }

#endif
