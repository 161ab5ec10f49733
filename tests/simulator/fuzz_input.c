/*
 * Fuzz target: any bytes as a configuration, a schedule and a network. No input may cause a crash,
 * a leak or a hang. An accepted schedule can be judged, in both models, by an engine and by the
 * search for the circle. Built with -fsanitize=fuzzer where the compiler has it; otherwise main
 * replays the given files.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "engine_dense.h"
#include "network_file.h"
#include "synthesis/bounds.h"
#include "schedule.h"
#include "wait_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(df_schedule *schedule, bool single) {
  df_dense dense;
  df_circle circle;
  df_sequences *sequences = &schedule->sequences;
  sequences->single_queue = single;
  if (df_dense_create(&dense, sequences->gpu_count, sequences->coll_count) != dfcclSuccess) return;
  bool deadlock = df_dense_deadlocks(&dense, sequences);
  if (df_wait_graph_circle(sequences, &dense, &circle) == dfcclSuccess) {
    if (circle.count > 0 && !deadlock) abort();
    free(circle.wait);
  }
  df_dense_destroy(&dense);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  df_config config;
  df_schedule schedule;
  if (df_config_parse(&config, "config", (const char *)data, size) == dfcclSuccess) {
    df_layout layout;
    if (config.gpu_count <= 4096 && df_config_layout(&config, &layout) == dfcclSuccess)
      df_layout_destroy(&layout);
    df_config_destroy(&config);
  }
  for (int waits = DF_WAITS_AFTER_EACH; waits <= DF_WAITS_AS_STEPS; waits++)
    if (df_schedule_parse(&schedule, "rank-0", (const char *)data, size,
                          (df_schedule_waits)waits) == dfcclSuccess) {
      judge(&schedule, true);
      judge(&schedule, false);
      df_schedule_destroy(&schedule);
    }
  df_network model;
  if (df_network_parse(&model, "network", (const char *)data, size, 24) == dfcclSuccess &&
      !(df_network_bound(&model, DF_OP_ALL_REDUCE, 1 << 20) > 0))
    abort();
  df_network_free(&model);
  return 0;
}

#ifndef DF_FUZZER
int main(int argument_count, char **arguments) {
  for (int i = 1; i < argument_count; i++) {
    FILE *stream = fopen(arguments[i], "rb");
    if (!stream) {
      perror(arguments[i]);
      return 1;
    }
    static uint8_t data[1 << 20];
    size_t size = fread(data, 1, sizeof data, stream);
    fclose(stream);
    LLVMFuzzerTestOneInput(data, size);
    /* Every prefix is tried too, because files get truncated. */
    for (size_t cut = 0; cut < size && size < 4096; cut += 7) LLVMFuzzerTestOneInput(data, cut);
  }
  printf("%d files\n", argument_count - 1);
  return 0;
}
#endif
