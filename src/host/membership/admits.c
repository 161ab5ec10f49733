#include "host/membership/admits.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/service.h"
#include "host/membership/membership_parts.h"
#include "host/runs/runs.h"
#include "host/state/registry.h"

#define WARN_NS 5000000000u
enum { DF_COUNTS_DIFFER = 1 /* the reason of a member that takes nobody in */ };

static df_admit *of(const dfcclContext_t context) { return &df_membership_of(context)->admit; }

static dfcclResult_t check(dfcclContext_t context) DF_RANK_LOCKED {
  if (context->survival == NULL)
    return df_fail(dfcclInvalidUsage, "dfcclAdmit needs config.survive 1 or 2; it is 0 on rank %u",
                   context->rank);
  if (context->failure.broken != dfcclSuccess)
    return df_fail_again(context->failure.broken, context->failure.broken_sentence);
  if (of(context)->is_closing)
    return df_fail(dfcclInvalidUsage, "rank %u calls dfcclAdmit while dfcclDestroy waits for it",
                   context->rank);
  if (of(context)->is_pending)
    return df_fail(dfcclInvalidUsage, "rank %u calls dfcclAdmit before an earlier one has ended",
                   context->rank);
  return dfcclSuccess;
}

dfcclResult_t df_admit_begin(dfcclContext_t context, dfcclAdmitCallback_t callback,
                             void *argument) {
  df_rank_lock(&context->lock);
  const dfcclResult_t result = check(context);
  if (result == dfcclSuccess) {
    const uint64_t now = df_clock_ns();
    df_admit *admit = of(context);
    admit->callback = callback;
    admit->argument = argument;
    admit->is_pending = 1;
    admit->is_reported = 0;
    admit->begin_ns = now;
    admit->deadline_ns = now + (uint64_t)context->settings.init_timeout_ms * 1000000;
    admit->has_warned = 0;
    context->survival->admits = 1;
    df_admit_counts_begin(&admit->counts);
  }
  df_rank_unlock(&context->lock);
  if (result == dfcclSuccess) df_service_wake(&context->control);
  return result;
}

static void end(dfcclContext_t context, dfcclResult_t status) DF_RANK_LOCKED {
  df_admit *admit = of(context);
  admit->status = status;
  admit->is_reported = admit->counts.is_open = 0;
  df_publish_u32(&admit->is_over, 1);
  df_ring_poller(context);
}

static void warn_of_missing(dfcclContext_t context, uint64_t now) DF_RANK_LOCKED {
  df_admit *admit = of(context);
  if (admit->has_warned || now - admit->begin_ns < WARN_NS) return;
  admit->has_warned = 1;
  df_log(DF_LOG_WARN, "rank %u waits in dfcclAdmit: rank %u has not called it", context->rank,
         df_admit_counts_missing(&admit->counts));
}

void df_admit_progress(dfcclContext_t context) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_membership *membership = df_membership_of(context);
  df_admit *admit = &membership->admit;
  const df_newcomers *newcomers = &membership->newcomers;
  const uint64_t now = df_clock_ns();
  if (!admit->is_pending || admit->is_over) return;
  if (context->failure.broken != dfcclSuccess) {
    end(context, context->failure.broken);
    return;
  }
  if (admit->is_reported) return;
  if (df_admit_counts_difference(&admit->counts)) { /* runs of others may never come */
    df_view_admit(&membership->view, context->rank, DF_COUNTS_DIFFER, now);
  } else if (!df_admit_counts_have_ended(&admit->counts)) {
    return;
  } else if (df_admit_counts_missing(&admit->counts) != DF_NOBODY) {
    warn_of_missing(context, now);
    return;
  } else if (newcomers->is_ready) {
    df_view_admit(&membership->view, newcomers->joining.rank, newcomers->joining.incarnation, now);
  } else if (now >= admit->deadline_ns) {
    df_view_admit(&membership->view, context->rank, 0, now); /* no newcomer */
  } else {
    return;
  }
  admit->is_reported = 1;
  df_membership_drive(context);
}

/* The ends of runs do not wake the service thread. */
int df_admit_tick_ms(dfcclContext_t context) {
  enum { SOON_NS = 200000000, SOON_MS = 1, LATER_MS = 10 };
  const df_admit *admit = of(context);
  if (!admit->is_pending || admit->is_over || admit->is_reported) return -1;
  return df_clock_ns() - admit->begin_ns < SOON_NS ? SOON_MS : LATER_MS;
}

/* A member that did not find the difference itself may not have its message yet. */
static void say_difference(const df_count_difference *difference, char *sentence, size_t bytes) {
  if (difference)
    snprintf(sentence, bytes,
             "ranks %u and %u have called dfcclAdmit between different runs: collective %" PRIu64
             " had %" PRIu64 " runs before it on rank %u and %" PRIu64 " on rank %u",
             difference->ranks[0], difference->ranks[1], difference->collective,
             difference->runs[0], difference->ranks[0], difference->runs[1], difference->ranks[1]);
  else
    snprintf(sentence, bytes, "the members have called dfcclAdmit between different runs");
}

void df_admit_installed(dfcclContext_t context, const df_view_content *content) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  char *sentence = context->failure.sentence;
  const size_t bytes = sizeof context->failure.sentence;
  const df_count_difference *difference = df_admit_counts_difference(&of(context)->counts);
  of(context)->counts.round = content->number;
  if (!of(context)->is_pending || of(context)->is_over) return;
  if (content->flags & DF_VIEW_ADMITTED) {
    end(context, dfcclSuccess);
  } else if (df_is_member(context->survival, content->newcomer.rank) &&
             content->newcomer.value == DF_COUNTS_DIFFER) {
    say_difference(difference, sentence, bytes);
    end(context, dfcclMismatch);
  } else if (df_is_member(context->survival, content->newcomer.rank)) {
    snprintf(sentence, bytes, "no process has joined within %lld ms (DFCCL_INIT_TIMEOUT_MS)",
             context->settings.init_timeout_ms);
    end(context, dfcclTimeout);
  } else {
    snprintf(sentence, bytes,
             "the process that was to become rank %u was lost while it joined, or a member waited "
             "for another one",
             content->newcomer.rank);
    end(context, dfcclRemoteError);
  }
}

int df_admit_tell(dfcclContext_t context) {
  df_admit *admit = of(context);
  if (!df_observe_u32(&admit->is_over)) return 0;
  df_rank_lock(&context->lock);
  /* The application is notified of the view first. */
  const int is_due = admit->is_pending && admit->is_over &&
                     (context->failure.broken != dfcclSuccess || admit->status == dfcclAborted ||
                      context->survival->told == context->survival->view);
  const df_admit over = *admit;
  if (is_due) {
    admit->is_pending = 0;
    df_store_relaxed_u32(&admit->is_over, 0);
    admit->calls_back = 1;
    context->survival->admits = 0;
  }
  df_rank_unlock(&context->lock);
  if (!is_due) return 0;
  if (over.callback) {
    df_enter_callback(NULL);
    over.callback(context, over.status, over.argument);
    df_leave_callback();
  }
  df_rank_lock(&context->lock);
  admit->calls_back = 0;
  df_rank_unlock(&context->lock);
  return 1;
}

void df_admit_end(dfcclContext_t context) {
  df_admit *admit = of(context);
  df_rank_lock(&context->lock);
  admit->is_closing = 1;
  if (admit->is_pending && !admit->is_over) end(context, dfcclAborted);
  while (admit->is_pending || admit->calls_back) {
    df_rank_unlock(&context->lock);
    usleep(200);
    df_rank_lock(&context->lock);
  }
  df_rank_unlock(&context->lock);
}
