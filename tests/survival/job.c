#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 30000 };
typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL } kind;
static const struct {
  kind kind;
  int in_place;
  size_t count;
} collectives[] = {
    {ALL_REDUCE, 0, 1},   {ALL_REDUCE, 1, 700},    {ALL_GATHER, 0, 100},
    {ALL_GATHER, 1, 900}, {REDUCE_SCATTER, 0, 64}, {REDUCE_SCATTER, 1, 500},
    {ALL_TO_ALL, 0, 300}, {ALL_REDUCE, 1, LARGE},  {ALL_REDUCE, 0, LARGE},
};
_Static_assert(sizeof collectives / sizeof *collectives == JOB_COLLECTIVES, "room in the log");

enum { FAILED = 1 << 30, HAS_SET = 1 << 29 }; /* values of job_log.ended */

job_log *job_shared;
job_shape job;

/* The state of one process. */
static int self;
static dfcclContext_t ctx;
static uint64_t *input[JOB_COLLECTIVES][JOB_DEPTH], *output[JOB_COLLECTIVES][JOB_DEPTH];
static atomic_int called[JOB_COLLECTIVES][JOB_ROUNDS];
static dfcclResult_t statuses[JOB_COLLECTIVES][JOB_ROUNDS];
static uint32_t latest_set[JOB_COLLECTIVES];
static int first_round; /* the first one since the latest registration */
static int submitted[JOB_COLLECTIVES], checked[JOB_COLLECTIVES]; /* runs */
static _Atomic uint64_t view;
static _Atomic uint32_t lost_told; /* ranks of whose loss the application has been notified */

static size_t pieces_of(kind k, int of_output) {
  const int wide =
      of_output ? k == ALL_GATHER || k == ALL_TO_ALL : k == REDUCE_SCATTER || k == ALL_TO_ALL;
  return wide ? (size_t)job.ranks : 1;
}

/* The contribution of a rank, in a byte of its own. */
static uint64_t value(int rank, int round, size_t element) {
  return (uint64_t)(1 + (round * 7 + (int)(element % 5)) % 200) << (8 * rank);
}

static void fill(int c, int round) {
  const size_t count = collectives[c].count;
  uint64_t *to = input[c][round % JOB_DEPTH];
  for (size_t i = 0; i < count * pieces_of(collectives[c].kind, 0); i++)
    to[i] = value(self, round, i);
}

static uint32_t set_of(uint64_t sum) {
  uint32_t set = 0;
  for (int r = 0; r < job.ranks; r++)
    if (sum >> (8 * r) & 255) set |= 1u << r;
  return set;
}

static uint64_t expected_sum(uint32_t set, int round, size_t element) {
  uint64_t sum = 0;
  for (int r = 0; r < job.ranks; r++)
    if (set >> r & 1) sum += value(r, round, element);
  return sum;
}

/* The ranks of whose loss the application has not been notified. */
static uint32_t not_lost(void) { return ((1u << job.ranks) - 1) & ~atomic_load(&lost_told); }
uint32_t (*job_needed)(void) = not_lost;

static uint32_t check_sums(int c, int round) {
  const uint64_t *result = output[c][round % JOB_DEPTH];
  const size_t count = collectives[c].count;
  const size_t first = collectives[c].kind == REDUCE_SCATTER ? (size_t)self * count : 0;
  const uint32_t set = set_of(result[0]);
  for (size_t i = 0; i < count; i++)
    CHECK(result[i] == expected_sum(set, round, first + i),
          "collective %d, run %d, element %zu: %llx, but the first element has ranks %x", c, round,
          i, (unsigned long long)result[i], set);
  return set;
}

static void check_pieces(int c, int round, uint32_t whose) {
  const size_t count = collectives[c].count;
  for (int r = 0; r < job.ranks; r++)
    for (size_t i = 0; i < count && whose >> r & 1; i++) {
      const size_t element = collectives[c].kind == ALL_TO_ALL ? (size_t)self * count + i : i;
      const uint64_t got = output[c][round % JOB_DEPTH][(size_t)r * count + i];
      CHECK(got == value(r, round, element), "collective %d, run %d, piece %d, element %zu: %llx",
            c, round, r, i, (unsigned long long)got);
    }
}

/* (a): compares with what the other processes have found. */
static void agree(int c, int round, uint32_t found) {
  uint32_t before = 0;
  if (!atomic_compare_exchange_strong(&job_shared->ended[c][round], &before, found))
    CHECK(before == found, "collective %d, run %d: %x on rank %d, %x on another", c, round, found,
          self, before);
}

static void check(int c, int round) {
  const kind k = collectives[c].kind;
  CHECK(atomic_load(&called[c][round]) == 1, "collective %d, run %d: %d callbacks", c, round,
        atomic_load(&called[c][round]));
  if (statuses[c][round] != dfcclSuccess) {
    CHECK(statuses[c][round] == dfcclRemoteError && job.survive == 2,
          "collective %d, run %d failed: %s, %s", c, round, df_test_result_name(statuses[c][round]),
          dfcclGetLastError(ctx));
    agree(c, round, FAILED);
    return;
  }
  if (k == ALL_GATHER || k == ALL_TO_ALL) {
    check_pieces(c, round, job_needed());
    agree(c, round, HAS_SET);
    return;
  }
  const uint32_t set = check_sums(c, round), needed = job_needed();
  CHECK((set & needed) == needed, "collective %d, run %d has ranks %x, but %x are members", c,
        round, set, needed);
  CHECK((set & latest_set[c]) == set, "collective %d, run %d has ranks %x after %x", c, round, set,
        latest_set[c]);
  latest_set[c] = set;
  agree(c, round, HAS_SET | set);
}

static void note_next(uint32_t set) {
  for (int r = 0; r < job.ranks; r++) {
    const uint64_t struck = atomic_load(&job_shared->struck_ns[r]);
    uint64_t none = 0;
    if (struck && !(set >> r & 1))
      atomic_compare_exchange_strong(&job_shared->next_ns[r], &none, df_now_ns() - struck);
  }
}

static void call_back(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  const int round = (int)(intptr_t)arg, c = (int)id;
  statuses[c][round] = status;
  if (c == 0 && status == dfcclSuccess) {
    const uint32_t set = set_of(output[0][round % JOB_DEPTH][0]), needed = job_needed();
    CHECK((set & needed) == needed, "run %d has ranks %x, but %x are members", round, set, needed);
    note_next(set);
  }
  atomic_fetch_add(&called[c][round], 1);
}

static void told(dfcclContext_t context, const dfcclMembership_t *m, void *arg) {
  dfcclMembership_t latest = DFCCL_MEMBERSHIP_INITIALIZER;
  (void)arg;
  CHECK(m->view == atomic_load(&view) + 1, "view %llu after %llu", (unsigned long long)m->view,
        (unsigned long long)atomic_load(&view));
  CHECK(m->nLost > 0 && m->nJoined == 0, "%d are lost in view %llu", m->nLost,
        (unsigned long long)m->view);
  int has_self = 0;
  uint32_t members = 0;
  for (int i = 0; i < m->nMembers; i++) {
    has_self |= m->members[i] == self;
    members |= 1u << m->members[i];
    CHECK(i == 0 || m->members[i - 1] < m->members[i], "members are not in order");
  }
  CHECK(has_self, "rank %d is not in its view", self);
  OK(dfcclGetMembership(context, &latest));
  CHECK(latest.view >= m->view, "the latest view is older");
  for (int i = 0; i < m->nLost; i++) {
    const int lost = m->lost[i]; /* or it has left in order */
    CHECK(atomic_load(&job_shared->may_lose) >> lost & 1 ||
              atomic_load(&job_shared->outcome[lost]) != JOB_RUNS,
          "rank %d is lost in view %llu, but nothing has happened to it", lost,
          (unsigned long long)m->view);
    atomic_fetch_or(&lost_told, 1u << m->lost[i]);
  }
  atomic_store(&job_shared->view_of[self], members);
  atomic_store(&view, m->view);
}

static uint64_t *get_memory(size_t elements) {
  void *memory = NULL;
  if (job.lends)
    OK(dfcclMemAlloc(ctx, &memory, elements * sizeof(uint64_t)));
  else
    memory = calloc(elements, sizeof(uint64_t));
  CHECK(memory != NULL, "no memory");
  return memory;
}

static void use_ids(void) {
  const int two[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = two;
  options.nRanks = 2;
  for (int c = 0; c < JOB_COLLECTIVES && self < 2; c++) {
    OK(dfcclRegisterAllReduce(ctx, (dfcclCollId_t)c, 1, dfcclInt64, dfcclSum, &options));
    OK(dfcclDeregister(ctx, (dfcclCollId_t)c));
  }
}

void job_register(int first) {
  first_round = first;
  for (int c = 0; c < JOB_COLLECTIVES; c++) {
    const size_t count = collectives[c].count;
    const dfcclCollId_t id = (dfcclCollId_t)c;
    switch (collectives[c].kind) {
    case ALL_REDUCE:
      OK(dfcclRegisterAllReduce(ctx, id, count, dfcclUint64, dfcclSum, NULL));
      break;
    case ALL_GATHER:
      OK(dfcclRegisterAllGather(ctx, id, count, dfcclUint64, NULL));
      break;
    case REDUCE_SCATTER:
      OK(dfcclRegisterReduceScatter(ctx, id, count, dfcclUint64, dfcclSum, NULL));
      break;
    case ALL_TO_ALL:
      OK(dfcclRegisterAllToAll(ctx, id, count, dfcclUint64, NULL));
    }
    latest_set[c] = ~0u;
    checked[c] = submitted[c] = first;
  }
}

void job_deregister(void) {
  for (int c = 0; c < JOB_COLLECTIVES; c++) OK(dfcclDeregister(ctx, (dfcclCollId_t)c));
}

void job_be(dfcclContext_t context, int rank) {
  ctx = context;
  self = rank;
  for (int c = 0; c < JOB_COLLECTIVES; c++) {
    const size_t count = collectives[c].count;
    for (int d = 0; d < JOB_DEPTH; d++) {
      const size_t in = count * pieces_of(collectives[c].kind, 0);
      const size_t out = count * pieces_of(collectives[c].kind, 1);
      input[c][d] = output[c][d] = get_memory(in > out ? in : out);
      if (!collectives[c].in_place) output[c][d] = get_memory(out);
      if (collectives[c].in_place && out > in) input[c][d] += (size_t)self * count;
      if (collectives[c].in_place && out < in) output[c][d] += (size_t)self * count;
    }
  }
}

/* Whether the library has ended all runs of this rank, because it must not go on: then not even a
 * collective of its own can be registered. */
static int must_stop(void) {
  enum { ALONE = 1000 };
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  if (!job.may_stop) return 0;
  options.ranks = &self;
  options.nRanks = 1;
  if (dfcclRegisterAllReduce(ctx, ALONE, 1, dfcclInt64, dfcclSum, &options) == dfcclRemoteError)
    return 1;
  OK(dfcclDeregister(ctx, ALONE));
  return 0;
}

static int submit(int c, int round) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  fill(c, round);
  run.sendBuf = input[c][round % JOB_DEPTH];
  run.recvBuf = output[c][round % JOB_DEPTH];
  run.callback = call_back;
  run.arg = (void *)(intptr_t)round;
  const dfcclResult_t result = dfcclRun(ctx, (dfcclCollId_t)c, &run);
  if (result == dfcclRemoteError && must_stop()) return 0;
  CHECK(result == dfcclSuccess, "dfcclRun returns %s: %s", df_test_result_name(result),
        dfcclGetLastError(NULL));
  submitted[c]++;
  return 1;
}

static int end_run(int c, int round) {
  const dfcclResult_t status =
      dfcclWaitRun(ctx, (dfcclCollId_t)c, (uint64_t)(round - first_round), -1);
  if (status == dfcclRemoteError && must_stop()) return 0;
  CHECK(status == statuses[c][round], "dfcclWaitRun returns %s, the callback had %s",
        df_test_result_name(status), df_test_result_name(statuses[c][round]));
  check(c, round);
  checked[c]++;
  return 1;
}

int job_run(df_random *random, int until) {
  int order[JOB_COLLECTIVES];
  for (int c = 0; c < JOB_COLLECTIVES; c++) order[c] = c;
  for (int round = first_round; round < until; round++) {
    df_random_shuffle(random, order, JOB_COLLECTIVES);
    if (atomic_load(&job_shared->late_rank) == self)
      df_sleep_ms(atomic_exchange(&job_shared->late_ms, 0));
    while (job.may_stop && round == until - 1 && !atomic_load(&job_shared->may_end)) df_nap();
    for (int i = 0; i < JOB_COLLECTIVES; i++) {
      if (round - first_round >= JOB_DEPTH && !end_run(order[i], round - JOB_DEPTH)) return 0;
      if (!submit(order[i], round)) return 0;
    }
    int ahead = atomic_load(&job_shared->rounds);
    while (ahead < round && !atomic_compare_exchange_weak(&job_shared->rounds, &ahead, round)) {
    }
  }
  for (int round = until - JOB_DEPTH; round < until; round++)
    for (int c = 0; c < JOB_COLLECTIVES; c++)
      if (!end_run(c, round)) return 0;
  return 1;
}

static void end_stopped(void) {
  atomic_store(&job_shared->stopped_ns[self], df_now_ns());
  snprintf(job_shared->sentence[self], JOB_SENTENCE, "%s", dfcclGetLastError(ctx));
  for (int c = 0; c < JOB_COLLECTIVES; c++)
    for (int round = checked[c]; round < submitted[c]; round++) {
      while (atomic_load(&called[c][round]) == 0) df_nap();
      /* A run that failed may also have ended so on all others, or may stand there. */
      if (statuses[c][round] == dfcclSuccess) check(c, round);
      CHECK(statuses[c][round] == dfcclSuccess || statuses[c][round] == dfcclRemoteError,
            "collective %d, run %d: %s", c, round, df_test_result_name(statuses[c][round]));
    }
  df_finish(ctx);
  for (int c = 0; c < JOB_COLLECTIVES; c++)
    for (int round = 0; round < submitted[c]; round++)
      CHECK(atomic_load(&called[c][round]) == 1, "collective %d, run %d: %d callbacks", c, round,
            atomic_load(&called[c][round]));
}

dfcclConfig_t job_configure(job_membership membership) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.survive = job.survive;
  config.maxBlocks = job.blocks;
  config.membership = membership;
  if (job.blocks) df_tune("block_min", "4096");
  if (job.tunes) setenv("DFCCL_TUNE", "2", 1);
  if (job.preempts) df_tune("preempt_every", "1");
  return config;
}

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  dfcclConfig_t config = job_configure(told);
  df_random random = {job.seed * 31 + (uint64_t)rank};
  (void)arg;
  self = rank;
  if (job.any_part) setenv("DFCCL_SURVIVE_QUORUM", "none", 1);
  ctx = df_init(rank, ranks, id, &config);
  if (job.uses_again && ranks > 2) use_ids();
  job_be(ctx, rank);
  job_register(0);
  atomic_fetch_add(&job_shared->begun, 1);
  if (job_run(&random, job.rounds)) {
    atomic_store(&job_shared->outcome[rank], JOB_WENT_ON);
    df_finish(ctx);
  } else {
    end_stopped();
    atomic_store(&job_shared->outcome[rank], JOB_STOPPED);
  }
}

void job_draw(uint64_t seed, int ranks, int survive, df_random *random) {
  *random = (df_random){seed * 977};
  job = (job_shape){.seed = seed, .rounds = job.rounds, .patience_s = job.patience_s};
  job.ranks = ranks ? ranks : 2 + df_random_below(random, JOB_RANKS - 1);
  job.survive = survive ? survive : 1 + df_random_below(random, 2);
  job.blocks = df_random_chance(random, 30) ? 3 : 0;
  job.lends = df_random_chance(random, 30);
  job.preempts = df_random_chance(random, 15);
  job.tunes = df_random_chance(random, 20);
  job.uses_again = df_random_chance(random, 30);
}

void job_say_shape(void) {
  fprintf(stderr, "  blocks %d, lends %d, preempts %d, tunes %d, uses again %d\n", job.blocks,
          job.lends, job.preempts, job.tunes, job.uses_again);
}

void job_start(df_family *family) {
  memset(job_shared, 0, sizeof *job_shared);
  atomic_store(&job_shared->late_rank, -1);
  df_fork(family, job.ranks, job.patience_s, be_rank, NULL);
  while (atomic_load(&job_shared->begun) < job.ranks) df_nap();
}

void job_strike(int rank) {
  atomic_fetch_or(&job_shared->may_lose, 1u << rank);
  atomic_store(&job_shared->struck_ns[rank], df_now_ns());
}

/* ---- times */

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

void job_note(job_times *times, uint64_t ns) {
  uint64_t *more = realloc(times->ns, (size_t)(times->n + 1) * sizeof *more);
  CHECK(more != NULL, "no memory for times");
  times->ns = more;
  times->ns[times->n++] = ns;
}

void job_print(const job_times *times, const char *what) {
  if (times->n == 0) return;
  qsort(times->ns, (size_t)times->n, sizeof *times->ns, compare);
  printf("  %s: %d times, median %.2f ms, worst %.2f ms\n", what, times->n,
         (double)times->ns[times->n / 2] / 1e6, (double)times->ns[times->n - 1] / 1e6);
}
