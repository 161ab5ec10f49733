#include "doomed.h"

#include <string.h>

bool doomed_explains(const doomed *d, dfcclResult_t result) {
  if (result == dfcclSuccess) return true;
  return d->phase != NULL &&
         result == (d->rank == d->phase->aborter ? dfcclAborted : dfcclRemoteError);
}

static void expect(const doomed *d, const char *what, dfcclResult_t result) {
  CHECK(doomed_explains(d, result), "rank %d: %s of a collective that rank %d aborts: %s: \"%s\"",
        d->rank, what, d->phase->aborter, df_test_result_name(result), dfcclGetLastError(NULL));
}

static void on_end(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  doomed_run *run = arg;
  (void)id;
  run->status = status;
  atomic_fetch_add(&run->calls, 1);
}

void doomed_begin(doomed *d, const program *p, int phase, dfcclContext_t ctx, int rank) {
  memset(d, 0, sizeof *d);
  if (p->phase[phase].doomed_runs == 0) return;
  d->phase = &p->phase[phase];
  d->ctx = ctx;
  d->rank = rank;
  d->id = 0xDEAD0000ull + (dfcclCollId_t)phase;
  d->coll = df_simple(d->phase->doomed_count, p->ranks);
  OK(df_register(ctx, d->id, &d->coll));
  for (int i = 0; i < d->phase->doomed_runs; i++)
    df_buffers_make(&d->runs[i].buffers, ctx, &d->coll, rank, (uint64_t)i, 0);
}

void doomed_submit(doomed *d) {
  doomed_run *record = &d->runs[d->submitted];
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = record->buffers.send;
  run.recvBuf = record->buffers.recv;
  run.callback = on_end;
  run.arg = record;
  dfcclResult_t result = dfcclRun(d->ctx, d->id, &run);
  expect(d, "dfcclRun", result);
  record->accepted = result == dfcclSuccess;
  CHECK(!record->accepted || run.run == (uint64_t)d->submitted, "run %d is numbered %d",
        d->submitted, (int)run.run);
  CHECK(!record->accepted || d->submitted == 0 || d->runs[d->submitted - 1].accepted,
        "run %d is accepted after a refused one", d->submitted);
  d->submitted++;
}

void doomed_abort(doomed *d) { OK(dfcclAbortCollectives(d->ctx, &d->id, 1)); }

void doomed_end(doomed *d) {
  if (d->phase == NULL) return;
  bool has_failed = false;
  df_waiting_for("the runs of an aborted collective");
  for (int i = 0; i < d->phase->doomed_runs; i++) {
    doomed_run *run = &d->runs[i];
    if (run->accepted) {
      dfcclResult_t result = dfcclWaitRun(d->ctx, d->id, (uint64_t)i, -1);
      CHECK(atomic_load(&run->calls) == 1, "%d callbacks of run %d", atomic_load(&run->calls), i);
      CHECK(result == run->status, "dfcclWaitRun says %s of run %d, its callback %s",
            df_test_result_name(result), i, df_test_result_name(run->status));
      expect(d, "a run", result);
      has_failed = has_failed || result != dfcclSuccess;
      CHECK(!has_failed || result != dfcclSuccess, "run %d succeeded after a failed one", i);
      if (result == dfcclSuccess) df_buffers_check(&run->buffers);
    }
    df_buffers_free(&run->buffers);
  }
  expect(d, "dfcclWaitAll", dfcclWaitAll(d->ctx)); /* later failures no longer name it */
  df_waiting_for(NULL);
  OK(dfcclDeregister(d->ctx, d->id));
}
