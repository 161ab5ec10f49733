/* Assumptions about traces: members that no file names, and rings that have forgotten calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/operation.h"
#include "schedule_build.h"
#include "trace_calls.h"

void df_trace_note(df_schedule *schedule, const char *text) {
  if (schedule->note_count < DF_MAX_NOTES)
    snprintf(schedule->note[schedule->note_count++], DF_NOTE_BYTES, "%s", text);
}

/* ---- members that no file tells ---- */

static bool append_member(df_trace_members *members, uint32_t rank) {
  if ((members->count & (members->count - 1)) == 0) { /* a power of two, or 0: full */
    uint32_t room = members->count ? 2 * members->count : 1;
    uint32_t *grown = realloc(members->rank, room * sizeof *grown);
    if (!grown) return false;
    members->rank = grown;
  }
  members->rank[members->count++] = rank;
  return true;
}

static bool infer_members(df_trace *trace, bool *unknown, bool *failed) {
  uint32_t groups = trace->groups.count;
  for (uint32_t g = 0; g < groups; g++) unknown[g] = trace->members[g].count == 0;
  for (uint32_t r = 0; r < trace->rank_count; r++) {
    const df_trace_rank *rank = &trace->rank[r];
    for (uint32_t g = 0; g < groups; g++)
      if (unknown[g] && trace->members[g].everybody &&
          !append_member(&trace->members[g], rank->rank))
        return *failed = true;
    for (uint64_t i = 0; i < rank->count; i++) {
      df_trace_members *members = &trace->members[rank->call[i].group];
      if (!unknown[rank->call[i].group] || members->everybody) continue;
      if (members->count > 0 && members->rank[members->count - 1] == rank->rank) continue;
      if (!append_member(members, rank->rank)) return *failed = true;
    }
  }
  return true;
}

static bool has_unknown_root(const df_trace *trace) {
  for (uint32_t r = 0; r < trace->rank_count; r++)
    for (uint64_t i = 0; i < trace->rank[r].count; i++) {
      const df_call_content *content = &trace->rank[r].call[i].content;
      if (!content->has_root &&
          (content->operation == DF_OP_REDUCE || content->operation == DF_OP_BROADCAST ||
           content->operation == DF_OP_GATHER || content->operation == DF_OP_SCATTER))
        return true;
    }
  return false;
}

dfcclResult_t df_trace_complete_groups(df_trace *trace, df_schedule *schedule) {
  char text[DF_NOTE_BYTES];
  bool failed = false, *unknown = calloc(trace->groups.count + 1u, sizeof *unknown);
  if (!unknown || !infer_members(trace, unknown, &failed) || failed) {
    free(unknown);
    return df_schedule_no_memory(trace->rank[0].file);
  }
  for (uint32_t r = 0; r < trace->rank_count; r++)
    if (trace->rank[r].rank_assumed)
      df_trace_note(schedule,
                    "neither the file nor its name has the rank: it is taken to be rank 0");
  if (trace->messages_left_out)
    df_trace_note(schedule, "Gloo's nodes do not tell who sends to whom: messages are left out");
  if (trace->is_replayed && has_unknown_root(trace))
    df_trace_note(
        schedule,
        "the traces do not have the roots of all calls: they are taken to be the first members");
  if (trace->is_replayed && trace->compute_left_out)
    df_trace_note(schedule, "PARAM's compute kernels have no durations: they are left out");
  if (trace->groups_unnamed)
    df_trace_note(
        schedule,
        "the traces do not name process groups: each call is taken to be one of all ranks");
  for (uint32_t g = 0; g < trace->groups.count && !trace->groups_unnamed; g++) {
    if (!unknown[g]) continue;
    snprintf(text, sizeof text, "no file has the members of group %.100s: assumed to be %s",
             df_names_text(&trace->groups, g),
             trace->members[g].everybody ? "all ranks with a file" : "the ranks that use it");
    df_trace_note(schedule, text);
  }
  free(unknown);
  return dfcclSuccess;
}

/* ---- rings that have forgotten their first calls ---- */

static bool has_member(const df_trace_members *members, uint32_t rank) {
  for (uint32_t i = 0; i < members->count; i++)
    if (members->rank[i] == rank) return true;
  return false;
}

/* start[group]: the first call of the group that every member's ring still has. */
dfcclResult_t df_trace_find_starts(const df_trace *trace, df_schedule *schedule, uint64_t *start) {
  uint64_t *first = malloc((trace->groups.count + 1u) * sizeof *first);
  char text[DF_NOTE_BYTES];
  if (!first) return df_schedule_no_memory(trace->rank[0].file);
  for (uint32_t r = 0; r < trace->rank_count; r++) {
    const df_trace_rank *rank = &trace->rank[r];
    if (!rank->begins_late) continue;
    for (uint32_t g = 0; g < trace->groups.count; g++) first[g] = UINT64_MAX;
    for (uint64_t i = rank->count; i-- > 0;)
      if (rank->call[i].from == DF_TRACE_NOBODY)
        first[rank->call[i].group] = rank->call[i].sequence;
    for (uint32_t g = 0; g < trace->groups.count; g++)
      if (has_member(&trace->members[g], rank->rank)) start[g] = DF_MAX(start[g], first[g]);
    snprintf(text, sizeof text,
             "the ring of rank %u begins with its call %llu: what its groups did before is left "
             "out on every rank, and so are messages",
             rank->rank, (unsigned long long)(rank->count > 0 ? rank->call[0].number : 0));
    df_trace_note(schedule, text);
  }
  free(first);
  return dfcclSuccess;
}
