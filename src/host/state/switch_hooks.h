/* The events that a plan switch (switching/plan_switch.c) must receive. A registered collective for
 * which no switch was ever requested has no df_plan_switch, and pays one comparison. */
#ifndef DF_HOST_STATE_SWITCH_HOOKS_H
#define DF_HOST_STATE_SWITCH_HOOKS_H

#include "host/state/context.h"

/* The variant in use of a registered collective, and the reason for it (df_purpose). */
typedef struct df_switch_state {
  uint64_t switches;           /* plan switches on this rank; 0: the plan is as registered */
  const char *purpose, *words; /* a name; the requester and its reason */
} df_switch_state;

/* The handlers of a plan switch: the first member of df_plan_switch points to them. The caller of
 * each holds the lock. */
typedef struct df_switch_events {
  void (*links_connected)(dfcclContext_t context,
                          df_coll *variant); /* the variant's links are connected */
  void (*lost)(dfcclContext_t context,
               df_coll *variant); /* the variant failed; the handler may free it */
  void (*limited)(dfcclContext_t context, df_coll *registered,
                  uint32_t peer); /* the peer takes part in no more runs */
  /* Runs use the variant, or will: the variant cannot fail alone. */
  int (*is_agreed)(const df_coll *variant);
  /* All runs before the switch have been admitted. 1: the next run may be admitted, on the variant.
   */
  int (*perform)(dfcclContext_t context, df_coll *registered);
  void (*end)(dfcclContext_t context, df_coll *registered); /* the collective is deregistered */
  /* One of the runs from registered->runs.watched_from on has retired. */
  void (*timed)(dfcclContext_t context, df_coll *registered, const df_run *run);
  void (*freed)(df_coll *registered); /* its record is being freed */
  df_switch_state (*state)(const df_coll *registered);
  /* The configuration as registered, whatever plan is in use. */
  const df_configuration *(*registered)(const df_coll *registered);
} df_switch_events;

static inline const df_switch_events *df_switch_of(const df_coll *registered) {
  return registered->plan_switch ? *(const df_switch_events *const *)registered->plan_switch : NULL;
}
static inline void df_switch_links_connected(dfcclContext_t context, df_coll *variant) {
  const df_switch_events *events = df_switch_of(variant->registered);
  if (events) events->links_connected(context, variant);
}
static inline void df_switch_lost(dfcclContext_t context, df_coll *variant) {
  const df_switch_events *events = df_switch_of(variant->registered);
  if (events) events->lost(context, variant);
}
static inline int df_switch_is_agreed(const df_coll *variant) {
  const df_switch_events *events = df_switch_of(variant->registered);
  return events && events->is_agreed(variant);
}
static inline void df_switch_limited(dfcclContext_t context, df_coll *registered, uint32_t peer) {
  const df_switch_events *events = df_switch_of(registered);
  if (events) events->limited(context, registered, peer);
}
static inline int df_switch_perform(dfcclContext_t context, df_coll *registered) {
  const df_switch_events *events = df_switch_of(registered);
  return events && events->perform(context, registered);
}
static inline void df_switch_end(dfcclContext_t context, df_coll *registered) {
  const df_switch_events *events = df_switch_of(registered);
  if (events) events->end(context, registered);
}
static inline void df_switch_timed(dfcclContext_t context, df_coll *registered, const df_run *run) {
  const df_switch_events *events = df_switch_of(registered);
  if (events) events->timed(context, registered, run);
}
static inline df_switch_state df_switch_state_of(const df_coll *registered) {
  const df_switch_events *events = df_switch_of(registered);
  return events ? events->state(registered) : (df_switch_state){.purpose = "registered"};
}
static inline const df_configuration *df_switch_registered(const df_coll *registered) {
  const df_switch_events *events = df_switch_of(registered);
  return events ? events->registered(registered) : &registered->exec.configuration;
}
static inline void df_switch_freed(df_coll *coll) {
  const df_switch_events *events = df_switch_of(coll);
  if (events) events->freed(coll);
}

#endif
