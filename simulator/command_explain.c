/* dfccl-sim explain: one round's story, for somebody who has never seen such a deadlock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "engine_dense.h"
#include "engine_sparse.h"
#include "estimate.h"
#include "options.h"
#include "sequences.h"
#include "sim_limits.h"
#include "wait_graph.h"

enum { MAX_BLOCKS_SHOWN = 6, MAX_EVENTS_SHOWN = 12, MAX_CURES_TRIED = 16 };

typedef struct {
  uint64_t seed, round;
  int order;
  bool seed_given, order_given;
  const char *file;
} explain_options;

typedef struct {
  df_config config;
  df_layout layout;
  df_field field;
  df_sparse sparse;
  df_expansion expansion;
  df_dense dense;
  df_circle circle;
} story;

enum { NAME_BYTES = DF_GROUP_NAME_BYTES + 16 };

static const char *name_of(const story *s, uint32_t collective, char buffer[NAME_BYTES]) {
  uint32_t group = s->expansion.group_of[collective];
  char group_name[DF_GROUP_NAME_BYTES];
  snprintf(buffer, NAME_BYTES, "%s #%u", df_config_group_name(&s->config, group, group_name),
           collective - s->layout.coll_first[group]);
  return buffer;
}

/* The events between two slots of a GPU, in the order in which they were emitted. */
static void print_actual(const story *s, uint32_t gpu, uint64_t first, uint64_t last) {
  const df_sequences *sequences = &s->expansion.sequences;
  uint64_t slot = 0;
  unsigned shown = 0;
  char name[NAME_BYTES];
  bool started = false, after_sync = false;
  for (uint64_t i = sequences->first[gpu]; i < sequences->first[gpu + 1] && slot <= last; i++) {
    bool sync = sequences->event[i] == DF_EVENT_SYNC;
    if (slot >= first && (started || !sync) && shown++ < MAX_EVENTS_SHOWN) {
      if (sync)
        fputs(after_sync ? " SYNC |" : " | SYNC |", stdout);
      else
        printf("%s %s",
               !started || after_sync    ? ""
               : sequences->single_queue ? " |"
                                         : ",",
               name_of(s, sequences->event[i], name));
      started = true;
      after_sync = sync;
    }
    slot += !sync;
  }
  puts(shown > MAX_EVENTS_SHOWN ? ", ..." : "");
}

static void print_block(const story *s, const df_block *block) {
  char name[NAME_BYTES];
  const uint32_t *expected = s->expansion.expected + s->layout.slot_first[block->gpu];
  printf("  GPU %u, its events %llu to %llu\n    expected:", block->gpu,
         (unsigned long long)block->first, (unsigned long long)block->last);
  uint64_t count = block->last - block->first + 1;
  for (uint64_t i = 0; i < count && i < MAX_EVENTS_SHOWN; i++)
    printf("%s %s", i ? "," : "", name_of(s, expected[block->first + i], name));
  printf("%s\n    did:     ", count > MAX_EVENTS_SHOWN ? ", ..." : "");
  print_actual(s, block->gpu, block->first, block->last);
}

static bool in_circle(const story *s, uint32_t gpu) {
  for (uint32_t i = 0; i < s->circle.count; i++)
    if (s->circle.wait[i].gpu == gpu) return true;
  return false;
}

static void print_disorders(const story *s) {
  printf("1. Disorders\n"
         "   Each GPU should run its collectives in its expected order. In %zu place%s a GPU ran "
         "them\n"
         "   in another order, with a %s in between:\n",
         s->sparse.block_count, s->sparse.block_count == 1 ? "" : "s",
         s->config.model == DF_MODEL_SINGLE ? "wait (a single queue runs one collective at a time)"
                                            : "synchronisation");
  size_t shown = 0;
  for (int circle_first = 1; circle_first >= 0; circle_first--)
    for (size_t i = 0; i < s->sparse.block_count && shown < MAX_BLOCKS_SHOWN; i++)
      if (in_circle(s, s->sparse.block[i].gpu) == (circle_first == 1)) {
        print_block(s, &s->sparse.block[i]);
        shown++;
      }
  if (shown < s->sparse.block_count) printf("  and %zu more\n", s->sparse.block_count - shown);
}

/* Where in its own sequence (0 ..) a GPU has a collective. */
static uint64_t turn_of(const story *s, uint32_t gpu, uint32_t collective) {
  const df_sequences *sequences = &s->expansion.sequences;
  uint64_t turn = 0;
  for (uint64_t i = sequences->first[gpu]; sequences->event[i] != collective; i++)
    turn += sequences->event[i] != DF_EVENT_SYNC;
  return turn;
}

static void print_circle(const story *s) {
  bool single = s->config.model == DF_MODEL_SINGLE;
  uint32_t count = s->circle.count;
  char waited[NAME_BYTES], held[NAME_BYTES];
  printf("\n2. The circle\n   %s\n",
         single
             ? "A GPU runs one collective at a time and cannot put one aside:"
             : "A synchronisation holds a GPU until everything submitted before it is complete:");
  for (uint32_t i = 0; i < count; i++) {
    const df_wait *wait = &s->circle.wait[i];
    const df_wait *before =
        &s->circle.wait[(i + count - 1) % count]; /* the wait of the GPU that waits for this one */
    printf("  GPU %u has begun %s (its event %llu) and waits until GPU %u comes to it.\n"
           "    So it does not come to %s (its event %llu), for which GPU %u waits.\n",
           wait->gpu, name_of(s, wait->collective, waited),
           (unsigned long long)turn_of(s, wait->gpu, wait->collective), wait->held_by,
           name_of(s, before->collective, held),
           (unsigned long long)turn_of(s, wait->gpu, before->collective), before->gpu);
  }
  printf("   Everybody in the circle waits for the next one: %u GPU%s for ever%s.\n", count,
         count == 1 ? "" : "s", s->circle.shortest ? "" : " (there may be a shorter circle)");
}

/* Gives gpu's events another order: its collectives as expected (barriers stay), or its barriers
 * gone (moved behind everything, where they hold nothing back). */
static void cure(story *s, uint32_t gpu, bool reorder, uint32_t *kept) {
  df_sequences *sequences = &s->expansion.sequences;
  uint64_t first = sequences->first[gpu], end = sequences->first[gpu + 1], place = first;
  uint32_t *event = sequences->event;
  memcpy(kept, event + first, (end - first) * sizeof *event);
  const uint32_t *expected = s->expansion.expected + s->layout.slot_first[gpu];
  for (uint64_t i = first; i < end; i++) {
    bool sync = kept[i - first] == DF_EVENT_SYNC;
    if (reorder && !sync) event[i] = *expected++;
    if (!reorder && !sync) event[place++] = kept[i - first];
  }
  while (!reorder && place < end) event[place++] = DF_EVENT_SYNC;
}

static dfcclResult_t print_cures(story *s) {
  df_sequences *sequences = &s->expansion.sequences;
  puts("\n3. Changes that would have prevented it (each tried by itself)");
  for (uint32_t i = 0; i < s->circle.count && i < MAX_CURES_TRIED; i++) {
    uint32_t gpu = s->circle.wait[i].gpu;
    uint64_t events = sequences->first[gpu + 1] - sequences->first[gpu];
    uint32_t *kept = malloc((events + 1) * sizeof *kept);
    if (!kept) return df_fail(dfcclOutOfMemory, "no memory for the events of a GPU");
    for (int reorder = 1; reorder >= 0; reorder--) {
      if (!reorder && s->config.model == DF_MODEL_SINGLE) continue;
      cure(s, gpu, reorder, kept);
      bool changed =
          memcmp(kept, sequences->event + sequences->first[gpu], events * sizeof *kept) != 0;
      bool still = df_dense_deadlocks(&s->dense, sequences);
      memcpy(sequences->event + sequences->first[gpu], kept, events * sizeof *kept);
      if (!changed) continue;
      printf("  GPU %u %s: %s.\n", gpu,
             reorder ? "in its expected order" : "without its synchronisations",
             still ? "still a deadlock" : "every collective completes");
    }
    free(kept);
  }
  puts("  A library whose collectives can be preempted: GPUs set the waiting collective aside and "
       "run\n"
       "  the one that the next GPU waits for; every collective completes.");
  return dfcclSuccess;
}

/* The next round that deadlocks, looked for a bounded number of draws further. */
static dfcclResult_t print_next(story *s, const explain_options *explain) {
  uint64_t round = explain->round;
  double per_round = 1.0 + s->field.rare * (double)s->field.slot_count;
  uint64_t tries = (uint64_t)DF_MIN(1e6, 2e7 / per_round);
  for (uint64_t i = 1; i <= tries; i++) {
    bool deadlock = false;
    dfcclResult_t result = df_sparse_round(&s->sparse, round + i, &deadlock);
    if (result != dfcclSuccess) return result;
    if (!deadlock) continue;
    printf("\nThe next round that deadlocks: dfccl-sim explain %s --order %s --seed %llu --round "
           "%llu\n",
           explain->file, df_order_names[s->config.order], (unsigned long long)s->config.seed,
           (unsigned long long)(round + i));
    return dfcclSuccess;
  }
  printf("\nNone of the next %llu rounds deadlocks.\n", (unsigned long long)tries);
  return dfcclSuccess;
}

static dfcclResult_t explain_round(story *s, const explain_options *explain) {
  uint64_t round = explain->round;
  const df_layout *layout = &s->layout;
  dfcclResult_t result = df_sparse_find_blocks(&s->sparse, round);
  if (result == dfcclSuccess) result = df_expansion_round(&s->expansion, round);
  if (result != dfcclSuccess) return result;
  bool deadlock = df_dense_deadlocks(&s->dense, &s->expansion.sequences);
  if (deadlock) result = df_wait_graph_circle(&s->expansion.sequences, &s->dense, &s->circle);
  if (result != dfcclSuccess) return result;
  printf(
      "Round %llu of seed %llu: %s\n%s model, %u GPUs in %u groups, %u collectives, %s order\n\n",
      (unsigned long long)round, (unsigned long long)s->config.seed,
      deadlock ? "DEADLOCK" : "no deadlock",
      s->config.model == DF_MODEL_SINGLE ? "single-queue" : "synchronisation", layout->gpu_count,
      layout->group_count, layout->coll_first[layout->group_count],
      df_order_names[s->config.order]);
  if (s->sparse.block_count == 0) {
    puts("No GPU ran collectives out of its expected order with a barrier in between. Everybody "
         "goes\n"
         "through the collectives in one common order, so nobody can wait in a circle.");
    return print_next(s, explain);
  }
  print_disorders(s);
  if (!deadlock) {
    puts("\n2. No circle\n"
         "   Nobody else waits between these collectives in the opposite order, so every wait "
         "ends.");
    return print_next(s, explain);
  }
  print_circle(s);
  return print_cures(s);
}

static dfcclResult_t prepare(story *s) {
  dfcclResult_t result = df_config_layout(&s->config, &s->layout);
  if (result != dfcclSuccess) return result;
  df_estimate_field(&s->config, &s->layout, &s->field);
  result = df_sparse_create(&s->sparse, &s->layout, &s->field);
  if (result == dfcclSuccess)
    result = df_expansion_create(&s->expansion, &s->layout, &s->field,
                                 s->config.model == DF_MODEL_SINGLE);
  if (result == dfcclSuccess)
    result = df_dense_create(&s->dense, s->layout.gpu_count, s->expansion.sequences.coll_count);
  return result;
}

static dfcclResult_t parse(explain_options *explain, int argument_count, char **arguments) {
  const df_option options[] = {{.name = "--seed",
                                .kind = DF_OPTION_WHOLE,
                                .high = UINT64_MAX,
                                .whole = &explain->seed,
                                .given = &explain->seed_given},
                               {.name = "--round",
                                .kind = DF_OPTION_WHOLE,
                                .high = DF_SIM_MAX_ROUNDS,
                                .whole = &explain->round},
                               {.name = "--order",
                                .kind = DF_OPTION_WORD,
                                .words = df_order_names,
                                .word_count = 2,
                                .index = &explain->order,
                                .given = &explain->order_given}};
  int files = 0;
  dfcclResult_t result = df_options_parse(argument_count, arguments, options, DF_COUNT_OF(options),
                                          &explain->file, 1, &files);
  if (result == dfcclSuccess && files == 0)
    return df_fail(dfcclInvalidArgument, "explain needs a configuration file");
  return result;
}

int df_command_explain(int argument_count, char **arguments) {
  explain_options explain = {0};
  story s = {0};
  dfcclResult_t result = parse(&explain, argument_count, arguments);
  if (result == dfcclSuccess) result = df_config_load(&s.config, explain.file);
  if (result == dfcclSuccess) {
    if (explain.seed_given) s.config.seed = explain.seed;
    if (explain.order_given) s.config.order = (df_order)explain.order;
    result = prepare(&s);
  }
  if (result == dfcclSuccess) result = explain_round(&s, &explain);
  free(s.circle.wait);
  df_dense_destroy(&s.dense);
  df_expansion_destroy(&s.expansion);
  df_sparse_destroy(&s.sparse);
  df_layout_destroy(&s.layout);
  df_config_destroy(&s.config);
  return result == dfcclSuccess ? DF_EXIT_SUCCESS : df_command_failed((int)result);
}
