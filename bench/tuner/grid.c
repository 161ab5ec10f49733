/* bench-tuner-grid: how near online tuning comes to the best of a grid of variants, and what it
 * costs. In threads or over hosts (--env). In grid and load DFCCL_TUNE_BUDGET is 0: the budget only
 * spreads a search over more runs, and each variant is measured the same way. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mutex.h"
#include "host/switching/plan_switch.h"
#include "host/switching/tuning_store.h"
#include "host/state/registry.h"
#include "host/switching/online_tuner.h"
#include "player.h"

enum { RANKS_MAX = 16, DEFAULT = 2, BEST = 3, FROZEN = 4, TUNED = 100 };
enum { ROUNDS = 11, SPECS_MAX = 400, FINALISTS = 3 };
static const df_operation operations[OPERATIONS] = {DF_OP_ALL_REDUCE,     DF_OP_ALL_GATHER,
                                                    DF_OP_REDUCE_SCATTER, DF_OP_BROADCAST,
                                                    DF_OP_REDUCE,         DF_OP_ALL_TO_ALL};

static struct {
  const char *mode, *signal, *ops;
  int ranks, env, searches;
  size_t least, most;
  double tuning_s;
} options = {.ranks = 2, .searches = 3, .least = 65536, .most = 8 << 20, .tuning_s = 6, .ops = ""};

/* ---- variants */

static df_coll *coll_of(const player *p, int id) { return df_find(p->ctx, (dfcclCollId_t)id); }

static uint64_t switches_of(const player *p, int id) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  player_check(p, dfcclGetConfiguration(p->ctx, (dfcclCollId_t)id, &c));
  return c.switches;
}

/* 0: a member could not. */
static int take_variant(player *p, int id, const df_variant_spec *spec) {
  const uint64_t before = switches_of(p, id);
  for (int tries = 0; df_plan_switch_ask(p->ctx, (dfcclCollId_t)id, spec) != dfcclSuccess;
       tries++) {
    if (tries == 100) return 0;
    player_timed(p, id, 1);
  }
  for (int tries = 0; tries < 10 && switches_of(p, id) == before; tries++) player_timed(p, id, 4);
  for (int tries = 0; tries < 10 && df_plan_switch_is_busy(coll_of(p, id)); tries++)
    player_timed(p, id, 1);
  return switches_of(p, id) != before;
}

static int make_grid(int which, int ranks, size_t bytes, df_variant_spec specs[SPECS_MAX]) {
  static const uint32_t slot_bytes[] = {16 << 10, 64 << 10, 256 << 10}, slots[] = {4, 16};
  int n = 0;
  for (int a = 0; a < DF_ALGORITHMS; a++)
    for (int i = 0; df_algorithm_has(a, operations[which]) && i < 12 && n < SPECS_MAX; i++) {
      const uint32_t slot = slot_bytes[i % 3];
      if (slot > 2 * bytes) continue;
      specs[n++] = (df_variant_spec){.algorithm = (uint32_t)a,
                                     .slot_bytes = slot,
                                     .slots = slots[i / 3 % 2],
                                     .copies = (uint32_t)(i / 6),
                                     .split = a == DF_TWO_LEVEL ? (uint32_t)ranks / 2 : 0};
      if (options.env && i >= 5) break; /* nothing is lent to another host */
    }
  return n;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double median(const double *values, int n) {
  double sorted[ROUNDS * 4];
  assert(n > 0 && n <= ROUNDS * 4);
  memcpy(sorted, values, (size_t)n * sizeof *values);
  qsort(sorted, (size_t)n, sizeof *sorted, by_size);
  return sorted[n / 2];
}

static int runs_of_round(double us) { return us > 4000 ? 2 : (int)(8000 / us) + 2; }

/* BEST has the best variant then; *found: how many could be had. */
static df_variant_spec search_grid(player *p, int which, size_t bytes, double us, int *found) {
  static df_variant_spec specs[SPECS_MAX];
  double times[SPECS_MAX];
  int finalists[FINALISTS], n = make_grid(which, p->ranks, bytes, specs), least = -1;
  double least_us = 1e30;
  *found = 0;
  for (int i = 0; i < n; i++) {
    times[i] = 1e30;
    if (!take_variant(p, BEST, &specs[i])) continue;
    times[i] = player_timed(p, BEST, us > 4000 ? 1 : (int)(3000 / us) + 2);
    ++*found;
  }
  for (int f = 0; f < FINALISTS; f++) {
    finalists[f] = 0;
    for (int i = 0; i < n; i++)
      if (times[i] < times[finalists[f]]) finalists[f] = i;
    double again[5];
    take_variant(p, BEST, &specs[finalists[f]]);
    for (int round = 0; round < 5; round++) again[round] = player_timed(p, BEST, runs_of_round(us));
    if (median(again, 5) < least_us) {
      least_us = median(again, 5);
      least = finalists[f];
    }
    times[finalists[f]] = 1e30;
  }
  take_variant(p, BEST, &specs[least]);
  return specs[least];
}

/* ---- the tuner */

typedef struct tuned {
  unsigned variants;
  long runs;
  int has_ended;
  char algorithm[24];
} tuned;

/* In pieces as long as those that are compared afterwards: what one gains may be lost in others. */
static tuned tune(player *p, int id, int which, size_t bytes, double us) {
  tuned t = {0};
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  player_send(p, ENROLL, id, which, (int)bytes, 1);
  const double begin = player_now_us();
  while (!t.has_ended && player_now_us() - begin < options.tuning_s * 1e6) {
    player_timed(p, id, runs_of_round(us));
    t.runs += runs_of_round(us) + 1;
    player_check(p, dfcclGetConfiguration(p->ctx, (dfcclCollId_t)id, &c));
    t.has_ended = strstr(c.why, "tuner: it is watching") != NULL;
  }
  const char *text = strstr(c.why, "tuner:");
  if (text && (text = strchr(text, ';')) != NULL) sscanf(text, "; %u", &t.variants);
  snprintf(t.algorithm, sizeof t.algorithm, "%s", c.algorithm);
  return t;
}

static void deaf_to_times(dfcclContext_t context, df_coll *front, const uint32_t *ns, uint32_t n) {
  (void)context, (void)front, (void)ns, (void)n;
}
static void deaf_to_run(dfcclContext_t context, df_coll *front, uint32_t ns) {
  (void)context, (void)front, (void)ns;
}
static void deaf(dfcclContext_t context, df_coll *front) { (void)context, (void)front; }

/* Results are kept: in turn with other collectives the times differ, and without a limit of the
 * cost of exploration the tuner would search repeatedly while it is compared. */
static void keep(const player *p, int id) {
  static const df_plan_switch_owner nobody = {
      .reported = deaf_to_times, .own = deaf_to_times, .ran = deaf_to_run, .called_off = deaf};
  df_rank_lock(&p->ctx->lock);
  df_coll *front = coll_of(p, id);
  front->plan_switch->owner = &nobody;
  df_plan_switch_count(p->ctx, front, 0);
  df_rank_unlock(&p->ctx->lock);
}

/* Medians of rounds of some collectives, one after the other in each. */
static void compare(player *p, const int *ids, int n, double us, double *medians) {
  double times[8][ROUNDS];
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < n; i++) times[i][round] = player_timed(p, ids[i], runs_of_round(us));
  for (int i = 0; i < n; i++) medians[i] = median(times[i], ROUNDS);
}

static void grid_one(player *p, int which, size_t bytes) {
  enum { SEARCHES_MAX = 6 };
  const int n = options.searches < SEARCHES_MAX ? options.searches : SEARCHES_MAX;
  int ids[2 + SEARCHES_MAX] = {DEFAULT, BEST}, found;
  double medians[2 + SEARCHES_MAX];
  tuned last = {0};
  unsigned most_variants = 0;
  player_send(p, ENROLL, DEFAULT, which, (int)bytes, -1);
  player_send(p, ENROLL, BEST, which, (int)bytes, -1);
  player_timed(p, BEST, 4);
  const double us = player_timed(p, DEFAULT, 8);
  const df_variant_spec best = search_grid(p, which, bytes, us, &found);
  for (int i = 0; i < n; i++) {
    ids[2 + i] = TUNED + i;
    last = tune(p, ids[2 + i], which, bytes, us);
    keep(p, ids[2 + i]);
    if (last.variants > most_variants) most_variants = last.variants;
  }
  compare(p, ids, 2 + n, us, medians);
  const double tuned_us = median(medians + 2, n);
  double worst = 0;
  for (int i = 0; i < n; i++) worst = medians[2 + i] > worst ? medians[2 + i] : worst;
  printf(
      "%-13s %5d %9zu %10.1f %10.1f %10.1f %10.1f %7.2f %7.2f %7.2f %5d %8u %7ld %4d %s/%u/%u/%u "
      "%s\n",
      player_names[which], p->ranks, bytes, medians[0], medians[1], tuned_us, worst,
      medians[0] / medians[1], medians[0] / tuned_us, medians[1] / tuned_us, found, most_variants,
      last.runs, last.has_ended, df_algorithm_name((int)best.algorithm), best.slot_bytes,
      best.slots, best.copies, last.algorithm);
  fflush(stdout);
  for (int i = 0; i < 2 + n; i++) player_send(p, LEAVE, ids[i], 0, 0, 0);
}

/* ---- loads */

static atomic_int load; /* 0: none; 1: streams; 2: spins; 3: the threads end */

static void *be_load(void *unused) {
  enum { DOUBLES = (64 << 20) / 3 / sizeof(double) };
  double *a = calloc(DOUBLES, sizeof *a), *b = calloc(DOUBLES, sizeof *b),
         *c = calloc(DOUBLES, sizeof *c);
  (void)unused;
  if (a == NULL || b == NULL || c == NULL) exit(1);
  for (int now; (now = atomic_load(&load)) != 3;) {
    if (now == 0) usleep(1000);
    for (int i = 0; now == 1 && i < DOUBLES; i++) a[i] = b[i] + 3 * c[i];
    __asm__ volatile("" : : "r"(a) : "memory");
  }
  free(a);
  free(b);
  free(c);
  return NULL;
}

static int spec_of_learnt(const player *p, int id, df_variant_spec *spec) {
  const df_rule *rule = df_tuning_store_find(p->ctx, coll_of(p, id));
  if (rule == NULL) return 0;
  *spec = (df_variant_spec){.algorithm = (uint32_t)rule->algorithm,
                            .slot_bytes = rule->slot_bytes,
                            .slots = rule->slots,
                            .blocks = rule->blocks,
                            .split = rule->split,
                            .copies = rule->copies};
  return 1;
}

static void load_one(player *p, int which, size_t bytes) {
  static const char *const loads[] = {"none", "streams", "spins"};
  df_variant_spec frozen;
  for (int now = 1; now <= 2; now++) {
    const int ids[] = {DEFAULT, FROZEN, TUNED};
    double without[2], with[3];
    player_send(p, ENROLL, DEFAULT, which, (int)bytes, -1);
    player_send(p, ENROLL, FROZEN, which, (int)bytes, -1);
    player_timed(p, FROZEN, 4);
    const double us = player_timed(p, DEFAULT, 8);
    tune(p, TUNED + 1, which, bytes, us);
    if (spec_of_learnt(p, TUNED + 1, &frozen)) take_variant(p, FROZEN, &frozen);
    compare(p, ids, 2, us, without);
    p->ctx->tuning_cache.n = p->ctx->tuning_cache.n_new = 0;
    atomic_store(&load, now);
    const tuned t = tune(p, TUNED, which, bytes, us);
    compare(p, ids, 3, us, with);
    atomic_store(&load, 0);
    p->ctx->tuning_cache.n = p->ctx->tuning_cache.n_new = 0;
    printf("%-13s %5d %9zu %-8s %10.1f %10.1f %10.1f %10.1f %10.1f %7.2f %7.2f %8u %4d %s\n",
           player_names[which], p->ranks, bytes, loads[now], without[0], without[1], with[0],
           with[1], with[2], with[0] / with[2], with[1] / with[2], t.variants, t.has_ended,
           t.algorithm);
    fflush(stdout);
    for (int i = 0; i < 3; i++) player_send(p, LEAVE, ids[i], 0, 0, 0);
    player_send(p, LEAVE, TUNED + 1, 0, 0, 0);
  }
}

/* ---- change and overhead */

static void change(player *p) {
  enum { RUNS = 10000, AT = 5000, PIECE = 10 };
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  player_send(p, ENROLL, TUNED, ALLREDUCE, (int)options.most, 1);
  for (int run = 0; run < RUNS; run += PIECE) {
    if (run == AT && options.signal) {
      FILE *file = fopen(options.signal, "w");
      if (file) fclose(file);
      while (access(options.signal, F_OK) == 0) usleep(1000);
    }
    const double us = player_timed(p, TUNED, PIECE - 1);
    player_check(p, dfcclGetConfiguration(p->ctx, TUNED, &c));
    printf("%d %.1f %s %llu\n", run, us, c.algorithm, (unsigned long long)c.switches);
  }
  player_send(p, LEAVE, TUNED, 0, 0, 0);
}

/* Sums, which a disturbance spoils, and the median of pairs of pieces, which misses rare losses. */
static void overhead_one(player *p, int which, size_t bytes) {
  enum { RUNS = 10000, PIECE = 100, PIECES = RUNS / PIECE };
  double spent[2] = {0, 0}, ratios[PIECES], us[2];
  player_send(p, ENROLL, DEFAULT, which, (int)bytes, -1);
  player_send(p, ENROLL, TUNED, which, (int)bytes, 1);
  player_timed(p, DEFAULT, PIECE);
  for (int piece = 0; piece < PIECES; piece++) {
    for (int turn = 0; turn < 2; turn++) {
      const int is_tuned = (piece + turn) % 2;
      us[is_tuned] = player_timed(p, is_tuned ? TUNED : DEFAULT, PIECE - 1);
      spent[is_tuned] += us[is_tuned] / PIECES;
    }
    ratios[piece] = us[1] / us[0];
  }
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  player_check(p, dfcclGetConfiguration(p->ctx, TUNED, &c));
  const char *text = strstr(c.why, "tuner:");
  qsort(ratios, PIECES, sizeof ratios[0], by_size);
  printf("%-13s %5d %9zu %10.2f %10.2f %7.2f %8.2f %s %.*s\n", player_names[which], p->ranks, bytes,
         spent[0], spent[1], 100 * (spent[1] / spent[0] - 1), 100 * (ratios[PIECES / 2] - 1),
         c.algorithm, text ? (int)strcspn(text, "\n") : 0, text ? text : "");
  fflush(stdout);
  player_send(p, LEAVE, DEFAULT, 0, 0, 0);
  player_send(p, LEAVE, TUNED, 0, 0, 0);
}

static void say_columns(void) {
  if (strcmp(options.mode, "grid") == 0)
    printf(
        "# operation   ranks     bytes    default       best      tuned      worst b/def   t/def "
        "  b/t    found variants    runs end best(algorithm/slot/slots/copies) tuned\n");
  else if (strcmp(options.mode, "load") == 0)
    printf("# operation   ranks     bytes load        default    cached | default  cached(before) "
           "tuned(under) d/t l/t variants end\n");
  else if (strcmp(options.mode, "overhead") == 0)
    printf("# operation   ranks     bytes    default      tuned   lost%%  pairs%%\n");
}

static void lead(player *p) {
  say_columns();
  for (int which = 0; which < OPERATIONS && strcmp(options.mode, "change") != 0; which++)
    for (size_t bytes = options.least; bytes <= options.most; bytes *= 16) {
      if (*options.ops && strstr(options.ops, player_names[which]) == NULL) continue;
      if (strcmp(options.mode, "grid") == 0) grid_one(p, which, bytes);
      if (strcmp(options.mode, "load") == 0) load_one(p, which, bytes);
      if (strcmp(options.mode, "overhead") == 0) overhead_one(p, which, bytes);
    }
  if (strcmp(options.mode, "change") == 0) change(p);
  player_send(p, END, 0, 0, 0, 0);
}

static void *be_rank(void *argument) {
  player *p = argument;
  player_open(p, options.most + 4096);
  if (p->rank == 0)
    lead(p);
  else
    player_execute(p);
  player_close(p);
  return NULL;
}

static const char usage[] =
    "usage: bench-tuner-grid MODE [OPTION]...\n"
    "  grid       each operation and size: the library's choice, the best of the\n"
    "             grid, and tuned from scratch\n"
    "  load       likewise, while two threads stream 64 MiB, and while two threads\n"
    "             spin: the library's choice, tuned without the load, and tuned\n"
    "             under it\n"
    "  change     one collective of --most bytes, 10,000 runs. At run 5,000 the file\n"
    "             of --signal appears; a script that waits for it changes the network\n"
    "             and removes the file, and the runs go on. Prints the mean time of\n"
    "             each ten runs.\n"
    "  overhead   10,000 tuned runs against 10,000 others, 100 of each in turn: the\n"
    "             loss by the sums, and by the median of the pairs. On a quiet\n"
    "             machine, at the usual budget:\n"
    "             for n in 2 4; do\n"
    "               bench-tuner-grid overhead --ranks $n --least 64 --most 300000\n"
    "             done\n"
    "  --ranks N     ranks, as threads (2)\n"
    "  --env         this process is one rank, as the environment says\n"
    "                (dfcclInitFromEnv)\n"
    "  --least B, --most B   sizes in bytes (65536, 8388608)\n"
    "  --searches N  searches for each size (3)\n"
    "  --seconds S   longest time of a search (6)\n"
    "  --ops LIST    operations; all without it\n"
    "  --signal FILE the file of the mode change\n";

static int read_options(int argc, char **argv) {
  static const char *const modes[] = {"grid", "load", "change", "overhead"};
  int is_known = 0;
  if (argc < 2) return 0;
  options.mode = argv[1];
  for (int i = 0; i < 4; i++) is_known |= strcmp(options.mode, modes[i]) == 0;
  if (!is_known) return 0;
  for (int i = 2; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--env") == 0) {
      options.env = 1;
      continue;
    }
    i++;
    if (strcmp(argv[i - 1], "--ranks") == 0)
      options.ranks = atoi(value);
    else if (strcmp(argv[i - 1], "--least") == 0)
      options.least = (size_t)atol(value);
    else if (strcmp(argv[i - 1], "--most") == 0)
      options.most = (size_t)atol(value);
    else if (strcmp(argv[i - 1], "--searches") == 0)
      options.searches = atoi(value);
    else if (strcmp(argv[i - 1], "--seconds") == 0)
      options.tuning_s = atof(value);
    else if (strcmp(argv[i - 1], "--signal") == 0)
      options.signal = value;
    else if (strcmp(argv[i - 1], "--ops") == 0)
      options.ops = value;
    else
      return 0;
  }
  return options.ranks > 1 && options.ranks <= RANKS_MAX && options.searches > 0;
}

int main(int argc, char **argv) {
  static player all[RANKS_MAX];
  dfcclContext_t ctxs[RANKS_MAX];
  pthread_t threads[RANKS_MAX], loads[2];
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(usage, stdout) == EOF;
  if (!read_options(argc, argv)) {
    fputs(usage, stderr);
    return 2;
  }
  const int has_load = strcmp(options.mode, "load") == 0;
  if (has_load || strcmp(options.mode, "grid") == 0) setenv("DFCCL_TUNE_BUDGET", "0", 1);
  char folder[] = "/tmp/bench-tuner-grid-XXXXXX", results[sizeof folder + 8];
  if (has_load) { /* a folder of its own: results of another program would end searches early */
    if (mkdtemp(folder) == NULL) return perror("bench-tuner-grid: mkdtemp"), 1;
    snprintf(results, sizeof results, "%s/tuning", folder);
    setenv("DFCCL_TUNE_FILE", results, 1);
  }
  for (int i = 0; has_load && i < 2; i++) pthread_create(&loads[i], NULL, be_load, NULL);
  if (options.env) {
    if (dfcclInitFromEnv(&all[0].ctx, NULL) != dfcclSuccess) {
      fprintf(stderr, "bench-tuner-grid: %s\n", dfcclGetLastError(NULL));
      return 1;
    }
    dfcclGetRank(all[0].ctx, &all[0].rank, &all[0].ranks);
    be_rank(&all[0]);
  } else {
    if (dfcclInitAll(ctxs, options.ranks, NULL) != dfcclSuccess) return 1;
    for (int i = 0; i < options.ranks; i++) {
      all[i].ctx = ctxs[i];
      all[i].rank = i;
      all[i].ranks = options.ranks;
      pthread_create(&threads[i], NULL, be_rank, &all[i]);
    }
    for (int i = 0; i < options.ranks; i++) pthread_join(threads[i], NULL);
  }
  atomic_store(&load, 3);
  for (int i = 0; has_load && i < 2; i++) pthread_join(loads[i], NULL);
  if (has_load) {
    unlink(results);
    rmdir(folder);
  }
  return 0;
}
