/* The output of the demo at its end. */
#ifndef DFCCL_DEMO_REPORT_H
#define DFCCL_DEMO_REPORT_H

#include "demo_program.h"

/* All ranks' reports added up; seconds: of the slowest. */
typedef struct {
  demo_report sum;
  int first_wrong_rank; /* -1: none */
} demo_totals;

demo_totals demo_add_up(const demo_report *reports, int n_ranks);

/* One JSON object on standard output. baseline: NULL if the library has run the program. false: it
 * could not be written. */
bool demo_print_json(const demo_options *options, const demo_totals *totals,
                     const demo_baseline *baseline);

/* A few lines for people, on standard output; says whether the run was fine. */
void demo_print_summary(const demo_options *options, const demo_totals *totals);

#endif
