/* The table that a person reads, and the JSON object. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/text.h"
#include "common/cli.h"
#include "top/top.h"

enum { LINE_BYTES = 512 };

/* ---- the table ---- */

static void say_since(const df_top_row *row, char *text, size_t bytes) {
  text[0] = '\0';
  if (row->since_s < 0) return;
  const char *least = row->since_is_least ? ">" : "";
  if (row->since_s < 60)
    snprintf(text, bytes, "%s%.1f s", least, row->since_s);
  else
    snprintf(text, bytes, "%s%.0f min", least, row->since_s / 60);
}

static void say_rate(bool is_known, double value, const char *format, char *text, size_t bytes) {
  snprintf(text, bytes, "-");
  if (is_known) snprintf(text, bytes, format, value);
}

static void say_awaited(const df_top_row *row, char *text, size_t bytes) {
  const df_snapshot_coll *coll = row->coll;
  text[0] = '\0';
  if (row->state != STATE_WAITING) return;
  df_top_rank_words(coll->awaited, coll->n_awaited, text, bytes);
  if (coll->flags & DF_SNAPSHOT_MORE_AWAITED) {
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, ", ...");
  }
}

static void say_collective(const df_top_row *row, char text[24]) {
  char name[32];
  df_text out = {.at = text, .left = 24};
  text[0] = '\0';
  if (row->coll == NULL) return;
  df_escape(name, sizeof name, row->coll->name);
  df_say(&out, name[0] ? "%" PRIu64 " %s" : "%" PRIu64, row->coll->id, name);
}

/* A peer's host name is foreign text. */
static void say_host(const df_top_session *session, uint32_t rank, char *text, size_t bytes) {
  df_escape(text, bytes, df_top_host(session, rank));
}

static void format_row(const df_top_view *view, uint32_t rank, char line[LINE_BYTES]) {
  const df_top_row *row = &view->rows[rank];
  char host[24], collective[24], since[16], awaited[40], process[16] = "-";
  char runs[16], rate[16], preemptions[16], quits[16], late[16], queue[24] = "-";
  say_host(view->session, rank, host, sizeof host);
  say_collective(row, collective);
  say_since(row, since, sizeof since);
  say_awaited(row, awaited, sizeof awaited);
  if (view->session->ranks[rank].process)
    snprintf(process, sizeof process, "%u", view->session->ranks[rank].process);
  say_rate(row->has_rates, row->runs_per_s, "%.0f", runs, sizeof runs);
  say_rate(row->has_rates, row->bytes_per_s * 1e-6, "%.1f", rate, sizeof rate);
  say_rate(row->has_rates, row->preemptions_per_s, "%.0f", preemptions, sizeof preemptions);
  say_rate(row->has_rates, row->quits_per_s, "%.0f", quits, sizeof quits);
  say_rate(row->late_ms >= 0, row->late_ms, "%.1f", late, sizeof late);
  if (row->has_rates) snprintf(queue, sizeof queue, "%" PRIu64, row->queue);
  snprintf(line, LINE_BYTES, "%5u  %-12.12s %8s  %-8s %-20.20s %8s %8s %9s %8s %7s %6s %8s  %s",
           rank, host, process, df_top_state_names[row->state], collective, since, runs, rate,
           preemptions, quits, queue, late, awaited);
}

static void format_head(char line[LINE_BYTES]) {
  snprintf(line, LINE_BYTES, "%5s  %-12s %8s  %-8s %-20s %8s %8s %9s %8s %7s %6s %8s  %s", "rank",
           "host", "process", "state", "collective", "since", "runs/s", "MB/s", "preempt/s",
           "quits/s", "queue", "late ms", "waits for");
}

static void put_line(const char *line, uint32_t columns, FILE *to) {
  size_t length = strlen(line);
  if (columns && length > columns) length = columns;
  while (length && line[length - 1] == ' ') length--;
  fprintf(to, "%.*s\n", (int)length, line);
}

void df_top_print(const df_top_view *view, const df_top_table *table, FILE *to) {
  const df_top_session *session = view->session;
  char line[LINE_BYTES], sentence[2 * sizeof view->verdict.sentence];
  snprintf(line, sizeof line, "job %016" PRIx64 " %s, %u ranks", session->job, session->program,
           session->n_ranks);
  put_line(line, table->columns, to);
  format_head(line);
  put_line(line, table->columns, to);
  const uint32_t end = DF_MIN(session->n_ranks, table->first_row + table->n_rows);
  for (uint32_t r = table->first_row; r < end; r++) {
    format_row(view, r, line);
    put_line(line, table->columns, to);
  }
  if (end - table->first_row < session->n_ranks)
    fprintf(to, "ranks %u to %u of %u\n", table->first_row, end - 1, session->n_ranks);
  df_escape(sentence, sizeof sentence, view->verdict.sentence);
  fprintf(to, "%s\n", sentence);
}

/* ---- JSON ---- */

static void add_id(cJSON *object, const char *key, uint64_t id) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, id);
  cJSON_AddStringToObject(object, key, text);
}

static void add_number(cJSON *object, const char *key, bool is_known, double value) {
  if (is_known)
    cJSON_AddNumberToObject(object, key, value);
  else
    cJSON_AddNullToObject(object, key);
}

static cJSON *make_ranks(const uint32_t *ranks, uint32_t n) {
  cJSON *list = cJSON_CreateArray();
  for (uint32_t i = 0; i < n; i++) cJSON_AddItemToArray(list, cJSON_CreateNumber(ranks[i]));
  return list;
}

/* JSON needs UTF-8, and names may hold any bytes: each byte beyond ASCII is escaped. */
static void add_text(cJSON *object, const char *key, const char *text) {
  char plain[1024 + 64];
  size_t used = 0;
  for (const unsigned char *at = (const unsigned char *)text; *at && used + 5 < sizeof plain; at++)
    used += (size_t)snprintf(plain + used, sizeof plain - used, *at < 128 ? "%c" : "\\x%02x", *at);
  plain[used] = '\0';
  cJSON_AddStringToObject(object, key, plain);
}

static void add_row(cJSON *list, const df_top_view *view, uint32_t rank) {
  static const char *const causes[DF_WAIT_CAUSES] = {[DF_WAIT_NONE] = "none",
                                                     [DF_WAIT_FAILED] = "failed",
                                                     [DF_WAIT_REGISTRATION] = "registration",
                                                     [DF_WAIT_RUN] = "run",
                                                     [DF_WAIT_LINKS] = "links",
                                                     [DF_WAIT_SYNCHRONISATION] = "synchronisation",
                                                     [DF_WAIT_ROOM] = "room",
                                                     [DF_WAIT_MESSAGES] = "messages",
                                                     [DF_WAIT_UNKNOWN] = "unknown",
                                                     [DF_WAIT_PROGRESS] = "progress"};
  const df_top_row *row = &view->rows[rank];
  const df_top_rank *one = &view->session->ranks[rank];
  const df_snapshot_coll *coll = row->coll;
  cJSON *entry = cJSON_CreateObject();
  cJSON_AddNumberToObject(entry, "rank", rank);
  add_text(entry, "host", df_top_host(view->session, rank));
  add_number(entry, "pid", one->process != 0, one->process);
  cJSON_AddStringToObject(entry, "state", df_top_state_names[row->state]);
  if (coll)
    add_id(entry, "collective", coll->id);
  else
    cJSON_AddNullToObject(entry, "collective");
  add_text(entry, "name", coll ? coll->name : "");
  add_number(entry, "run", coll && coll->taken < coll->submitted, coll ? (double)coll->taken : 0);
  cJSON_AddStringToObject(entry, "cause", coll ? causes[coll->cause] : "none");
  const uint32_t n_awaited = row->state == STATE_WAITING ? coll->n_awaited : 0;
  cJSON_AddItemToObject(entry, "waits_for",
                        make_ranks(n_awaited ? coll->awaited : NULL, n_awaited));
  add_number(entry, "since_s", row->since_s >= 0, row->since_s);
  cJSON_AddBoolToObject(entry, "since_is_least", row->since_is_least);
  add_number(entry, "runs_per_s", row->has_rates, row->runs_per_s);
  add_number(entry, "bytes_per_s", row->has_rates, row->bytes_per_s);
  add_number(entry, "preemptions_per_s", row->has_rates, row->preemptions_per_s);
  add_number(entry, "quits_per_s", row->has_rates, row->quits_per_s);
  add_number(entry, "queue", row->has_rates, (double)row->queue);
  add_number(entry, "late_ms", row->late_ms >= 0, row->late_ms);
  cJSON *calls = cJSON_AddArrayToObject(entry, "calls");
  for (uint32_t i = 0; one->contact == RANK_ANSWERS && i < one->now->snapshot.n_calls; i++) {
    const df_snapshot_call *call = &df_snapshot_calls(&one->now->snapshot)[i];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddNumberToObject(item, "thread", call->thread);
    add_text(item, "call", call->name);
    if (call->is_of_one)
      add_id(item, "collective", call->id);
    else
      cJSON_AddNullToObject(item, "collective");
    cJSON_AddNumberToObject(item, "since_s", (double)call->age_ns * 1e-9);
    cJSON_AddItemToArray(calls, item);
  }
  cJSON_AddItemToArray(list, entry);
}

bool df_top_print_json(const df_top_view *view) {
  const df_top_session *session = view->session;
  const df_verdict *verdict = &view->verdict;
  char digest[24];
  snprintf(digest, sizeof digest, "%016" PRIx64, session->job);
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "job", digest);
  add_text(object, "program", session->program);
  cJSON *list = cJSON_AddArrayToObject(object, "ranks");
  for (uint32_t r = 0; r < session->n_ranks; r++) add_row(list, view, r);
  cJSON *entry = cJSON_AddObjectToObject(object, "verdict");
  cJSON_AddStringToObject(entry, "kind", df_verdict_names[verdict->kind]);
  cJSON_AddItemToObject(entry, "ranks", make_ranks(verdict->ranks, verdict->n_ranks));
  if (verdict->has_collective)
    add_id(entry, "collective", verdict->collective);
  else
    cJSON_AddNullToObject(entry, "collective");
  add_text(entry, "name", verdict->name);
  cJSON_AddBoolToObject(entry, "registration", verdict->is_registration);
  add_text(entry, "sentence", verdict->sentence);
  return df_tool_print_json(object);
}
