#include "engine_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim_limits.h"

typedef enum { PART_NONE, PART_INVOKED, PART_EXECUTING, PART_SUCCESSFUL } part_state;
typedef enum { COLOUR_NEW, COLOUR_OPEN, COLOUR_CLOSED } colour;

typedef struct {
  const df_sequences *sequences;
  uint64_t *submitted; /* GPU -> events submitted so far */
  uint64_t *started;   /* GPU -> events of the queue that have left it */
  unsigned char *part; /* [gpu][collective] */
  unsigned char *mark; /* [gpu][collective], of the search */
} oracle;

static unsigned char *part_of(oracle *state, uint32_t gpu, uint32_t collective) {
  return &state->part[gpu * state->sequences->coll_count + collective];
}

static bool executes_here(oracle *state, uint32_t gpu) {
  for (uint32_t c = 0; c < state->sequences->coll_count; c++)
    if (*part_of(state, gpu, c) == PART_EXECUTING) return true;
  return false;
}

/* The queue's head leaves it if the model lets it. */
static bool start_next(oracle *state, uint32_t gpu) {
  const df_sequences *sequences = state->sequences;
  if (state->started[gpu] == state->submitted[gpu]) return false;
  uint32_t event = sequences->event[sequences->first[gpu] + state->started[gpu]];
  bool waits = event == DF_EVENT_SYNC || sequences->single_queue;
  if (waits && executes_here(state, gpu)) return false;
  state->started[gpu]++;
  if (event != DF_EVENT_SYNC) *part_of(state, gpu, event) = PART_EXECUTING;
  return true;
}

static bool complete_one(oracle *state) {
  const df_sequences *sequences = state->sequences;
  for (uint32_t c = 0; c < sequences->coll_count; c++) {
    uint32_t group = sequences->group_of[c], first = sequences->member_first[group];
    uint32_t end = sequences->member_first[group + 1], executing = 0;
    for (uint32_t i = first; i < end; i++)
      executing += *part_of(state, sequences->member[i], c) == PART_EXECUTING;
    if (executing == 0 || executing < end - first) continue;
    for (uint32_t i = first; i < end; i++)
      *part_of(state, sequences->member[i], c) = PART_SUCCESSFUL;
    return true;
  }
  return false;
}

static void settle(oracle *state) {
  for (bool moved = true; moved;) {
    moved = complete_one(state);
    for (uint32_t gpu = 0; gpu < state->sequences->gpu_count; gpu++)
      while (start_next(state, gpu)) moved = true;
  }
}

static bool finds_circle(oracle *state, uint32_t gpu, uint32_t collective);

static bool follow(oracle *state, uint32_t gpu, uint32_t collective) {
  unsigned char mark = state->mark[gpu * state->sequences->coll_count + collective];
  return mark == COLOUR_OPEN || (mark == COLOUR_NEW && finds_circle(state, gpu, collective));
}

static bool finds_circle(oracle *state, uint32_t gpu, uint32_t collective) {
  const df_sequences *sequences = state->sequences;
  unsigned char *mark = &state->mark[gpu * sequences->coll_count + collective];
  *mark = COLOUR_OPEN;
  part_state part = (part_state)*part_of(state, gpu, collective);
  if (part == PART_EXECUTING) {
    uint32_t group = sequences->group_of[collective];
    for (uint32_t i = sequences->member_first[group]; i < sequences->member_first[group + 1]; i++) {
      uint32_t member = sequences->member[i];
      if (*part_of(state, member, collective) < PART_EXECUTING && follow(state, member, collective))
        return true;
    }
  }
  if (part == PART_INVOKED)
    for (uint32_t c = 0; c < sequences->coll_count; c++)
      if (*part_of(state, gpu, c) == PART_EXECUTING && follow(state, gpu, c)) return true;
  *mark = COLOUR_CLOSED;
  return false;
}

static bool has_circle(oracle *state) {
  uint64_t colls = state->sequences->coll_count;
  memset(state->mark, COLOUR_NEW, state->sequences->gpu_count * colls);
  for (uint32_t gpu = 0; gpu < state->sequences->gpu_count; gpu++)
    for (uint32_t c = 0; c < colls; c++)
      if (state->mark[gpu * colls + c] == COLOUR_NEW && finds_circle(state, gpu, c)) return true;
  return false;
}

/* The next GPU to submit: any that still has events, chosen by a small generator (splitmix64). */
static bool choose(oracle *state, uint64_t *seed, uint32_t *gpu) {
  const df_sequences *sequences = state->sequences;
  uint32_t ready = 0;
  for (uint32_t g = 0; g < sequences->gpu_count; g++)
    ready += state->submitted[g] < sequences->first[g + 1] - sequences->first[g];
  if (ready == 0) return false;
  uint64_t mixed = *seed += UINT64_C(0x9E3779B97F4A7C15);
  mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
  uint32_t chosen = (uint32_t)((mixed ^ (mixed >> 31)) % ready);
  for (uint32_t g = 0; g < sequences->gpu_count; g++) {
    if (state->submitted[g] == sequences->first[g + 1] - sequences->first[g]) continue;
    if (chosen-- > 0) continue;
    *gpu = g;
    return true;
  }
  return false;
}

static bool run(oracle *state, uint64_t seed) {
  const df_sequences *sequences = state->sequences;
  for (uint32_t gpu; choose(state, &seed, &gpu);) {
    uint32_t event = sequences->event[sequences->first[gpu] + state->submitted[gpu]++];
    if (event != DF_EVENT_SYNC) *part_of(state, gpu, event) = PART_INVOKED;
    settle(state);
    if (has_circle(state)) return true;
  }
  /* Everything is submitted and nothing waits in a circle, so everything must have succeeded. */
  for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++) {
    DF_ASSERT(state->started[gpu] == state->submitted[gpu]);
    DF_ASSERT(!executes_here(state, gpu));
  }
  return false;
}

dfcclResult_t df_oracle_deadlocks(const df_sequences *sequences, uint64_t sweep_seed,
                                  bool *deadlock) {
  uint64_t parts = sequences->gpu_count * sequences->coll_count;
  if (parts > DF_SIM_MAX_ORACLE_PARTS)
    return df_fail(dfcclInvalidArgument,
                   "the oracle engine is for small configurations: %u GPUs x %llu collectives are "
                   "more than the %llu it takes",
                   sequences->gpu_count, (unsigned long long)sequences->coll_count,
                   (unsigned long long)DF_SIM_MAX_ORACLE_PARTS);
  oracle state = {.sequences = sequences,
                  .submitted = calloc(sequences->gpu_count + 1u, sizeof(uint64_t)),
                  .started = calloc(sequences->gpu_count + 1u, sizeof(uint64_t)),
                  .part = calloc(parts + 1, 1),
                  .mark = calloc(parts + 1, 1)};
  bool allocated = state.submitted && state.started && state.part && state.mark;
  if (allocated) *deadlock = run(&state, sweep_seed);
  free(state.submitted);
  free(state.started);
  free(state.part);
  free(state.mark);
  return allocated ? dfcclSuccess : df_fail(dfcclOutOfMemory, "no memory for the oracle engine");
}
