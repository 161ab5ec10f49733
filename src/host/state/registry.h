/* The table of collectives. */
#ifndef DF_HOST_STATE_REGISTRY_H
#define DF_HOST_STATE_REGISTRY_H

#include "base/mutex.h"
#include "host/state/context.h"
#include "plans/algorithms/piece_tables.h"

typedef struct df_registration {
  df_operation operation;
  dfcclCollId_t id;
  uint64_t count;
  dfcclDataType_t type;
  dfcclRedOp_t op;
  int keeps_operator; /* a user-defined operator is in use, and may have been destroyed since */
  int root;           /* SendRecv: the sender's position in options.ranks */
  const dfcclCollOptions_t *options;
  int to;                /* SendRecv: the receiver's position in options.ranks */
  const df_lists *lists; /* pieces of a vector collective; `count` has no meaning then */
  const df_plan_file
      *file; /* file of options->algorithm; NULL: it names no file, or one that must be looked up */
  uint64_t longest; /* largest number of elements of any piece, if all members have it; else 0 */
} df_registration;

df_coll *df_look_up(dfcclContext_t context, dfcclCollId_t id) DF_RANK_LOCKED;
/* NULL: not registered. */
static inline df_coll *df_find(dfcclContext_t context, dfcclCollId_t id) DF_RANK_LOCKED {
  if (DF_LIKELY(context->registry.latest && context->registry.latest->id == id))
    return context->registry.latest;
  return df_look_up(context, id);
}
df_coll *df_find_variant(dfcclContext_t context, dfcclCollId_t id, uint64_t variant) DF_RANK_LOCKED;
/* NULL: no collective has the index, or it is deregistered and only its references keep it. */
static inline df_coll *df_registered(const dfcclContext_t context, uint32_t index) DF_RANK_LOCKED {
  df_coll *coll = context->registry.by_index[index];
  return coll && !coll->deregistered ? coll : NULL;
}
const df_wait_words *df_look_up_words(dfcclContext_t context, dfcclCollId_t id,
                                      uint64_t *registration);
/* Finds the record that a thread reads to wait for a collective. *registration distinguishes this
 * registration from later owners of the record. Takes the lock only if the id was not looked up
 * recently. NULL: not registered. */
static inline const df_wait_words *df_find_words(dfcclContext_t context, dfcclCollId_t id,
                                                 uint64_t *registration) {
  uint32_t index = df_load_relaxed_u32(&context->registry.recent[id % DF_RECENT_IDS]);
  if (DF_LIKELY(index != 0)) {
    const df_wait_words *words = &context->registry.wait_words[index - 1];
    *registration = df_observe_u64(&words->registration);
    if (DF_LIKELY(*registration != 0 && df_load_relaxed_u64(&words->id) == id)) return words;
  }
  return df_look_up_words(context, id, registration);
}
void df_coll_unreference(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* If the collective is not entered, the caller returns the index. */
uint32_t df_registry_take_index(dfcclContext_t context) DF_RANK_LOCKED;
void df_registry_give_index(dfcclContext_t context, uint32_t index);
/* Enters the collective in the table, with one reference: look-ups find it from here on. 0: no
 * memory. */
int df_registry_enter(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Look-ups no longer find the collective. It keeps its index until its last reference is released.
 */
void df_registry_leave(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
void df_coll_free(df_coll *coll); /* the record and its arrays */
void df_registry_free(dfcclContext_t context) DF_RANK_LOCKED;
dfcclResult_t df_registry_init(dfcclContext_t context);
/* Sets the ids of events that have a device's index; UINT64_MAX: no collective has the index any
 * more. */
void df_name_events(dfcclContext_t context, dfcclEvent_t *events, size_t count);
/* Sends the message to all other members. */
void df_coll_send(dfcclContext_t context, df_coll *coll, const df_message *message,
                  const void *payload) DF_RANK_LOCKED;

#endif
