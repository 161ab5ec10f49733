/* Plans are shared by all collectives of a context with the same operation, algorithm, group size,
 * position and root. */
#include <stdlib.h>
#include <string.h>

#include "host/context.h"

typedef struct df_plan_entry {
  struct df_plan_entry *next;
  df_plan *plan;
  uint32_t users;
} df_plan_entry;

static int same_key(const df_plan_key *a, const df_plan_key *b) {
  return a->operation == b->operation && a->algorithm == b->algorithm && a->n == b->n &&
         a->position == b->position && a->root == b->root && a->split == b->split &&
         a->average == b->average;
}

df_plan *df_plan_acquire(dfcclContext_t context, const df_plan_key *key) {
  df_plan_entry *entry = context->plans;
  while (entry && !same_key(&entry->plan->key, key)) entry = entry->next;
  if (entry == NULL) {
    entry = calloc(1, sizeof *entry);
    df_plan *plan = df_plan_make(key);
    if (entry == NULL || plan == NULL) {
      free(entry);
      df_plan_free(plan);
      return NULL;
    }
    entry->plan = plan;
    entry->next = context->plans;
    context->plans = entry;
  }
  entry->users++;
  return entry->plan;
}

void df_plan_release(dfcclContext_t context, df_plan *plan) {
  df_plan_entry **at = &context->plans;
  while ((*at)->plan != plan) at = &(*at)->next;
  df_plan_entry *entry = *at;
  if (--entry->users > 0) return;
  *at = entry->next;
  df_plan_free(plan);
  free(entry);
}
