#include "host/lifecycle/join.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/entry.h"
#include "control/process_inbox.h"
#include "host/membership/newcomers.h"
#include "host/runs/runs.h"
#include "host/state/peer_info.h"

static df_peer_info_content content_of(const df_peer_info *info) {
  df_peer_info_content content;
  memcpy(&content, info->bytes, sizeof content);
  return content;
}

static dfcclResult_t differ(const char *what, const char *value, const char *value_of_job) {
  return df_fail(dfcclMismatch, "%s is %s on the newcomer and %s in the job", what, value,
                 value_of_job);
}

/* The members have computed shapes and choices from the facts of the rank that was lost, and cannot
 * compute them anew. So the newcomer takes over the facts that may differ, and refuses others. */
static dfcclResult_t adopt(df_settings *settings, const df_peer_info *own, df_mesh *mesh) {
  df_peer_info *place = &mesh->peer_info[mesh->rank];
  df_peer_info_content mine = content_of(own);
  const df_peer_info_content theirs = content_of(place);
  if (mine.device.backend != theirs.device.backend)
    return differ("the device", mine.device.backend == dfcclBackendCuda ? "CUDA" : "the CPU",
                  theirs.device.backend == dfcclBackendCuda ? "CUDA" : "the CPU");
  if (mine.transport.wants_wire != theirs.transport.wants_wire)
    return differ("DFCCL_NET", mine.transport.wants_wire ? "a network" : "automatic",
                  theirs.transport.wants_wire ? "a network" : "automatic");
  if (mine.transport.security != theirs.transport.security)
    return df_fail(dfcclMismatch, "DFCCL_NET_SECURITY differs between the newcomer and the job");
  if (mine.calibration != theirs.calibration)
    return df_fail(dfcclMismatch,
                   "the newcomer has another calibration (DFCCL_CALIBRATION) than the job");
  mine.max_blocks = theirs.max_blocks;
  mine.shared_blocks = theirs.shared_blocks;
  memcpy(mine.cpus, theirs.cpus, sizeof mine.cpus);
  settings->max_blocks = theirs.max_blocks;
  settings->shared_blocks = theirs.shared_blocks;
  memcpy(place->bytes, &mine, sizeof mine);
  if (df_process_inbox_exists(mesh->job))
    return df_fail(dfcclInvalidUsage, "this process has a rank of the job already");
  return dfcclSuccess;
}

static dfcclResult_t await(dfcclContext_t context, uint64_t deadline_ns) {
  dfcclResult_t result = df_newcomer_check(context);
  while (result == dfcclInProgress && df_clock_ns() < deadline_ns) {
    usleep(300);
    result = df_newcomer_check(context);
  }
  return result;
}

/* dfcclInProgress: another attempt may succeed. */
static dfcclResult_t try_once(dfcclContext_t *out, const df_entrance *entrance,
                              const df_settings *given, uint64_t deadline_ns) {
  df_settings settings = *given;
  df_mesh mesh = {0};
  dfcclContext_t context = NULL;
  const df_peer_info info = df_make_peer_info(&settings);
  dfcclResult_t result =
      df_entry_join(entrance, &info, (uint32_t)settings.survive, deadline_ns, &mesh);
  if (result != dfcclSuccess) return result;
  result = adopt(&settings, &info, &mesh);
  if (result != dfcclSuccess) {
    df_mesh_close(&mesh);
    return result;
  }
  result = df_context_open(&context, (uint32_t)mesh.n_ranks, (uint32_t)mesh.rank, &settings, &mesh);
  if (result != dfcclSuccess) return result;
  df_newcomer_is_ready(context);
  result = await(context, deadline_ns);
  if (result == dfcclSuccess) {
    *out = context;
    return result;
  }
  char sentence[DF_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s",
           result == dfcclInProgress ? "the members have not called dfcclAdmit"
                                     : df_last_sentence());
  df_context_close(context);
  return df_fail(dfcclInProgress, "%s", sentence);
}

dfcclResult_t df_job_join(dfcclContext_t *context, const dfcclUniqueId *id,
                          const df_settings *settings) {
  df_entrance entrance;
  if (df_in_callback())
    return df_fail(dfcclInvalidUsage, "dfcclJoin was called from a callback; it waits for others");
  if (settings->survive == 0)
    return df_fail(dfcclInvalidUsage, "dfcclJoin needs config.survive 1 or 2, as the job has");
  dfcclResult_t result = df_entrance_read(id, &entrance);
  if (result != dfcclSuccess) return result;
  const uint64_t deadline_ns = df_after_ms((uint64_t)settings->init_timeout_ms);
  df_process_inbox_arriving();
  do result = try_once(context, &entrance, settings, deadline_ns);
  while (result == dfcclInProgress && df_clock_ns() < deadline_ns);
  df_process_inbox_arrived();
  if (result != dfcclInProgress) return result;
  char reason[DF_SENTENCE_BYTES];
  snprintf(reason, sizeof reason, "%s", df_last_sentence());
  return df_fail(dfcclTimeout, "this process could not join the job within %lld ms: %.600s",
                 settings->init_timeout_ms, reason);
}
