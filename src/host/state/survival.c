#include "host/state/survival.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/service.h"
#include "host/state/registry.h"

dfcclResult_t df_survival_open(dfcclContext_t context, int mode) {
  df_survival *survival = calloc(1, sizeof *survival);
  if (survival) {
    survival->lost_in = calloc(context->n_ranks, sizeof *survival->lost_in);
    survival->joined_in = calloc(context->n_ranks, sizeof *survival->joined_in);
    survival->suspected = calloc(context->n_ranks, 1);
  }
  context->survival = survival;
  if (survival == NULL || survival->lost_in == NULL || survival->joined_in == NULL ||
      survival->suspected == NULL) {
    df_survival_close(context);
    return df_fail(dfcclOutOfMemory, "no memory for the members of %u ranks", context->n_ranks);
  }
  survival->reruns = mode == 1;
  survival->view = survival->told = 1;
  return dfcclSuccess;
}

void df_survival_close(dfcclContext_t context) {
  df_survival *survival = context->survival;
  if (survival == NULL) return;
  free(survival->lost_in);
  free(survival->joined_in);
  free(survival->suspected);
  free(survival->ids);
  free(survival->outcomes);
  free(survival);
  context->survival = NULL;
}

void df_survival_note_news(dfcclContext_t context) {
  context->survival->has_news = 1;
  df_service_wake(&context->control);
}

/* ---- registrations of an id */

static df_id_count *place_of(df_id_count *ids, uint32_t capacity, dfcclCollId_t id,
                             uint32_t group) {
  const uint64_t hash = (id ^ (uint64_t)group << 32) * 0x9e3779b97f4a7c15ull;
  uint32_t at = (uint32_t)(hash >> 32) & (capacity - 1);
  while (ids[at].n != 0 && (ids[at].id != id || ids[at].group != group))
    at = (at + 1) & (capacity - 1);
  return &ids[at];
}

static int grow(df_survival *survival) {
  const uint32_t capacity = survival->ids_capacity ? 2 * survival->ids_capacity : 64;
  df_id_count *larger = calloc(capacity, sizeof *larger);
  if (larger == NULL) return 0;
  for (uint32_t i = 0; i < survival->ids_capacity; i++)
    if (survival->ids[i].n)
      *place_of(larger, capacity, survival->ids[i].id, survival->ids[i].group) = survival->ids[i];
  free(survival->ids);
  survival->ids = larger;
  survival->ids_capacity = capacity;
  return 1;
}

/* FNV-1a */
static uint32_t hash_of(const uint32_t *ranks, uint32_t n, uint64_t since) {
  uint32_t hash = 2166136261u;
  for (uint32_t i = 0; i < n; i++)
    for (int byte = 0; byte < 2; byte++) hash = (hash ^ (ranks[i] >> (8 * byte) & 255)) * 16777619u;
  for (; since; since >>= 8) hash = (hash ^ (uint32_t)(since & 255)) * 16777619u;
  return hash;
}

enum { ORDINAL_BITS = 8 };

/* Counts the registration. 0: no memory. */
static int count_id(df_survival *survival, const df_coll *coll, uint32_t *registration) {
  const uint32_t group = hash_of(coll->ranks, coll->n, survival->admitted_in);
  if (2 * (survival->n_ids + 1) > survival->ids_capacity && !grow(survival)) return 0;
  df_id_count *count = place_of(survival->ids, survival->ids_capacity, coll->id, group);
  if (count->n == 0) {
    *count = (df_id_count){.id = coll->id, .group = group, .n = 1};
    survival->n_ids++;
  }
  *registration = group << ORDINAL_BITS | ((count->n++ - 1) & ((1u << ORDINAL_BITS) - 1));
  return 1;
}

void df_coll_survival_undo(df_survival *survival, const df_coll *coll) {
  const uint32_t group = hash_of(coll->ranks, coll->n, coll->survival->since);
  place_of(survival->ids, survival->ids_capacity, coll->id, group)->n--;
}

int df_survival_keep_outcome(df_survival *survival, const df_view_outcome *outcome) {
  df_view_outcome *longer =
      realloc(survival->outcomes, (survival->n_outcomes + 1) * sizeof *longer);
  if (longer == NULL) return 0;
  survival->outcomes = longer;
  survival->outcomes[survival->n_outcomes] = *outcome;
  survival->outcomes[survival->n_outcomes++].reserved = (uint32_t)survival->view;
  return 1;
}

int df_survival_is_to_come(const df_survival *survival, const df_view_outcome *outcome) {
  const uint32_t most = 1u << ORDINAL_BITS;
  uint32_t made = 0;
  for (uint32_t i = 0; i < survival->ids_capacity; i++) {
    const df_id_count *count = &survival->ids[i];
    if (count->n && count->id == outcome->collective &&
        count->group << ORDINAL_BITS >> ORDINAL_BITS == outcome->registration >> ORDINAL_BITS)
      made = count->n - 1;
  }
  return (outcome->registration - made) % most < most / 2;
}

/* ---- a collective */

dfcclResult_t df_survival_check(const dfcclContext_t context, const df_coll *coll) {
  if (context->survival->admits)
    return df_fail(dfcclInvalidUsage,
                   "collective %" PRIu64
                   " was registered before the callback of dfcclAdmit was called: it is not known "
                   "yet whether a process joins",
                   coll->id);
  if (coll->varying == DF_VARIES_BY_PAIR)
    return df_fail(dfcclInvalidUsage,
                   "collective %" PRIu64
                   " is an AllToAllDynamic, which cannot go on without a lost rank yet "
                   "(config.survive is %d)",
                   coll->id, context->survival->reruns ? 1 : 2);
  return dfcclSuccess;
}

static df_list_item *copy_items(const df_list_item *items, uint32_t n) {
  df_list_item *copy = malloc(DF_MAX(n, 1u) * sizeof *copy);
  if (copy && n) memcpy(copy, items, n * sizeof *copy);
  return copy;
}

void df_coll_survival_free(df_coll_survival *survival) {
  if (survival == NULL) return;
  free(survival->ranks);
  free((void *)(uintptr_t)survival->lists.sends);
  free((void *)(uintptr_t)survival->lists.receives);
  free(survival->failed);
  free(survival->kept);
  free(survival);
}

/* Runs of this registration that views have decided before it was made. 0: no memory. */
static int take_outcomes(const df_survival *survival, dfcclCollId_t id, df_coll_survival *own) {
  for (uint32_t i = 0; i < survival->n_outcomes; i++) {
    const df_view_outcome *outcome = &survival->outcomes[i];
    if (outcome->collective != id || outcome->registration != own->registration) continue;
    df_failed_range *longer = realloc(own->failed, (own->n_failed + 1) * sizeof *longer);
    if (longer == NULL) return 0;
    own->failed = longer;
    own->failed[own->n_failed++] = (df_failed_range){
        .from = outcome->base, .until = outcome->fails_below, .view = outcome->reserved};
  }
  return 1;
}

dfcclResult_t df_coll_survival_make(dfcclContext_t context, df_coll *coll,
                                    const df_registration *registration) {
  df_coll_survival *survival = calloc(1, sizeof *survival);
  const df_lists *lists = registration->lists;
  int fine = survival && (survival->ranks = malloc(coll->n * sizeof *survival->ranks)) != NULL;
  if (fine && lists) {
    survival->has_lists = 1;
    survival->lists = (df_lists){.sends = copy_items(lists->sends, lists->n_sends),
                                 .receives = copy_items(lists->receives, lists->n_receives),
                                 .n_sends = lists->n_sends,
                                 .n_receives = lists->n_receives};
    fine = survival->lists.sends && survival->lists.receives;
  }
  if (fine) fine = count_id(context->survival, coll, &survival->registration);
  if (fine) survival->since = context->survival->admitted_in;
  if (fine && !take_outcomes(context->survival, coll->id, survival)) {
    coll->survival = survival;
    df_coll_survival_undo(context->survival, coll);
    coll->survival = NULL;
    fine = 0;
  }
  if (!fine) {
    df_coll_survival_free(survival);
    return df_fail(dfcclOutOfMemory, "no memory for the registration of collective %llu",
                   (unsigned long long)coll->id);
  }
  survival->n = coll->n;
  survival->root = coll->root;
  survival->count = registration->count;
  survival->longest = registration->longest;
  survival->tune = registration->options ? registration->options->tune : 0;
  memcpy(survival->ranks, coll->ranks, coll->n * sizeof *survival->ranks);
  coll->survival = survival;
  return dfcclSuccess;
}

int df_coll_has_lost(const dfcclContext_t context, const df_coll *coll, uint32_t rank) {
  const df_coll *registered = coll->registered ? coll->registered : coll;
  return context->survival && registered->survival &&
         !df_is_registered_rank(context->survival, rank, registered->survival->since);
}

int df_coll_has_suspect(const dfcclContext_t context, const df_coll *coll) {
  const df_survival *survival = context->survival;
  for (uint32_t i = 0; i < coll->survival->n; i++) {
    const uint32_t rank = coll->survival->ranks[i];
    if (survival->suspected[rank] && survival->joined_in[rank] <= coll->survival->since) return 1;
  }
  return 0;
}

uint64_t df_coll_lost_in(const dfcclContext_t context, const df_coll *coll) {
  uint64_t latest = 0;
  for (uint32_t i = 0; i < coll->survival->n; i++) {
    const uint32_t rank = coll->survival->ranks[i];
    if (df_coll_has_lost(context, coll, rank))
      latest = DF_MAX(latest, context->survival->lost_in[rank]);
  }
  return latest ? DF_MAX(latest, coll->survival->since) : 0;
}

const df_failed_range *df_coll_failed_range(const df_coll *coll, uint64_t run) {
  const df_coll_survival *survival = coll->survival;
  for (uint32_t i = 0; survival && i < survival->n_failed; i++)
    if (run >= survival->failed[i].from && run < survival->failed[i].until)
      return &survival->failed[i];
  return NULL;
}
