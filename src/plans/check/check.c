#include "plans/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/check/check_step.h"

static int compare_plans(df_checker *c) {
  const df_plan *first = c->players[0].plan;
  for (uint32_t r = 0; r < c->n; r++) {
    const df_plan *plan = c->players[r].plan;
    if (plan->geometry != first->geometry || plan->pieces != first->pieces ||
        plan->scratch_pieces != first->scratch_pieces || plan->longest != first->longest)
      return df_check_complain(c, r, "its plan cuts the buffer in another way than rank 0's");
    for (uint32_t i = 0; i < plan->n_links; i++) {
      const df_plan_link *link = &plan->links[i];
      if (link->peer >= c->n || link->peer == r)
        return df_check_complain(c, r, "has a link to %u", link->peer);
      df_check_pipe *way = link->sends ? df_check_pipe_of(c, r, link->peer, link->channel)
                                       : df_check_pipe_of(c, link->peer, r, link->channel);
      uint32_t total = link->messages * c->o->loops;
      if (way->messages != NULL && way->total != total)
        return df_check_complain(c, r, "and rank %u differ in the messages between them, %u and %u",
                                 link->peer, total, way->total);
      if (way->messages == NULL)
        way->messages = df_check_take_memory(c, total, sizeof(df_check_message));
      if (way->messages == NULL) return 0;
      way->total = total;
    }
  }
  return 1;
}

/* The bits of all contributions. */
static uint64_t first_ranks(uint32_t n) { return n == 64 ? UINT64_MAX : (1ull << n) - 1; }

static int check_listed_results(df_checker *c) {
  const int reduces = df_operation_reduces(c->key.operation);
  const uint64_t all = first_ranks(c->n);
  for (uint32_t r = 0; r < c->n; r++) {
    const df_plan *plan = c->players[r].plan;
    for (uint32_t piece = 0; piece < plan->n_extents; piece++) {
      const df_plan_name *name = &plan->names[piece];
      const df_check_value *v = &c->players[r].output[piece].value;
      if (!name->output) continue;
      if (v->element != df_check_named(c, name) ||
          v->contributions != (reduces ? all : 1ull << name->from) ||
          v->divided != (uint32_t)(c->key.average != 0) ||
          v->scaled != (uint32_t)(c->o->scales != 0))
        return df_check_complain(c, r, "chunk %u from rank %u is element %u of %llx, divided %u",
                                 name->chunk, name->from, v->element,
                                 (unsigned long long)v->contributions, v->divided);
    }
  }
  return 1;
}

static int check_results(df_checker *c) {
  int reduces = df_operation_reduces(c->key.operation);
  if (df_operation_has_piece_table(c->key.operation)) return check_listed_results(c);
  for (uint32_t r = 0; r < c->n; r++) {
    df_check_player *p = &c->players[r];
    if (p->output == NULL) continue;
    for (p->loop = 0; p->loop < c->o->loops; p->loop++)
      for (uint32_t piece = 0; piece < c->output_pieces; piece++) {
        if (!df_check_piece_is_there(c, p->loop, piece)) continue;
        const df_check_value *v = &df_check_place(c, r, DF_BUFFER_OUTPUT, piece)->value;
        const uint32_t share = p->plan->geometry == DF_GEOMETRY_GRID ? piece / c->pieces : piece;
        uint32_t from = df_operation_is_wide(c->key.operation, 1) ? share : c->key.root;
        uint32_t element = df_check_element(c, p->loop, from, r, piece);
        const uint64_t contributions =
            reduces ? first_ranks(df_operation_operands(c->key.operation, r, c->n)) : 1ull << from;
        if (v->element != element || v->contributions != contributions)
          return df_check_complain(
              c, r, "the result's piece %u is element %u of %llx instead of %u of %llx", piece,
              v->element, (unsigned long long)v->contributions, element,
              (unsigned long long)contributions);
        if ((c->o->ordered || df_operation_is_scan(c->key.operation)) && v->disordered)
          return df_check_complain(c, r, "the result's piece %u is not in the group's order",
                                   piece);
        c->findings.ordered &= !v->disordered;
        if (v->divided != (uint32_t)(c->key.average != 0))
          return df_check_complain(c, r, "the result's piece %u was divided %u times", piece,
                                   v->divided);
        if (v->scaled != (uint32_t)(c->o->scales != 0))
          return df_check_complain(c, r, "the result's piece %u was scaled %u times", piece,
                                   v->scaled);
        if (!df_operation_has_one_result(c->key.operation) || r == 0) continue;
        c->players[0].loop = p->loop;
        if (df_check_place(c, 0, DF_BUFFER_OUTPUT, piece)->value.order == v->order) continue;
        c->findings.same_bits = 0;
        if (!c->o->any_order)
          return df_check_complain(
              c, r, "the result's piece %u is combined in another order than rank 0's", piece);
      }
  }
  return 1;
}

static int check_links(df_checker *c) {
  for (uint32_t i = 0; i < c->n * c->n * c->channels; i++)
    if (c->pipes[i].sent != c->pipes[i].total || c->pipes[i].released != c->pipes[i].total)
      return df_check_complain(
          c, i / c->channels / c->n, "to rank %u: %u messages planned, %u sent, %u received",
          i / c->channels % c->n, c->pipes[i].total, c->pipes[i].sent, c->pipes[i].released);
  return 1;
}

static int check_that_all_were_received(df_checker *c) {
  const int all_must = c->o->varying || c->key.operation == DF_OP_BARRIER;
  for (uint32_t r = 0; all_must && r < c->n; r++)
    for (uint32_t other = 0; other < c->n; other++)
      if (other != r && c->players[r].now.after[other] == 0)
        return df_check_complain(
            c, r, "ends before it has received a message of rank %u, directly or through others",
            other);
  for (uint32_t r = 0; c->key.settles && r < c->n; r++)
    for (uint32_t other = 0; other < c->n; other++)
      if (other != r && c->players[r].now.after[other] <= c->players[other].has_data)
        return df_check_complain(c, r, "ends before it has heard that rank %u has its data", other);
  return 1;
}

static int execute(df_checker *c) {
  for (uint32_t left = c->n, moved = 1; left > 0;) {
    if (!moved) {
      uint32_t r = 0;
      while (c->players[r].loop == c->o->loops) r++;
      return df_check_complain(c, r, "waits for ever, as %u ranks do", left);
    }
    moved = left = 0;
    for (uint32_t r = 0; r < c->n; r++) {
      df_check_player *p = &c->players[r];
      if (p->plan->n_primitives == 0) p->loop = c->o->loops;
      while (p->loop < c->o->loops && df_check_step(c, r)) moved = 1;
      if (c->result != dfcclSuccess) return 0;
      left += p->loop < c->o->loops;
    }
  }
  c->executed = 1;
  return check_links(c) && check_that_all_were_received(c) && check_results(c);
}

static int prepare(df_checker *c) {
  if (c->n > DF_PLAN_CHECK_MAX_RANKS)
    return df_check_complain(c, 0, "a group of more than %d ranks", DF_PLAN_CHECK_MAX_RANKS);
  const df_plan *first = c->players[0].plan;
  int partition = first->geometry == DF_GEOMETRY_PARTITION;
  c->pieces = first->pieces;
  const uint32_t share = first->geometry == DF_GEOMETRY_GRID ? c->pieces : 1;
  c->input_pieces = partition                                   ? c->pieces
                    : df_operation_is_wide(c->key.operation, 0) ? c->n * share
                                                                : share;
  c->output_pieces = partition                                   ? c->pieces
                     : df_operation_is_wide(c->key.operation, 1) ? c->n * share
                                                                 : share;
  c->channels = 1;
  for (uint32_t r = 0; r < c->n; r++)
    for (uint32_t i = 0; i < c->players[r].plan->n_links; i++)
      c->channels = DF_MAX(c->channels, c->players[r].plan->links[i].channel + 1u);
  c->pipes = df_check_take_memory(c, (size_t)c->n * c->n * c->channels, sizeof *c->pipes);
  if (c->pipes == NULL) return 0;
  for (uint32_t r = 0; r < c->n; r++)
    if (!df_check_give_memory(c, r)) return 0;
  return compare_plans(c);
}

static void free_checker(df_checker *c) {
  for (uint32_t r = 0; r < DF_MIN(c->n, (uint32_t)DF_PLAN_CHECK_MAX_RANKS); r++)
    for (int i = 0; i < 3; i++) {
      for (uint32_t k = 0; k < c->players[r].cells[i]; k++) free(c->players[r].memory[i][k].read);
      free(c->players[r].memory[i]);
    }
  for (uint32_t i = 0; c->pipes && i < c->n * c->n * c->channels; i++) {
    df_check_pipe *pipe = &c->pipes[i];
    for (uint32_t k = 0; pipe->messages && k < pipe->total; k++)
      if (pipe->messages[k].pieces > 1) free(pipe->messages[k].parts);
    free(pipe->messages);
  }
  free(c->pipes);
  free(c);
}

dfcclResult_t df_plan_check(df_plan *const *plans, const df_plan_check_options *options,
                            char *sentence, size_t bytes) {
  df_checker *c = calloc(1, sizeof *c);
  if (c == NULL) {
    snprintf(sentence, bytes, "no memory to check the plans of %u ranks", plans[0]->key.n);
    return dfcclOutOfMemory;
  }
  c->o = options;
  c->key = plans[0]->key;
  c->n = c->key.n;
  c->sentence = sentence;
  c->sentence_bytes = bytes;
  c->random = options->seed;
  c->findings = (df_plan_check_findings){.ordered = 1, .same_bits = 1};
  for (uint32_t r = 0; r < DF_MIN(c->n, (uint32_t)DF_PLAN_CHECK_MAX_RANKS); r++)
    c->players[r].plan = plans[r];
  if (prepare(c)) execute(c);
  dfcclResult_t result = c->result;
  if (options->findings) *options->findings = c->findings;
  free_checker(c);
  return result;
}
