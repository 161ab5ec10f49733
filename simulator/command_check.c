/* dfccl-sim check: whether a schedule deadlocks, and the circle. */
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "engine_dense.h"
#include "json_output.h"
#include "options.h"
#include "schedule.h"
#include "wait_graph.h"

enum { MAX_FILES = 65536, MAX_SHOWN = 20 };

typedef struct {
  int model; /* df_model; -1: by the schedule */
  bool json;
  const char **files;
  int file_count;
} check_options;

/* A collective that some members run and others never do. */
typedef struct {
  uint32_t collective, waiting, absent; /* GPUs; waiting + absent are its group */
  uint32_t perhaps;                     /* absent GPUs with a recording that ends early */
} missing_collective;

typedef struct {
  df_schedule schedule;
  df_dense dense;
  df_circle circle;
  bool stuck;                  /* not every recorded event completes */
  bool deadlock;               /* and what is not recorded cannot change that */
  bool single;                 /* the model: one collective at a time */
  uint32_t unfinished;         /* GPUs with a recording that ends before the program */
  missing_collective *missing; /* those that GPUs wait for, by collective */
  uint32_t missing_count;
  uint64_t *runners_first; /* collective -> its range in runner[] */
  uint32_t *runner;        /* the GPUs that run the collective, ascending */
} judgement;

static const char *collective_name(const judgement *judged, uint32_t collective) {
  return df_names_text(&judged->schedule.collectives, collective);
}

static const char *group_name(const judgement *judged, uint32_t collective) {
  return df_names_text(&judged->schedule.groups, judged->schedule.group_of[collective]);
}

/* Lists the GPUs that run each collective, and the awaited collectives that lack a member. */
static bool find_missing(judgement *judged) {
  const df_sequences *sequences = &judged->schedule.sequences;
  uint64_t colls = sequences->coll_count, events = sequences->first[sequences->gpu_count];
  uint64_t *first = judged->runners_first = calloc(colls + 2, sizeof *first);
  judged->runner = malloc((events + 1) * sizeof *judged->runner);
  judged->missing = malloc((colls + 1) * sizeof *judged->missing);
  if (!first || !judged->runner || !judged->missing) return false;
  for (uint64_t i = 0; i < events; i++)
    if (sequences->event[i] != DF_EVENT_SYNC) first[sequences->event[i] + 2]++;
  for (uint64_t c = 0; c < colls; c++) first[c + 2] += first[c + 1];
  for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++)
    for (uint64_t i = sequences->first[gpu]; i < sequences->first[gpu + 1]; i++)
      if (sequences->event[i] != DF_EVENT_SYNC)
        judged->runner[first[sequences->event[i] + 1]++] = gpu;
  for (uint32_t c = 0; c < colls; c++) {
    uint32_t runners = (uint32_t)(first[c + 1] - first[c]);
    uint32_t members = df_sequences_members(sequences, c);
    if (runners == members || judged->dense.executing[c] == 0) continue;
    judged->missing[judged->missing_count++] =
        (missing_collective){c, judged->dense.executing[c], members - runners, 0};
  }
  return true;
}

/* Returns a trace's record of the call of a collective by a GPU; NULL if the GPU does not call
 * it. */
static const df_call *find_call(const judgement *judged, uint32_t gpu, uint32_t collective) {
  const df_sequences *sequences = &judged->schedule.sequences;
  if (!judged->schedule.call) return NULL;
  for (uint64_t i = sequences->first[gpu]; i < sequences->first[gpu + 1]; i++)
    if (sequences->event[i] == collective) return &judged->schedule.call[i];
  return NULL;
}

static bool runs(const judgement *judged, uint32_t collective, uint32_t gpu) {
  uint64_t low = judged->runners_first[collective], high = judged->runners_first[collective + 1];
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (judged->runner[middle] == gpu) return true;
    if (judged->runner[middle] < gpu)
      low = middle + 1;
    else
      high = middle;
  }
  return false;
}

static bool ends_early(const judgement *judged, uint32_t gpu) {
  return judged->schedule.recorded[gpu] > DF_RECORDED_WHOLE;
}

/* The n-th member, in the group's order, that never runs the collective. */
static uint32_t absent_member(const judgement *judged, uint32_t collective, uint32_t nth) {
  const df_sequences *sequences = &judged->schedule.sequences;
  uint32_t group = sequences->group_of[collective];
  for (uint32_t i = sequences->member_first[group]; i < sequences->member_first[group + 1]; i++)
    if (!runs(judged, collective, sequences->member[i]) && nth-- == 0) return sequences->member[i];
  return UINT32_MAX;
}

/* A circle stays one whatever comes after it; a member that is missing may come after the end of
 * its recording. */
static bool is_certain(judgement *judged) {
  const df_sequences *sequences = &judged->schedule.sequences;
  bool certain = judged->circle.count > 0;
  for (uint32_t m = 0; m < judged->missing_count; m++) {
    missing_collective *missing = &judged->missing[m];
    uint32_t group = sequences->group_of[missing->collective];
    for (uint32_t i = sequences->member_first[group];
         judged->unfinished > 0 && i < sequences->member_first[group + 1]; i++)
      missing->perhaps += ends_early(judged, sequences->member[i]) &&
                          !runs(judged, missing->collective, sequences->member[i]);
    certain = certain || missing->perhaps < missing->absent;
  }
  return certain;
}

static dfcclResult_t judge_schedule(const check_options *check, judgement *judged) {
  *judged = (judgement){0};
  dfcclResult_t result =
      df_schedule_load(&judged->schedule, check->files, check->file_count, check->model == 1);
  if (result != dfcclSuccess) return result;
  df_sequences *sequences = &judged->schedule.sequences;
  judged->single = check->model >= 0 ? check->model == 0 : !judged->schedule.has_sync;
  sequences->single_queue = judged->single && !judged->schedule.of_traces;
  result = df_dense_create(&judged->dense, sequences->gpu_count, sequences->coll_count);
  if (result != dfcclSuccess) return result;
  for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++)
    judged->unfinished += ends_early(judged, gpu);
  judged->stuck = df_dense_deadlocks(&judged->dense, sequences);
  if (!judged->stuck) return dfcclSuccess;
  if (!find_missing(judged)) return df_fail(dfcclOutOfMemory, "no memory for the answer");
  result = df_wait_graph_circle(sequences, &judged->dense, &judged->circle);
  judged->deadlock = is_certain(judged);
  return result;
}

static void destroy_judgement(judgement *judged) {
  df_schedule_destroy(&judged->schedule);
  df_dense_destroy(&judged->dense);
  free(judged->circle.wait);
  free(judged->missing);
  free(judged->runners_first);
  free(judged->runner);
}

static void add_missing(const judgement *judged, cJSON *object) {
  cJSON *list = cJSON_AddArrayToObject(object, "missing");
  for (uint32_t i = 0; i < judged->missing_count && i < MAX_SHOWN; i++) {
    const missing_collective *missing = &judged->missing[i];
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "coll", collective_name(judged, missing->collective));
    cJSON_AddStringToObject(entry, "group", group_name(judged, missing->collective));
    cJSON_AddNumberToObject(entry, "waiting", missing->waiting);
    cJSON *absent = cJSON_AddArrayToObject(entry, "never_invoked_by");
    for (uint32_t n = 0; n < missing->absent && n < MAX_SHOWN; n++)
      cJSON_AddItemToArray(absent,
                           cJSON_CreateNumber(absent_member(judged, missing->collective, n)));
    cJSON_AddItemToArray(list, entry);
  }
  cJSON_AddNumberToObject(object, "missing_count", judged->missing_count);
}

static void add_unfinished(const judgement *judged, cJSON *object) {
  cJSON *list = cJSON_AddArrayToObject(object, "unfinished");
  uint32_t shown = 0;
  for (uint32_t gpu = 0; shown < judged->unfinished && shown < MAX_SHOWN; gpu++) {
    if (!ends_early(judged, gpu)) continue;
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddNumberToObject(entry, "gpu", gpu);
    cJSON_AddStringToObject(entry, "recorded", df_recorded_names[judged->schedule.recorded[gpu]]);
    cJSON_AddItemToArray(list, entry);
    shown++;
  }
  cJSON_AddNumberToObject(object, "unfinished_count", judged->unfinished);
}

/* Adds, for traces, the number of the call among the calls of the GPU, and the lines of the
 * program; null if the GPU does not make the call, as far as recorded. */
static void add_call(const judgement *judged, cJSON *object, uint32_t gpu, uint32_t collective,
                     const char *number, const char *place) {
  if (!judged->schedule.of_traces) return;
  const df_call *call = find_call(judged, gpu, collective);
  cJSON_AddItemToObject(object, number,
                        call ? cJSON_CreateNumber(call->number) : cJSON_CreateNull());
  if (call && call->stack != DF_NO_STACK)
    cJSON_AddStringToObject(object, place, df_names_text(&judged->schedule.stacks, call->stack));
}

static bool print_json(const judgement *judged) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddBoolToObject(object, "deadlock", judged->deadlock);
  cJSON *cycle = cJSON_AddArrayToObject(object, "cycle");
  for (uint32_t i = 0; i < judged->circle.count; i++) {
    const df_wait *wait = &judged->circle.wait[i];
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddNumberToObject(entry, "gpu", wait->gpu);
    cJSON_AddStringToObject(entry, "waits_for", collective_name(judged, wait->collective));
    cJSON_AddStringToObject(entry, "group", group_name(judged, wait->collective));
    cJSON_AddNumberToObject(entry, "held_by", wait->held_by);
    add_call(judged, entry, wait->gpu, wait->collective, "call", "at");
    add_call(judged, entry, wait->held_by, wait->collective, "held_by_call", "held_by_at");
    cJSON_AddItemToArray(cycle, entry);
  }
  cJSON_AddStringToObject(object, "model", judged->single ? "single" : "sync");
  cJSON_AddNumberToObject(object, "collectives", (double)judged->schedule.sequences.coll_count);
  add_missing(judged, object);
  add_unfinished(judged, object);
  if (judged->schedule.of_traces) {
    cJSON *notes = cJSON_AddArrayToObject(object, "notes");
    for (int i = 0; i < judged->schedule.note_count; i++)
      cJSON_AddItemToArray(notes, cJSON_CreateString(judged->schedule.note[i]));
  }
  return df_json_print(object);
}

/* Prints a line about the record of a call in a trace. */
static void print_call(const judgement *judged, uint32_t gpu, uint32_t collective) {
  if (!judged->schedule.of_traces) return;
  const df_call *call = find_call(judged, gpu, collective);
  if (!call)
    printf("    GPU %u does not call it, as far as recorded\n", gpu);
  else
    printf("    GPU %u: its call %u%s%s\n", gpu, call->number,
           call->stack == DF_NO_STACK ? "" : ", at ",
           call->stack == DF_NO_STACK ? "" : df_names_text(&judged->schedule.stacks, call->stack));
}

/* The last call of a GPU that others wait for. */
static void print_last_call(const judgement *judged, uint32_t gpu) {
  const df_sequences *sequences = &judged->schedule.sequences;
  uint64_t last = sequences->first[gpu + 1];
  if (!judged->schedule.of_traces || last == sequences->first[gpu]) return;
  printf("    the last call of GPU %u is \"%s\":\n", gpu,
         collective_name(judged, sequences->event[last - 1]));
  print_call(judged, gpu, sequences->event[last - 1]);
}

static void print_missing(const judgement *judged) {
  for (uint32_t i = 0; i < judged->missing_count && i < MAX_SHOWN; i++) {
    const missing_collective *missing = &judged->missing[i];
    uint32_t absent = absent_member(judged, missing->collective, 0);
    printf("  %u GPU%s wait%s for \"%s\" of group \"%s\", which GPU %u", missing->waiting,
           missing->waiting == 1 ? "" : "s", missing->waiting == 1 ? "s" : "",
           collective_name(judged, missing->collective), group_name(judged, missing->collective),
           absent);
    if (missing->absent > 1)
      printf(" and %u other member%s", missing->absent - 1, missing->absent > 2 ? "s" : "");
    printf(" never invoke%s%s%s\n", missing->absent > 1 ? "" : "s",
           missing->perhaps > 0 ? " as far as recorded" : "",
           judged->schedule.recorded[absent] ? "" : " (it has no events at all)");
    if (missing->perhaps > 0) print_last_call(judged, absent);
  }
  if (judged->missing_count > MAX_SHOWN)
    printf("  and %u more\n", judged->missing_count - MAX_SHOWN);
}

static void print_unfinished(const judgement *judged) {
  uint32_t shown = 0;
  for (int i = 0; i < judged->schedule.note_count; i++) puts(judged->schedule.note[i]);
  if (judged->schedule.of_traces) return;
  for (uint32_t gpu = 0; shown < judged->unfinished && shown < MAX_SHOWN; gpu++) {
    if (!ends_early(judged, gpu)) continue;
    printf("the recording of GPU %u %s\n", gpu,
           judged->schedule.recorded[gpu] == DF_RECORDED_CUT_SHORT
               ? "is cut short: there was no more room on its disk or in its memory"
               : "has no end: its program was still running, or was killed");
    shown++;
  }
  if (judged->unfinished > MAX_SHOWN)
    printf("and %u more recordings end early\n", judged->unfinished - MAX_SHOWN);
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static void print_text(const judgement *judged) {
  const df_sequences *sequences = &judged->schedule.sequences;
  uint64_t events = sequences->first[sequences->gpu_count], calls = events;
  for (uint64_t i = 0; i < events && judged->schedule.of_traces; i++)
    calls -= sequences->event[i] == DF_EVENT_SYNC;
  printf("%u GPU%s, %u group%s, %llu collective%s, %llu %s%s; %s model\n", sequences->gpu_count,
         plural(sequences->gpu_count), sequences->group_count, plural(sequences->group_count),
         (unsigned long long)sequences->coll_count, plural(sequences->coll_count),
         (unsigned long long)calls, judged->schedule.of_traces ? "call" : "event", plural(calls),
         judged->single ? "single-queue" : "synchronisation");
  print_unfinished(judged);
  if (sequences->coll_count == 0) {
    puts("0 collectives were found, so nothing can be said about a deadlock");
    return;
  }
  if (!judged->stuck) {
    printf("no deadlock%s: every collective completes, whatever the timing\n",
           judged->unfinished > 0 ? " as far as recorded" : "");
    return;
  }
  if (!judged->deadlock) {
    puts("no deadlock as far as recorded, but GPUs wait for members whose recordings end early:");
    print_missing(judged);
    return;
  }
  uint32_t stuck = 0;
  for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++)
    stuck += judged->dense.pending[gpu] > 0 || judged->dense.next[gpu] < sequences->first[gpu + 1];
  printf("DEADLOCK, whatever the timing: %s%u GPU%s never finish%s\n",
         judged->unfinished > 0 ? "as far as recorded, " : "", stuck, stuck == 1 ? "" : "s",
         stuck == 1 ? "es" : "");
  if (judged->circle.count > 0)
    printf("%s:\n", judged->circle.shortest ? "a shortest circular wait" : "a circular wait");
  for (uint32_t i = 0; i < judged->circle.count; i++) {
    const df_wait *wait = &judged->circle.wait[i];
    printf("  GPU %u waits for \"%s\" of group \"%s\", held back by GPU %u\n", wait->gpu,
           collective_name(judged, wait->collective), group_name(judged, wait->collective),
           wait->held_by);
    print_call(judged, wait->gpu, wait->collective);
    print_call(judged, wait->held_by, wait->collective);
  }
  if (judged->missing_count > 0) {
    puts(judged->circle.count > 0 ? "besides, GPUs wait for members that never come:"
                                  : "no circle, but GPUs wait for members that never come:");
    print_missing(judged);
  }
}

static dfcclResult_t parse(check_options *check, int argument_count, char **arguments) {
  static const char *const models[] = {"single", "sync"};
  check->model = -1;
  const df_option options[] = {{.name = "--model",
                                .kind = DF_OPTION_WORD,
                                .words = models,
                                .word_count = 2,
                                .index = &check->model},
                               {.name = "--json", .kind = DF_OPTION_FLAG, .given = &check->json}};
  dfcclResult_t result = df_options_parse(argument_count, arguments, options, DF_COUNT_OF(options),
                                          check->files, MAX_FILES, &check->file_count);
  if (result == dfcclSuccess && check->file_count == 0)
    return df_fail(dfcclInvalidArgument, "check needs a schedule file or a trace");
  return result;
}

int df_command_check(int argument_count, char **arguments) {
  check_options check = {.files = calloc((size_t)argument_count + 1, sizeof *check.files)};
  if (!check.files)
    return df_command_failed(df_fail(dfcclOutOfMemory, "no memory for the arguments"));
  judgement judged = {0};
  dfcclResult_t result = parse(&check, argument_count, arguments);
  if (result == dfcclSuccess) result = judge_schedule(&check, &judged);
  if (result == dfcclSuccess) {
    if (!check.json)
      print_text(&judged);
    else if (!print_json(&judged))
      result = dfcclSystemError;
  }
  bool deadlock = judged.deadlock;
  destroy_judgement(&judged);
  free(check.files);
  if (result != dfcclSuccess) return df_command_failed((int)result);
  return deadlock ? DF_EXIT_DEADLOCK : DF_EXIT_SUCCESS;
}
