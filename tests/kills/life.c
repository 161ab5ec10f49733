#include "life.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults/inject.h"
#include "moves.h"
#include "support/kinds.h"
#include "support/leftovers.h"
#include "support/processes.h"

typedef struct {
  atomic_int calls, status;
  uint64_t run;
  void *send, *recv;
  bool accepted;
  struct rank_life *life;
} run_record;

typedef struct rank_life {
  const kills_job *job;
  kills_stage *stage;
  int rank, life;
  bool is_victim;
  dfcclContext_t ctx;
  dfcclResult_t error; /* the first error */
  df_random random;
  long
      steps; /* calls of the library until the victim's death between two of them; 0: not counted */
  run_record runs[KILLS_COLLECTIVES_MAX][KILLS_DEPTH_MAX];
  uint64_t submitted[KILLS_COLLECTIVES_MAX];
} rank_life;

int kills_progress(int life, kills_phase phase) { return life * KILLS_PHASES + (int)phase; }

/* ---- dying ---- */

static kills_stage *stage_of_victim;

static void die(void) {
  kills_stage *stage = stage_of_victim;
  atomic_store(&stage->killed_ns, df_now_ns());
  atomic_store(&stage->died_in, atomic_load(&stage->progress));
  atomic_store(&stage->killed, 1);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static void enter_phase(rank_life *l, kills_phase phase) {
  const kills_job *job = l->job;
  if (!l->is_victim) return;
  atomic_store(&l->stage->progress, kills_progress(l->life, phase));
  if (phase != job->phase || l->life != job->life) return;
  if (job->way == KILLS_BY_CALL) df_fault_arm_death(job->position, die);
  if (job->way == KILLS_BY_MOVE) kills_arm_move(job->position, die);
  if (job->way == KILLS_BY_STEP) l->steps = job->position;
}

static void step(rank_life *l) {
  if (l->steps > 0 && --l->steps == 0) die();
}

/* ---- errors ---- */

static void notice(kills_stage *stage, int rank) {
  unsigned long long none = 0;
  atomic_compare_exchange_strong(&stage->noticed_ns[rank], &none, df_now_ns());
}

/* If a rank died during dfcclInit, the first rank to leave need not be the victim: the rank that
 * noticed the death first has left, and the others may have finished dfcclInit meanwhile. */
static bool is_named(const rank_life *l, const char *sentence) {
  char words[32];
  for (int rank = 0; rank < l->job->ranks; rank++) {
    bool missing = !atomic_load(&l->stage->came[rank]);
    if (rank != l->job->victim && !missing) continue;
    snprintf(words, sizeof words, "rank %d died", rank);
    if (strstr(sentence, words) != NULL) return true;
  }
  return false;
}

static void fail(rank_life *l, const char *call, dfcclResult_t result) {
  const char *sentence = dfcclGetLastError(l->ctx);
  notice(l->stage, l->rank);
  l->error = result;
  CHECK(l->job->kills, "%s: %s although nobody is killed: \"%s\"", call,
        df_test_result_name(result), sentence);
  CHECK(atomic_load(&l->stage->killed) || l->job->phase == KILLS_INIT,
        "%s: %s before anybody was killed: \"%s\"", call, df_test_result_name(result), sentence);
  CHECK(atomic_load(&l->stage->died_in) % KILLS_PHASES != KILLS_LEFT,
        "%s: %s although rank %d had left in order before it died: \"%s\"", call,
        df_test_result_name(result), l->job->victim, sentence);
  CHECK(result == dfcclRemoteError, "%s: %s: \"%s\"", call, df_test_result_name(result), sentence);
  CHECK(is_named(l, sentence), "%s: the sentence does not name rank %d as dead: \"%s\"", call,
        l->job->victim, sentence);
}

/* Makes the call unless an earlier one has failed. */
#define ACT(l, call)                                                                               \
  do {                                                                                             \
    step(l);                                                                                       \
    df_waiting_for(#call);                                                                         \
    dfcclResult_t result_ = (l)->error == dfcclSuccess ? (call) : dfcclSuccess;                    \
    df_waiting_for(NULL);                                                                          \
    if (result_ != dfcclSuccess) fail(l, #call, result_);                                          \
  } while (0)

/* ---- collectives ---- */

static bool takes_part(const rank_life *l, int c) {
  return df_position(&l->job->collectives[c].coll, l->rank) >= 0;
}

static dfcclResult_t register_one(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = coll->group;
  options.nRanks = coll->group == NULL ? 0 : coll->members;
  return df_register_kind(ctx, id, coll, &options);
}

/* The collectives of which this rank is a member, in an order of its own. */
static int shuffled(rank_life *l, int *order) {
  int n = 0;
  for (int c = 0; c < l->job->n_collectives; c++)
    if (takes_part(l, c)) order[n++] = c;
  df_random_shuffle(&l->random, order, n);
  return n;
}

static void register_all(rank_life *l) {
  int order[KILLS_COLLECTIVES_MAX], n = shuffled(l, order);
  for (int i = 0; i < n; i++)
    ACT(l, register_one(l->ctx, (dfcclCollId_t)order[i], &l->job->collectives[order[i]].coll));
}

static void deregister_all(rank_life *l) {
  int order[KILLS_COLLECTIVES_MAX], n = shuffled(l, order);
  for (int i = 0; i < n; i++) ACT(l, dfcclDeregister(l->ctx, (dfcclCollId_t)order[i]));
}

/* ---- memory ---- */

static size_t room(size_t bytes) { return (bytes + 127) / 64 * 64; }

static void make_buffers(rank_life *l, int c) {
  const kills_collective *k = &l->job->collectives[c];
  size_t element = df_type_bytes(k->coll.type);
  size_t send = room(df_send_elements(&k->coll) * element);
  size_t recv = k->in_place ? 0 : room(df_recv_elements(&k->coll) * element);
  for (int d = 0; d < l->job->depth; d++) {
    void *memory = NULL;
    if (k->lent)
      ACT(l, dfcclMemAlloc(l->ctx, &memory, send + recv));
    else
      CHECK((memory = aligned_alloc(64, send + recv)) != NULL, "no memory");
    if (memory == NULL) return;
    l->runs[c][d].life = l;
    l->runs[c][d].send = memory;
    l->runs[c][d].recv = k->in_place ? memory : (char *)memory + send;
  }
}

/* with_lent: frees lent memory too; otherwise the context has already freed it. */
static void free_buffers(rank_life *l, bool with_lent) {
  for (int c = 0; c < l->job->n_collectives; c++)
    for (int d = 0; d < l->job->depth; d++) {
      run_record *run = &l->runs[c][d];
      if (!l->job->collectives[c].lent)
        free(run->send);
      else if (with_lent && run->send != NULL)
        ACT(l, dfcclMemFree(l->ctx, run->send));
      run->send = NULL;
    }
}

/* ---- runs ---- */

static void count_callback(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  run_record *run = arg;
  (void)coll;
  if (status != dfcclSuccess) notice(run->life->stage, run->life->rank);
  atomic_store(&run->status, (int)status);
  atomic_fetch_add(&run->calls, 1);
}

static void submit(rank_life *l, int c, run_record *run) {
  const df_collective *coll = &l->job->collectives[c].coll;
  int position = df_position(coll, l->rank);
  run->run = l->submitted[c]++;
  if (df_sends(coll, position))
    df_contribution(coll, position, run->run, 0, df_send_elements(coll), run->send);
  atomic_store(&run->calls, 0);
  run->accepted = false;
  ACT(l,
      df_run_kind(l->ctx, (dfcclCollId_t)c, coll->kind, run->send, run->recv, count_callback, run));
  run->accepted = l->error == dfcclSuccess;
  if (run->accepted) atomic_fetch_add(&l->stage->accepted, 1);
}

/* Waits in one of the ways that a program may choose. */
static void await_round(rank_life *l) {
  int order[KILLS_COLLECTIVES_MAX], n = shuffled(l, order);
  if (df_random_chance(&l->random, 30)) ACT(l, dfcclDeviceSynchronize(l->ctx));
  if (df_random_chance(&l->random, 50))
    for (int i = 0; i < n; i++) ACT(l, dfcclWait(l->ctx, (dfcclCollId_t)order[i]));
  ACT(l, dfcclWaitAll(l->ctx));
}

/* After a death, accepted runs end without further calls. */
static void await_the_rest(rank_life *l) {
  df_waiting_for("the outstanding runs, after a death (dfcclWaitAll)");
  dfcclResult_t result = dfcclWaitAll(l->ctx);
  df_waiting_for(NULL);
  CHECK(result == dfcclSuccess || result == dfcclRemoteError, "dfcclWaitAll after a death: %s",
        df_test_result_name(result));
}

static void check_run(rank_life *l, int c, run_record *run) {
  const df_collective *coll = &l->job->collectives[c].coll;
  char sentence[512], what[256];
  int calls = atomic_load(&run->calls), position = df_position(coll, l->rank);
  df_describe(coll, what, sizeof what);
  CHECK(calls == (run->accepted ? 1 : 0), "%s, run %llu: %d callbacks, %saccepted", what,
        (unsigned long long)run->run, calls, run->accepted ? "" : "not ");
  if (!run->accepted) return;
  run->accepted = false;
  atomic_store(&run->calls, 0);
  dfcclResult_t status = (dfcclResult_t)atomic_load(&run->status);
  atomic_fetch_add(status == dfcclSuccess ? &l->stage->succeeded : &l->stage->failed, 1);
  CHECK(status == dfcclSuccess || (status == dfcclRemoteError && l->error != dfcclSuccess),
        "%s, run %llu: %s", what, (unsigned long long)run->run, df_test_result_name(status));
  if (status != dfcclSuccess || !df_receives(coll, position)) return;
  CHECK(df_matches(coll, position, run->run, run->recv, sentence, sizeof sentence),
        "%s, run %llu, which succeeded: %s", what, (unsigned long long)run->run, sentence);
}

static void check_runs(rank_life *l) {
  for (int c = 0; c < l->job->n_collectives; c++)
    for (int d = 0; d < l->job->depth && takes_part(l, c); d++) check_run(l, c, &l->runs[c][d]);
}

static void run_round(rank_life *l) {
  int order[KILLS_COLLECTIVES_MAX];
  for (int d = 0; d < l->job->depth; d++) {
    int n = shuffled(l, order);
    for (int i = 0; i < n && l->error == dfcclSuccess; i++)
      submit(l, order[i], &l->runs[order[i]][d]);
  }
  await_round(l);
  if (l->error != dfcclSuccess) await_the_rest(l);
  /* The remaining callbacks, which the failing wait did not wait for, have returned by then. */
  check_runs(l);
}

/* ---- the whole life ---- */

static void live_once(rank_life *l) {
  memset(l->submitted, 0, sizeof l->submitted);
  enter_phase(l, KILLS_REGISTER);
  register_all(l);
  enter_phase(l, KILLS_MEMORY);
  for (int c = 0; c < l->job->n_collectives && l->error == dfcclSuccess; c++)
    if (takes_part(l, c)) make_buffers(l, c);
  enter_phase(l, KILLS_LINKS);
  for (int round = 0; round < l->job->rounds && l->error == dfcclSuccess; round++) {
    run_round(l);
    if (round == 0) enter_phase(l, KILLS_RUNS);
  }
  enter_phase(l, KILLS_DEREGISTER);
  deregister_all(l);
  enter_phase(l, KILLS_FREE);
  if (l->error == dfcclSuccess) free_buffers(l, true);
}

/* The number of the library's shared memory segments that this process maps or has a descriptor
 * of. */
static int shared_memories(void) {
  char line[512], path[300], target[256];
  int count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    count += strstr(line, "memfd:dfccl") != NULL;
  if (maps != NULL) fclose(maps);
  DIR *descriptors = opendir("/proc/self/fd");
  for (const struct dirent *e; descriptors != NULL && (e = readdir(descriptors)) != NULL;) {
    snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    count += strstr(target, "memfd:dfccl") != NULL;
  }
  if (descriptors != NULL) closedir(descriptors);
  return count;
}

static void expect_nothing_left(const df_belongings *before) {
  CHECK(shared_memories() == 0, "%d pieces of shared memory are left", shared_memories());
  df_waiting_for("the library's threads, descriptors and memory to go");
  EVENTUALLY(df_thread_count() <= before->threads);
  EVENTUALLY(df_descriptor_count() <= before->descriptors);
  EVENTUALLY(df_fault_live_blocks() <= before->blocks);
}

static bool join(rank_life *l, const dfcclUniqueId *id) {
  dfcclConfig_t config = df_config();
  config.maxBlocks = l->job->max_blocks;
  df_waiting_for("dfcclInit");
  dfcclResult_t result = dfcclInit(&l->ctx, l->job->ranks, *id, l->rank, &config);
  df_waiting_for(NULL);
  if (result == dfcclSuccess) {
    df_watch(l->ctx);
    atomic_store(&l->stage->came[l->rank], 1);
    return true;
  }
  const char *sentence = dfcclGetLastError(NULL);
  notice(l->stage, l->rank);
  CHECK(l->job->kills && l->job->phase == KILLS_INIT, "dfcclInit: %s: \"%s\"",
        df_test_result_name(result), sentence);
  CHECK(result == dfcclTimeout || result == dfcclRemoteError, "dfcclInit: %s: \"%s\"",
        df_test_result_name(result), sentence);
  bool is_explained = strstr(sentence, "rank") != NULL || strstr(sentence, "unique id") != NULL;
  CHECK(is_explained && l->ctx == NULL, "dfcclInit: \"%s\"", sentence);
  return false;
}

static bool all_came(const rank_life *l) {
  for (int rank = 0; rank < l->job->ranks; rank++)
    if (!atomic_load(&l->stage->came[rank])) return false;
  return true;
}

/* Every call on the broken context is refused at once, for the same reason. */
static void expect_broken(rank_life *l) {
  dfcclResult_t result = dfcclRegisterAllReduce(l->ctx, 999, 1, dfcclInt32, dfcclSum, NULL);
  fail(l, "dfcclRegisterAllReduce after a death", result);
}

void kills_live(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const kills_scene *scene = arg;
  const kills_job *job = scene->job;
  (void)ranks;
  rank_life *l = calloc(1, sizeof *l);
  CHECK(l != NULL, "no memory");
  l->job = job;
  l->stage = stage_of_victim = scene->stage;
  l->rank = rank;
  l->is_victim = job->kills && rank == job->victim;
  l->random.state = job->seed * 64 + (uint64_t)rank;
  df_belongings before = df_take_stock();
  enter_phase(l, KILLS_INIT);
  step(l);
  bool came = join(l, id);
  if (came) {
    /* Other ranks that are still in dfcclInit may have to wait for its time-out, so such jobs have
     * a short one. */
    if (l->is_victim && job->phase != KILLS_INIT) EVENTUALLY(all_came(l));
    for (l->life = 0; l->life < job->lives && l->error == dfcclSuccess; l->life++) live_once(l);
    l->life = job->lives - 1;
    if (l->error != dfcclSuccess) expect_broken(l);
    enter_phase(l, KILLS_DESTROY);
    df_finish(l->ctx);
    step(l);
    enter_phase(l, KILLS_LEFT);
    check_runs(l);
    free_buffers(l, false);
  }
  if (l->is_victim) die();
  /* The root of a job that did not form may exist for some seconds. */
  if (came) expect_nothing_left(&before);
  free(l);
}
