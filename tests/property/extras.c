#include "extras.h"

#include <string.h>

/* The same as dfcclSum, so that the reference has the result. */
static void add(void *inout, const void *in, size_t count, dfcclDataType_t type, void *arg) {
  CHECK(type == dfcclUint64 && arg == NULL, "type %d", (int)type);
  uint64_t *left = inout;
  const uint64_t *right = in;
  for (size_t i = 0; i < count; i++) left[i] += right[i];
}

static void on_end(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  extra_run *run = arg;
  CHECK(status == dfcclSuccess && id == run->owner->id, "an extra run: %s: \"%s\"",
        df_test_result_name(status), dfcclGetLastError(run->owner->ctx));
  atomic_fetch_add(&run->calls, 1);
}

static void register_even(extra *e) {
  const program_extra *shared = e->shared;
  e->local = shared->even;
  if (shared->form == EXTRA_USER_OPERATOR)
    OK(dfcclRedOpCreate(e->ctx, &e->local.op, add, NULL, shared->commutes));
  OK(df_register(e->ctx, e->id, &e->local));
  /* The collective keeps the operator. */
  if (shared->form == EXTRA_USER_OPERATOR) OK(dfcclRedOpDestroy(e->ctx, e->local.op));
}

static bool has_parts(const program_extra *shared) {
  return shared->form == EXTRA_VECTOR || shared->form == EXTRA_DYNAMIC;
}

static void register_dynamic(const extra *e) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = e->shared->group;
  options.nRanks = e->shared->members;
  OK(dfcclRegisterAllToAllDynamic(e->ctx, e->id, e->shared->most, e->shared->vector.type,
                                  &options));
}

static void submit_dynamic(const extra *e, extra_run *run, dfcclCallback_t callback) {
  dfcclRun_t given = DFCCL_RUN_INITIALIZER;
  given.sendBuf = run->part.send;
  given.recvBuf = run->part.recv;
  given.sendCounts = run->part.sends;
  given.sendDispls = run->part.send_at;
  given.recvCounts = run->got;
  given.recvDispls = run->part.recv_at;
  given.callback = callback;
  given.arg = run;
  OK(dfcclRun(e->ctx, e->id, &given));
}

static int random_flags(df_random *random) {
  int flags = 0;
  if (df_random_chance(random, 35)) flags |= DF_IN_PLACE;
  if (df_random_chance(random, 25)) flags |= DF_ODD_OFFSET;
  return flags;
}

void extra_begin(extra *e, const program *p, int phase, int which, dfcclContext_t ctx, int rank,
                 df_random *random) {
  const program_extra *shared = &p->phase[phase].extra[which];
  const df_collective group = {.members = shared->members, .group = shared->group};
  const int position = df_position(&group, rank);
  memset(e, 0, sizeof *e);
  if (position < 0) return;
  e->shared = shared;
  e->ctx = ctx;
  e->id = 0xE0000000ull + (dfcclCollId_t)(phase * EXTRAS_MAX + which);
  if (!has_parts(shared)) register_even(e);
  for (int i = 0; i < shared->runs; i++) {
    extra_run *run = &e->runs[i];
    run->owner = e;
    run->with_callback = df_random_chance(random, 70);
    if (has_parts(shared))
      df_vector_make(&run->part, &shared->vector, position, (uint64_t)i,
                     df_random_chance(random, 35));
    else
      df_buffers_make(&run->buffers, ctx, &shared->even, position, (uint64_t)i,
                      random_flags(random));
  }
  if (shared->form == EXTRA_VECTOR) OK(df_vector_register(ctx, e->id, &e->runs[0].part));
  if (shared->form == EXTRA_DYNAMIC) register_dynamic(e);
}

void extra_submit(extra *e) {
  extra_run *run = &e->runs[e->submitted++];
  dfcclCallback_t callback = run->with_callback ? on_end : NULL;
  if (e->shared->form == EXTRA_DYNAMIC)
    submit_dynamic(e, run, callback);
  else if (e->shared->form == EXTRA_VECTOR)
    OK(df_vector_run(e->ctx, e->id, e->shared->vector.kind, run->part.send, run->part.recv,
                     callback, run));
  else
    OK(df_run(e->ctx, e->id, e->local.kind, run->buffers.send, run->buffers.recv, callback, run));
}

void extra_end(extra *e) {
  if (e->shared == NULL) return;
  df_waiting_for("the runs of an extra collective");
  OK(dfcclWait(e->ctx, e->id));
  df_waiting_for(NULL);
  for (int i = 0; i < e->shared->runs; i++) {
    extra_run *run = &e->runs[i];
    CHECK(atomic_load(&run->calls) == run->with_callback, "%d callbacks of one extra run",
          atomic_load(&run->calls));
    for (int k = 0; e->shared->form == EXTRA_DYNAMIC && k < e->shared->members; k++)
      CHECK(run->got[k] == run->part.receives[k], "%zu elements from position %d, and told %zu",
            run->part.receives[k], k, run->got[k]);
    if (has_parts(e->shared)) {
      df_vector_check(&run->part);
      df_vector_free(&run->part);
    } else {
      df_buffers_check(&run->buffers);
      df_buffers_free(&run->buffers);
    }
  }
  OK(dfcclDeregister(e->ctx, e->id));
}
