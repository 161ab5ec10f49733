#include "host/tuner.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/epochs.h"
#include "host/growing.h"
#include "host/learning.h"
#include "host/registry.h"
#include "tuning/descent.h"

enum {
  DF_TUNER_RUNS = 8,      /* timed, of each variant */
  DF_TUNER_COMPARED = 16, /* of the winner, twice, and twice as many of the registered variant */
  DF_TUNER_WARM = 16,     /* before it begins */
  DF_TUNER_SWITCH_NS = 500000, /* what a switch costs all members, about: their threads are woken */
  DF_TUNER_TO_COMPARE = 4,     /* switches */
  DF_TUNER_WINS = 2,           /* comparisons in a row */
  DF_TUNER_LOST = 8,           /* variants in a row that could not be had: it stops */
  DF_TUNER_WATCHED_OF = 1024,  /* short runs, of which reading a clock is a part */
  DF_TUNER_WATCHED_OF_LONG = 64, /* runs of DF_TUNER_LONG_NS or more */
  DF_TUNER_LONG_NS = 20000,
  DF_TUNER_DRIFTS = 3,         /* windows in a row, to the same side */
  DF_TUNER_MOST_PATIENCE = 10, /* doublings of that, after searches that found nothing else */
  DF_TUNER_LEAST_SLOT = 1024,  /* bytes: the first place on its axis */
  DF_TUNER_SLOT_PLACES = 13,   /* to 4 MiB */
  DF_TUNER_SLOTS_PLACES = 6,   /* 2 to 64 */
  DF_TUNER_SHORT = 4096        /* bytes: one message, so neither slots nor blocks matter */
};
static const double least_gain = 0.02, drift = 0.15;

typedef enum { AXIS_SLOT_BYTES, AXIS_SLOTS, AXIS_BLOCKS, AXIS_SPLIT } df_axis;

typedef struct df_tuner {
  df_tuner_state state;
  df_descent descent;
  df_variant_spec spaces[DF_DESCENT_SUBSPACES]; /* algorithm, copies */
  df_choice of_registered;
  df_point registered, asked, winner;
  df_point home; /* where it rests: registered, or the latest winner */
  uint32_t lost; /* variants that could not be had, in a row */
  uint32_t begun;

  /* of the runs at hand */
  uint64_t from;
  uint32_t runs;                          /* asked for */
  uint32_t n, told, least[DF_MOST_TIMES]; /* of the members' */

  double spent_ns;   /* by variants slower than the fastest */
  uint64_t begun_at; /* run */
  uint64_t begun_ns;
  uint64_t variant_at; /* run at which the variant at hand was asked for */
  uint32_t turn;       /* of the comparison */
  double turns_ns[4];  /* winner, registered, registered, winner */
  double registered_ns, tuned_ns;
  double watched_ns; /* this rank's own, when the watch began; 0: not known yet */
  int drifted;       /* windows in a row: positive slower, negative faster */
  uint32_t patience; /* doublings */
  df_point before;   /* the winner of the search before */
  uint32_t wins;     /* comparisons, in a row */
  int is_charged;    /* the comparison to come */
  int is_remembered; /* the winner is another job's, and nothing was searched yet */
} df_tuner;

static df_tuner *tuner_of(const df_coll *front) { return front->epoch->tuner; }

/* ---- the space */

static uint8_t places_up_to(uint64_t first, uint64_t most, uint8_t limit) {
  uint8_t n = 1;
  while (n < limit && first << n <= most) n++;
  return n;
}

static uint8_t place_of(uint64_t first, uint64_t value, uint8_t size) {
  uint8_t at = 0;
  while (at + 1 < size && first << (at + 1) <= value) at++;
  return at;
}

static void add_space(df_tuner *tuner, const df_coll *front, int algorithm, int copies,
                      const uint8_t sizes[DF_DESCENT_AXES], const uint8_t start[DF_DESCENT_AXES]) {
  const uint32_t n = tuner->descent.n_subspaces;
  uint8_t own_sizes[DF_DESCENT_AXES], own_start[DF_DESCENT_AXES];
  if (n == DF_DESCENT_SUBSPACES) return;
  memcpy(own_sizes, sizes, sizeof own_sizes);
  memcpy(own_start, start, sizeof own_start);
  if (algorithm == DF_TWO_LEVEL) { /* subgroups of 2, 4, ... */
    own_sizes[AXIS_SPLIT] = places_up_to(2, front->n / 2, 8);
    own_start[AXIS_SPLIT] = own_sizes[AXIS_SPLIT] / 2;
  }
  tuner->spaces[n] =
      (df_variant_spec){.algorithm = (uint32_t)algorithm, .copies = (uint32_t)copies};
  df_descent_add(&tuner->descent, own_sizes, own_start);
}

/* The registered variant first; its algorithm without lending; the operation's other algorithms. */
static void make_space(const dfcclContext_t context, const df_coll *front, df_tuner *tuner) {
  const df_policy *policy = &context->settings.tuning.policy;
  const df_manner *manner = df_epoch_registered(front);
  const df_choice *choice = &manner->choice;
  const uint64_t bytes = df_larger_buffer(front->operation, front->n, front->count,
                                          (uint32_t)df_type_size(front->type));
  const uint64_t slot = choice->slot_bytes ? choice->slot_bytes : (uint64_t)policy->slot_bytes;
  const int is_long = bytes > DF_TUNER_SHORT;
  uint8_t sizes[DF_DESCENT_AXES] = {1, 1, 1, 1}, start[DF_DESCENT_AXES] = {0, 0, 0, 0};
  if (is_long) {
    sizes[AXIS_SLOT_BYTES] = places_up_to(DF_TUNER_LEAST_SLOT, 2 * bytes, DF_TUNER_SLOT_PLACES);
    start[AXIS_SLOT_BYTES] = place_of(DF_TUNER_LEAST_SLOT, slot, sizes[AXIS_SLOT_BYTES]);
    sizes[AXIS_SLOTS] = DF_TUNER_SLOTS_PLACES;
    start[AXIS_SLOTS] = place_of(2, (uint64_t)policy->slots, DF_TUNER_SLOTS_PLACES);
    sizes[AXIS_BLOCKS] = places_up_to(1, context->max_blocks, 6);
    start[AXIS_BLOCKS] = place_of(1, manner->shape.n_blocks, sizes[AXIS_BLOCKS]);
  }
  if (tuner->begun == 1) tuner->of_registered = *choice;
  df_descent_begin(&tuner->descent, DF_DESCENT_MOST);
  add_space(tuner, front, choice->algorithm, 0, sizes, start);
  memcpy(tuner->registered.at, start, sizeof start);
  if (choice->algorithm == DF_TWO_LEVEL) tuner->registered = tuner->descent.climbs[0].best.point;
  if (is_long && policy->lend && bytes / front->n >= (uint64_t)policy->lend_min)
    add_space(tuner, front, choice->algorithm, 1, sizes, start);
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
    if (algorithm != choice->algorithm && df_algorithm_has(algorithm, front->operation) &&
        (algorithm != DF_HIERARCHICAL || choice->is_spread) &&
        (!choice->is_ordered || df_algorithm_keeps_order(algorithm, front->operation)))
      add_space(tuner, front, algorithm, 0, sizes, start);
}

static int is_registered(const df_tuner *tuner, const df_point *point) {
  return memcmp(point, &tuner->registered, sizeof *point) == 0;
}

/* What the registration would not have chosen is spelt out. */
static df_variant_spec spec_of(const df_tuner *tuner, const df_point *point) {
  df_variant_spec spec = tuner->spaces[point->subspace];
  const df_climb *climb = &tuner->descent.climbs[point->subspace];
  if (is_registered(tuner, point)) return (df_variant_spec){.algorithm = DF_AS_REGISTERED};
  if (climb->sizes[AXIS_SLOT_BYTES] > 1)
    spec.slot_bytes = DF_TUNER_LEAST_SLOT << point->at[AXIS_SLOT_BYTES];
  if (climb->sizes[AXIS_SLOTS] > 1) spec.slots = 2u << point->at[AXIS_SLOTS];
  if (climb->sizes[AXIS_BLOCKS] > 1) spec.blocks = 1u << point->at[AXIS_BLOCKS];
  if (spec.algorithm == DF_TWO_LEVEL) spec.split = 2u << point->at[AXIS_SPLIT];
  return spec;
}

/* As the tuning table says it. */
static df_rule rule_of(const df_tuner *tuner, const df_point *point) {
  const df_choice *choice = &tuner->of_registered;
  const df_variant_spec spec = spec_of(tuner, point);
  if (is_registered(tuner, point))
    return (df_rule){.algorithm = (df_algorithm)choice->algorithm,
                     .blocks = choice->blocks,
                     .slot_bytes = choice->slot_bytes,
                     .split = choice->split};
  return (df_rule){.algorithm = (df_algorithm)spec.algorithm,
                   .blocks = spec.blocks,
                   .slot_bytes = spec.slot_bytes,
                   .split = spec.split,
                   .slots = spec.slots,
                   .copies = spec.copies};
}

/* The place of a rule that another job has learnt. 0: none is like it. */
static int find_point(const df_tuner *tuner, const df_rule *rule, df_point *point) {
  const df_rule registered = rule_of(tuner, &tuner->registered);
  *point = tuner->registered;
  if (registered.algorithm == rule->algorithm && registered.blocks == rule->blocks &&
      registered.slot_bytes == rule->slot_bytes && registered.split == rule->split &&
      rule->slots == 0 && rule->copies == 0)
    return 1;
  for (uint32_t i = 0; i < tuner->descent.n_subspaces; i++) {
    const df_climb *climb = &tuner->descent.climbs[i];
    const df_variant_spec *space = &tuner->spaces[i];
    if (space->algorithm != (uint32_t)rule->algorithm || space->copies != rule->copies) continue;
    *point = climb->best.point;
    if (rule->slot_bytes)
      point->at[AXIS_SLOT_BYTES] =
          place_of(DF_TUNER_LEAST_SLOT, rule->slot_bytes, climb->sizes[AXIS_SLOT_BYTES]);
    if (rule->slots) point->at[AXIS_SLOTS] = place_of(2, rule->slots, climb->sizes[AXIS_SLOTS]);
    if (rule->blocks) point->at[AXIS_BLOCKS] = place_of(1, rule->blocks, climb->sizes[AXIS_BLOCKS]);
    if (rule->split) point->at[AXIS_SPLIT] = place_of(2, rule->split, climb->sizes[AXIS_SPLIT]);
    return 1;
  }
  return 0;
}

/* ---- asking */

static void stop(const df_coll *front) {
  tuner_of(front)->state = DF_TUNER_STOPPED;
  df_log(DF_LOG_INFO, "the tuner of collective %llu stops", (unsigned long long)front->id);
}

static void ask(dfcclContext_t context, df_coll *front, const df_point *point, uint32_t runs) {
  df_tuner *tuner = tuner_of(front);
  const df_variant_spec spec = spec_of(tuner, point);
  tuner->asked = *point;
  tuner->variant_at = front->retired;
  tuner->from = UINT64_MAX;
  tuner->runs = runs;
  tuner->told = tuner->n = 0;
  memset(tuner->least, 0xff, sizeof tuner->least);
  tuner->spent_ns += DF_TUNER_SWITCH_NS;
  if (df_epoch_propose(context, front, &spec, runs) != dfcclSuccess) stop(front);
}

static const df_measured *fastest(const df_tuner *tuner) {
  return df_descent_best(&tuner->descent);
}

static void begin_comparison(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  tuner->winner = fastest(tuner)->point;
  tuner->state = DF_TUNER_COMPARES;
  tuner->turn = 0;
  ask(context, front, &tuner->winner, DF_TUNER_COMPARED);
}

static void watch(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  const uint64_t every =
      tuner->watched_ns >= DF_TUNER_LONG_NS ? DF_TUNER_WATCHED_OF_LONG : DF_TUNER_WATCHED_OF;
  const uint64_t until = front->retired + (every << tuner->patience);
  tuner->state = DF_TUNER_WATCHES;
  df_epoch_time(context, front, until - DF_MOST_TIMES, until);
}

/* A search that found what was there already need not be repeated soon. */
static void settle(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  const int is_new =
      tuner->begun == 1 || memcmp(&tuner->winner, &tuner->before, sizeof tuner->winner) != 0;
  if (is_new)
    tuner->patience = 0;
  else if (tuner->patience < DF_TUNER_MOST_PATIENCE)
    tuner->patience++;
  tuner->before = tuner->winner;
  tuner->watched_ns = 0;
  tuner->drifted = 0;
  watch(context, front);
}

/* Runs until the budget has what was spent, and what the next switch costs; 0: it has it. */
static uint64_t owed(const dfcclContext_t context, const df_coll *front) {
  const df_tuner *tuner = tuner_of(front);
  const double budget = (double)DF_MAX(context->settings.tune_budget, 1ll) / 100;
  const double elapsed = (double)(df_clock_ns() - tuner->begun_ns);
  const double owes = tuner->spent_ns + DF_TUNER_SWITCH_NS - budget * elapsed;
  const double of_run =
      budget * DF_MAX(elapsed, 1.0) / (double)DF_MAX(front->retired - tuner->begun_at, (uint64_t)1);
  return owes > 0 ? (uint64_t)DF_MIN(owes / of_run, 1e6) + 1 : 0;
}

static void go_on(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  df_point point;
  const int is_over = !df_descent_next(&tuner->descent, &point);
  if (is_over && !tuner->is_charged) {
    tuner->is_charged = 1;
    tuner->spent_ns += (DF_TUNER_TO_COMPARE - 1) * (double)DF_TUNER_SWITCH_NS;
  }
  const uint64_t runs = owed(context, front);
  if (runs > 0) {
    tuner->state = DF_TUNER_RESTS;
    if (tuner->descent.n_measured && memcmp(&tuner->asked, &tuner->home, sizeof point) != 0)
      ask(context, front, &tuner->home, DF_TUNER_RUNS);
    else
      df_epoch_time(context, front, front->retired + runs, front->retired + runs + 1);
    return;
  }
  tuner->state = DF_TUNER_SEARCHES;
  if (is_over)
    begin_comparison(context, front);
  else
    ask(context, front, &point, DF_TUNER_RUNS);
}

/* What another job has learnt is compared with the registered variant, and nothing is searched. */
static int begin_with_memory(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  const df_rule *rule = df_learning_find(context, front);
  if (rule == NULL || !find_point(tuner, rule, &tuner->winner)) return 0;
  tuner->is_remembered = 1;
  if (is_registered(tuner, &tuner->winner)) {
    settle(context, front);
    return 1;
  }
  tuner->state = DF_TUNER_COMPARES;
  tuner->turn = 0;
  ask(context, front, &tuner->winner, DF_TUNER_COMPARED);
  return 1;
}

/* After a drift: the best places so far, the fastest first, and on from there. */
static void begin(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  tuner->begun++;
  tuner->begun_at = front->retired;
  tuner->begun_ns = df_clock_ns();
  tuner->spent_ns = 0;
  tuner->is_charged = 0;
  tuner->wins = 0;
  if (tuner->descent.n_measured)
    df_descent_again(&tuner->descent);
  else
    make_space(context, front, tuner);
  if (tuner->begun == 1) {
    tuner->home = tuner->asked = tuner->registered;
    if (begin_with_memory(context, front)) return;
  }
  tuner->is_remembered = 0;
  go_on(context, front);
}

/* ---- hearing */

static int by_size(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Sorts. */
static double median(uint32_t *times, uint32_t n) {
  qsort(times, n, sizeof *times, by_size);
  return ((double)times[(n - 1) / 2] + (double)times[n / 2]) / 2;
}

/* Of the median, from the quartiles: 1.2533 * 0.7413 * (q3 - q1) / sqrt(n), of DF_TUNER_RUNS. */
static double error_of(const uint32_t *sorted, uint32_t n) {
  return 0.33 * (double)(sorted[3 * n / 4] - sorted[n / 4]);
}

static void note_variant(df_coll *front, uint32_t n) {
  df_tuner *tuner = tuner_of(front);
  const df_measured *best = fastest(tuner);
  df_measured measured = {.point = tuner->asked, .time = median(tuner->least, n)};
  measured.error = error_of(tuner->least, n);
  const double excess = best ? measured.time - best->time : 0;
  if (excess > 0) tuner->spent_ns += excess * (double)(front->retired - tuner->variant_at);
  if (tuner->state == DF_TUNER_SEARCHES) df_descent_tell(&tuner->descent, &measured);
  tuner->lost = 0;
}

/* Both halves of the winner's runs must be faster than both of the registered variant's. */
static int has_won(const double turns_ns[4]) {
  const double slower = DF_MAX(turns_ns[0], turns_ns[3]), faster = DF_MIN(turns_ns[1], turns_ns[2]);
  return slower < (1 - least_gain) * faster;
}

static void rest(dfcclContext_t context, df_coll *front) {
  tuner_of(front)->state = DF_TUNER_RESTS;
  df_epoch_time(context, front, front->retired + DF_TUNER_WARM, front->retired + DF_TUNER_WARM + 1);
}

/* What was remembered is no longer so. The last change is still in progress. */
static void wait_and_search(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  tuner->is_remembered = 0;
  tuner->asked = tuner->home;
  rest(context, front);
}

/* On some machines times depend on where threads happen to be, for as long as one comparison. */
static void compare_again(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  tuner->is_charged = 0;
  rest(context, front);
}

static void note_turn(dfcclContext_t context, df_coll *front, uint32_t n) {
  df_tuner *tuner = tuner_of(front);
  double *turns_ns = tuner->turns_ns;
  tuner->turn++;
  if (tuner->turn == 1) {
    turns_ns[0] = median(tuner->least, n);
    ask(context, front, &tuner->registered, 2 * DF_TUNER_COMPARED);
    return;
  }
  if (tuner->turn == 2) {
    turns_ns[1] = median(tuner->least, n / 2);
    turns_ns[2] = median(tuner->least + n / 2, n - n / 2);
    ask(context, front, &tuner->winner, DF_TUNER_COMPARED);
    return;
  }
  turns_ns[3] = median(tuner->least, n);
  tuner->registered_ns = (turns_ns[1] + turns_ns[2]) / 2;
  tuner->tuned_ns = (turns_ns[0] + turns_ns[3]) / 2;
  if (!has_won(turns_ns)) {
    tuner->tuned_ns = tuner->registered_ns;
    tuner->winner = tuner->registered;
    ask(context, front, &tuner->registered, 0);
  }
  if (tuner->state != DF_TUNER_COMPARES) return;
  if (!is_registered(tuner, &tuner->winner) && !tuner->is_remembered &&
      ++tuner->wins < DF_TUNER_WINS) {
    compare_again(context, front);
    return;
  }
  tuner->home = tuner->winner;
  if (tuner->is_remembered && is_registered(tuner, &tuner->winner)) {
    wait_and_search(context, front);
    return;
  }
  df_learning_note(context, front, rule_of(tuner, &tuner->winner), tuner->tuned_ns * 1e-3,
                   tuner->registered_ns * 1e-3);
  settle(context, front);
}

/* This rank's own runs only: it may wait for others, so the quarter that waited least counts. */
static void note_watched(dfcclContext_t context, df_coll *front, const uint32_t *ns, uint32_t n) {
  df_tuner *tuner = tuner_of(front);
  uint32_t sorted[DF_MOST_TIMES];
  memcpy(sorted, ns, n * sizeof *ns);
  qsort(sorted, n, sizeof *sorted, by_size);
  const double quarter = (double)sorted[n / 4];
  if (tuner->watched_ns == 0) tuner->watched_ns = quarter;
  if (quarter > (1 + drift) * tuner->watched_ns)
    tuner->drifted = DF_MAX(tuner->drifted, 0) + 1;
  else if (quarter < (1 - drift) * tuner->watched_ns)
    tuner->drifted = DF_MIN(tuner->drifted, 0) - 1;
  else
    tuner->drifted = 0;
  if (abs(tuner->drifted) < DF_TUNER_DRIFTS || df_epoch_is_busy(front))
    watch(context, front);
  else
    begin(context, front);
}

/* Whoever came last waited least. Of operations in which some wait for nobody, those are through
 * before the others have begun: whoever took longest tells. */
static void take_times(const df_coll *front, df_tuner *tuner, const uint32_t *ns, uint32_t n) {
  const int takes_most = front->manner.runs_ahead && tuner->told > 0;
  tuner->n = tuner->told == 0 ? n : DF_MIN(tuner->n, n);
  for (uint32_t i = 0; i < n; i++)
    tuner->least[i] = takes_most ? DF_MAX(tuner->least[i], ns[i]) : DF_MIN(tuner->least[i], ns[i]);
  tuner->told++;
}

static void hear_times(dfcclContext_t context, df_coll *front, uint64_t from, const uint32_t *ns,
                       uint32_t n) {
  df_tuner *tuner = tuner_of(front);
  if (tuner->state == DF_TUNER_STOPPED) return;
  if (tuner->state == DF_TUNER_BEGINS) {
    begin(context, front);
    return;
  }
  if (tuner->state == DF_TUNER_WATCHES) {
    note_watched(context, front, ns, n);
    return;
  }
  if (tuner->state == DF_TUNER_RESTS && n == 1) {
    if (df_epoch_is_busy(front))
      rest(context, front);
    else
      go_on(context, front);
    return;
  }
  if (n != tuner->runs) return; /* a member is mistaken */
  if (tuner->from == UINT64_MAX) tuner->from = from;
  if (from != tuner->from) return;
  take_times(front, tuner, ns, n);
  if (tuner->told < front->n) return;
  if (tuner->state == DF_TUNER_COMPARES) {
    note_turn(context, front, tuner->n);
    return;
  }
  note_variant(front, tuner->n);
  go_on(context, front);
}

/* Not at once: what calls it off may still be so. */
static void hear_called_off(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  if (tuner->state == DF_TUNER_STOPPED || tuner->state == DF_TUNER_WATCHES) return;
  const df_measured nothing = {.point = tuner->asked, .time = 1e30};
  if (tuner->is_remembered) {
    wait_and_search(context, front);
    return;
  }
  if (tuner->state == DF_TUNER_SEARCHES) df_descent_tell(&tuner->descent, &nothing);
  if (++tuner->lost == DF_TUNER_LOST || fastest(tuner) == NULL || fastest(tuner)->time >= 1e30) {
    stop(front);
    return;
  }
  tuner->asked = tuner->home; /* or what was in force before: near enough for a rest */
  rest(context, front);
}

static const df_epoch_owner owner = {.times = hear_times, .called_off = hear_called_off};

/* ---- registration */

static int is_wanted(const dfcclContext_t context, const df_coll *front,
                     const dfcclCollOptions_t *options) {
  enum { NEVER, AUTOMATIC, ALL };
  const int tune = options ? options->tune : 0;
  if (tune != 0) return tune > 0;
  return context->settings.tune == ALL ||
         (context->settings.tune == AUTOMATIC && !front->manner.choice.is_named);
}

void df_tuner_consider(dfcclContext_t context, dfcclCollId_t id,
                       const dfcclCollOptions_t *options) {
  dfcclCollOptions_t whole = DFCCL_COLL_OPTIONS_INITIALIZER;
  if (options && df_growing_read(&df_growing_options, options, &whole) != dfcclSuccess) return;
  pthread_mutex_lock(&context->lock);
  df_coll *front = df_find(context, id);
  if (front && front->position == 0 && front->n > 1 && front->count > 0 && front->pairs == NULL &&
      front->plan->key.file == NULL &&
      front->operation != DF_OP_ALL_TO_ALL_DYNAMIC && is_wanted(context, front, &whole) &&
      df_epoch_of(front) && front->epoch->tuner == NULL &&
      (front->epoch->tuner = calloc(1, sizeof *front->epoch->tuner)) != NULL) {
    front->epoch->owner = &owner;
    df_epoch_time(context, front, DF_TUNER_WARM - 1, DF_TUNER_WARM);
  }
  pthread_mutex_unlock(&context->lock);
}

int df_tuner_summarise(const df_coll *front, df_tuner_summary *summary) {
  if (front->epoch == NULL || front->epoch->tuner == NULL) return 0;
  const df_tuner *tuner = tuner_of(front);
  *summary = (df_tuner_summary){.state = tuner->state,
                                .measured = tuner->descent.n_measured,
                                .begun = tuner->begun,
                                .registered_us = tuner->registered_ns * 1e-3,
                                .tuned_us = tuner->tuned_ns * 1e-3};
  return 1;
}

const char *df_tuner_state_name(df_tuner_state state) {
  static const char *const names[] = {"begins",   "searches", "rests",
                                      "compares", "watches",  "has stopped"};
  return names[state];
}
