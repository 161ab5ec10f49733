/* A rank of `dfccl-demo survive`. */
#include "demo_survive.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/clock.h"
#include "common/random.h"

enum { RUN_TIMEOUT_MS = 120000, NOBODY = -1, PENDING = -1 };

/* Elements of 8 bytes: 256 B to 256 KB. */
static const size_t counts[SURVIVE_COLLECTIVES] = {32, 128, 512, 2048, 8192, 32768};

/* One of the runs of a collective that are under way. */
typedef struct {
  uint64_t *send, *receive;
  uint64_t round;
  atomic_bool under_way;
  /* Written on the callback thread: */
  dfcclResult_t status;
  uint64_t members;        /* the members of the view in which the run ended */
  _Atomic int interrupted; /* the rank whose loss was announced while the run was under way */
} slot;

static survive_shared *shared;
static survive_record *mine;
static int self;
static dfcclContext_t context;
static slot slots[SURVIVE_COLLECTIVES][SURVIVE_DEPTH];
static uint64_t members;       /* the latest view's; callback thread only, once rounds have begun */
static survive_notice *latest; /* the latest loss or newcomer; NULL: none */
static uint64_t generation,
    first_round; /* processes that have joined; the round of the first run */
static atomic_int admit_status;

static _Noreturn void fail(const char *what, dfcclResult_t result) {
  df_tool_error("rank %d: %s: %s (%s)", self, what, dfcclGetErrorString(result),
                dfcclGetLastError(context));
  _exit(DF_TOOL_FAILED);
}

static void require(const char *what, dfcclResult_t result) {
  if (result != dfcclSuccess) fail(what, result);
}

static void add(_Atomic uint64_t *sum, uint64_t n) { atomic_fetch_add(sum, n); }

/* ---- Data */

/*
 * Element 0 of a contribution is the bit of its rank, so element 0 of a sum is the set of ranks
 * that have contributed. Element e is factor * e + term modulo 2^64, with an odd random factor:
 * a contribution that is misplaced, left out or counted twice changes the sum.
 */
typedef struct {
  uint64_t factor, term;
} contribution;

static contribution contribution_of(int rank, int c, uint64_t round) {
  const uint64_t seed = shared->options.seed;
  const uint64_t bits = df_tool_mix3(seed ^ round << 20, (uint64_t)rank, (uint64_t)c);
  return (contribution){df_tool_mix(bits) | 1, bits};
}

static void fill(int c, const slot *run) {
  const contribution one = contribution_of(self, c, run->round);
  run->send[0] = UINT64_C(1) << self;
  for (size_t e = 1; e < counts[c]; e++) run->send[e] = one.factor * e + one.term;
}

static uint64_t count_wrong(int c, const slot *run) {
  contribution sum = {0, 0};
  uint64_t wrong = run->receive[0] != run->members;
  for (int r = 0; r < shared->options.n_ranks; r++) {
    if (!(run->members >> r & 1)) continue;
    const contribution one = contribution_of(r, c, run->round);
    sum.factor += one.factor;
    sum.term += one.term;
  }
  for (size_t e = 1; e < counts[c]; e++) wrong += run->receive[e] != sum.factor * e + sum.term;
  return wrong;
}

/* Whether the run has ended in the same way here as on the other ranks, also on killed ones: with
 * the contributions of the same ranks, or failed. */
static bool agrees(int c, const slot *run) {
  const uint64_t set = run->status == dfcclSuccess ? run->members : 0;
  const uint64_t found = (run->round + 1) << 32 | df_tool_mix(set) >> 32;
  _Atomic uint64_t *place = &shared->outcomes[c][run->round % SURVIVE_WINDOW];
  uint64_t before = atomic_load(place);
  while (before >> 32 < found >> 32)
    if (atomic_compare_exchange_weak(place, &before, found)) return true;
  return before == found;
}

/* ---- Callbacks */

static void call_back(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  slot *run = arg;
  const int pending = atomic_load(&shared->victim);
  (void)id;
  run->status = status;
  run->members = members;
  atomic_store(&run->under_way, false);
  if (run->interrupted != NOBODY) atomic_fetch_sub(&mine->lost[run->interrupted].open, 1);
  if (status != dfcclSuccess) {
    if (pending != NOBODY) add(&mine->lost[pending].failed, 1);
    add(&mine->failed, 1);
    return;
  }
  add(&mine->runs, 1);
  if (pending != NOBODY && atomic_load(&mine->lost[pending].view_ns) == 0)
    add(&mine->lost[pending].kept, 1);
  if (run->interrupted != NOBODY) {
    add(&mine->lost[run->interrupted].repeated, 1);
    add(&mine->repeated, 1);
  }
  if (latest == NULL) return;
  uint64_t none = 0;
  atomic_compare_exchange_strong(&latest->next_ns, &none, df_tool_now_ns());
}

static void mark_runs(int lost) {
  for (int c = 0; c < SURVIVE_COLLECTIVES; c++)
    for (int d = 0; d < SURVIVE_DEPTH; d++) {
      slot *run = &slots[c][d];
      if (!atomic_load(&run->under_way)) continue;
      if (run->interrupted != NOBODY) atomic_fetch_sub(&mine->lost[run->interrupted].open, 1);
      run->interrupted = lost;
      atomic_fetch_add(&mine->lost[lost].open, 1);
    }
}

static void note_view(uint64_t view) {
  atomic_store(&latest->view, view);
  atomic_store(&latest->view_ns, df_tool_now_ns());
}

static void notify(dfcclContext_t of, const dfcclMembership_t *membership, void *arg) {
  (void)of;
  (void)arg;
  for (int i = 0; i < membership->nLost; i++) {
    members &= ~(UINT64_C(1) << membership->lost[i]);
    latest = &mine->lost[membership->lost[i]];
    atomic_store(&latest->reason, (int)membership->reasons[i]);
    note_view(membership->view);
    mark_runs(membership->lost[i]);
  }
  for (int i = 0; i < membership->nJoined; i++) {
    members |= UINT64_C(1) << membership->joined[i];
    latest = &mine->joined[membership->joined[i]];
    note_view(membership->view);
  }
}

static void admitted(dfcclContext_t of, dfcclResult_t status, void *arg) {
  (void)of;
  (void)arg;
  atomic_store(&admit_status, (int)status);
}

/* ---- The program */

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL); }

static dfcclConfig_t configure(void) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.timeoutMs = RUN_TIMEOUT_MS;
  config.survive = shared->options.survive;
  config.membership = notify;
  return config;
}

static void enter(void) {
  const dfcclConfig_t config = configure();
  while (!atomic_load(&shared->has_id)) nap();
  require("dfcclInit", dfcclInit(&context, shared->options.n_ranks, shared->id, self, &config));
}

static void register_all(void) {
  for (int c = 0; c < SURVIVE_COLLECTIVES; c++)
    require("dfcclRegisterAllReduce", dfcclRegisterAllReduce(context, (dfcclCollId_t)c, counts[c],
                                                             dfcclUint64, dfcclSum, NULL));
}

/* Half of the collectives run in place. */
static void make_buffers(void) {
  for (int c = 0; c < SURVIVE_COLLECTIVES; c++)
    for (int d = 0; d < SURVIVE_DEPTH; d++) {
      slot *run = &slots[c][d];
      run->receive = calloc(counts[c], sizeof *run->receive);
      run->send = c % 2 ? run->receive : calloc(counts[c], sizeof *run->send);
      if (run->send == NULL || run->receive == NULL) fail("buffers", dfcclOutOfMemory);
    }
}

static void submit(int c, uint64_t round) {
  slot *run = &slots[c][round % SURVIVE_DEPTH];
  run->round = round;
  run->interrupted = NOBODY;
  fill(c, run);
  atomic_store(&run->under_way, true);
  require("dfcclRunAllReduce",
          dfcclRunAllReduce(context, (dfcclCollId_t)c, run->send, run->receive, call_back, run));
}

static void finish(int c, uint64_t round) {
  slot *run = &slots[c][round % SURVIVE_DEPTH];
  const dfcclResult_t result = dfcclWaitRun(context, (dfcclCollId_t)c, round - first_round, -1);
  const bool may_fail = shared->options.survive == 2 && result == dfcclRemoteError;
  if (result != dfcclSuccess && !may_fail) fail("dfcclWaitRun", result);
  if (result == dfcclSuccess) add(&mine->wrong, count_wrong(c, run));
  if (!agrees(c, run)) add(&mine->wrong, 1);
}

/* Whether this rank may begin the round. One word has the latest round, the generation and the end,
 * so that all ranks end a generation after the same round. */
static bool begin(uint64_t round) {
  const uint64_t own = generation * SURVIVE_GENERATION;
  uint64_t gate = atomic_load(&shared->gate);
  while (gate >= own && gate < own + round)
    if (atomic_compare_exchange_weak(&shared->gate, &gate, own + round)) return true;
  return round <= gate % SURVIVE_GENERATION;
}

static uint64_t run_generation(df_tool_random *random) {
  int order[SURVIVE_COLLECTIVES];
  uint64_t round = first_round;
  for (; begin(round); round++) {
    df_tool_random_order(random, order, SURVIVE_COLLECTIVES);
    for (int i = 0; i < SURVIVE_COLLECTIVES; i++) {
      if (round - first_round >= SURVIVE_DEPTH) finish(order[i], round - SURVIVE_DEPTH);
      submit(order[i], round);
    }
  }
  const uint64_t left = round - first_round < SURVIVE_DEPTH ? round - first_round : SURVIVE_DEPTH;
  for (uint64_t r = round - left; r < round; r++)
    for (int c = 0; c < SURVIVE_COLLECTIVES; c++) finish(c, r);
  return round;
}

/* Takes a process in. It may fail to enter at first, because members have not detected a loss, and
 * tries again. */
static void admit(void) {
  require("dfcclGetJoinId", dfcclGetJoinId(context, &shared->join_ids[self]));
  atomic_store(&shared->has_join_id[self], 1);
  for (int status = PENDING; status != (int)dfcclSuccess;) {
    atomic_store(&admit_status, PENDING);
    require("dfcclAdmit", dfcclAdmit(context, admitted, NULL));
    while ((status = atomic_load(&admit_status)) == PENDING) nap();
    if (status != (int)dfcclSuccess && status != (int)dfcclRemoteError)
      fail("dfcclAdmit", (dfcclResult_t)status);
  }
  for (int c = 0; c < SURVIVE_COLLECTIVES; c++)
    require("dfcclDeregister", dfcclDeregister(context, (dfcclCollId_t)c));
}

/* Collectives are registered anew in each generation, so that the process that has joined is a
 * member of them. */
static _Noreturn void live(df_tool_random *random) {
  for (;;) {
    register_all();
    if (generation == 0) atomic_fetch_add(&shared->ready, 1);
    first_round = run_generation(random);
    if (atomic_load(&shared->gate) & SURVIVE_STOP) break;
    admit();
    generation++;
  }
  require("dfcclDestroy", dfcclDestroy(context));
  _exit(DF_TOOL_SUCCESS);
}

_Noreturn void demo_survive_rank(survive_shared *of, int rank) {
  shared = of;
  self = rank;
  mine = &shared->ranks[rank];
  members = ~UINT64_C(0) >> (64 - shared->options.n_ranks);
  df_tool_random random = {df_tool_mix3(shared->options.seed, (uint64_t)rank, 7)};
  make_buffers();
  enter();
  live(&random);
}

_Noreturn void demo_survive_newcomer(survive_shared *of, int host) {
  dfcclMembership_t view = DFCCL_MEMBERSHIP_INITIALIZER;
  shared = of;
  make_buffers();
  const dfcclConfig_t config = configure();
  while (!atomic_load(&shared->has_join_id[host])) nap();
  require("dfcclJoin", dfcclJoin(&context, &shared->join_ids[host], &config));
  require("dfcclGetRank", dfcclGetRank(context, &self, NULL));
  require("dfcclGetMembership", dfcclGetMembership(context, &view));
  mine = &shared->ranks[self];
  for (int i = 0; i < view.nMembers; i++) members |= UINT64_C(1) << view.members[i];
  latest = &mine->joined[self];
  note_view(view.view);
  atomic_store(&shared->newcomer, self);
  df_tool_random random = {df_tool_mix3(shared->options.seed, (uint64_t)self, 8)};
  generation = atomic_load(&shared->gate) / SURVIVE_GENERATION;
  first_round = shared->first_round;
  live(&random);
}
