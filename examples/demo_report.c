#include "demo_report.h"

#include <stdio.h>

#include "common/cli.h"
#include "demo_baseline.h"

demo_totals demo_add_up(const demo_report *reports, int n_ranks) {
  demo_totals totals = {.first_wrong_rank = -1};
  for (int r = 0; r < n_ranks; r++) {
    const demo_report *one = &reports[r];
    totals.sum.completed += one->completed;
    totals.sum.checked += one->checked;
    totals.sum.wrong += one->wrong;
    totals.sum.preemptions += one->preemptions;
    totals.sum.blocks += one->blocks;
    totals.sum.voluntary_quits += one->voluntary_quits;
    if (one->seconds > totals.sum.seconds) totals.sum.seconds = one->seconds;
    if (one->wrong == 0 || totals.first_wrong_rank >= 0) continue;
    totals.first_wrong_rank = r;
    totals.sum.first_wrong = one->first_wrong;
  }
  return totals;
}

static double preemptions_per_block(const demo_totals *totals) {
  return totals->sum.blocks == 0 ? 0 : (double)totals->sum.preemptions / (double)totals->sum.blocks;
}

static double quits_per_rank(const demo_options *options, const demo_totals *totals) {
  return (double)totals->sum.voluntary_quits / options->n_ranks;
}

bool demo_print_json(const demo_options *options, const demo_totals *totals,
                     const demo_baseline *baseline) {
  const struct {
    const char *key;
    double value;
  } members[] = {
      {"ranks", options->n_ranks},
      {"collectives", options->collectives},
      {"iterations", (double)options->iterations},
      {"completed", (double)totals->sum.completed},
      {"wrong", (double)totals->sum.wrong},
      {"preemptions_per_block", preemptions_per_block(totals)},
      {"preemptions", (double)totals->sum.preemptions},
      {"voluntary_quits_per_rank", quits_per_rank(options, totals)},
      {"seconds", totals->sum.seconds},
  };
  cJSON *object = cJSON_CreateObject();
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    cJSON_AddNumberToObject(object, members[i].key, members[i].value);
  if (baseline != NULL) demo_baseline_add_circle(baseline, object);
  return df_tool_print_json(object);
}

static void print_program(const demo_options *options) {
  printf("%d ranks (%s) run ", options->n_ranks, options->processes ? "processes" : "threads");
  if (options->collectives == 1)
    printf("1 all-reduce of 16 KB, ");
  else
    printf("%d all-reduces of 256 B to 1 MB, ", options->collectives);
  printf("%lld times, each rank in its own random order%s (seed %llu)%s.\n",
         (long long)options->iterations,
         options->sync ? ", with device synchronisation at random places" : "",
         (unsigned long long)options->seed,
         options->in_order_baseline ? ", on a blocking engine: in order, no preemption" : "");
}

void demo_print_summary(const demo_options *options, const demo_totals *totals) {
  uint64_t expected =
      (uint64_t)options->n_ranks * (uint64_t)options->collectives * (uint64_t)options->iterations;
  print_program(options);
  printf("%llu of %llu runs completed in %.2f s; %llu of %llu result elements were wrong.\n",
         (unsigned long long)totals->sum.completed, (unsigned long long)expected,
         totals->sum.seconds, (unsigned long long)totals->sum.wrong,
         (unsigned long long)totals->sum.checked);
  if (totals->first_wrong_rank >= 0)
    printf("The first: rank %d, C%d, iteration %lld, element %zu: got %u, expected %u.\n",
           totals->first_wrong_rank, totals->sum.first_wrong.collective,
           (long long)totals->sum.first_wrong.iteration, totals->sum.first_wrong.element,
           totals->sum.first_wrong.got, totals->sum.first_wrong.expected);
  if (options->in_order_baseline) {
    if (totals->sum.completed == expected)
      printf("No deadlock: by luck, every rank came to the same collective every time.\n");
    return;
  }
  printf("Collectives set aside because they could not progress: %llu times, %.1f per block; "
         "devices left voluntarily: %.1f times per rank.\n",
         (unsigned long long)totals->sum.preemptions, preemptions_per_block(totals),
         quits_per_rank(options, totals));
  if (totals->sum.completed == expected && totals->sum.wrong == 0)
    printf("No deadlock, and every element is right.\n");
}
