#include "replay_output.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"
#include "common/sort.h"

static double median(double *values, int count) {
  df_tool_sort_doubles(values, (size_t)count);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static const replay_report *report_of(const char *reports, size_t report_bytes, int rank) {
  return (const replay_report *)(const void *)(reports + (size_t)rank * report_bytes);
}

static void summarise_times(const replay_job *job, const char *reports, size_t report_bytes,
                            replay_result *result) {
  static double walls[REPLAY_MAX_ITERATIONS], computes[REPLAY_MAX_ITERATIONS],
      exposed[REPLAY_MAX_ITERATIONS], communications[REPLAY_MAX_ITERATIONS];
  const int ranks = job->plan.n_ranks, iterations = job->options.iterations;
  double ran = 0, waited = 0;
  for (int i = 0; i < iterations; i++) {
    double wall = 0, compute = 0, communication = 0;
    for (int rank = 0; rank < ranks; rank++) {
      const replay_times *times = &report_of(reports, report_bytes, rank)->times[i];
      wall = times->wall > wall ? times->wall : wall;
      communication = times->communication > communication ? times->communication : communication;
      compute += times->compute / ranks;
    }
    walls[i] = wall;
    computes[i] = compute;
    exposed[i] = wall - compute;
    communications[i] = communication;
  }
  for (int rank = 0; rank < ranks; rank++) {
    const replay_report *report = report_of(reports, report_bytes, rank);
    ran += (double)report->ran_ns;
    waited += (double)report->waited_ns;
  }
  result->seconds = median(walls, iterations);
  result->compute_s = median(computes, iterations);
  result->exposed_s = median(exposed, iterations);
  result->communication_s = median(communications, iterations);
  result->cores_short = ran + waited > 0 ? waited / (ran + waited) : -1;
}

replay_result df_replay_summarise(const replay_job *job, const char *reports, size_t report_bytes) {
  replay_result result = {0};
  for (int rank = 0; rank < job->plan.n_ranks; rank++) {
    const replay_report *report = report_of(reports, report_bytes, rank);
    result.runs += report->runs;
    result.wrong += report->wrong;
  }
  const replay_report *first = report_of(reports, report_bytes, 0);
  /* Each timed iteration is played twice: with computing, and without. */
  result.rounds = first->rounds / (2.0 * job->options.iterations);
  result.round_us = first->rounds > 0 ? first->round_seconds / first->rounds * 1e6 : 0;
  summarise_times(job, reports, report_bytes, &result);
  return result;
}

static void print_calls(const replay_plan *plan, uint64_t count, const char *what,
                        const char (*names)[192], int shown) {
  if (count == 0) return;
  fprintf(stderr, "note: %llu of %llu calls %s and are left out:\n", (unsigned long long)count,
          (unsigned long long)plan->file_calls, what);
  for (int i = 0; i < shown; i++) fprintf(stderr, "note:   %s\n", names[i]);
}

void df_replay_print_notes(const replay_plan *plan) {
  for (int i = 0; i < plan->note_count; i++) fprintf(stderr, "note: %s\n", plan->note[i]);
  print_calls(plan, plan->left_out, "have no counterpart", plan->left_out_names,
              plan->left_out_shown);
  print_calls(plan, plan->lacked, "do not exist in the engine's library", plan->lacked_names,
              plan->lacked_shown);
}

static void add_texts(cJSON *object, const replay_job *job) {
  const replay_plan *plan = &job->plan;
  cJSON *files = cJSON_AddArrayToObject(object, "files");
  for (int i = 0; i < job->options.file_count; i++)
    cJSON_AddItemToArray(files, cJSON_CreateString(job->options.files[i]));
  cJSON *notes = cJSON_AddArrayToObject(object, "notes");
  for (int i = 0; i < plan->note_count; i++)
    cJSON_AddItemToArray(notes, cJSON_CreateString(plan->note[i]));
  cJSON *left_out = cJSON_AddArrayToObject(object, "left_out_calls");
  for (int i = 0; i < plan->left_out_shown; i++)
    cJSON_AddItemToArray(left_out, cJSON_CreateString(plan->left_out_names[i]));
  cJSON *lacked = cJSON_AddArrayToObject(object, "lacked_calls");
  for (int i = 0; i < plan->lacked_shown; i++)
    cJSON_AddItemToArray(lacked, cJSON_CreateString(plan->lacked_names[i]));
}

static bool print_json(const replay_job *job, const replay_result *result) {
  const replay_options *options = &job->options;
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "file", options->files[0]);
  cJSON_AddStringToObject(object, "engine", replay_engine_names[options->engine]);
  cJSON_AddStringToObject(object, "library", job->library);
  cJSON_AddStringToObject(object, "order", replay_order_names[options->order]);
  cJSON_AddStringToObject(object, "compute", replay_compute_names[options->compute]);
  cJSON_AddNumberToObject(object, "ranks", job->plan.n_ranks);
  cJSON_AddNumberToObject(object, "iterations", options->iterations);
  cJSON_AddNumberToObject(object, "file_calls", (double)job->plan.file_calls);
  cJSON_AddNumberToObject(object, "left_out", (double)job->plan.left_out);
  cJSON_AddNumberToObject(object, "lacked", (double)job->plan.lacked);
  cJSON_AddNumberToObject(object, "calls", (double)job->plan.calls);
  cJSON_AddNumberToObject(object, "runs", (double)result->runs);
  cJSON_AddNumberToObject(object, "wrong", (double)result->wrong);
  cJSON_AddNumberToObject(object, "seconds", result->seconds);
  cJSON_AddNumberToObject(object, "compute_s", result->compute_s);
  cJSON_AddNumberToObject(object, "rate", options->rate);
  cJSON_AddNumberToObject(object, "planned_compute_s", df_replay_planned_compute_s(&job->plan));
  cJSON_AddNumberToObject(object, "communication_s", result->communication_s);
  cJSON_AddNumberToObject(object, "exposed_s", result->exposed_s);
  cJSON_AddNumberToObject(object, "hidden_s", result->communication_s - result->exposed_s);
  if (result->cores_short < 0)
    cJSON_AddNullToObject(object, "cores_short");
  else
    cJSON_AddNumberToObject(object, "cores_short", result->cores_short);
  if (options->engine == REPLAY_COORDINATOR) {
    cJSON_AddNumberToObject(object, "rounds", result->rounds);
    cJSON_AddNumberToObject(object, "round_us", result->round_us);
  }
  add_texts(object, job);
  return df_tool_print_json(object);
}

bool df_replay_print(const replay_job *job, const replay_result *result) {
  const replay_options *options = &job->options;
  if (options->json) return print_json(job, result);
  printf("%s%s: %d ranks, engine %s, order %s, compute %s\n", options->files[0],
         options->file_count > 1 ? " and others" : "", job->plan.n_ranks,
         replay_engine_names[options->engine], replay_order_names[options->order],
         replay_compute_names[options->compute]);
  printf("  %-32s %12llu\n", "calls in the files", (unsigned long long)job->plan.file_calls);
  if (options->peer) printf("  %-32s %s\n", "library", job->library);
  if (job->plan.lacked > 0)
    printf("  %-32s %12llu\n", "calls that it does not have", (unsigned long long)job->plan.lacked);
  printf("  %-32s %12llu\n", "runs of an iteration", (unsigned long long)result->runs);
  printf("  %-32s %12lld\n", "wrong elements", (long long)result->wrong);
  printf("  %-32s %12.6f\n", "iteration, s", result->seconds);
  printf("  %-32s %12.6f\n", "computing, s", result->compute_s);
  printf("  %-32s %12.6f\n", "communication alone, s", result->communication_s);
  printf("  %-32s %12.6f\n", "exposed communication, s", result->exposed_s);
  printf("  %-32s %12.6f\n", "hidden communication, s",
         result->communication_s - result->exposed_s);
  if (result->cores_short >= 0)
    printf("  %-32s %12.0f\n", "without a core, % of ready time", 100 * result->cores_short);
  if (options->engine == REPLAY_COORDINATOR)
    printf("  %-32s %12.1f\n  %-32s %12.1f\n", "rounds of an iteration", result->rounds,
           "a round, us", result->round_us);
  return df_tool_flush_or_say();
}
