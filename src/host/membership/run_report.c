#include "host/membership/run_report.h"

#include <stdlib.h>

#include "host/state/registry.h"

static int compare_runs(const void *a, const void *b) {
  const df_view_runs *left = a, *right = b;
  if (left->collective != right->collective) return left->collective < right->collective ? -1 : 1;
  return (left->registration > right->registration) - (left->registration < right->registration);
}

/* NULL: no memory. */
static df_view_runs *add_entry(df_run_report *report, uint32_t n) {
  if (n == report->capacity) {
    const uint32_t capacity = n ? 2 * n : 64;
    df_view_runs *longer = realloc(report->entries, capacity * sizeof *longer);
    if (longer == NULL) return NULL;
    report->entries = longer;
    report->capacity = capacity;
  }
  return &report->entries[n];
}

static uint32_t count_survivors(const dfcclContext_t context, const uint32_t *ranks, uint32_t n,
                                uint64_t since) {
  uint32_t survivors = 0;
  for (uint32_t i = 0; i < n; i++)
    survivors += df_is_registered_rank(context->survival, ranks[i], since) &&
                 !context->survival->suspected[ranks[i]];
  return survivors;
}

static df_view_runs entry_of(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED {
  const df_coll_survival *survival = coll->survival;
  uint64_t done = survival->with_data;
  const df_failed_range *last =
      survival->n_failed ? &survival->failed[survival->n_failed - 1] : NULL;
  uint64_t submitted = coll->runs.submitted;
  if (last) done = DF_MAX(done, last->until); /* they fail when they are submitted */
  submitted = DF_MAX(submitted, done);
  if (coll->failure.failed != dfcclSuccess || df_run_report_leaves_out(coll))
    done = DF_VIEW_TAKEN_BACK;
  return (df_view_runs){.collective = coll->id,
                        .registration = survival->registration,
                        .survivors =
                            count_survivors(context, survival->ranks, survival->n, survival->since),
                        .done = done,
                        .submitted = submitted};
}

/* An announcement of a peer for a registration that this rank has deregistered already. */
static int is_taken_back(dfcclContext_t context, const df_remote *remote,
                         uint32_t *survivors) DF_RANK_LOCKED {
  int has_suspect = 0;
  *survivors = 0;
  if (!remote->met || remote->bound || remote->deregistered) return 0;
  if (!df_is_member(context->survival, remote->peer)) return 0;
  const df_coll *coll = df_find(context, remote->id);
  if (coll && coll->survival->registration == remote->registration) return 0;
  for (uint32_t i = 0; i < remote->announcement.group_size; i++) {
    const uint32_t rank =
        remote->ranks ? remote->ranks[i] : remote->first_rank + i * remote->announcement.group_step;
    if (rank >= context->n_ranks) return 0;
    has_suspect |= context->survival->suspected[rank] &&
                   df_is_registered_rank(context->survival, rank, remote->since);
    *survivors += count_survivors(context, &rank, 1, remote->since);
  }
  return has_suspect;
}

/* Appends an entry for each, and each once. Returns the number of entries; UINT32_MAX: no memory.
 */
static uint32_t add_taken_back(dfcclContext_t context, df_run_report *report,
                               uint32_t n) DF_RANK_LOCKED {
  ck_hs_iterator_t iterator = CK_HS_ITERATOR_INITIALIZER;
  void *entry;
  while (ck_hs_next(&context->registry.remotes, &iterator, &entry))
    for (const df_remote *remote = entry; remote; remote = remote->next) {
      uint32_t survivors;
      if (!is_taken_back(context, remote, &survivors)) continue;
      df_view_runs *runs = add_entry(report, n);
      if (runs == NULL) return UINT32_MAX;
      *runs = (df_view_runs){.collective = remote->id,
                             .registration = remote->registration,
                             .survivors = survivors,
                             .done = DF_VIEW_TAKEN_BACK};
      n++;
    }
  return n;
}

/* Runs that will fail when this rank registers their collective have been decided by a view, and no
 * later one can have ended without this rank. So the reports of other members count, as if this
 * rank had deregistered it already. The rank may be no member of the group. That changes nothing,
 * because each member has the same outcome. */
static uint32_t add_decided(const dfcclContext_t context, df_run_report *report,
                            uint32_t n) DF_RANK_LOCKED {
  const df_survival *survival = context->survival;
  for (uint32_t i = 0; i < survival->n_outcomes; i++) {
    const df_view_outcome *outcome = &survival->outcomes[i];
    if (!df_survival_is_to_come(survival, outcome)) continue;
    df_view_runs *runs = add_entry(report, n);
    if (runs == NULL) return UINT32_MAX;
    *runs = (df_view_runs){.collective = outcome->collective,
                           .registration = outcome->registration,
                           .survivors = 1,
                           .done = DF_VIEW_TAKEN_BACK};
    n++;
  }
  return n;
}

static uint32_t unite(df_view_runs *runs, uint32_t n) {
  uint32_t kept = 0;
  if (n > 1) qsort(runs, n, sizeof *runs, compare_runs);
  for (uint32_t i = 0; i < n; i++) {
    if (kept > 0 && compare_runs(&runs[kept - 1], &runs[i]) == 0)
      runs[kept - 1].survivors = DF_MAX(runs[kept - 1].survivors, runs[i].survivors);
    else
      runs[kept++] = runs[i];
  }
  return kept;
}

uint32_t df_run_report_make(dfcclContext_t context, df_run_report *report) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->survival == NULL || !df_coll_has_suspect(context, coll)) continue;
    df_view_runs *entry = add_entry(report, n);
    if (entry == NULL) return UINT32_MAX;
    *entry = entry_of(context, coll);
    n++;
  }
  n = add_taken_back(context, report, n);
  if (n != UINT32_MAX) n = add_decided(context, report, n);
  return n == UINT32_MAX ? n : unite(report->entries, n);
}
