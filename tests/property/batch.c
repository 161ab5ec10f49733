#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "support/memory.h"

/* Values near the limits; each variable is left alone half of the time. */
static const struct {
  const char *variable, *values[5];
} choices[] = {
    {"spin_front", {"1", "2", "10", "100", "1000"}},
    {"spin_min", {"1", "3", "50"}},
    {"spin_boost", {"1", "2", "5"}},
    {"fetch_polls", {"0", "1", "20", "1000"}},
    {"quit_polls", {"1", "20", "100", "300"}},
    {"yield_polls", {"1", "100", "1000000000"}},
    {"DFCCL_CONTEXT_SLOTS", {"1", "2", "4"}},
    {"cq", {"ring", "packed", "slots"}},
    {"slot_bytes", {"64", "192", "1000", "8192"}},
    {"slots", {"2", "4", "8"}},
    {"flagged_max", {"0", "64", "1000", "100000"}},
    {"lend_min", {"1", "100", "4000", "100000000"}},
    {"net_lend_min", {"1", "1", "4000"}},
    {"lend", {"0", "1"}},
    {"block_min", {"1", "256", "4096"}},
    {"split", {"1", "2", "3", "5"}},
    {"lanes", {"1", "2", "3"}},
    {"DFCCL_ISA", {"plain"}},
    {"ring_bytes", {"0", "20000", "1000000"}},
    {"ring_budget", {"0", "100000"}},
    {"lend_in_place_min", {"0", "10000"}},
    {"stream_min", {"0", "10000"}},
    {"way", {"1", "2", "3", "4", "5"}},
    {"common", {"0", "2", "2"}},
    {"borrowed_turn_max", {"0", "16", "1000", "4194304"}},
    {"call_min", {"0", "1", "1", "4000"}},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

void batch_make(batch *b, uint64_t seed, bool preempt, int ranks) {
  df_random random = {seed};
  memset(b, 0, sizeof *b);
  b->ranks = df_random_chance(&random, 8) ? 7 + df_random_below(&random, RANKS_MAX - 6)
                                          : 1 + df_random_below(&random, 6);
  if (ranks > 0) b->ranks = ranks;
  b->blocks = df_random_chance(&random, 50) ? 1 : 1 + df_random_below(&random, 4);
  static const int depths[] = {0, 0, 1, 2, 16};
  b->queue_depth = depths[df_random_below(&random, 5)];
  for (int i = 0; i < CHOICES; i++) {
    int values = 0;
    while (values < 5 && choices[i].values[values] != NULL) values++;
    const char *value = choices[i].values[df_random_below(&random, values)];
    /* Always set on CUDA: the default patience is for a GPU, and long for an emulated one. */
    bool set = df_random_chance(&random, 50) || df_on_cuda();
    b->tunables[b->tunable_count].variable = choices[i].variable;
    b->tunables[b->tunable_count++].value = set ? value : NULL;
    if (set && strcmp(choices[i].variable, "slot_bytes") == 0)
      b->largest_bytes = 300 * (size_t)atoi(value);
  }
  bool by_chance = df_random_chance(&random, 5);
  b->tunables[b->tunable_count].variable = "preempt_every";
  b->tunables[b->tunable_count++].value = preempt || by_chance ? "1" : NULL;
}

void batch_lend_by_calls(batch *b, uint64_t seed) {
  static const struct {
    const char *variable, *values[2];
  } forced[] = {{"call_min", {"1", "1"}},      {"lend_min", {"1", "1"}},
                {"lend", {"1", "1"}},          {"lend_in_place_min", {"0", "0"}},
                {"way", {"4", "5"}},           {"common", {"0", NULL}},
                {"slot_bytes", {"8192", NULL}}};
  df_random random = {seed};
  b->largest_bytes = 0;
  for (size_t i = 0; i < sizeof forced / sizeof forced[0]; i++)
    for (int at = 0; at < b->tunable_count; at++)
      if (strcmp(b->tunables[at].variable, forced[i].variable) == 0)
        b->tunables[at].value = forced[i].values[df_random_below(&random, 2)];
}

void batch_print(const batch *b) {
  printf("batch: %d ranks, %d blocks, queue depth %d", b->ranks, b->blocks, b->queue_depth);
  for (int i = 0; i < b->tunable_count; i++)
    if (b->tunables[i].value != NULL)
      printf(" %s=%s", b->tunables[i].variable, b->tunables[i].value);
  printf("\n");
  fflush(stdout);
}

dfcclConfig_t batch_apply(const batch *b) {
  for (int i = 0; i < b->tunable_count; i++) {
    if (strncmp(b->tunables[i].variable, "DFCCL_", 6) != 0)
      df_tune(b->tunables[i].variable, b->tunables[i].value);
    else if (b->tunables[i].value != NULL)
      setenv(b->tunables[i].variable, b->tunables[i].value, 1);
    else
      unsetenv(b->tunables[i].variable);
  }
  dfcclConfig_t config = df_config();
  config.maxBlocks = b->blocks;
  config.queueDepth = b->queue_depth;
  return config;
}
