/*
 * Measures the engines: rounds per second of processor time, on one thread, for each row of Table
 * 1. Prints the table of docs/SIMULATOR.md. rates [SECONDS_FOR_EACH] (default 1).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "estimate.h"
#include "table1_rows.h"

static double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Doubles the rounds until they take long enough. */
static double rate_of(const df_table1_row *row, df_engine engine, double seconds) {
  df_config config;
  df_layout layout;
  df_order order = engine == DF_ENGINE_REFERENCE ? DF_ORDER_ROUNDROBIN : DF_ORDER_CONCAT;
  if (df_table1_config(row, order, 1, &config) != dfcclSuccess ||
      df_config_layout(&config, &layout) != dfcclSuccess)
    exit(1);
  double rate = 0;
  for (uint64_t rounds = 1; rate == 0; rounds *= 2) {
    df_estimate_options options = {.engine = engine, .threads = 1, .rounds = rounds};
    df_estimate estimate;
    double start = processor_seconds();
    if (df_estimate_run(&config, &layout, &options, &estimate) != dfcclSuccess) exit(1);
    double spent = processor_seconds() - start;
    if (spent >= seconds) rate = (double)rounds / spent;
  }
  df_layout_destroy(&layout);
  df_config_destroy(&config);
  return rate;
}

int main(int argument_count, char **arguments) {
  double seconds = argument_count > 1 ? atof(arguments[1]) : 1.0;
  puts("| row | sparse | dense | reference |\n| --- | ---: | ---: | ---: |");
  for (int i = 0; i < DF_TABLE1_ROWS; i++) {
    const df_table1_row *row = &df_table1_rows[i];
    printf("| %s | %.3g | %.3g | %.3g |\n", row->id, rate_of(row, DF_ENGINE_SPARSE, seconds),
           rate_of(row, DF_ENGINE_DENSE, seconds), rate_of(row, DF_ENGINE_REFERENCE, seconds));
    fflush(stdout);
  }
  return 0;
}
