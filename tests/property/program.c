#include "program.h"

#include <stdio.h>
#include <string.h>

static size_t random_count(df_random *random) {
  int percent = df_random_below(random, 100);
  if (percent < 8) return 0;
  if (percent < 16) return 1;
  if (percent < 60) return 2 + (size_t)df_random_below(random, 63);
  if (percent < 85) return 65 + (size_t)df_random_below(random, 900);
  if (percent < 99) return 1000 + (size_t)df_random_below(random, 3000);
  return 4000 + (size_t)df_random_below(random, 50000);
}

/* A random subset in a random order; often all ranks in order. */
static void random_group(program_slot *slot, df_random *random, int ranks) {
  int members = df_random_chance(random, 50) ? ranks : 1 + df_random_below(random, ranks);
  for (int i = 0; i < ranks; i++) slot->group[i] = i;
  bool everybody = members == ranks && df_random_chance(random, 50);
  if (!everybody) df_random_shuffle(random, slot->group, ranks);
  slot->coll.members = members;
  slot->coll.group = everybody ? NULL : slot->group;
}

static dfcclCollId_t id_of(const program_slot *slot, int index) {
  dfcclCollId_t mask = 0;
  for (int i = 0; i < slot->coll.members; i++) mask |= 1ull << slot->group[i];
  return 0xD0000000ull * (dfcclCollId_t)(index + 1) + mask;
}

static void random_collective(program_slot *slot, int index, df_random *random, const program *p,
                              size_t largest_bytes) {
  memset(slot, 0, sizeof *slot);
  random_group(slot, random, p->ranks);
  df_collective *coll = &slot->coll;
  coll->kind = (df_kind)df_random_below(random, DF_KIND_COUNT);
  if (df_random_chance(random, 25)) coll->kind = DF_ALL_REDUCE;
  coll->type = (dfcclDataType_t)df_random_below(random, dfcclInt16);
  coll->op = (dfcclRedOp_t)df_random_below(random, dfcclBand);
  coll->root = df_random_below(random, coll->members);
  coll->count = random_count(random);
  if (coll->members > 6 && coll->count > 4000) coll->count /= 8;
  const size_t one = df_type_bytes(coll->type) * (size_t)coll->members;
  if (largest_bytes > 0 && coll->count * one > largest_bytes) coll->count = largest_bytes / one;
  coll->priority = p->priorities ? df_random_below(random, 5) - 2 : 0;
  /* Algorithms that do not have the kind are refused, and the library's choice is used. */
  if (df_random_chance(random, 80))
    coll->algorithm = df_algorithm_names[df_random_below(random, df_algorithm_names_count)];
  coll->name = df_random_chance(random, 20) ? "property" : NULL;
  coll->seed = df_random_next(random);
  df_random apart = {coll->seed}; /* recorded programs must not change */
  coll->varying = df_random_chance(&apart, 30) && df_config().backend != dfcclBackendCuda;
  if (df_random_chance(&apart, 20) && df_type_bytes(coll->type) >= 2)
    coll->type = df_random_chance(&apart, 50) ? dfcclInt16 : dfcclUint16;
  if (df_random_chance(&apart, 30))
    coll->op = df_operator_for(coll->type, (dfcclRedOp_t)(dfcclBand + df_random_below(&apart, 3)));
  const bool scans = coll->kind == DF_SCAN || coll->kind == DF_EXCLUSIVE_SCAN;
  if (scans && coll->op == dfcclAvg)
    coll->op = dfcclSum; /* results have different numbers of operands */
  slot->fresh = true;
  slot->id = id_of(slot, index);
}

size_t program_count(const program_slot *slot, int run) {
  const df_collective *coll = &slot->coll;
  df_random random = {coll->seed + 1 + (uint64_t)run};
  if (!coll->varying || coll->count == 0 || df_random_chance(&random, 20)) return 0;
  if (df_random_chance(&random, 20)) return 1;
  return 1 + (size_t)df_random_below(&random, (int)coll->count);
}

static void keep(program_slot *slot, const program_slot *before) {
  *slot = *before;
  if (before->coll.group != NULL) slot->coll.group = slot->group;
  slot->fresh = false;
  slot->first_run = before->first_run + before->runs;
}

static df_collective random_even(program_extra *e, df_random *random) {
  static const df_kind reductions[] = {DF_ALL_REDUCE, DF_REDUCE, DF_REDUCE_SCATTER, DF_SCAN,
                                       DF_EXCLUSIVE_SCAN};
  df_collective coll = {.kind = df_random_chance(random, 50) ? DF_BARRIER : DF_SEND_RECV,
                        .type = (dfcclDataType_t)df_random_below(random, DF_DATA_TYPES)};
  if (e->form == EXTRA_USER_OPERATOR) {
    coll.kind = reductions[df_random_below(random, 5)];
    coll.type = dfcclUint64;
    coll.op = dfcclSum;
  }
  if (coll.kind == DF_SEND_RECV && e->members > 2) e->members = 2;
  coll.root = df_random_below(random, e->members);
  coll.count = random_count(random);
  coll.members = e->members;
  coll.group = e->group;
  coll.seed = df_random_next(random);
  return coll;
}

/* largest_bytes: limit of a buffer, 0: no limit. */
static void random_extra(program_extra *e, df_random *random, int ranks, size_t largest_bytes) {
  const int percent = df_random_below(random, 100);
  e->form = percent < 50 ? EXTRA_VECTOR : percent < 80 ? EXTRA_EVEN : EXTRA_USER_OPERATOR;
  if (e->form == EXTRA_USER_OPERATOR && df_config().backend == dfcclBackendCuda)
    e->form = EXTRA_EVEN; /* refused there */
  for (int i = 0; i < ranks; i++) e->group[i] = i;
  df_random_shuffle(random, e->group, ranks);
  e->members = df_random_chance(random, 50) ? ranks : 1 + df_random_below(random, ranks);
  e->runs = 1 + df_random_below(random, RUNS_MAX);
  e->commutes = df_random_chance(random, 50);
  if (e->form == EXTRA_VECTOR) {
    df_vector_kind kind = (df_vector_kind)df_random_below(random, DF_VECTOR_KINDS);
    if (df_random_chance(random, 25) && df_config().backend != dfcclBackendCuda) {
      kind = DF_ALL_TO_ALL_V;
      e->form = EXTRA_DYNAMIC;
    }
    size_t most = 1 + random_count(random) % 6000;
    if (largest_bytes > 0 && most * 8 * (size_t)ranks > largest_bytes)
      most = 1 + largest_bytes / (8 * (size_t)ranks);
    dfcclDataType_t type = (dfcclDataType_t)df_random_below(random, DF_DATA_TYPES);
    if (kind == DF_REDUCE_SCATTER_V && df_type_is_float(type)) type = dfcclInt16;
    e->most = most;
    df_vector_draw(&e->vector, kind, type, e->members, most, random);
    e->vector.group = e->group;
    return;
  }
  e->even = random_even(e, random);
  const size_t one = df_type_bytes(e->even.type) * (size_t)e->members;
  if (largest_bytes > 0 && e->even.count * one > largest_bytes) e->even.count = largest_bytes / one;
}

/* Drawn from a generator of its own, so that recorded programs do not change. */
static void add_extras(program *p, size_t largest_bytes) {
  df_random random = {p->seed ^ 0xE57A5ull};
  for (int i = 0; i < p->phases; i++) {
    p->phase[i].extras = df_random_below(&random, EXTRAS_MAX + 1);
    for (int k = 0; k < p->phase[i].extras; k++)
      random_extra(&p->phase[i].extra[k], &random, p->ranks, largest_bytes);
  }
}

void program_make(program *p, uint64_t seed, int ranks, size_t largest_bytes) {
  df_random random = {seed};
  memset(p, 0, sizeof *p);
  p->seed = seed;
  p->ranks = ranks;
  p->one_driver = df_random_chance(&random, 30);
  p->memory = df_random_chance(&random, 30);
  p->priorities = df_random_chance(&random, 35);
  p->phases = 1 + df_random_below(&random, PHASES_MAX);
  int slots = 1 + df_random_below(&random, SLOTS_MAX);
  for (int i = 0; i < p->phases; i++) {
    p->phase[i].slots = slots;
    for (int s = 0; s < slots; s++) {
      program_slot *slot = &p->phase[i].slot[s];
      program_slot *before = i > 0 ? &p->phase[i - 1].slot[s] : NULL;
      if (before != NULL && !before->last)
        keep(slot, before);
      else
        random_collective(slot, s, &random, p, largest_bytes);
      slot->runs = df_random_chance(&random, 10) ? 0 : 1 + df_random_below(&random, RUNS_MAX);
      slot->last = i == p->phases - 1 || df_random_chance(&random, 40);
    }
  }
  for (int i = 0; i < p->phases; i++) {
    if (!df_random_chance(&random, 25)) continue;
    p->phase[i].doomed_runs = 1 + df_random_below(&random, RUNS_MAX);
    p->phase[i].aborter = df_random_below(&random, ranks);
    p->phase[i].doomed_count = 1 + random_count(&random) % 2000;
    if (largest_bytes > 0 && p->phase[i].doomed_count * 4 > largest_bytes)
      p->phase[i].doomed_count = largest_bytes / 4;
  }
  add_extras(p, largest_bytes);
}

static void print_extra(const program_extra *e, int phase) {
  char text[256];
  if (e->form == EXTRA_VECTOR || e->form == EXTRA_DYNAMIC)
    snprintf(text, sizeof text, "uneven kind %d%s, %s, root %d", e->vector.kind,
             e->form == EXTRA_DYNAMIC ? ", dynamic" : "", df_type_name(e->vector.type),
             e->vector.root);
  else
    df_describe(&e->even, text, sizeof text);
  printf("  phase %d, besides: %s%s among %d ranks, %d runs\n", phase, text,
         e->form == EXTRA_USER_OPERATOR ? " by an own operator" : "", e->members, e->runs);
}

void program_print(const program *p) {
  printf("program seed %llu: %d ranks, %d phases%s%s%s\n", (unsigned long long)p->seed, p->ranks,
         p->phases, p->one_driver ? ", one driver" : "", p->memory ? ", dfcclMemAlloc" : "",
         p->priorities ? ", priorities" : "");
  for (int i = 0; i < p->phases; i++)
    for (int s = 0; s < p->phase[i].slots; s++) {
      const program_slot *slot = &p->phase[i].slot[s];
      char text[256];
      df_describe(&slot->coll, text, sizeof text);
      printf("  phase %d slot %d id %llx: %s, %s, %d runs%s from %d on, priority %d%s%s%s\n", i, s,
             (unsigned long long)slot->id, text, slot->fresh ? "registered" : "kept", slot->runs,
             slot->coll.varying ? " of varying counts" : "", slot->first_run, slot->coll.priority,
             slot->coll.algorithm != NULL ? ", " : "",
             slot->coll.algorithm != NULL ? slot->coll.algorithm : "",
             slot->last ? ", then deregistered" : "");
    }
  for (int i = 0; i < p->phases; i++)
    for (int k = 0; k < p->phase[i].extras; k++) print_extra(&p->phase[i].extra[k], i);
  for (int i = 0; i < p->phases; i++)
    if (p->phase[i].doomed_runs > 0)
      printf("  phase %d: rank %d aborts an all-reduce of %zu int32 with %d runs\n", i,
             p->phase[i].aborter, p->phase[i].doomed_count, p->phase[i].doomed_runs);
  fflush(stdout);
}
