#include "host/switching/online_tuner.h"

#include <stdlib.h>

#include "base/log.h"
#include "host/switching/plan_switch.h"
#include "host/settings/abi_struct.h"
#include "host/switching/tuning_store.h"
#include "host/state/registry.h"
#include "host/state/peer_info.h"
#include "host/registration/check_arguments.h"
#include "tuning/space.h"

typedef struct df_tuner {
  df_leader leader;
  df_space space;
  /* of the runs at hand */
  uint32_t told; /* members */
  double sum_ns;
  uint32_t ns[DF_MOST_TIMES];
} df_tuner;
DF_STATIC_ASSERT((int)DF_LEADER_TIMES == (int)DF_MOST_TIMES, "what a message can carry");

static df_tuner *tuner_of(const df_coll *front) { return front->epoch->tuner; }

/* ---- wishes */

static void stop(dfcclContext_t context, df_coll *front, const char *why) {
  df_leader_stop(&tuner_of(front)->leader);
  df_epoch_count(context, front, 0);
  df_log(DF_LOG_INFO, "the tuner of collective %llu stops: %s", (unsigned long long)front->id, why);
}

static void take_news(dfcclContext_t context, df_coll *front) {
  df_tuner *tuner = tuner_of(front);
  df_leader *leader = &tuner->leader;
  if (!leader->has_news) return;
  leader->has_news = 0;
  df_learning_note(context, front, df_space_rule(&tuner->space, &leader->descent, &leader->winner),
                   leader->tuned_ns * 1e-3, leader->registered_ns * 1e-3);
}

static void ask(dfcclContext_t context, df_coll *front, const df_wish *wish) {
  df_tuner *tuner = tuner_of(front);
  const df_variant_spec spec =
      df_space_variant(&tuner->space, &tuner->leader.descent, &wish->point);
  tuner->told = 0;
  if (df_epoch_propose(context, front, &spec, wish->purpose, (uint32_t)wish->runs) != dfcclSuccess)
    stop(context, front, df_last_sentence());
}

/* Last of all in what hears: the answer may be heard before it returns. */
static void obey(dfcclContext_t context, df_coll *front, df_wish wish) {
  const uint64_t until = front->retired + wish.runs;
  if (wish.kind == DF_WISH_NOTHING) return;
  take_news(context, front);
  if (wish.kind != DF_WISH_STOP)
    df_epoch_count(context, front, df_leader_counts(&tuner_of(front)->leader));
  if ((wish.kind == DF_WISH_REST || wish.kind == DF_WISH_WATCH) && wish.purpose < DF_PURPOSES)
    df_epoch_stays(context, front, wish.purpose);
  switch (wish.kind) {
  case DF_WISH_VARIANT:
    ask(context, front, &wish);
    return;
  case DF_WISH_REST:
  case DF_WISH_WATCH:
    if (wish.runs < DF_LEADER_WINDOW)
      df_epoch_time(context, front, until, until + 1);
    else
      df_epoch_time(context, front, until - DF_LEADER_WINDOW, until);
    return;
  default:
    stop(context, front, "too many variants in a row could not be had");
  }
}

/* ---- hearing */

/* A member that has other files could not go over to them. */
static const df_file_directory *common_files(dfcclContext_t context, const df_coll *front) {
  for (uint32_t i = 0; context->settings.files.n && i < front->n; i++) {
    if (df_context_has_files_of(context, front->ranks[i])) continue;
    df_log(DF_LOG_WARN,
           "the tuner of collective %llu tries no files: ranks %u and %u have different ones "
           "(DFCCL_ALGORITHMS, with DFCCL_TUNE)",
           (unsigned long long)front->id, context->rank, front->ranks[i]);
    return NULL;
  }
  return &context->settings.files;
}

static void make_space(dfcclContext_t context, const df_coll *front, df_tuner *tuner) {
  const df_manner *registered = df_switch_registered(front);
  const df_space_question question = {
      .registered = registered,
      .policy = &context->settings.tuning.policy,
      .operation = front->operation,
      .n = front->n,
      .bytes = df_larger_buffer(front->operation, front->n, front->count,
                                (uint32_t)df_type_size(front->type)),
      .max_blocks = df_most_blocks(context, front->n, front->n_hosts),
      .files = common_files(context, front),
      .varying = front->varying != DF_VARIES_NOT};
  df_point point;
  df_space_make(&tuner->space, &question, &tuner->leader.descent);
  df_leader_open(&tuner->leader, (double)context->settings.tune_budget / 100,
                 registered->runs_ahead, registered->runs_ahead || registered->crowded);
  const df_rule *rule = df_learning_find(context, front);
  if (rule && df_space_find(&tuner->space, &tuner->leader.descent, rule, &point))
    df_leader_remember(&tuner->leader, &point);
}

static void hear_own(dfcclContext_t context, df_coll *front, const uint32_t *ns, uint32_t n) {
  df_leader *leader = &tuner_of(front)->leader;
  if (leader->state == DF_LEADER_BEGINS) {
    make_space(context, front, tuner_of(front));
    obey(context, front, df_leader_begin(leader, front->retired, ns, n));
  } else if (leader->state == DF_LEADER_WATCHES) {
    obey(context, front,
         df_leader_watched(leader, front->retired, ns, n, !df_epoch_is_busy(front)));
  } else {
    obey(context, front, df_leader_rested(leader, front->retired, ns, n, !df_epoch_is_busy(front)));
  }
}

/* Whoever came last waited least. Ranks that share a core take turns, and do several runs in one, so
 * there this holds of their sums. Of operations in which some wait for nobody, those are through
 * before the others have begun: whoever took longest in all runs tells. */
static void take_times(const df_coll *front, df_tuner *tuner, const uint32_t *ns, uint32_t n) {
  double sum_ns = 0;
  for (uint32_t i = 0; i < n; i++) sum_ns += (double)ns[i];
  const int counts = tuner->told == 0 ||
                     (front->manner.runs_ahead ? sum_ns > tuner->sum_ns : sum_ns < tuner->sum_ns);
  for (uint32_t i = 0; i < n; i++)
    if (tuner->leader.by_mean ? counts : tuner->told == 0 || ns[i] < tuner->ns[i])
      tuner->ns[i] = ns[i];
  if (counts) tuner->sum_ns = sum_ns;
}

static void hear_told(dfcclContext_t context, df_coll *front, const uint32_t *ns, uint32_t n) {
  df_tuner *tuner = tuner_of(front);
  take_times(front, tuner, ns, n);
  if (++tuner->told < front->n) return;
  obey(context, front, df_leader_told(&tuner->leader, front->retired, tuner->ns, n, tuner->sum_ns));
}

static void hear_ran(dfcclContext_t context, df_coll *front, uint32_t ns) {
  obey(context, front,
       df_leader_ran(&tuner_of(front)->leader, front->retired, ns, df_epoch_is_there(front),
                     !df_epoch_is_busy(front)));
}

static void hear_called_off(dfcclContext_t context, df_coll *front) {
  obey(context, front, df_leader_called_off(&tuner_of(front)->leader, front->retired));
}

static const df_epoch_owner owner = {
    .told = hear_told, .own = hear_own, .ran = hear_ran, .called_off = hear_called_off};

/* ---- registration */

static int is_wanted(const dfcclContext_t context, const df_coll *front,
                     const dfcclCollOptions_t *options) {
  enum { NEVER, AUTOMATIC, ALL };
  const int tune = options ? options->tune : 0;
  if (tune != 0) return tune > 0;
  return context->settings.tune == ALL ||
         (context->settings.tune == AUTOMATIC && !front->manner.choice.is_named);
}

static int can_be_tuned(const df_coll *front) {
  return front->position == 0 && front->n > 1 && front->count > 0 && front->pairs == NULL &&
         front->operation != DF_OP_ALL_TO_ALL_DYNAMIC;
}

void df_tuner_consider(dfcclContext_t context, dfcclCollId_t id,
                       const dfcclCollOptions_t *options) {
  dfcclCollOptions_t whole = DFCCL_COLL_OPTIONS_INITIALIZER;
  if (options && df_growing_read(&df_growing_options, options, &whole) != dfcclSuccess) return;
  pthread_mutex_lock(&context->lock);
  df_coll *front = df_find(context, id);
  if (front && can_be_tuned(front) && is_wanted(context, front, &whole) && df_epoch_of(front) &&
      front->epoch->tuner == NULL &&
      (front->epoch->tuner = calloc(1, sizeof *front->epoch->tuner)) != NULL) {
    front->epoch->owner = &owner;
    df_epoch_time(context, front, DF_LEADER_WARM, DF_LEADER_WARM + DF_LEADER_WINDOW);
  }
  pthread_mutex_unlock(&context->lock);
}

int df_tuner_summarise(const df_coll *front, df_tuner_summary *summary) {
  if (front->epoch == NULL || front->epoch->tuner == NULL) return 0;
  const df_leader *leader = &tuner_of(front)->leader;
  *summary = (df_tuner_summary){.state = leader->state,
                                .measured = leader->descent.n_measured,
                                .begun = leader->begun,
                                .spent_us = leader->account.spent_ns * 1e-3,
                                .registered_us = leader->registered_ns * 1e-3,
                                .tuned_us = leader->tuned_ns * 1e-3};
  return 1;
}
