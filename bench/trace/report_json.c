/* The JSON object of --json. Members are added to it, and never changed. */
#include <inttypes.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "common/cli.h"
#include "trace/report.h"

static void add_summary(cJSON *to, const df_run_summary *summary) {
  cJSON_AddNumberToObject(to, "runs", (double)summary->runs);
  cJSON_AddNumberToObject(to, "failed", (double)summary->failed);
  cJSON_AddNumberToObject(to, "partial", (double)summary->partial);
  cJSON_AddNumberToObject(to, "time_us_median", summary->time_us);
  cJSON_AddNumberToObject(to, "wait_us_median", summary->wait_us);
  cJSON_AddNumberToObject(to, "time_us_total", summary->total_us);
  if (summary->runs == 0) return;
  cJSON_AddNumberToObject(to, "last_rank", summary->last_rank);
  cJSON_AddNumberToObject(to, "last_share", summary->last_share);
}

static void add_id(cJSON *to, const df_traced_collective *traced) {
  char id[32];
  snprintf(id, sizeof id, "%" PRIu64, traced->id);
  cJSON_AddStringToObject(to, "id", id);
}

static void add_configurations(cJSON *to, const df_job_trace *job, uint32_t row) {
  const df_traced_collective *traced = job->rows[row].first;
  cJSON *all = cJSON_AddArrayToObject(to, "configurations");
  for (size_t i = 0; i < traced->n_configurations; i++) {
    const df_traced_configuration *c = &traced->configurations[i];
    const uint64_t until = i + 1 < traced->n_configurations ? c[1].from_run : UINT64_MAX;
    const df_run_summary summary = df_summarise_runs(job, &row, 1, c->from_run, until);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "from_run", (double)c->from_run);
    cJSON_AddNumberToObject(one, "switch", (double)c->switches);
    cJSON_AddStringToObject(one, "algorithm", c->algorithm);
    cJSON_AddNumberToObject(one, "split", (double)c->split);
    cJSON_AddNumberToObject(one, "blocks", (double)c->blocks);
    cJSON_AddNumberToObject(one, "slot_bytes", (double)c->slot_bytes);
    cJSON_AddNumberToObject(one, "slots", (double)c->slots);
    cJSON_AddStringToObject(one, "form", c->form);
    cJSON_AddBoolToObject(one, "lends", c->lends);
    cJSON_AddStringToObject(one, "purpose", c->purpose);
    cJSON_AddStringToObject(one, "why", c->why);
    cJSON_AddNumberToObject(one, "runs", (double)summary.runs);
    cJSON_AddNumberToObject(one, "time_us_median", summary.time_us);
    cJSON_AddItemToArray(all, one);
  }
}

static void add_failure(cJSON *to, const df_traced_failure *failure) {
  if (failure->status == 0) return;
  cJSON *one = cJSON_AddObjectToObject(to, "failure");
  cJSON_AddNumberToObject(one, "status", failure->status);
  cJSON_AddStringToObject(one, "why", failure->why);
}

static void add_ranks(cJSON *root, const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  cJSON *ranks = cJSON_AddArrayToObject(root, "traces");
  for (uint32_t r = 0; r < job->n_ranks; r++) {
    const df_rank_summary *sums = &summary->ranks[r];
    if (!job->ranks[r].is_there) continue;
    cJSON *rank = cJSON_CreateObject();
    cJSON_AddNumberToObject(rank, "rank", r);
    cJSON_AddStringToObject(rank, "host", job->ranks[r].host);
    cJSON_AddBoolToObject(rank, "whole", job->ranks[r].is_whole);
    cJSON_AddNumberToObject(rank, "clock_moved_us", (double)job->ranks[r].moved_ns / 1e3);
    cJSON_AddNumberToObject(rank, "runs", (double)sums->runs);
    cJSON_AddNumberToObject(rank, "failed", (double)sums->failed);
    cJSON_AddNumberToObject(rank, "waiting", (double)sums->waiting);
    cJSON_AddNumberToObject(rank, "missing", (double)sums->missing);
    cJSON_AddNumberToObject(rank, "last", (double)sums->last);
    cJSON_AddNumberToObject(rank, "time_us", sums->time_us);
    cJSON_AddNumberToObject(rank, "wait_us", sums->wait_us);
    cJSON_AddNumberToObject(rank, "callbacks_us", sums->callbacks_us);
    cJSON_AddNumberToObject(rank, "synchronisations_us", sums->synchronisations_us);
    add_failure(rank, &job->ranks[r].failure);
    cJSON_AddItemToArray(ranks, rank);
  }
}

static void add_collectives(cJSON *root, const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  cJSON *collectives = cJSON_AddArrayToObject(root, "collectives");
  for (size_t i = 0; i < summary->collectives.n; i++) {
    const df_signature *alone = &summary->collectives.all[i];
    const uint32_t row = alone->rows[0];
    const df_traced_collective *traced = job->rows[row].first;
    const df_traced_configuration *last = &traced->configurations[traced->n_configurations - 1];
    cJSON *one = cJSON_CreateObject();
    add_id(one, traced);
    cJSON_AddStringToObject(one, "name", traced->name);
    cJSON_AddStringToObject(one, "operation", traced->operation);
    cJSON_AddStringToObject(one, "type", traced->type);
    cJSON_AddStringToObject(one, "algorithm", last->algorithm);
    cJSON_AddNumberToObject(one, "bytes", (double)traced->bytes);
    cJSON_AddNumberToObject(one, "members", traced->members);
    add_summary(one, &alone->summary);
    cJSON_AddNumberToObject(one, "signature", summary->signatures.of_row[row]);
    add_configurations(one, job, row);
    cJSON_AddItemToArray(collectives, one);
  }
}

static void add_signatures(cJSON *root, const df_job_summary *summary) {
  cJSON *signatures = cJSON_AddArrayToObject(root, "signatures");
  for (size_t i = 0; i < summary->signatures.n; i++) {
    const df_signature *signature = &summary->signatures.all[i];
    const df_traced_collective *traced = summary->job->rows[signature->rows[0]].first;
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "operation", traced->operation);
    cJSON_AddStringToObject(one, "type", traced->type);
    cJSON_AddNumberToObject(one, "bytes", (double)traced->bytes);
    cJSON_AddNumberToObject(one, "members", traced->members);
    cJSON_AddNumberToObject(one, "collectives", (double)signature->n_rows);
    add_summary(one, &signature->summary);
    cJSON_AddItemToArray(signatures, one);
  }
}

static void add_members(cJSON *to, const df_job_trace *job, const df_problem *problem) {
  const df_traced_collective *traced = job->rows[problem->row].first;
  cJSON *members = cJSON_AddArrayToObject(to, "members");
  for (uint32_t m = 0; m < traced->members; m++) {
    int status;
    const df_outcome outcome = df_outcome_on(job, problem, traced->group[m], &status);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "rank", traced->group[m]);
    cJSON_AddStringToObject(one, "outcome", df_outcome_names[outcome]);
    if (outcome == DF_OUTCOME_FAILED) {
      cJSON_AddNumberToObject(one, "status", status);
      cJSON_AddStringToObject(one, "error", dfcclGetErrorString((dfcclResult_t)status));
    }
    cJSON_AddItemToArray(members, one);
  }
}

static void add_problems(cJSON *root, const df_job_summary *summary) {
  const df_job_trace *job = summary->job;
  cJSON *problems = cJSON_AddArrayToObject(root, "problems");
  for (size_t i = 0; i < summary->n_problems; i++) {
    const df_problem *problem = &summary->problems[i];
    const df_traced_collective *traced = job->rows[problem->row].first;
    cJSON *one = cJSON_CreateObject();
    add_id(one, traced);
    cJSON_AddStringToObject(one, "name", traced->name);
    cJSON_AddStringToObject(one, "operation", traced->operation);
    cJSON_AddNumberToObject(one, "first_run", (double)problem->first_run);
    cJSON_AddNumberToObject(one, "last_run", (double)problem->last_run);
    add_members(one, job, problem);
    cJSON_AddItemToArray(problems, one);
  }
}

static void add_failures(cJSON *root, const df_job_trace *job) {
  cJSON *failures = cJSON_AddArrayToObject(root, "failures");
  for (size_t i = 0; i < job->n_collectives; i++) {
    const df_traced_collective *traced = &job->collectives[i];
    if (traced->failure.status == 0) continue;
    cJSON *one = cJSON_CreateObject();
    add_id(one, traced);
    cJSON_AddStringToObject(one, "name", traced->name);
    cJSON_AddNumberToObject(one, "rank", traced->rank);
    add_failure(one, &traced->failure);
    cJSON_AddItemToArray(failures, one);
  }
}

bool df_job_print_json(const df_job_summary *summary) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddNumberToObject(root, "ranks", summary->job->n_ranks);
  add_ranks(root, summary);
  add_collectives(root, summary);
  add_signatures(root, summary);
  add_problems(root, summary);
  add_failures(root, summary->job);
  df_job_add_turns(root, summary);
  df_job_add_messages(root, summary->job);
  return df_tool_print_json(root);
}
