#include "host/registration/successor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "control/messenger.h"
#include "host/observe/trace.h"
#include "host/registration/announcement.h"
#include "host/registration/link_setup.h"
#include "host/registration/match.h"
#include "host/registration/register.h"
#include "host/registration/register_parts.h"
#include "host/runs/collective_failure.h"
#include "host/runs/recall.h"
#include "host/runs/runs.h"

#define EXCHANGE(a, b)                                                                             \
  do {                                                                                             \
    __typeof__(a) kept = (a);                                                                      \
    (a) = (b);                                                                                     \
    (b) = kept;                                                                                    \
  } while (0)

/* ---- the group without lost ranks */

/* Positions of the present members, by the position in the group as registered; lost ranks have
 * the number of members. */
static uint32_t renumber(const dfcclContext_t context, const df_coll *coll, uint32_t *positions,
                         int *ranks) {
  const df_coll_survival *survival = coll->survival;
  uint32_t n = 0;
  for (uint32_t i = 0; i < survival->n; i++)
    if (!df_coll_has_lost(context, coll, survival->ranks[i])) n++;
  for (uint32_t i = 0, next = 0; i < survival->n; i++) {
    const int is_member = !df_coll_has_lost(context, coll, survival->ranks[i]);
    positions[i] = is_member ? next : n;
    if (is_member) ranks[next++] = (int)survival->ranks[i];
  }
  return n;
}

/* Returns the items of members, in memory of the caller. */
static uint32_t keep_items(const df_list_item *items, uint32_t n, const uint32_t *positions,
                           uint32_t n_members, df_list_item *kept) {
  uint32_t n_kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (positions[items[i].peer] == n_members) continue;
    kept[n_kept] = items[i];
    kept[n_kept++].peer = positions[items[i].peer];
  }
  return n_kept;
}

/* Memory for one registration. */
typedef struct group {
  uint32_t *positions;
  int *ranks;
  df_list_item *items; /* both lists */
} group;

static int take_group(const df_coll_survival *survival, group *g) {
  const uint32_t n_items = survival->lists.n_sends + survival->lists.n_receives;
  g->positions = malloc(survival->n * sizeof *g->positions);
  g->ranks = malloc(survival->n * sizeof *g->ranks);
  g->items = malloc((n_items + 1) * sizeof *g->items);
  return g->positions && g->ranks && g->items;
}

static void give_group(group *g) {
  free(g->positions);
  free(g->ranks);
  free(g->items);
}

static dfcclResult_t make(dfcclContext_t context, df_coll *coll, group *g,
                          df_coll **out) DF_RANK_LOCKED {
  const df_coll_survival *survival = coll->survival;
  const uint32_t n = renumber(context, coll, g->positions, g->ranks);
  df_lists lists = survival->lists;
  lists.sends = g->items;
  lists.n_sends = keep_items(survival->lists.sends, lists.n_sends, g->positions, n, g->items);
  df_list_item *receives = g->items + lists.n_sends;
  lists.receives = receives;
  lists.n_receives =
      keep_items(survival->lists.receives, lists.n_receives, g->positions, n, receives);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = g->ranks;
  options.nRanks = (int)n;
  options.priority = coll->priority;
  options.varying = coll->varying != DF_VARIES_NOT;
  options.tune = -1;
  const int has_root = df_operation_has_root(df_operation_even(coll->operation));
  const df_registration registration = {.operation = coll->operation,
                                        .id = coll->id,
                                        .count = survival->count,
                                        .type = coll->type,
                                        .op = coll->op,
                                        .keeps_operator = coll->has_user_operator,
                                        .root = has_root ? (int)g->positions[survival->root] : 0,
                                        .options = &options,
                                        .lists = survival->has_lists ? &lists : NULL,
                                        .longest = survival->longest};
  df_configuration_question question;
  df_configuration configuration;
  dfcclResult_t result = df_registration_check(context, &registration, &question, &configuration);
  if (result == dfcclSuccess) result = df_make_coll(context, &registration, out);
  if (result != dfcclSuccess) return result;
  df_coll *successor = *out;
  snprintf(successor->name, sizeof successor->name, "%s", coll->name);
  successor->registered = coll;
  successor->is_successor = 1;
  successor->variant = successor->home = df_home_number(survival->registration, survival->home_due);
  successor->exec.configuration = configuration;
  result = df_install_coll(context, successor, &registration, &question);
  if (result != dfcclSuccess) df_coll_free(successor);
  return result;
}

static void begin(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  group g;
  df_coll *successor = NULL;
  dfcclResult_t result = take_group(coll->survival, &g)
                             ? make(context, coll, &g, &successor)
                             : df_fail(dfcclOutOfMemory, "no memory for the members that are left");
  give_group(&g);
  if (result != dfcclSuccess) {
    char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
    snprintf(sentence, sizeof sentence,
             "%s on rank %u cannot go on without its lost members: %.300s",
             df_coll_label(coll, label, sizeof label), context->rank, df_last_sentence());
    df_fail_collective(context, coll, result, 1, sentence);
    return;
  }
  coll->survival->successor = successor;
  df_log(DF_LOG_TRACE, "rank %u: collective %" PRIu64 " goes on with %u of %u members",
         context->rank, coll->id, successor->n, coll->survival->n);
  df_coll_announce(context, successor, 0);
  successor->references++; /* it may differ, and then fails */
  df_match_bind(context, successor);
  df_links_progress(context, successor);
  df_coll_unreference(context, successor);
}

/* ---- the life of a successor */

static void leave(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_message message = {.kind = DF_MESSAGE_DEREGISTER,
                        .id = coll->id,
                        .a = coll->runs.submitted,
                        .b = DF_DEREGISTER_MOVED,
                        .variant = coll->home};
  df_coll_send(context, coll, &message, NULL);
  df_coll_forget(context, coll);
}

void df_successor_drop(dfcclContext_t context, df_coll *coll) {
  df_coll *successor = coll->survival->successor;
  if (successor == NULL) return;
  coll->survival->successor = NULL;
  leave(context, successor);
}

static int needs_root(const df_coll *coll) {
  return df_operation_has_root(df_operation_even(coll->operation)) ||
         coll->operation == DF_OP_SEND_RECV;
}

void df_successor_expect(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_coll_survival *survival = coll->survival;
  const uint64_t number = df_coll_lost_in(context, coll);
  if (coll->failure.failed != dfcclSuccess || number == survival->home_due) return;
  df_successor_drop(context, coll);
  survival->home_due = number;
  df_match_limit_anew(context, coll);
  const uint32_t root = survival->ranks[survival->root];
  const uint32_t other = survival->ranks[survival->n - 1];
  const int is_pair = coll->operation == DF_OP_SEND_RECV;
  const uint32_t lost = is_pair && !df_coll_has_lost(context, coll, root) ? other : root;
  if (needs_root(coll) && df_coll_has_lost(context, coll, lost)) {
    char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
    snprintf(sentence, sizeof sentence,
             "%s on rank %u: its %s, rank %u, is lost since view %" PRIu64,
             df_coll_label(coll, label, sizeof label), context->rank,
             is_pair ? "other end" : "root", lost, context->survival->lost_in[lost] - 1);
    coll->failure.is_alone = 1;
    df_fail_collective(context, coll, dfcclRemoteError, 0, sentence);
    return;
  }
  df_successor_progress(context, coll);
}

void df_successor_progress(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (coll->failure.failed != dfcclSuccess) {
    df_successor_drop(context, coll);
    return;
  }
  const df_coll_survival *survival = coll->survival;
  if (survival->home_due != 0 && survival->successor == NULL && coll->runs.backlog_length > 0 &&
      df_recall_is_decided(coll) && !df_coll_has_suspect(context, coll))
    begin(context, coll);
}

/* ---- taking over */

static void bind_to(df_coll *coll) {
  for (uint32_t i = 0; i < coll->members.n_paired; i++)
    if (coll->members.remotes[i]) coll->members.remotes[i]->bound = coll;
}

/* Updates the pointers into the record after the exchange. */
static void settle(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  coll->exec.device.shape = &coll->exec.configuration.shape;
  if (coll->varying) coll->exec.device.descriptor->words->counts = &coll->runs.in_device[0].count;
  context->registry.by_index[coll->index] = coll;
  coll->trace.is_described = 0;
  bind_to(coll);
}

/* The collective has no run in the device, and a successor never has one. */
static void exchange_homes(dfcclContext_t context, df_coll *coll, df_coll *next) DF_RANK_LOCKED {
  DF_ASSERT(coll->runs.retired == coll->runs.admitted && next->runs.admitted == 0);
  df_common_give(context->transports.shm, &coll->exec.common); /* no member reads them any more */
  EXCHANGE(coll->home, next->home);
  EXCHANGE(coll->index, next->index);
  EXCHANGE(coll->own_policy, next->own_policy);
  EXCHANGE(coll->root, next->root);
  EXCHANGE(coll->n, next->n);
  EXCHANGE(coll->position, next->position);
  EXCHANGE(coll->ranks, next->ranks);
  EXCHANGE(coll->n_hosts, next->n_hosts);
  EXCHANGE(coll->group_step, next->group_step);
  EXCHANGE(coll->pairs, next->pairs);
  EXCHANGE(coll->reads_input, next->reads_input);
  EXCHANGE(coll->writes_output, next->writes_output);
  EXCHANGE(coll->record_bytes, next->record_bytes);
  EXCHANGE(coll->exec, next->exec);
  EXCHANGE(coll->members, next->members);
  df_common_moved(context->transports.shm, &next->exec.common, &coll->exec.common);
  /* The limit of runs concerns the collective. */
  EXCHANGE(coll->members.run_limit, next->members.run_limit);
  EXCHANGE(coll->members.limit_rank, next->members.limit_rank);
  EXCHANGE(coll->members.limit_rank_leaves, next->members.limit_rank_leaves);
  EXCHANGE(coll->members.limit_sentence, next->members.limit_sentence);
  settle(context, coll);
  settle(context, next);
  coll->runs.skew = 0 - coll->runs.admitted; /* its first run there is run 0 */
}

static int may_take_over(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED {
  const df_coll *successor = coll->survival->successor;
  return successor && successor->exec.ready && successor->failure.failed == dfcclSuccess &&
         !successor->exec.setting_up && !coll->exec.setting_up && df_recall_is_decided(coll) &&
         !df_coll_has_suspect(context, coll) &&
         context->survival->told == context->survival->view &&
         !df_coll_failed_range(coll, coll->runs.taken);
}

int df_successor_take_over(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_coll *successor = coll->survival->successor;
  if (!may_take_over(context, coll)) return 0;
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, coll);
  exchange_homes(context, coll, successor);
  coll->survival->successor = NULL;
  coll->survival->home_due = 0;
  coll->runs.is_recalled = 0;
  coll->runs.admit_below = UINT64_MAX;
  df_log(DF_LOG_TRACE,
         "rank %u: run %" PRIu64 " of collective %" PRIu64 " is the first of %u members",
         context->rank, coll->runs.taken, coll->id, coll->n);
  leave(context, successor);
  df_list(context, coll);
  df_admit_listed(context);
  return 1;
}
