#include "replay_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/result.h"
#include "common/cli.h"
#include "common/element.h"
#include "plans/operation.h"
#include "primitives/elements/types.h"
#include "replay_peer.h"
#include "schedule.h"

/* The fate of one collective of the schedule, which each member calls once. */
typedef struct {
  uint32_t collective; /* registered collective */
  uint32_t callers;    /* members that call it */
  uint32_t content;    /* the first caller's */
  int first_rank;
  bool known, lacked; /* lacked: the engine's library does not have it */
} fate;

typedef struct {
  replay_plan *plan;
  const replay_options *options;
  df_schedule schedule;
  fate *fates;
  df_names keys; /* scope: the group; signature and content of a registered collective */
  uint32_t room;
  uint32_t *made; /* by collective: calls of the rank so far */
  uint32_t *kept; /* the same, of those that scaling keeps */
} maker;

static bool say(const char *sentence) {
  df_tool_error("%s", sentence);
  return false;
}

static bool no_memory(void) { return say("out of memory for the trace"); }

static const char *name_of(const maker *make, uint32_t event) {
  return df_names_text(&make->schedule.collectives, event);
}

static uint32_t group_size(const maker *make, uint32_t event) {
  return df_sequences_members(&make->schedule.sequences, event);
}

/* ---- ranks ---- */

static bool check_ranks(const maker *make) {
  const df_sequences *sequences = &make->schedule.sequences;
  const int wanted = make->options->n_ranks;
  const int ranks = (int)sequences->gpu_count;
  if (ranks > DF_TOOL_MAX_RANKS) {
    df_tool_error("%s: %d ranks; replay has at most %d", make->options->files[0], ranks,
                  DF_TOOL_MAX_RANKS);
    return false;
  }
  if (wanted != 0 && wanted != ranks) {
    df_tool_error("%s: the files have %d ranks, not %d (-n)", make->options->files[0], ranks,
                  wanted);
    return false;
  }
  for (int rank = 0; rank < ranks; rank++) {
    if (make->schedule.recorded[rank] != DF_RECORDED_NOTHING) continue;
    df_tool_error("rank %d of %d has no file: give a file for each rank, or -n if the trace of one "
                  "rank is that of all",
                  rank, ranks);
    return false;
  }
  make->plan->n_ranks = ranks;
  return true;
}

/* ---- collectives ---- */

static bool same_content(const df_call_content *a, const df_call_content *b, uint32_t members) {
  return a->operation == b->operation && a->type == b->type && a->reduction == b->reduction &&
         (a->pieces_differ || a->operation == DF_OP_SEND_RECV ||
          df_content_count(a, members) == df_content_count(b, members)) &&
         (!df_operation_has_root((df_operation)a->operation) || a->root == b->root);
}

/* Whether all members of the group make the call, and the engine has it. */
static bool is_played(const maker *make, uint32_t event) {
  return make->fates[event].callers == group_size(make, event) && !make->fates[event].lacked;
}

/* Finds each collective's callers; all must agree on what it moves. */
static bool find_callers(maker *make) {
  const df_schedule *schedule = &make->schedule;
  const df_sequences *sequences = &schedule->sequences;
  for (int rank = 0; rank < make->plan->n_ranks; rank++)
    for (uint64_t i = sequences->first[rank]; i < sequences->first[rank + 1]; i++) {
      const uint32_t event = sequences->event[i];
      if (event == DF_EVENT_SYNC) continue;
      fate *one = &make->fates[event];
      const uint32_t content = schedule->call[i].content;
      make->plan->file_calls++;
      one->callers++;
      if (!one->known) {
        one->known = true;
        one->content = content;
        one->first_rank = rank;
      } else if (!same_content(&schedule->content[one->content], &schedule->content[content],
                               group_size(make, event))) {
        df_tool_error("%s: ranks %d and %d differ in operation, type, size or root of \"%.100s\"",
                      make->options->files[0], one->first_rank, rank, name_of(make, event));
        return false;
      }
    }
  return true;
}

static dfcclDataType_t recorded_type(const df_call_content *content) {
  return content->type < 0 ? dfcclFloat32 : (dfcclDataType_t)content->type;
}

/* The type in which the call is played. */
static dfcclDataType_t type_of(const maker *make, const df_call_content *content) {
  const dfcclDataType_t type = recorded_type(content);
  const bool changes = make->options->has_float && df_tool_type_of(type)->is_float;
  return changes ? make->options->float_type : type;
}

static uint64_t scaled_count(const maker *make, uint32_t event, const df_call_content *content) {
  const uint64_t count = df_content_count(content, group_size(make, event));
  const double factor = (double)df_tool_type_of(recorded_type(content))->bytes /
                        (double)df_tool_type_of(type_of(make, content))->bytes;
  const double scaled = (double)count * factor * make->options->scale_bytes;
  if (count == 0) return 0;
  return scaled < 1 ? 1 : (uint64_t)(scaled + 0.5);
}

static int *members_of(maker *make, uint32_t event, uint32_t *count) {
  const df_sequences *sequences = &make->schedule.sequences;
  const uint32_t first = sequences->member_first[sequences->group_of[event]];
  *count = group_size(make, event);
  return make->plan->member_ranks + first;
}

/* Appends the registered collective of an event, the first of its key. */
static bool add_collective(maker *make, uint32_t event, const df_call_content *content) {
  replay_plan *plan = make->plan;
  if (plan->collective_count == make->room) {
    const uint32_t room = 2 * make->room + 64;
    replay_collective *grown = realloc(plan->collective, room * sizeof *grown);
    if (!grown) return no_memory();
    plan->collective = grown;
    make->room = room;
  }
  replay_collective *one = &plan->collective[plan->collective_count++];
  *one = (replay_collective){.operation = content->operation,
                             .type = type_of(make, content),
                             .reduction = (dfcclRedOp_t)content->reduction,
                             .root = content->root,
                             .priority = content->has_priority ? content->priority : 0};
  one->members = members_of(make, event, &one->n_members);
  if (one->root >= one->n_members) /* PARAM's roots are ranks */
    for (uint32_t i = 0; i < one->n_members; i++)
      if (one->members[i] == (int)content->root) one->root = i;
  if (one->root >= one->n_members) one->root = 0;
  snprintf(one->name, sizeof one->name, "%.63s", name_of(make, event));
  char *number = strrchr(one->name, '#');
  if (number && number > one->name) number[number[-1] == ' ' ? -1 : 0] = '\0';
  return true;
}

/* The signature: the name without the number of the call. */
static bool key_of(maker *make, uint32_t event, const df_call_content *content, uint32_t *number) {
  const char *name = name_of(make, event);
  const char *hash = strrchr(name, '#');
  const size_t length = hash ? (size_t)(hash - name) : strlen(name);
  const bool fixed = !content->pieces_differ && content->operation != DF_OP_SEND_RECV;
  char *key = malloc(length + 96);
  if (!key) return no_memory();
  snprintf(key, length + 96, "%.*s|%d %d %d %u %d %llu", (int)length, name, content->operation,
           content->type, content->reduction, content->root, content->priority,
           fixed ? (unsigned long long)df_content_count(content, group_size(make, event)) : 0ull);
  const dfcclResult_t result =
      df_names_intern(&make->keys, make->schedule.sequences.group_of[event], key, number);
  free(key);
  return result == dfcclSuccess || no_memory();
}

static void name_left_out(replay_plan *plan, const maker *make, uint32_t event) {
  const fate *one = &make->fates[event];
  plan->left_out += one->callers;
  if (plan->left_out_shown == (int)DF_COUNT_OF(plan->left_out_names)) return;
  const uint32_t group = make->schedule.sequences.group_of[event];
  snprintf(plan->left_out_names[plan->left_out_shown++], sizeof plan->left_out_names[0],
           "\"%.80s\" of group \"%.40s\": %u of %u members call it", name_of(make, event),
           df_names_text(&make->schedule.groups, group), one->callers, group_size(make, event));
}

static void name_lacked(replay_plan *plan, const maker *make, uint32_t event,
                        const df_call_content *content) {
  plan->lacked += make->fates[event].callers;
  if (plan->lacked_shown == (int)DF_COUNT_OF(plan->lacked_names)) return;
  const df_operation operation = (df_operation)content->operation;
  snprintf(plan->lacked_names[plan->lacked_shown++], sizeof plan->lacked_names[0],
           "\"%.80s\": %s has no %s of %s%s%s", name_of(make, event), make->options->peer->library,
           df_operation_word(operation), df_tool_type_of(type_of(make, content))->name,
           df_operation_reduces(operation) ? " with " : "",
           df_operation_reduces(operation) ? df_redop_name((dfcclRedOp_t)content->reduction) : "");
}

static bool lacks(const maker *make, const df_call_content *content) {
  const replay_peer *peer = make->options->peer;
  replay_peer_operation operation;
  return peer && (!df_replay_peer_operation(content->operation, &operation) ||
                  !peer->has(operation, type_of(make, content), (dfcclRedOp_t)content->reduction));
}

/* Collectives that every member calls are replayed. */
static bool find_collectives(maker *make) {
  const df_schedule *schedule = &make->schedule;
  const df_sequences *sequences = &schedule->sequences;
  for (int rank = 0; rank < make->plan->n_ranks; rank++)
    for (uint64_t i = sequences->first[rank]; i < sequences->first[rank + 1]; i++) {
      const uint32_t event = sequences->event[i];
      if (event == DF_EVENT_SYNC) continue;
      fate *one = &make->fates[event];
      const df_call_content *content = &schedule->content[schedule->call[i].content];
      const uint64_t count = scaled_count(make, event, content);
      const bool is_first = one->first_rank == rank;
      if (one->callers < group_size(make, event)) {
        if (is_first) name_left_out(make->plan, make, event);
        continue;
      }
      if (is_first && lacks(make, content)) {
        one->lacked = true;
        name_lacked(make->plan, make, event, content);
      }
      if (one->lacked) continue;
      if (is_first) {
        if (!key_of(make, event, content, &one->collective)) return false;
        if (one->collective == make->plan->collective_count &&
            !add_collective(make, event, content))
          return false;
        make->plan->collective[one->collective].calls++;
      }
      replay_collective *found = &make->plan->collective[one->collective];
      found->count = DF_MAX(found->count, count); /* pieces may differ: the largest of all */
    }
  return true;
}

/* ---- items ---- */

/* Call number `ordinal` (from 0) is kept if the count of calls kept grows with it. */
static bool keeps(double factor, uint32_t calls, uint32_t ordinal) {
  if (floor(calls * factor) < 1) return ordinal == 0;
  return floor((ordinal + 1) * factor) > floor(ordinal * factor);
}

static uint32_t kept_calls(double factor, uint32_t calls) {
  const double kept = floor(calls * factor);
  return kept < 1 ? 1 : (uint32_t)kept;
}

/* The place of an event among the rank's kept calls. Only valid for kept events. */
typedef struct {
  uint32_t ordinal;
  bool kept;
} made_call;

/* A wait for a call that is left out becomes one for the latest kept call of its collective, so
 * that chains stay chains. At the end the computing behind such a wait is left out with the
 * call. */
static void copy_steps(maker *make, const df_call *call, const made_call *made, bool is_end,
                       replay_item *item) {
  replay_plan *plan = make->plan;
  bool leaves_out = false;
  item->first_step = plan->step_count;
  for (uint32_t i = 0; i < call->step_count; i++) {
    const df_step_before *step = &make->schedule.step[call->first_step + i];
    replay_step copy = {.waits = step->collective != DF_NO_COLLECTIVE,
                        .compute_us = step->compute_us * make->options->scale_compute};
    if (copy.waits) {
      const made_call *awaited = &made[step->collective];
      if (!is_played(make, step->collective)) { /* nobody waits for a call without counterpart */
        leaves_out = is_end;
        continue;
      }
      copy.collective = make->fates[step->collective].collective;
      const uint32_t kept = make->kept[copy.collective];
      copy.ordinal = awaited->kept ? awaited->ordinal : kept - 1;
      leaves_out = !awaited->kept && (is_end || kept == 0);
    }
    if (leaves_out && (copy.waits || is_end)) continue;
    plan->step[plan->step_count++] = copy;
  }
  item->step_count = plan->step_count - item->first_step;
}

static bool starts_window(const replay_plan *plan, const replay_item *item) {
  for (uint32_t i = 0; i < item->step_count; i++)
    if (plan->step[item->first_step + i].waits) return true;
  return item->collective == REPLAY_WAIT_ALL;
}

static void make_rank(maker *make, int rank, made_call *made, uint64_t *items) {
  replay_plan *plan = make->plan;
  const df_sequences *sequences = &make->schedule.sequences;
  uint32_t window = 0;
  bool after_wait = false;
  memset(make->made, 0, plan->collective_count * sizeof *make->made);
  memset(make->kept, 0, plan->collective_count * sizeof *make->kept);
  memset(made, 0, make->schedule.collectives.count * sizeof *made);
  plan->first_item[rank] = *items;
  for (uint64_t i = sequences->first[rank]; i < sequences->first[rank + 1]; i++) {
    const uint32_t event = sequences->event[i];
    replay_item item = {.collective = REPLAY_WAIT_ALL};
    if (event != DF_EVENT_SYNC) {
      const fate *one = &make->fates[event];
      if (!is_played(make, event)) continue;
      const uint32_t ordinal = make->made[one->collective]++;
      made[event].kept =
          keeps(make->options->scale_counts, plan->collective[one->collective].calls, ordinal);
      if (!made[event].kept) continue;
      item.collective = one->collective;
      item.ordinal = made[event].ordinal = make->kept[one->collective];
      plan->calls++;
    }
    copy_steps(make, &make->schedule.call[i], made, event == DF_EVENT_SYNC, &item);
    if (event != DF_EVENT_SYNC) make->kept[item.collective]++;
    const bool starts = starts_window(plan, &item);
    window += starts || after_wait;
    after_wait = item.collective == REPLAY_WAIT_ALL;
    item.window = window;
    plan->item[(*items)++] = item;
  }
}

static bool make_items(maker *make) {
  replay_plan *plan = make->plan;
  const uint64_t events = make->schedule.sequences.first[plan->n_ranks];
  uint64_t items = 0;
  plan->item = malloc((events + 1) * sizeof *plan->item);
  plan->first_item = calloc((size_t)plan->n_ranks + 1, sizeof *plan->first_item);
  plan->step = malloc((make->schedule.step_count + 1u) * sizeof *plan->step);
  make->made = calloc(plan->collective_count + 1u, sizeof *make->made);
  make->kept = calloc(plan->collective_count + 1u, sizeof *make->kept);
  made_call *made = calloc(make->schedule.collectives.count + 1u, sizeof *made);
  const bool fine =
      plan->item && plan->first_item && plan->step && make->made && make->kept && made;
  for (int rank = 0; rank < plan->n_ranks && fine; rank++) make_rank(make, rank, made, &items);
  if (fine) plan->first_item[plan->n_ranks] = items;
  free(made);
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    replay_collective *one = &plan->collective[i];
    one->calls = kept_calls(make->options->scale_counts, one->calls);
    one->slots = DF_MIN(one->calls, (uint32_t)REPLAY_SLOTS);
  }
  return fine || no_memory();
}

/* Only with --order priority; then later calls first, unless the file has priorities. */
static void give_priorities(const maker *make) {
  replay_plan *plan = make->plan;
  const bool wanted = make->options->order == REPLAY_PRIORITY;
  bool has = false;
  for (uint32_t i = 0; i < make->schedule.content_texts.count; i++)
    has |= make->schedule.content[i].has_priority;
  for (uint32_t i = 0; i < plan->collective_count && (!has || !wanted); i++)
    plan->collective[i].priority = wanted ? (int)i + 1 : 0;
}

static bool make_plan(maker *make) {
  replay_plan *plan = make->plan;
  const df_sequences *sequences = &make->schedule.sequences;
  const uint32_t memberships = sequences->member_first[sequences->group_count];
  make->fates = calloc(make->schedule.collectives.count + 1u, sizeof *make->fates);
  plan->member_ranks = malloc((memberships + 1u) * sizeof *plan->member_ranks);
  if (!make->fates || !plan->member_ranks) return no_memory();
  for (uint32_t i = 0; i < memberships; i++) plan->member_ranks[i] = (int)sequences->member[i];
  if (df_names_create(&make->keys) != dfcclSuccess) return no_memory();
  if (!find_callers(make) || !find_collectives(make) || !make_items(make)) return false;
  give_priorities(make);
  for (int i = 0; i < make->schedule.note_count && i < (int)DF_COUNT_OF(plan->note); i++)
    snprintf(plan->note[plan->note_count++], sizeof plan->note[0], "%s", make->schedule.note[i]);
  if (plan->calls > 0) return true;
  df_tool_error("%s: there is nothing to replay: %llu calls, %llu of them without a counterpart, "
                "and %llu that the engine does not have",
                make->options->files[0], (unsigned long long)plan->file_calls,
                (unsigned long long)plan->left_out, (unsigned long long)plan->lacked);
  return false;
}

bool df_replay_plan_make(replay_plan *plan, const replay_options *options) {
  maker make = {.plan = plan, .options = options};
  *plan = (replay_plan){0};
  bool fine = df_schedule_load_program(&make.schedule, options->files, options->file_count,
                                       (uint32_t)options->n_ranks) == dfcclSuccess;
  if (!fine) {
    say(df_last_sentence());
    return false;
  }
  if (make.schedule.sequences.coll_count == 0) {
    df_tool_error("%s: there are no calls of collectives in it", options->files[0]);
    fine = false;
  }
  fine = fine && check_ranks(&make) && make_plan(&make);
  df_schedule_destroy(&make.schedule);
  df_names_destroy(&make.keys);
  free(make.fates);
  free(make.made);
  free(make.kept);
  return fine;
}

double df_replay_planned_compute_s(const replay_plan *plan) {
  double us = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) us += plan->step[i].compute_us;
  return us * 1e-6 / plan->n_ranks;
}

void df_replay_plan_free(replay_plan *plan) {
  free(plan->collective);
  free(plan->item);
  free(plan->first_item);
  free(plan->step);
  free(plan->member_ranks);
  *plan = (replay_plan){0};
}
