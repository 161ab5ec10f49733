#include "host/membership/admits.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/service.h"
#include "host/membership/membership_parts.h"
#include "host/runs/runs.h"
#include "host/state/registry.h"

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
    context->survival->admits = 1;
    for (uint32_t i = 0; i < context->registry.n_indices; i++) {
      const df_coll *coll = df_registered(context, i);
      if (coll && coll->survival) coll->survival->before_admit = coll->runs.submitted;
    }
  }
  df_rank_unlock(&context->lock);
  if (result == dfcclSuccess) df_service_wake(&context->control);
  return result;
}

/* Whether all runs before the admit have ended here. Their callbacks may still run. */
static int runs_have_ended(const dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll && coll->survival && coll->runs.taken < coll->survival->before_admit) return 0;
  }
  return 1;
}

static void end(dfcclContext_t context, dfcclResult_t status) DF_RANK_LOCKED {
  df_admit *admit = of(context);
  admit->status = status;
  admit->is_reported = 0;
  df_publish_u32(&admit->is_over, 1);
  df_ring_poller(context);
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
  if (admit->is_reported || !runs_have_ended(context)) return;
  if (newcomers->is_ready)
    df_view_admit(&membership->view, newcomers->joining.rank, newcomers->joining.incarnation, now);
  else if (now >= admit->deadline_ns)
    df_view_admit(&membership->view, context->rank, 0, now); /* no newcomer */
  else
    return;
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

void df_admit_installed(dfcclContext_t context, const df_view_content *content) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  char *sentence = context->failure.sentence;
  const size_t bytes = sizeof context->failure.sentence;
  if (!of(context)->is_pending || of(context)->is_over) return;
  if (content->flags & DF_VIEW_ADMITTED) {
    end(context, dfcclSuccess);
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
