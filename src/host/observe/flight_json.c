/* The text of a flight recorder's file: one JSON object. `collectives`, `runs`, `failure` and
 * `lost` are this library's; `pg_config`, `pg_status` and `entries` have the form of PyTorch's
 * flight recorder (version 2.10), in which each registered collective is a process group, because
 * members match the runs of a collective by their numbers, and not those of different
 * collectives. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/observe/flight.h"
#include "plans/operation.h"
#include "primitives/elements/types.h"

static const char *const state_words[] = {"waiting", "running", "ended"};
static const char *const reason_words[] = {"failure", "dump", "dfccl-top"};

typedef struct df_writer {
  df_growing_text *text;
  const df_flight_head *head;
  const df_flight_copy *copy;
  uint64_t *readings; /* [n_readings] exact times, in order */
  uint32_t n_readings;
  uint32_t *again; /* [n_colls] later registrations of the same id in the copy */
} df_writer;

/* ---- times ---- */

static int by_time(const void *a, const void *b) {
  const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

static void note_reading(df_writer *w, uint64_t ticks) {
  if (ticks && !(ticks & DF_FLIGHT_MAY_BE_LATER)) w->readings[w->n_readings++] = ticks;
}

static void collect_readings(df_writer *w) {
  for (uint32_t i = 0; i < w->copy->n_runs; i++) {
    const df_flight_run_facts *entry = &w->copy->runs[i].entry;
    note_reading(w, entry->submitted);
    note_reading(w, entry->begun);
    note_reading(w, entry->ended);
  }
  qsort(w->readings, w->n_readings, sizeof *w->readings, by_time);
}

/* The first reading after that time. */
static uint64_t next_reading(const df_writer *w, uint64_t ticks) {
  uint32_t low = 0, high = w->n_readings;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (w->readings[middle] > ticks)
      high = middle;
    else
      low = middle + 1;
  }
  return low < w->n_readings ? w->readings[low] : w->copy->now_ticks;
}

static uint64_t unix_ns(const df_writer *w, uint64_t ticks) {
  return df_flight_unix_ns(w->copy, ticks & ~(uint64_t)DF_FLIGHT_ORDER);
}

/* How much later the moment may have been. */
static uint64_t slack_ns(const df_writer *w, uint64_t ticks) {
  if (!(ticks & DF_FLIGHT_MAY_BE_LATER)) return 0;
  const uint64_t from = unix_ns(w, ticks),
                 until = df_flight_unix_ns(w->copy, next_reading(w, ticks));
  return until > from ? until - from : 0;
}

static void grow_time(df_writer *w, const char *name, uint64_t ticks) {
  if (ticks == 0)
    df_grow_format(w->text, ",\"%s_ns\":null", name);
  else
    df_grow_format(w->text, ",\"%s_ns\":%" PRIu64, name, unix_ns(w, ticks));
}

/* ---- collectives and runs ---- */

static uint64_t count_of(const df_flight_coll *coll, const df_flight_run_facts *entry) {
  return entry->count ? entry->count : coll->count;
}

static int has_count(const df_flight_coll *coll) {
  return coll->operation != DF_OP_ALL_TO_ALL_DYNAMIC &&
         !df_operation_has_piece_table(coll->operation);
}

static void grow_ranks(df_writer *w, const df_flight_coll *coll, const char *separator) {
  for (uint32_t i = 0; i < coll->n; i++)
    df_grow_format(w->text, "%s%u", i ? separator : "", coll->ranks[i]);
}

static void grow_colls(df_writer *w) {
  df_grow_text(w->text, ",\n\"collectives\":[");
  for (uint32_t i = 0; i < w->copy->n_colls; i++) {
    const df_flight_coll *coll = &w->copy->colls[i];
    df_grow_format(w->text, "%s\n{\"id\":\"%" PRIu64 "\",\"name\":\"", i ? "," : "", coll->id);
    df_grow_escaped(w->text, coll->name);
    df_grow_format(w->text,
                   "\",\"operation\":\"%s\",\"type\":\"%s\",\"count\":%" PRIu64
                   ",\"later_registrations\":%u,\"group\":[",
                   df_operation_name(coll->operation), df_type_name(coll->type), coll->count,
                   w->again[i]);
    grow_ranks(w, coll, ",");
    df_grow_text(w->text, "]}");
  }
  df_grow_text(w->text, "]");
}

static void grow_run(df_writer *w, const df_flight_run *run) {
  const df_flight_run_facts *entry = &run->entry;
  df_grow_format(w->text, "{\"of\":%d,\"run\":%" PRIu64 ",\"bytes\":",
                 run->coll == DF_NOBODY ? -1 : (int)run->coll, entry->run);
  const df_flight_coll *coll = run->coll == DF_NOBODY ? NULL : &w->copy->colls[run->coll];
  if (coll && has_count(coll))
    df_grow_format(w->text, "%" PRIu64, count_of(coll, entry) * df_type_size(coll->type));
  else
    df_grow_text(w->text, "null");
  df_grow_format(w->text, ",\"state\":\"%s\",\"status\":", state_words[run->state]);
  if (run->state == DF_FLIGHT_ENDED)
    df_grow_format(w->text, "\"%s\"", df_result_name((dfcclResult_t)entry->status));
  else
    df_grow_text(w->text, "null");
  grow_time(w, "submitted", entry->submitted);
  grow_time(w, "begun", entry->begun);
  grow_time(w, "ended", entry->ended);
  df_grow_format(w->text, ",\"slack_ns\":%" PRIu64 "}",
                 DF_MAX(slack_ns(w, entry->submitted), slack_ns(w, entry->ended)));
}

static void grow_runs(df_writer *w) {
  df_grow_text(w->text, ",\n\"runs\":[");
  for (uint32_t i = 0; i < w->copy->n_runs; i++) {
    df_grow_text(w->text, i ? ",\n" : "\n");
    grow_run(w, &w->copy->runs[i]);
  }
  df_grow_text(w->text, "]");
}

/* ---- failure and lost ranks ---- */

static void grow_failure(df_writer *w) {
  const df_flight_head *head = w->head;
  df_grow_text(w->text, ",\n\"failure\":");
  if (head->failed == dfcclSuccess) {
    df_grow_text(w->text, "null");
    return;
  }
  df_grow_format(w->text, "{\"status\":\"%s\"", df_result_name(head->failed));
  grow_time(w, "at", head->failed_at);
  df_grow_text(w->text, ",\"sentence\":\"");
  df_grow_escaped(w->text, head->sentence);
  df_grow_text(w->text, "\"}");
}

static void grow_losses(df_writer *w) {
  df_grow_text(w->text, ",\n\"lost\":[");
  for (uint32_t i = 0; i < w->head->n_losses; i++) {
    const df_flight_loss *loss = &w->head->losses[i];
    df_grow_format(w->text, "%s\n{\"rank\":%u", i ? "," : "", loss->rank);
    grow_time(w, "at", loss->at);
    df_grow_text(w->text, ",\"why\":\"");
    df_grow_escaped(w->text, loss->why);
    df_grow_text(w->text, "\",\"last_run\":");
    if (loss->has_run) {
      df_grow_format(w->text, "{\"collective\":\"%" PRIu64 "\",\"name\":\"", loss->id);
      df_grow_escaped(w->text, loss->name);
      df_grow_format(w->text, "\",\"run\":%" PRIu64, loss->run.run);
      grow_time(w, "ended", loss->run.ended);
      df_grow_text(w->text, "}}");
    } else {
      df_grow_text(w->text, "null}");
    }
  }
  df_grow_text(w->text, "]");
}

/* ---- the form of PyTorch ---- */

/* Names that torch's analyser supports. NULL: entries leave the operation out. */
static const char *torch_name(const df_flight_coll *coll) {
  switch ((int)coll->operation) {
  case DF_OP_ALL_REDUCE:
    return "all_reduce";
  case DF_OP_REDUCE:
    return "reduce";
  case DF_OP_BROADCAST:
    return "broadcast";
  case DF_OP_ALL_GATHER:
    return "_all_gather_base";
  case DF_OP_REDUCE_SCATTER:
    return "_reduce_scatter_base";
  case DF_OP_ALL_TO_ALL:
  case DF_OP_ALL_TO_ALL_V:
  case DF_OP_ALL_TO_ALL_DYNAMIC:
    return "all_to_all";
  case DF_OP_GATHER:
    return "gather";
  case DF_OP_SCATTER:
    return "scatter";
  case DF_OP_BARRIER:
    return "barrier";
  case DF_OP_SEND_RECV:
    if (coll->n < 2) return NULL;
    return coll->position == 0 ? "send 0->1" : "recv 1<-0";
  default:
    return NULL;
  }
}

static const char *torch_type(dfcclDataType_t type) {
  static const char *const names[][2] = {
      {"int8", "Char"},    {"uint8", "Byte"},    {"int32", "Int"},      {"int64", "Long"},
      {"float16", "Half"}, {"float32", "Float"}, {"float64", "Double"}, {"bfloat16", "BFloat16"},
  };
  for (size_t i = 0; i < DF_COUNT_OF(names); i++)
    if (strcmp(names[i][0], df_type_name(type)) == 0) return names[i][1];
  return df_type_name(type);
}

/* The newest registration of an id has the name ID, the one before it ID.1. */
static void say_group(const df_writer *w, uint32_t coll, char text[48]) {
  const uint64_t id = w->copy->colls[coll].id;
  if (w->again[coll])
    snprintf(text, 48, "%" PRIu64 ".%u", id, w->again[coll]);
  else
    snprintf(text, 48, "%" PRIu64, id);
}

static void grow_description(df_writer *w, const df_flight_coll *coll) {
  if (coll->name[0])
    df_grow_escaped(w->text, coll->name);
  else
    df_grow_text(w->text, "undefined");
}

static void grow_groups(df_writer *w) {
  char name[48];
  df_grow_text(w->text, ",\n\"pg_config\":{");
  for (uint32_t i = 0; i < w->copy->n_colls; i++) {
    say_group(w, i, name);
    df_grow_format(w->text, "%s\n\"%s\":{\"name\":\"%s\",\"desc\":\"", i ? "," : "", name, name);
    grow_description(w, &w->copy->colls[i]);
    df_grow_text(w->text, "\",\"ranks\":\"[");
    grow_ranks(w, &w->copy->colls[i], ", ");
    df_grow_text(w->text, "]\"}");
  }
  df_grow_text(w->text, "}");
}

/* Numbers of runs, from 1 on. -1: none. */
typedef struct df_group_status {
  int64_t enqueued, started, completed;
} df_group_status;

static void grow_statuses(df_writer *w) {
  df_group_status *all = malloc((w->copy->n_colls + 1) * sizeof *all);
  if (all == NULL) {
    w->text->failed = 1;
    return;
  }
  for (uint32_t i = 0; i < w->copy->n_colls; i++) all[i] = (df_group_status){-1, -1, -1};
  for (uint32_t i = 0; i < w->copy->n_runs; i++) {
    const df_flight_run *run = &w->copy->runs[i];
    const int64_t number = (int64_t)run->entry.run + 1;
    if (run->coll == DF_NOBODY) continue;
    df_group_status *one = &all[run->coll];
    one->enqueued = DF_MAX(one->enqueued, number);
    if (run->entry.begun) one->started = DF_MAX(one->started, number);
    if (run->state == DF_FLIGHT_ENDED && run->entry.status == dfcclSuccess)
      one->completed = DF_MAX(one->completed, number);
  }
  df_grow_text(w->text, ",\n\"pg_status\":{");
  for (uint32_t i = 0; i < w->copy->n_colls; i++)
    df_grow_format(w->text,
                   "%s\n\"%u\":{\"last_enqueued_collective\":%" PRId64
                   ",\"last_started_collective\":%" PRId64 ",\"last_completed_collective\":%" PRId64
                   "}",
                   i ? "," : "", i, all[i].enqueued, all[i].started, all[i].completed);
  df_grow_text(w->text, "}");
  free(all);
}

static void grow_size(df_writer *w, const df_flight_coll *coll, const df_flight_run_facts *entry,
                      int output) {
  const char *direction = output ? "output" : "input";
  const uint64_t pieces = df_operation_is_wide(coll->operation, output) ? coll->n : 1;
  if (!has_count(coll) || coll->operation == DF_OP_BARRIER)
    df_grow_format(w->text, ",\"%s_sizes\":[],\"%s_dtypes\":[]", direction, direction);
  else
    df_grow_format(w->text, ",\"%s_sizes\":[[%" PRIu64 "]],\"%s_dtypes\":[\"%s\"]", direction,
                   count_of(coll, entry) * pieces, direction, torch_type(coll->type));
}

static void grow_entry(df_writer *w, const df_flight_run *run, uint64_t number, const char *torch) {
  const df_flight_coll *coll = &w->copy->colls[run->coll];
  const df_flight_run_facts *entry = &run->entry;
  const int is_message = coll->operation == DF_OP_SEND_RECV;
  const int is_completed = run->state == DF_FLIGHT_ENDED && entry->status == dfcclSuccess;
  char group[48];
  say_group(w, run->coll, group);
  df_grow_format(
      w->text, "{\"record_id\":%" PRIu64 ",\"pg_id\":%u,\"is_p2p\":%s,\"process_group\":[\"%s\",\"",
      number, run->coll, is_message ? "true" : "false", group);
  grow_description(w, coll);
  df_grow_format(w->text,
                 "\"],\"collective_seq_id\":%" PRIu64 ",\"p2p_seq_id\":%" PRIu64
                 ",\"op_id\":%" PRIu64 ",\"profiling_name\":\"dfccl:%s\",\"name\":\"",
                 is_message ? 0 : entry->run + 1, is_message ? entry->run + 1 : 0, entry->run + 1,
                 torch);
  df_grow_escaped(w->text, coll->name);
  df_grow_text(w->text, "\"");
  grow_time(w, "time_created", entry->submitted);
  grow_size(w, coll, entry, 0);
  grow_size(w, coll, entry, 1);
  df_grow_format(w->text, ",\"state\":\"%s\"",
                 is_completed   ? "completed"
                 : entry->begun ? "started"
                                : "scheduled");
  grow_time(w, "time_discovered_started", entry->begun);
  grow_time(w, "time_discovered_completed", is_completed ? entry->ended : 0);
  df_grow_format(w->text,
                 ",\"retired\":%s,\"timeout_ms\":0,\"thread_id\":\"\",\"thread_name\":\"\","
                 "\"frames\":[]}",
                 run->state == DF_FLIGHT_ENDED ? "true" : "false");
}

static void grow_entries(df_writer *w) {
  uint64_t written = 0;
  df_grow_text(w->text, ",\n\"entries\":[");
  for (uint32_t i = 0; i < w->copy->n_runs; i++) {
    const df_flight_run *run = &w->copy->runs[i];
    const char *torch = run->coll == DF_NOBODY ? NULL : torch_name(&w->copy->colls[run->coll]);
    if (torch == NULL) continue;
    df_grow_text(w->text, written ? ",\n" : "\n");
    grow_entry(w, run, w->copy->n_before + written++, torch); /* without those that are left out */
  }
  df_grow_text(w->text, "]");
}

/* ---- the whole ---- */

static void grow_head(df_writer *w) {
  const df_flight_head *head = w->head;
  char host[256] = "";
  if (gethostname(host, sizeof host) != 0) host[0] = '\0';
  host[sizeof host - 1] = '\0';
  df_grow_format(w->text,
                 "{\"version\":\"2.10\",\"comm_lib_version\":\"%d.%d.%d\",\"dfccl_flight\":1,"
                 "\"rank\":%u,\"ranks\":%u,\"host\":\"",
                 DFCCL_VERSION_CODE / 10000, DFCCL_VERSION_CODE / 100 % 100,
                 DFCCL_VERSION_CODE % 100, head->rank, head->n_ranks);
  df_grow_escaped(w->text, host);
  df_grow_format(w->text,
                 "\",\"process\":%d,\"reason\":\"%s\",\"written_ns\":%" PRIu64
                 ",\"forgotten\":%" PRIu64 ",\"open\":%" PRIu64,
                 (int)getpid(), reason_words[head->reason], w->copy->now_unix_ns, w->copy->n_before,
                 w->copy->n_open);
}

typedef struct df_id_place {
  dfcclCollId_t id;
  uint32_t place;
} df_id_place;

static int by_id(const void *a, const void *b) {
  const df_id_place *left = a, *right = b;
  if (left->id != right->id) return left->id < right->id ? -1 : 1;
  return (left->place > right->place) - (left->place < right->place);
}

/* copy->colls is in the order of registrations. */
static void count_again(df_writer *w) {
  const uint32_t n = w->copy->n_colls;
  df_id_place *places = malloc((n + 1) * sizeof *places);
  if (places == NULL) {
    w->text->failed = 1;
    return;
  }
  for (uint32_t i = 0; i < n; i++) places[i] = (df_id_place){w->copy->colls[i].id, i};
  qsort(places, n, sizeof *places, by_id);
  for (uint32_t i = n; i-- > 1;)
    if (places[i - 1].id == places[i].id)
      w->again[places[i - 1].place] = w->again[places[i].place] + 1;
  free(places);
}

void df_flight_grow_json(df_growing_text *text, const df_flight_head *head,
                         const df_flight_copy *copy) {
  df_writer w = {.text = text, .head = head, .copy = copy};
  w.readings = malloc((copy->n_runs + 1) * 3 * sizeof *w.readings);
  w.again = calloc(copy->n_colls + 1, sizeof *w.again);
  if (w.readings == NULL || w.again == NULL) {
    text->failed = 1;
  } else {
    collect_readings(&w);
    count_again(&w);
    grow_head(&w);
    grow_failure(&w);
    grow_losses(&w);
    grow_colls(&w);
    grow_runs(&w);
    grow_groups(&w);
    grow_statuses(&w);
    grow_entries(&w);
    df_grow_text(text, "}\n");
  }
  free(w.readings);
  free(w.again);
}
