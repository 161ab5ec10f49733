#include "host/switching/online_tuner.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mutex.h"
#include "host/switching/plan_switch.h"
#include "host/settings/abi_struct.h"
#include "host/switching/tuning_store.h"
#include "host/state/registry.h"
#include "host/state/peer_info.h"
#include "host/registration/check_arguments.h"
#include "tuning/space.h"

typedef struct df_tuner {
  df_search search;
  df_space space;
  /* times of the runs that are measured at the moment */
  uint32_t n_reported; /* members whose times have arrived */
  double sum_ns;
  uint32_t ns[DF_MOST_TIMES];
} df_tuner;
DF_STATIC_ASSERT((int)DF_SEARCH_TIMES == (int)DF_MOST_TIMES,
                 "a message has room for the times of one measurement");

static df_tuner *tuner_of(const df_coll *registered) { return registered->plan_switch->tuner; }

/* ---- requests ---- */

static void stop_search(dfcclContext_t context, df_coll *registered,
                        const char *why) DF_RANK_LOCKED {
  df_search_stop(&tuner_of(registered)->search);
  df_plan_switch_count(context, registered, 0);
  df_log(DF_LOG_INFO, "the tuner of collective %llu stops: %s", (unsigned long long)registered->id,
         why);
}

static void take_result(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  df_tuner *tuner = tuner_of(registered);
  df_search *search = &tuner->search;
  if (!search->has_result) return;
  search->has_result = 0;
  df_tuning_store_note(context, registered,
                       df_space_rule(&tuner->space, &search->descent, &search->winner),
                       search->tuned_ns * 1e-3, search->registered_ns * 1e-3);
}

static void request_variant(dfcclContext_t context, df_coll *registered,
                            const df_search_request *request) DF_RANK_LOCKED {
  df_tuner *tuner = tuner_of(registered);
  const df_variant_spec spec =
      df_space_variant(&tuner->space, &tuner->search.descent, &request->point);
  tuner->n_reported = 0;
  if (df_plan_switch_propose(context, registered, &spec, request->purpose,
                             (uint32_t)request->runs) != dfcclSuccess)
    stop_search(context, registered, df_last_sentence());
}

/* Performs the request of the search policy. It is the last statement of each handler, because the
 * answer to a request may be handled before it returns. */
static void perform(dfcclContext_t context, df_coll *registered,
                    df_search_request request) DF_RANK_LOCKED {
  const uint64_t until = registered->runs.retired + request.runs;
  if (request.kind == DF_REQUEST_NOTHING) return;
  take_result(context, registered);
  if (request.kind != DF_REQUEST_STOP)
    df_plan_switch_count(context, registered, df_search_counts(&tuner_of(registered)->search));
  if ((request.kind == DF_REQUEST_REST || request.kind == DF_REQUEST_WATCH) &&
      request.purpose < DF_PURPOSES)
    df_plan_switch_keep(context, registered, request.purpose);
  switch (request.kind) {
  case DF_REQUEST_VARIANT:
    request_variant(context, registered, &request);
    return;
  case DF_REQUEST_REST:
  case DF_REQUEST_WATCH:
    if (request.runs < DF_SEARCH_WINDOW)
      df_plan_switch_time(context, registered, until, until + 1);
    else
      df_plan_switch_time(context, registered, until - DF_SEARCH_WINDOW, until);
    return;
  default:
    stop_search(context, registered, "too many variants in a row were refused");
  }
}

/* ---- measurements ---- */

/* NULL: the tuner tries no files, because a member with other files could not switch to them. */
static const df_file_directory *common_files(dfcclContext_t context, const df_coll *registered) {
  for (uint32_t i = 0; context->settings.files.n && i < registered->n; i++) {
    if (df_peer_has_same_files(context, registered->ranks[i])) continue;
    df_log(DF_LOG_WARN,
           "the tuner of collective %llu tries no algorithm files: ranks %u and %u have different "
           "ones "
           "(DFCCL_ALGORITHMS, with DFCCL_TUNE)",
           (unsigned long long)registered->id, context->rank, registered->ranks[i]);
    return NULL;
  }
  return &context->settings.files;
}

static void make_space(dfcclContext_t context, const df_coll *registered,
                       df_tuner *tuner) DF_RANK_LOCKED {
  const df_configuration *configuration = df_switch_registered(registered);
  const df_space_question question = {
      .registered = configuration,
      .policy = &context->settings.tuning.policy,
      .operation = registered->operation,
      .n = registered->n,
      .bytes = df_larger_buffer(registered->operation, registered->n, registered->count,
                                (uint32_t)df_type_size(registered->type)),
      .max_blocks = df_most_blocks(context, registered->n, registered->n_hosts),
      .files = common_files(context, registered),
      .varying = registered->varying != DF_VARIES_NOT};
  df_point point;
  df_space_make(&tuner->space, &question, &tuner->search.descent);
  df_search_open(&tuner->search, (double)context->settings.tune_budget / 100,
                 configuration->runs_ahead,
                 configuration->runs_ahead || configuration->oversubscribed);
  const df_rule *rule = df_tuning_store_find(context, registered);
  if (rule && df_space_find(&tuner->space, &tuner->search.descent, rule, &point))
    df_search_remember(&tuner->search, &point);
}

static void handle_own(dfcclContext_t context, df_coll *registered, const uint32_t *ns,
                       uint32_t n) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_search *search = &tuner_of(registered)->search;
  if (search->state == DF_SEARCH_WARMING) {
    make_space(context, registered, tuner_of(registered));
    perform(context, registered, df_search_begin(search, registered->runs.retired, ns, n));
  } else if (search->state == DF_SEARCH_WATCHING) {
    perform(context, registered,
            df_search_watched(search, registered->runs.retired, ns, n,
                              !df_plan_switch_is_busy(registered)));
  } else {
    perform(context, registered,
            df_search_rested(search, registered->runs.retired, ns, n,
                             !df_plan_switch_is_busy(registered)));
  }
}

/* Combines the times of the members. The last member to arrive waits least, so the minimum over all
 * members is the time of the collective itself. Ranks that share a core take turns, and execute
 * several runs in one turn, so there the minimum of the members' sums counts. In operations in
 * which some members wait for no other, these members are through before the others have begun, so
 * there the member with the largest sum counts. */
static void take_times(const df_coll *registered, df_tuner *tuner, const uint32_t *ns, uint32_t n) {
  double sum_ns = 0;
  for (uint32_t i = 0; i < n; i++) sum_ns += (double)ns[i];
  const int counts =
      tuner->n_reported == 0 ||
      (registered->exec.configuration.runs_ahead ? sum_ns > tuner->sum_ns : sum_ns < tuner->sum_ns);
  for (uint32_t i = 0; i < n; i++)
    if (tuner->search.by_mean ? counts : tuner->n_reported == 0 || ns[i] < tuner->ns[i])
      tuner->ns[i] = ns[i];
  if (counts) tuner->sum_ns = sum_ns;
}

static void handle_reported(dfcclContext_t context, df_coll *registered, const uint32_t *ns,
                            uint32_t n) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_tuner *tuner = tuner_of(registered);
  take_times(registered, tuner, ns, n);
  if (++tuner->n_reported < registered->n) return;
  perform(
      context, registered,
      df_search_reported(&tuner->search, registered->runs.retired, tuner->ns, n, tuner->sum_ns));
}

static void handle_ran(dfcclContext_t context, df_coll *registered, uint32_t ns) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  perform(context, registered,
          df_search_ran(&tuner_of(registered)->search, registered->runs.retired, ns,
                        df_plan_switch_is_complete(registered),
                        !df_plan_switch_is_busy(registered)));
}

static void handle_called_off(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  perform(context, registered,
          df_search_called_off(&tuner_of(registered)->search, registered->runs.retired));
}

static const df_plan_switch_owner owner = {.reported = handle_reported,
                                           .own = handle_own,
                                           .ran = handle_ran,
                                           .called_off = handle_called_off};

/* ---- registration ---- */

static int is_wanted(const dfcclContext_t context, const df_coll *registered, int tune) {
  enum { NEVER, AUTOMATIC, ALL };
  if (tune != 0) return tune > 0;
  return context->settings.tune == ALL ||
         (context->settings.tune == AUTOMATIC && !registered->exec.configuration.choice.is_named);
}

static int can_be_tuned(const df_coll *registered) {
  return registered->position == 0 && registered->n > 1 && registered->count > 0 &&
         registered->pairs == NULL && registered->operation != DF_OP_ALL_TO_ALL_DYNAMIC;
}

static void begin(dfcclContext_t context, df_coll *registered, int tune) DF_RANK_LOCKED {
  if (!can_be_tuned(registered) || !is_wanted(context, registered, tune) ||
      df_plan_switch_of(registered) == NULL || registered->plan_switch->tuner != NULL)
    return;
  registered->plan_switch->tuner = calloc(1, sizeof *registered->plan_switch->tuner);
  if (registered->plan_switch->tuner == NULL) return;
  const uint64_t first = registered->runs.retired + DF_SEARCH_WARM;
  registered->plan_switch->owner = &owner;
  df_plan_switch_time(context, registered, first, first + DF_SEARCH_WINDOW);
}

void df_tuner_consider(dfcclContext_t context, dfcclCollId_t id,
                       const dfcclCollOptions_t *options) {
  dfcclCollOptions_t whole = DFCCL_COLL_OPTIONS_INITIALIZER;
  if (options && df_growing_read(&df_growing_options, options, &whole) != dfcclSuccess) return;
  df_rank_lock(&context->lock);
  df_coll *registered = df_find(context, id);
  if (registered) begin(context, registered, whole.tune);
  df_rank_unlock(&context->lock);
}

void df_tuner_begin_anew(dfcclContext_t context, df_coll *registered, int tune) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  begin(context, registered, tune);
}

int df_tuner_summarise(const df_coll *registered, df_tuner_summary *summary) {
  if (registered->plan_switch == NULL || registered->plan_switch->tuner == NULL) return 0;
  const df_search *search = &tuner_of(registered)->search;
  *summary = (df_tuner_summary){.state = search->state,
                                .measured = search->descent.n_measured,
                                .begun = search->begun,
                                .spent_us = search->budget.spent_ns * 1e-3,
                                .registered_us = search->registered_ns * 1e-3,
                                .tuned_us = search->tuned_ns * 1e-3};
  return 1;
}
