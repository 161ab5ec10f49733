/* The lines of src/host/observe/turns.c. */
#include <string.h>

#include "trace/read.h"

/* The members of a line that have these names; false: one is missing, or too large. */
static bool read_small(const cJSON *line, const char *name, uint32_t *number) {
  uint64_t large;
  if (!df_read_number(line, name, &large) || large > UINT32_MAX) return false;
  *number = (uint32_t)large;
  return true;
}

static bool read_time(const place *at, const cJSON *line, const char *name, int64_t *ns) {
  uint64_t clock;
  if (!df_read_number(line, name, &clock) || clock > MOST_CLOCK_NS) return false;
  *ns = (int64_t)clock + at->job->ranks[at->rank].offset_ns;
  return true;
}

static bool read_duration(const cJSON *line, const char *name, int64_t *ns) {
  uint64_t duration;
  if (!df_read_number(line, name, &duration) || duration > MOST_CLOCK_NS) return false;
  *ns = (int64_t)duration;
  return true;
}

static bool read_wait(const place *at, const cJSON *line, df_traced_turn *turn) {
  const char *on = df_trace_read_word(line, "on");
  if (on == NULL) return true;
  turn->sends = strcmp(on, "send") == 0;
  return (turn->sends || strcmp(on, "receive") == 0) && read_small(line, "peer", &turn->peer) &&
         turn->peer < at->job->n_ranks && df_read_number(line, "polls", &turn->polls) &&
         read_duration(line, "waited", &turn->waited) &&
         read_duration(line, "longest", &turn->longest);
}

static bool read_ended_turn(const place *at, const cJSON *line, df_traced_turn *turn) {
  const char *end = df_trace_read_word(line, "end");
  if (end == NULL || !read_time(at, line, "from", &turn->from) ||
      !read_time(at, line, "to", &turn->to) || turn->to < turn->from)
    return false;
  if (strcmp(end, "preempted") == 0)
    turn->kind = DF_TURN_PREEMPTED;
  else if (strcmp(end, "done") == 0)
    turn->kind = DF_TURN_DONE;
  else if (strcmp(end, "kept") == 0)
    turn->kind = DF_TURN_KEPT;
  else
    return false;
  return read_small(line, "queue", &turn->queue) && read_small(line, "pending", &turn->pending) &&
         df_read_number(line, "steps", &turn->steps) && read_wait(at, line, turn);
}

static bool read_event(const place *at, const cJSON *line, df_traced_turn *turn) {
  if (!read_time(at, line, "at", &turn->to)) return false;
  turn->from = turn->to;
  switch (turn->kind) {
  case DF_TURN_TAKEN:
    return read_small(line, "queue", &turn->queue) && read_small(line, "pending", &turn->pending);
  case DF_TURN_STARTED: {
    const char *what = df_trace_read_word(line, "daemon");
    if (what == NULL || (strcmp(what, "start") != 0 && strcmp(what, "quit") != 0)) return false;
    if (strcmp(what, "quit") == 0) turn->kind = DF_TURN_QUIT;
    return read_small(line, "queue", &turn->queue);
  }
  default:
    return true;
  }
}

/* The first member of a line says what it is; its number is that of a collective, with 0 for none,
 * or of lost records. */
static const struct {
  const char *name;
  df_turn_kind kind;
} names[] = {{"turn", DF_TURN_DONE},  {"taken", DF_TURN_TAKEN},     {"load", DF_TURN_LOADED},
             {"save", DF_TURN_SAVED}, {"lost_turns", DF_TURN_LOST}, {"daemon", DF_TURN_STARTED}};

static bool find_collective(const place *at, uint64_t number, size_t *of) {
  const df_traced_collective *traced = df_place_find(at, number);
  if (traced == NULL) return df_place_fails(at, "no earlier line has this number of a collective");
  *of = (size_t)(traced - at->job->collectives);
  return true;
}

bool df_read_turn(place *at, const cJSON *line, bool *known) {
  df_job_trace *job = at->job;
  df_traced_turn turn = {.rank = at->rank, .of = DF_NO_COLLECTIVE, .order = job->n_turns};
  const char *name = line->child ? line->child->string : "";
  size_t i = 0;
  uint64_t number = 0;
  while (i < sizeof names / sizeof names[0] && strcmp(names[i].name, name) != 0) i++;
  *known = i < sizeof names / sizeof names[0];
  if (!*known) return true;
  turn.kind = names[i].kind;
  if (turn.kind != DF_TURN_STARTED && !df_read_number(line, name, &number))
    return df_place_fails(at, "the line about a turn has no number of a collective");
  if (turn.kind == DF_TURN_LOST) turn.polls = number;
  if (turn.kind != DF_TURN_LOST && number != 0 && !find_collective(at, number, &turn.of))
    return false;
  if (!read_small(line, "block", &turn.block) ||
      !(turn.kind == DF_TURN_DONE ? read_ended_turn(at, line, &turn) : read_event(at, line, &turn)))
    return df_place_fails(at, "the line about a turn lacks a member, or one is out of range");
  if (!df_make_room((void **)&job->turns, &job->turns_room, job->n_turns, sizeof *job->turns))
    return df_place_fails(at, "no memory");
  job->turns[job->n_turns++] = turn;
  return true;
}

static bool read_message(const place *at, const cJSON *line, df_traced_message *message) {
  const char *way = df_trace_read_word(line, "way");
  if (way == NULL) return false;
  message->is_sent = strcmp(way, "sent") == 0;
  return (message->is_sent || strcmp(way, "received") == 0) &&
         read_small(line, "block", &message->block) && read_small(line, "peer", &message->peer) &&
         message->peer < at->job->n_ranks && read_time(at, line, "from", &message->from) &&
         read_time(at, line, "to", &message->to) && message->to >= message->from &&
         df_read_number(line, "number", &message->number) &&
         df_read_number(line, "bytes", &message->bytes);
}

bool df_read_message(place *at, const cJSON *line, bool *known) {
  df_job_trace *job = at->job;
  df_traced_message message = {.rank = at->rank, .of = DF_NO_COLLECTIVE};
  uint64_t number;
  *known = true;
  if (df_read_number(line, "lost_messages", &number)) {
    job->ranks[at->rank].lost_messages += number;
    return true;
  }
  *known = df_read_number(line, "message", &number);
  if (!*known) return true;
  if (number != 0 && !find_collective(at, number, &message.of)) return false;
  if (!read_message(at, line, &message))
    return df_place_fails(at, "the line about a message lacks a member, or one is out of range");
  if (!df_make_room((void **)&job->messages, &job->messages_room, job->n_messages,
                    sizeof *job->messages))
    return df_place_fails(at, "no memory");
  job->messages[job->n_messages++] = message;
  return true;
}
