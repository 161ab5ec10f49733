#include "demo_program.h"

#include <math.h>
#include <stdlib.h>

#include "common/cli.h"
#include "common/clock.h"
#include "common/random.h"

bool demo_layout_init(demo_layout *layout, int collectives) {
  layout->offsets = calloc((size_t)collectives + 1, sizeof(size_t));
  if (layout->offsets == NULL) return false;
  double span = log2((double)DEMO_MAX_BYTES / DEMO_MIN_BYTES);
  for (int c = 0; c < collectives; c++) {
    double position = collectives == 1 ? 0.5 : (double)c / (collectives - 1);
    size_t bytes = (size_t)lround(DEMO_MIN_BYTES * exp2(span * position));
    layout->offsets[c + 1] = layout->offsets[c] + bytes / sizeof(uint32_t);
  }
  layout->elements = layout->offsets[collectives];
  return true;
}

void demo_layout_destroy(demo_layout *layout) {
  free(layout->offsets);
  layout->offsets = NULL;
}

/*
 * Element number e of a rank's contribution is factor * e + term, modulo 2^32. Both are random and
 * differ for every rank, collective and iteration. The factor is odd, so no two elements of a
 * buffer are equal: a contribution that is misplaced, left out or counted twice changes the sum.
 */
typedef struct {
  uint32_t factor, term;
} contribution;

static contribution contribution_of(uint64_t seed, int rank, int collective, int64_t iteration) {
  uint64_t bits = df_tool_mix3(seed ^ (uint64_t)iteration << 20, (uint64_t)rank,
                               (uint64_t)collective | UINT64_C(1) << 32);
  return (contribution){(uint32_t)bits | 1u, (uint32_t)(bits >> 32)};
}

static void fill(const demo_options *options, const demo_layout *layout, int rank,
                 int64_t iteration, uint32_t *send) {
  for (int c = 0; c < options->collectives; c++) {
    contribution mine = contribution_of(options->seed, rank, c, iteration);
    uint32_t *elements = send + layout->offsets[c];
    size_t count = layout->offsets[c + 1] - layout->offsets[c];
    for (size_t e = 0; e < count; e++) elements[e] = mine.factor * (uint32_t)e + mine.term;
  }
}

static void check(const demo_options *options, const demo_layout *layout, int64_t iteration,
                  const uint32_t *receive, demo_report *report) {
  for (int c = 0; c < options->collectives; c++) {
    contribution sum = {0, 0};
    for (int r = 0; r < options->n_ranks; r++) {
      contribution one = contribution_of(options->seed, r, c, iteration);
      sum.factor += one.factor;
      sum.term += one.term;
    }
    const uint32_t *elements = receive + layout->offsets[c];
    size_t count = layout->offsets[c + 1] - layout->offsets[c];
    size_t wrong = 0;
    for (size_t e = 0; e < count; e++) wrong += elements[e] != sum.factor * (uint32_t)e + sum.term;
    report->checked += count;
    if (wrong != 0 && report->wrong == 0) {
      size_t e = 0;
      while (elements[e] == sum.factor * (uint32_t)e + sum.term) e++;
      report->first_wrong.collective = c;
      report->first_wrong.iteration = iteration;
      report->first_wrong.element = e;
      report->first_wrong.got = elements[e];
      report->first_wrong.expected = sum.factor * (uint32_t)e + sum.term;
    }
    report->wrong += wrong;
  }
}

/* One iteration: all collectives in this rank's order, with synchronisation at random places. */
static bool iterate(const demo_options *options, int rank, int64_t iteration, int *order,
                    demo_engine *engine) {
  df_tool_random random = {
      df_tool_mix3(options->seed, (uint64_t)rank | UINT64_C(1) << 33, (uint64_t)iteration)};
  df_tool_random_order(&random, order, options->collectives);
  if (!engine->begin(engine)) return false;
  for (int i = 0; i < options->collectives; i++) {
    if (!engine->run(engine, order[i])) return false;
    bool synchronize = df_tool_random_below(&random, 4) == 0;
    if (options->sync && synchronize && !engine->synchronize(engine)) return false;
  }
  return engine->finish(engine);
}

void demo_program_run(const demo_options *options, const demo_layout *layout, int rank,
                      demo_engine *engine, df_tool_rank *self) {
  demo_report *report = self->report;
  int *order = calloc((size_t)options->collectives, sizeof(int));
  if (order == NULL) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "out of memory");
    return;
  }
  double start = df_tool_now_seconds(), printed = start;
  for (int64_t iteration = 0; iteration < options->iterations; iteration++) {
    fill(options, layout, rank, iteration, engine->send);
    if (!iterate(options, rank, iteration, order, engine)) break;
    check(options, layout, iteration, engine->receive, report);
    if (!options->progress || rank != 0 || df_tool_now_seconds() - printed < 0.5) continue;
    printed = df_tool_now_seconds();
    df_tool_progress("iteration %lld of %lld, %llu wrong elements", (long long)iteration + 1,
                     (long long)options->iterations, (unsigned long long)report->wrong);
  }
  report->seconds = df_tool_now_seconds() - start;
  if (printed != start) df_tool_progress("%s", "");
  free(order);
}
