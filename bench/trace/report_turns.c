/* The daemon's turns and waits, as tables and in the JSON object. */
#include <inttypes.h>
#include <stdio.h>

#include "trace/report.h"

enum { MOST_PRINTED = 10, MOST_IN_JSON = 100 };

static const char *name_of(const df_job_trace *job, size_t of) {
  return job->rows[job->collectives[of].row].first->name;
}

static void print_waits(const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  const df_turn_summary *turns = &summary->turns;
  const int64_t zero = df_job_first_time(job);
  if (turns->n_waits == 0) return;
  puts("\nThe longest waits of a block for another rank, from the first poll without success to "
       "the\n"
       "first success. The other rank had not sent a message, or had not freed a slot for one.\n"
       "turns: turns of the collective in which the block polled; at: ms since the trace began\n\n"
       "  wait us       at ms    rank  waits for  link            turns       polls  collective");
  for (size_t i = 0; i < turns->n_waits && i < MOST_PRINTED; i++) {
    const df_traced_wait *wait = &turns->waits[i];
    printf("%9.1f  %10.3f  %6u     %6u  %-11s  %8" PRIu64 "  %10" PRIu64 "  %s\n",
           (double)(wait->to - wait->from) / 1e3, (double)(wait->from - zero) / 1e6, wait->rank,
           wait->peer, wait->sends ? "a free slot" : "its message", wait->turns, wait->polls,
           name_of(job, wait->of));
  }
}

void df_job_print_turns(const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  if (job->n_turns == 0) return;
  puts("\nTurns of the daemon. done: a run ended; kept: the collective kept its place, since "
       "another\n"
       "thread executes the block; taken: runs; saved, loaded: contexts; lost: records that the\n"
       "ring has overwritten\n\n"
       "  rank       done  preempted       kept      quits      taken      saved     loaded"
       "       lost");
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    const uint64_t *n = summary->turns.ranks[r];
    if (!job->ranks[r].is_there) continue;
    printf("%6u %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64
           " %10" PRIu64 " %10" PRIu64 "\n",
           r, n[DF_TURN_DONE], n[DF_TURN_PREEMPTED], n[DF_TURN_KEPT], n[DF_TURN_QUIT],
           n[DF_TURN_TAKEN], n[DF_TURN_SAVED], n[DF_TURN_LOADED], n[DF_TURN_LOST]);
  }
  print_waits(summary);
}

static void add_waits(cJSON *root, const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  const int64_t zero = df_job_first_time(job);
  cJSON *waits = cJSON_AddArrayToObject(root, "waits");
  for (size_t i = 0; i < summary->turns.n_waits && i < MOST_IN_JSON; i++) {
    const df_traced_wait *wait = &summary->turns.waits[i];
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "us", (double)(wait->to - wait->from) / 1e3);
    cJSON_AddNumberToObject(one, "at_us", (double)(wait->from - zero) / 1e3);
    cJSON_AddNumberToObject(one, "rank", wait->rank);
    cJSON_AddNumberToObject(one, "block", wait->block);
    cJSON_AddNumberToObject(one, "for_rank", wait->peer);
    cJSON_AddStringToObject(one, "link", wait->sends ? "send" : "receive");
    cJSON_AddNumberToObject(one, "turns", (double)wait->turns);
    cJSON_AddNumberToObject(one, "polls", (double)wait->polls);
    cJSON_AddStringToObject(one, "collective", name_of(job, wait->of));
    cJSON_AddItemToArray(waits, one);
  }
}

void df_job_add_turns(cJSON *root, const df_job_summary *summary) {
  static const char *const names[DF_TURN_KINDS] = {"taken", "loads", "saves",     "starts", "quits",
                                                   "lost",  "done",  "preempted", "kept"};
  const df_job_trace *job = summary->job;
  if (job->n_turns == 0) return;
  cJSON *turns = cJSON_AddArrayToObject(root, "turns");
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    if (!job->ranks[r].is_there) continue;
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "rank", r);
    for (int kind = 0; kind < DF_TURN_KINDS; kind++)
      cJSON_AddNumberToObject(one, names[kind], (double)summary->turns.ranks[r][kind]);
    cJSON_AddItemToArray(turns, one);
  }
  add_waits(root, summary);
}
