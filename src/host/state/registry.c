#include "base/mutex.h"
#include "primitives/user_operator.h"
#include "host/state/registry.h"
#include "host/state/flight_colls.h"
#include "host/state/survival.h"
#include "host/state/switch_hooks.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "control/messenger.h"
#include "transports/shm/common_slots.h"

/* ---- hash set of collectives, keyed by id ---- */

static void *set_malloc(size_t bytes) { return malloc(bytes); }
static void set_free(void *p, size_t bytes, bool defer) {
  (void)bytes;
  (void)defer;
  free(p);
}
static struct ck_malloc set_allocator = {.malloc = set_malloc, .free = set_free};

static unsigned long mix(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdull;
  key ^= key >> 33;
  return (unsigned long)key;
}
/* The beginning of a df_coll. */
typedef struct coll_key {
  dfcclCollId_t id;
  uint64_t variant;
} coll_key;
DF_STATIC_ASSERT(offsetof(df_coll, variant) == offsetof(coll_key, variant),
                 "a df_coll begins with its key");

static unsigned long coll_hash(const void *object, unsigned long seed) {
  const coll_key *key = object;
  (void)seed;
  return mix(key->id + key->variant * 0x9e3779b97f4a7c15ull);
}
static bool coll_same(const void *a, const void *b) {
  const coll_key *x = a, *y = b;
  return x->id == y->id && x->variant == y->variant;
}
static unsigned long remote_hash(const void *object, unsigned long seed) {
  const df_remote *remote = object;
  (void)seed;
  return mix(remote->id * 1031 + remote->variant * 0x9e3779b97f4a7c15ull + remote->peer);
}
static bool remote_same(const void *a, const void *b) {
  const df_remote *x = a, *y = b;
  return x->id == y->id && x->peer == y->peer && x->variant == y->variant;
}

dfcclResult_t df_registry_init(dfcclContext_t context) {
  context->registry.by_index = calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.by_index);
  context->registry.by_line = calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.by_line);
  context->registry.free_lines = calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.free_lines);
  /* calloc(), because pages that are never used cost nothing. It does not align to cache lines, so
   * one more record is allocated. */
  context->registry.wait_words_memory =
      calloc(DF_MAX_COLLECTIVES + 1, sizeof *context->registry.wait_words);
  context->registry.wait_words = (df_wait_words *)DF_ALIGN_UP(
      (uintptr_t)context->registry.wait_words_memory, sizeof(df_wait_words));
  context->registry.generations = calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.generations);
  context->registry.free_indices =
      calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.free_indices);
  context->runs.listed_last = &context->runs.listed_first;
  TAILQ_INIT(&context->runs.due);
  if (!context->registry.by_index || !context->registry.by_line || !context->registry.free_lines ||
      !context->registry.wait_words_memory || !context->registry.generations ||
      !context->registry.free_indices ||
      !ck_hs_init(&context->registry.colls, CK_HS_MODE_OBJECT | CK_HS_MODE_SPMC, coll_hash,
                  coll_same, &set_allocator, 64, 1))
    return df_fail(dfcclOutOfMemory, "no memory for the table of collectives");
  if (ck_hs_init(&context->registry.remotes, CK_HS_MODE_OBJECT | CK_HS_MODE_SPMC, remote_hash,
                 remote_same, &set_allocator, 64, 1))
    return dfcclSuccess;
  ck_hs_destroy(&context->registry.colls);
  memset(&context->registry.colls, 0, sizeof context->registry.colls);
  return df_fail(dfcclOutOfMemory, "no memory for the table of announcements");
}

DF_APART df_coll *df_look_up(dfcclContext_t context, dfcclCollId_t id) {
  df_coll *coll = df_find_variant(context, id, 0);
  if (coll) context->registry.latest = coll;
  return coll;
}

df_coll *df_find_variant(dfcclContext_t context, dfcclCollId_t id, uint64_t variant) {
  const coll_key key = {.id = id, .variant = variant};
  return ck_hs_get(&context->registry.colls, coll_hash(&key, 0), &key);
}

static uint32_t *recent_of(dfcclContext_t context, dfcclCollId_t id) {
  return &context->registry.recent[id % DF_RECENT_IDS];
}

DF_APART const df_wait_words *df_look_up_words(dfcclContext_t context, dfcclCollId_t id,
                                               uint64_t *registration) {
  const df_wait_words *words = NULL;
  df_rank_lock(&context->lock);
  const df_coll *coll = df_find(context, id);
  if (coll) {
    words = coll->runs.words;
    *registration = words->registration;
    df_store_relaxed_u32(recent_of(context, id), coll->line + 1);
  }
  df_rank_unlock(&context->lock);
  return words;
}

/* ---- making and freeing a record ---- */

uint32_t df_registry_take_index(dfcclContext_t context) {
  return context->registry.n_free ? context->registry.free_indices[--context->registry.n_free]
                                  : context->registry.n_indices++;
}

/* A thread that sees a new value in the line also sees that the last owner is gone. */
static void take_line(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_registry *registry = &context->registry;
  coll->line =
      registry->n_free_lines ? registry->free_lines[--registry->n_free_lines] : registry->n_lines++;
  registry->by_line[coll->line] = coll;
  df_wait_words *words = coll->runs.words = &registry->wait_words[coll->line];
  DF_ASSERT(words->registration == 0);
  df_publish_u64(&words->id, coll->id);
  df_publish_u64(&words->submitted, 0);
  df_publish_u64(&words->completed, 0);
  df_store_relaxed_u32(&words->status, dfcclSuccess);
  df_store_relaxed_u64(&words->first_failed, UINT64_MAX);
  words->latest = ++context->registry.registrations;
  df_publish_u64(&words->registration, words->latest);
}

static void give_line(dfcclContext_t context, const df_coll *coll) {
  df_publish_u64(&coll->runs.words->registration, 0);
  context->registry.by_line[coll->line] = NULL;
  context->registry.free_lines[context->registry.n_free_lines++] = coll->line;
}

void df_registry_give_index(dfcclContext_t context, uint32_t index) {
  context->registry.by_index[index] = NULL;
  context->registry.free_indices[context->registry.n_free++] = index;
}

void df_coll_free(df_coll *coll) {
  if (coll->has_user_operator) df_user_operator_unuse(coll->user_operator);
  free(coll->ranks);
  free(coll->pairs);
  for (uint32_t i = 0; i < coll->runs.n_dynamic_counts; i++) free(coll->runs.dynamic_counts[i]);
  free(coll->runs.dynamic_counts);
  free(coll->members.remotes);
  free(coll->runs.backlog);
  free(coll->members.limit_sentence);
  free(coll->own_policy);
  free(coll->exec.survivors);
  df_coll_survival_free(coll->survival);
  df_switch_freed(coll);
  free(coll);
}

/* Memory that the collective has on this rank, apart from rings and from plans that it shares.
 * Common slots, and lists that grow while runs wait, are not counted. */
static uint64_t record_bytes(const df_coll *coll) {
  const df_plan *plan = coll->exec.plan;
  const df_shape *shape = &coll->exec.configuration.shape;
  const uint64_t of_block = plan->n_links * sizeof(df_link) + shape->scratch_bytes +
                            sizeof(df_part) + sizeof(uint64_t) + sizeof(df_cursor);
  const uint64_t of_member = sizeof(uint32_t) + sizeof(df_remote *) + sizeof(df_remote) +
                             (coll->pairs ? sizeof(df_pair) : 0);
  return sizeof *coll + coll->n * of_member + sizeof(df_wait_words) + sizeof(df_descriptor) +
         sizeof(df_run_words) + sizeof(df_run_counters) + shape->n_blocks * of_block +
         plan->n_extents * sizeof *plan->extents +
         (coll->own_policy ? sizeof *coll->own_policy : 0) +
         (df_operation_has_piece_table(plan->key.operation) ? df_plan_bytes(plan) : 0);
}

int df_registry_enter(dfcclContext_t context, df_coll *coll) {
  if (!ck_hs_put(&context->registry.colls, coll_hash(coll, 0), coll)) return 0;
  take_line(context, coll);
  context->registry.by_index[coll->index] = coll;
  *(coll->registered ? &context->registry.n_variants : &context->registry.n_colls) += 1;
  coll->references = 1;
  coll->record_bytes = record_bytes(coll);
  context->registry.record_bytes += coll->record_bytes;
  return 1;
}

void df_registry_leave(dfcclContext_t context, df_coll *coll) {
  ck_hs_remove(&context->registry.colls, coll_hash(coll, 0), coll);
  if (context->registry.latest == coll) context->registry.latest = NULL;
  uint32_t *recent = recent_of(context, coll->id);
  if (*recent == coll->line + 1) df_store_relaxed_u32(recent, 0);
}

void df_coll_unreference(dfcclContext_t context, df_coll *coll) {
  if (--coll->references > 0) return;
  DF_ASSERT(!coll->runs.listed);
  DF_ASSERT(coll->runs.backlog_length == 0);
  DF_ASSERT(coll->runs.first_callback == 0);
  df_common_give(context->transports.shm, &coll->exec.common);
  if (DF_UNLIKELY(context->before_index_is_free != NULL)) context->before_index_is_free(context);
  context->device.memory->forget(&context->device, &coll->exec.device);
  df_registry_give_index(context, coll->index);
  give_line(context, coll);
  context->registry.record_bytes -= coll->record_bytes;
  *(coll->registered ? &context->registry.n_variants : &context->registry.n_colls) -= 1;
  df_plan_release(&context->plans, coll->exec.plan);
  if (context->flight) df_flight_keep(context->flight, coll);
  df_coll_free(coll);
}

/* A lost member's number may belong to another process now. */
static void send_to_registered(dfcclContext_t context, const df_coll *coll,
                               const df_message *message, const void *payload) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < coll->members.n_paired; i++)
    if (i != coll->position && !df_coll_has_lost(context, coll, coll->ranks[i]))
      df_messenger_send(&context->control, coll->ranks[i], message, payload, -1);
}

void df_coll_send(dfcclContext_t context, df_coll *coll, const df_message *message,
                  const void *payload) {
  const uint32_t after = coll->position + 1;
  if (context->survival) {
    send_to_registered(context, coll, message, payload);
    return;
  }
  df_messenger_send_many(&context->control, coll->ranks, coll->position, message, payload);
  df_messenger_send_many(&context->control, coll->ranks + after, coll->members.n_paired - after,
                         message, payload);
}

void df_name_events(dfcclContext_t context, dfcclEvent_t *events, size_t count) {
  df_rank_lock(&context->lock);
  for (size_t i = 0; i < count; i++) {
    uint32_t index = (uint32_t)events[i].collective;
    const df_coll *coll =
        index < context->registry.n_indices ? df_registered(context, index) : NULL;
    if (events[i].kind == dfcclEventLaunched || events[i].kind == dfcclEventLeft) coll = NULL;
    events[i].collective = coll ? coll->id : UINT64_MAX;
  }
  df_rank_unlock(&context->lock);
}

void df_registry_free(dfcclContext_t context) {
  if (context->registry.by_index) {
    for (uint32_t i = 0; i < context->registry.n_indices; i++)
      if (context->registry.by_index[i]) {
        df_common_give(context->transports.shm, &context->registry.by_index[i]->exec.common);
        context->device.memory->forget(&context->device,
                                       &context->registry.by_index[i]->exec.device);
        df_plan_release(&context->plans, context->registry.by_index[i]->exec.plan);
        df_coll_free(context->registry.by_index[i]);
      }
  }
  if (context->registry.colls.map) ck_hs_destroy(&context->registry.colls);
  free(context->registry.by_index);
  free(context->registry.by_line);
  free(context->registry.free_lines);
  free(context->registry.wait_words_memory);
  free(context->registry.generations);
  free(context->registry.free_indices);
}
