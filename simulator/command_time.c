/* dfccl-sim time: how long collectives take on a network, with the plans that ranks execute. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json_input.h"
#include "json_output.h"
#include "network_file.h"
#include "plans/msccl/file.h"
#include "options.h"
#include "progress.h"
#include "sim_limits.h"
#include "time_trace.h"
#include "synthesis/timeline.h"

typedef struct {
  int operation, algorithm; /* algorithm -1: all */
  const char *algorithm_name, *sizes, *slot, *network_file, *trace_file, *files[2];
  uint64_t ranks, slots, split, lanes, blocks, first, last, slot_bytes;
  int file_count;
  df_plan_file *file; /* the file of --algorithm file:PATH */
  bool json;
} time_options;

/* "64", "16K", "1M", "2G"; *end: what follows. */
static int read_size(const char *text, uint64_t *size, const char **end) {
  char *rest;
  errno = 0;
  const unsigned long long number = strtoull(text, &rest, 10);
  if (*text < '0' || *text > '9' || errno != 0) return 0;
  const int shift = *rest == 'K' ? 10 : *rest == 'M' ? 20 : *rest == 'G' ? 30 : 0;
  if (number > DF_SIM_MAX_TIME_BYTES >> shift) return 0;
  *size = number << shift;
  *end = rest + (shift > 0);
  return *size > 0;
}

static dfcclResult_t parse_sizes(time_options *o) {
  const char *end = "";
  char shown[DF_JSON_SHOWN_BYTES];
  int right = read_size(o->sizes, &o->first, &end);
  o->last = o->first;
  if (right && strncmp(end, "..", 2) == 0) right = read_size(end + 2, &o->last, &end);
  if (!right || *end != 0 || o->last < o->first)
    return df_fail(dfcclInvalidArgument,
                   "-b: expected SIZE or SIZE..SIZE, from 1 to 64G, such as 16M..1G, not \"%s\"",
                   df_show_text(o->sizes, shown));
  if (!read_size(o->slot, &o->slot_bytes, &end) || *end != 0 || o->slot_bytes < 64 ||
      o->slot_bytes > DF_MAX_SLOT_BYTES)
    return df_fail(dfcclInvalidArgument, "--slot: expected a size from 64 to %dM, not \"%s\"",
                   (int)(DF_MAX_SLOT_BYTES >> 20), df_show_text(o->slot, shown));
  return dfcclSuccess;
}

static dfcclResult_t check_trace(const time_options *o) {
  if (o->trace_file && (o->algorithm < 0 || o->first != o->last))
    return df_fail(dfcclInvalidArgument, "--trace: it needs one --algorithm and one size");
  return dfcclSuccess;
}

static dfcclResult_t read_file(time_options *o) {
  char sentence[DF_SENTENCE_BYTES];
  o->file = df_plan_file_read(o->algorithm_name + 5, sentence, sizeof sentence);
  if (o->file == NULL) return df_fail(dfcclInvalidArgument, "--algorithm: %s", sentence);
  const df_plan_file_facts facts = df_plan_file_facts_of(o->file);
  if ((int)facts.operation != o->operation || facts.n != (o->ranks ? o->ranks : facts.n))
    return df_fail(dfcclInvalidArgument, "--algorithm: %.200s is for %s of %u ranks",
                   o->algorithm_name + 5, df_operation_word(facts.operation), facts.n);
  o->ranks = facts.n;
  o->algorithm = DF_FROM_FILE;
  return check_trace(o);
}

static dfcclResult_t parse_names(time_options *o) {
  char shown[DF_JSON_SHOWN_BYTES], why[DF_ALGORITHM_SENTENCE_BYTES];
  o->operation = o->file_count == 1 ? df_operation_by_word(o->files[0]) : -1;
  if (o->operation < 0 || !df_timeline_supports((df_operation)o->operation))
    return df_fail(dfcclInvalidArgument,
                   "time needs one operation, such as allreduce or allgather, and has none for "
                   "sendrecv and barrier: not \"%s\"",
                   df_show_text(o->file_count ? o->files[o->file_count - 1] : "", shown));
  if (o->algorithm_name && strncmp(o->algorithm_name, "file:", 5) == 0) return read_file(o);
  o->algorithm = o->algorithm_name ? df_algorithm_by_name(o->algorithm_name) : -1;
  if (o->algorithm_name &&
      (o->algorithm < 0 || !df_algorithm_has(o->algorithm, (df_operation)o->operation)))
    return df_fail(dfcclInvalidArgument, "--algorithm: %s",
                   df_algorithm_explain(o->algorithm_name, o->operation,
                                        df_operation_word((df_operation)o->operation), why));
  return check_trace(o);
}

static dfcclResult_t parse(time_options *o, int argument_count, char **arguments) {
  *o = (time_options){.ranks = 0, .slots = 4, .sizes = "1M", .slot = "128K"};
  const df_option options[] = {
      {.name = "-n",
       .kind = DF_OPTION_WHOLE,
       .low = 2,
       .high = DF_NETWORK_RANKS_MOST,
       .whole = &o->ranks},
      {.name = "-b", .kind = DF_OPTION_TEXT, .text = &o->sizes},
      {.name = "--algorithm", .kind = DF_OPTION_TEXT, .text = &o->algorithm_name},
      {.name = "--network", .kind = DF_OPTION_TEXT, .text = &o->network_file},
      {.name = "--slots", .kind = DF_OPTION_WHOLE, .low = 1, .high = 65536, .whole = &o->slots},
      {.name = "--slot", .kind = DF_OPTION_TEXT, .text = &o->slot},
      {.name = "--split",
       .kind = DF_OPTION_WHOLE,
       .low = 1,
       .high = DF_NETWORK_RANKS_MOST,
       .whole = &o->split},
      {.name = "--lanes",
       .kind = DF_OPTION_WHOLE,
       .low = 1,
       .high = DF_HOST_CHANNELS_MOST,
       .whole = &o->lanes},
      {.name = "--blocks", .kind = DF_OPTION_WHOLE, .low = 1, .high = 32, .whole = &o->blocks},
      {.name = "--trace", .kind = DF_OPTION_TEXT, .text = &o->trace_file},
      {.name = "--json", .kind = DF_OPTION_FLAG, .given = &o->json}};
  dfcclResult_t result = df_options_parse(argument_count, arguments, options, DF_COUNT_OF(options),
                                          o->files, 2, &o->file_count);
  if (result == dfcclSuccess) result = parse_sizes(o);
  if (result == dfcclSuccess) result = parse_names(o);
  if (result == dfcclSuccess && o->ranks == 0)
    return df_fail(dfcclInvalidArgument, "time needs the number of ranks, such as -n 64");
  return result;
}

/* ---- output */

typedef struct row {
  int algorithm;
  uint64_t bytes;
  df_timeline_answer answer;
} row;

static double us(double seconds) { return seconds * 1e6; }

static double percent_of_bound(const df_timeline_answer *a) {
  return a->seconds > 0 ? 100 * a->bound / a->seconds : 100;
}

static void print_head(const time_options *o, const df_network *m) {
  printf("%s among %u ranks on %u host%s; %llu slots of up to %llu bytes\n",
         df_operation_word((df_operation)o->operation), m->ranks, m->hosts,
         m->hosts == 1 ? "" : "s", (unsigned long long)o->slots, (unsigned long long)o->slot_bytes);
  printf("%12s %-18s %12s %12s %7s  %s\n", "bytes", "algorithm", "time us", "bound us", "bound %",
         "what the time is made of; the busiest port");
}

static void print_row(const df_network *m, const row *r) {
  const df_timeline_answer *a = &r->answer;
  char port[DF_NETWORK_NAME_BYTES];
  printf("%12llu %-18s %12.2f %12.2f %7.1f  ", (unsigned long long)r->bytes,
         df_algorithm_name(r->algorithm), us(a->seconds), us(a->bound), percent_of_bound(a));
  printf("%u messages: latency %.2f, transfer %.2f, work %.2f, slots %.2f; ", a->critical.messages,
         us(a->critical.latency), us(a->critical.transfer), us(a->critical.work),
         us(a->critical.credit));
  printf("%s %.0f%%\n", df_network_name(m, a->busiest, port),
         a->seconds > 0 ? 100 * a->busiest_seconds / a->seconds : 0);
}

static cJSON *row_as_json(const df_network *m, const row *r) {
  const df_timeline_answer *a = &r->answer;
  char port[DF_NETWORK_NAME_BYTES];
  cJSON *object = cJSON_CreateObject();
  cJSON_AddNumberToObject(object, "bytes", (double)r->bytes);
  cJSON_AddStringToObject(object, "algorithm", df_algorithm_name(r->algorithm));
  cJSON_AddNumberToObject(object, "time_us", us(a->seconds));
  cJSON_AddNumberToObject(object, "bound_us", us(a->bound));
  cJSON_AddNumberToObject(object, "bound_percent", percent_of_bound(a));
  cJSON_AddNumberToObject(object, "messages", (double)a->messages);
  cJSON_AddNumberToObject(object, "bytes_moved", (double)a->bytes_moved);
  cJSON_AddNumberToObject(object, "loops", a->loops);
  cJSON_AddNumberToObject(object, "last_rank", a->last_rank);
  cJSON *critical = cJSON_AddObjectToObject(object, "critical_path");
  cJSON_AddNumberToObject(critical, "messages", a->critical.messages);
  cJSON_AddNumberToObject(critical, "latency_us", us(a->critical.latency));
  cJSON_AddNumberToObject(critical, "transfer_us", us(a->critical.transfer));
  cJSON_AddNumberToObject(critical, "work_us", us(a->critical.work));
  cJSON_AddNumberToObject(critical, "slots_us", us(a->critical.credit));
  cJSON *busiest = cJSON_AddObjectToObject(object, "busiest_port");
  cJSON_AddStringToObject(busiest, "name", df_network_name(m, a->busiest, port));
  cJSON_AddNumberToObject(busiest, "bytes", (double)a->busiest_bytes);
  cJSON_AddNumberToObject(busiest, "busy_us", us(a->busiest_seconds));
  return object;
}

/* ---- the sweep */

static void update_progress(void *user, uint64_t done, uint64_t all) {
  df_progress_update(user, done, all);
}

static dfcclResult_t play_row(const time_options *o, const df_network *m, df_progress *progress,
                              row *r) {
  const df_timeline_question question = {.network = m,
                                         .operation = (df_operation)o->operation,
                                         .algorithm = r->algorithm,
                                         .file = o->file,
                                         .split = (uint32_t)o->split,
                                         .lanes = (uint32_t)o->lanes,
                                         .blocks = (uint32_t)o->blocks,
                                         .bytes = r->bytes,
                                         .slots = (uint32_t)o->slots,
                                         .slot_bytes = o->slot_bytes,
                                         .progress = update_progress,
                                         .progress_user = progress};
  if (o->trace_file == NULL) return df_timeline_run(&question, NULL, &r->answer);
  return df_time_trace(&question, o->trace_file, &r->answer);
}

static dfcclResult_t run_row(const time_options *o, const df_network *m, row *r) {
  char label[48];
  df_progress progress;
  snprintf(label, sizeof label, "%s, %llu bytes", df_algorithm_name(r->algorithm),
           (unsigned long long)r->bytes);
  df_progress_start(&progress, label);
  const dfcclResult_t result = play_row(o, m, &progress, r);
  df_progress_finish(&progress);
  return result;
}

/* Each row is printed when its time is known: many ranks, or large sizes, take minutes. */
static void show_row(const time_options *o, const df_network *m, const row *r, int is_first,
                     cJSON *list) {
  if (o->json) {
    cJSON_AddItemToArray(list, row_as_json(m, r));
    return;
  }
  if (is_first) print_head(o, m);
  print_row(m, r);
  fflush(stdout);
}

static dfcclResult_t run_size(const time_options *o, const df_network *m, uint64_t bytes,
                              cJSON *list) {
  row fastest = {0};
  int n = 0;
  for (int a = 0; a <= DF_FROM_FILE; a++) {
    if ((o->algorithm >= 0 && a != o->algorithm) ||
        (o->file == NULL && !df_timeline_has(m, (df_operation)o->operation, a)))
      continue;
    row r = {.algorithm = a, .bytes = bytes};
    const dfcclResult_t result = run_row(o, m, &r);
    if (result != dfcclSuccess) return result;
    show_row(o, m, &r, n == 0 && bytes == o->first, list);
    if (n++ == 0 || r.answer.seconds < fastest.answer.seconds) fastest = r;
  }
  if (n == 0)
    return df_fail(dfcclInvalidArgument, "%s needs several hosts with several ranks",
                   o->algorithm_name);
  if (n > 1 && !o->json)
    printf("%12llu fastest: %s\n", (unsigned long long)bytes, df_algorithm_name(fastest.algorithm));
  return dfcclSuccess;
}

static dfcclResult_t run_all(const time_options *o, const df_network *m) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "operation", df_operation_word((df_operation)o->operation));
  cJSON_AddNumberToObject(object, "ranks", m->ranks);
  cJSON_AddNumberToObject(object, "hosts", m->hosts);
  cJSON_AddNumberToObject(object, "slots", (double)o->slots);
  cJSON_AddNumberToObject(object, "slot_bytes", (double)o->slot_bytes);
  cJSON *list = cJSON_AddArrayToObject(object, "results");
  dfcclResult_t result = dfcclSuccess;
  for (uint64_t bytes = o->first; bytes <= o->last && result == dfcclSuccess; bytes *= 2)
    result = run_size(o, m, bytes, list);
  if (result == dfcclSuccess && o->json)
    return df_json_print(object) ? dfcclSuccess : dfcclSystemError;
  cJSON_Delete(object);
  return result;
}

int df_command_time(int argument_count, char **arguments) {
  time_options o;
  df_network model = {0};
  dfcclResult_t result = parse(&o, argument_count, arguments);
  if (result == dfcclSuccess) result = df_network_read(&model, o.network_file, (uint32_t)o.ranks);
  if (result == dfcclSuccess) result = run_all(&o, &model);
  df_network_free(&model);
  df_plan_file_free(o.file);
  return result == dfcclSuccess ? DF_EXIT_SUCCESS : df_command_failed((int)result);
}
