#include "plans/msccl/order.h"

#include <stdlib.h>

/* Most looks at blocks; a valid file needs far fewer. */
#define MOST_LOOKS ((uint64_t)1 << 27)

typedef struct block_state {
  uint32_t step, part;     /* index of the next step */
  uint64_t sent, received; /* through the connection by which it sends */
} block_state;

typedef struct schedule {
  const df_file_model *model;
  const df_file_order *order;
  block_state *blocks;
  uint32_t *rank_of, *active;
  int32_t *least; /* [n_steps] least order of the step and those behind it in its block; -1: none */
  int32_t *turn;  /* [n] least order of the rank's steps that are left; -1: none has one */
  uint32_t slots, n_active;
  int one_by_one;
} schedule;

/* ---- connections */

static uint32_t find_sender(const df_file_model *m, uint32_t rank, const df_file_block *receiver) {
  const df_file_rank *peer = &m->ranks[receiver->recv_from];
  for (uint32_t b = peer->first; b < peer->first + peer->n_blocks; b++)
    if (m->blocks[b].send_to == (int32_t)rank && m->blocks[b].channel == receiver->channel)
      return b;
  return UINT32_MAX;
}

/* The block's next step, from *at on, that sends or receives. NULL: there is none. */
static const df_file_step *next_message(const df_file_model *m, const df_file_block *block,
                                        int sends, uint32_t *at) {
  while (*at < block->n_steps) {
    const df_file_step *step = &m->steps[block->first + (*at)++];
    if (sends ? df_file_sends(step->kind) : df_file_receives(step->kind)) return step;
  }
  return NULL;
}

static int compare_ends(const df_file_model *m, uint32_t from, uint32_t to,
                        const df_file_block *sender, const df_file_block *receiver,
                        df_file_diagnostic *diagnostic) {
  for (uint32_t s = 0, r = 0;;) {
    const df_file_step *sent = next_message(m, sender, 1, &s);
    const df_file_step *received = next_message(m, receiver, 0, &r);
    if (sent == NULL && received == NULL) return 1;
    if (received == NULL)
      return df_file_complain(diagnostic, sent->line,
                              "rank %u sends what rank %u never receives, through channel %u", from,
                              to, sender->channel);
    if (sent == NULL)
      return df_file_complain(diagnostic, received->line,
                              "rank %u receives what rank %u never sends, through channel %u", to,
                              from, sender->channel);
    if (sent->count != received->count)
      return df_file_complain(diagnostic, received->line,
                              "receives %u chunks; rank %u sends %u in line %u", received->count,
                              from, sent->count, sent->line);
  }
}

int df_file_connect(const df_file_model *m, df_file_order *order, df_file_diagnostic *diagnostic) {
  static const df_file_block nobody;
  *order = (df_file_order){0};
  order->from = malloc((m->n_blocks + 1u) * sizeof *order->from);
  uint8_t *is_met = calloc(m->n_blocks + 1u, 1);
  int fine = order->from && is_met ? 1 : df_file_no_memory(diagnostic);
  for (uint32_t r = 0; fine && r < m->n; r++)
    for (uint32_t b = m->ranks[r].first; fine && b < m->ranks[r].first + m->ranks[r].n_blocks;
         b++) {
      const df_file_block *block = &m->blocks[b];
      order->from[b] = UINT32_MAX;
      if (block->recv_from < 0) continue;
      const uint32_t sender = order->from[b] = find_sender(m, r, block);
      if (sender != UINT32_MAX) is_met[sender] = 1;
      fine = compare_ends(m, (uint32_t)block->recv_from, r,
                          sender == UINT32_MAX ? &nobody : &m->blocks[sender], block, diagnostic);
    }
  for (uint32_t r = 0; fine && r < m->n; r++)
    for (uint32_t b = m->ranks[r].first; fine && b < m->ranks[r].first + m->ranks[r].n_blocks; b++)
      if (m->blocks[b].send_to >= 0 && !is_met[b])
        fine =
            compare_ends(m, r, (uint32_t)m->blocks[b].send_to, &m->blocks[b], &nobody, diagnostic);
  free(is_met);
  if (!fine) df_file_order_free(order);
  return fine;
}

/* ---- time */

typedef enum {
  MAY_GO,
  WAITS_FOR_TURN,
  WAITS_FOR_STEP,
  WAITS_FOR_MESSAGE,
  WAITS_FOR_SLOT
} wait_reason;

static wait_reason look(const schedule *s, uint32_t b, const df_file_step *step) {
  const df_file_model *m = s->model;
  if (step->order >= 0 && step->order > s->turn[s->rank_of[b]]) return WAITS_FOR_TURN;
  if (step->after_block >= 0) {
    const uint32_t other = m->ranks[s->rank_of[b]].first + (uint32_t)step->after_block;
    if (s->blocks[other].step <= (uint32_t)step->after_step) return WAITS_FOR_STEP;
  }
  if (df_file_receives(step->kind)) {
    const block_state *sender = &s->blocks[s->order->from[b]];
    if (sender->sent == sender->received) return WAITS_FOR_MESSAGE;
  }
  if (df_file_sends(step->kind) && s->blocks[b].sent >= s->blocks[b].received + s->slots)
    return WAITS_FOR_SLOT;
  return MAY_GO;
}

static void note(schedule *s, uint32_t b, const df_file_step *step, df_file_order *order) {
  block_state *state = &s->blocks[b];
  if (step->kind != DF_FILE_NOTHING)
    order->events[order->n_events++] = (df_file_event){.rank = (uint16_t)s->rank_of[b],
                                                       .part = (uint16_t)state->part,
                                                       .block = b,
                                                       .step = (uint32_t)(step - s->model->steps)};
  if (df_file_sends(step->kind)) state->sent++;
  if (df_file_receives(step->kind)) s->blocks[s->order->from[b]].received++;
  const uint32_t parts = s->one_by_one ? step->count : 1;
  if (++state->part < parts) return;
  state->part = 0;
  state->step++;
}

static int report_circle(const schedule *s, df_file_diagnostic *diagnostic) {
  const uint32_t b = s->active[0];
  const df_file_model *m = s->model;
  const df_file_step *step = &m->steps[m->blocks[b].first + s->blocks[b].step];
  const wait_reason reason = look(s, b, step);
  if (reason == WAITS_FOR_TURN)
    return df_file_complain(diagnostic, step->line,
                            "order=\"%d\": waits for ever for its turn: the order of rank %u "
                            "contradicts that of its messages and waits",
                            step->order, s->rank_of[b]);
  if (reason == WAITS_FOR_STEP)
    return df_file_complain(diagnostic, step->line,
                            "waits for ever for step %d of block %d: %u blocks wait in a circle",
                            step->after_step, step->after_block, s->n_active);
  return df_file_complain(
      diagnostic, step->line, "waits for ever for %s rank %d: %u blocks wait in a circle",
      reason == WAITS_FOR_MESSAGE ? "a message from" : "a slot to",
      reason == WAITS_FOR_MESSAGE ? m->blocks[b].recv_from : m->blocks[b].send_to, s->n_active);
}

static void find_least_orders(schedule *s) {
  const df_file_model *m = s->model;
  for (uint32_t b = 0; b < m->n_blocks; b++) {
    const df_file_block *block = &m->blocks[b];
    int32_t least = -1;
    for (uint32_t i = block->first + block->n_steps; i-- > block->first;) {
      const int32_t order = m->steps[i].order;
      if (order >= 0 && (least < 0 || order < least)) least = order;
      s->least[i] = least;
    }
  }
}

/* Finds the turn of each rank. A step that is executed later in the same round does not change
 * it. */
static void find_turns(schedule *s) {
  const df_file_model *m = s->model;
  for (uint32_t r = 0; r < m->n; r++) s->turn[r] = -1;
  for (uint32_t i = 0; i < s->n_active; i++) {
    const uint32_t b = s->active[i];
    const int32_t order = s->least[m->blocks[b].first + s->blocks[b].step];
    int32_t *turn = &s->turn[s->rank_of[b]];
    if (order >= 0 && (*turn < 0 || order < *turn)) *turn = order;
  }
}

/* Each block executes one step in turn, so that the list proceeds as the file's concurrent blocks
 * would. */
static int run(schedule *s, df_file_order *order, df_file_diagnostic *diagnostic) {
  const df_file_model *m = s->model;
  uint64_t looks = 0;
  while (s->n_active > 0) {
    int moved = 0, wants_slot = 0;
    uint32_t left = 0;
    looks += s->n_active;
    find_turns(s);
    for (uint32_t i = 0; i < s->n_active; i++) {
      const uint32_t b = s->active[i];
      const df_file_step *step = &m->steps[m->blocks[b].first + s->blocks[b].step];
      const wait_reason reason = look(s, b, step);
      if (reason == MAY_GO) note(s, b, step, order);
      moved |= reason == MAY_GO;
      wants_slot |= reason == WAITS_FOR_SLOT;
      if (s->blocks[b].step < m->blocks[b].n_steps) s->active[left++] = b;
    }
    s->n_active = left;
    if (!moved && wants_slot) return -1;
    if (!moved) return report_circle(s, diagnostic);
    if (looks > MOST_LOOKS)
      return df_file_complain(diagnostic, m->line,
                              "its %u steps in %u blocks take too long to order", m->n_steps,
                              m->n_blocks);
  }
  return 1;
}

int df_file_schedule(const df_file_model *m, uint32_t slots, int one_by_one, df_file_order *order,
                     df_file_diagnostic *diagnostic) {
  schedule s = {.model = m, .order = order, .slots = slots, .one_by_one = one_by_one};
  uint64_t events = 0;
  for (uint32_t i = 0; i < m->n_steps; i++) events += one_by_one ? m->steps[i].count : 1;
  if (events > 4ull * DF_FILE_MOST_STEPS)
    return df_file_complain(diagnostic, m->line,
                            "its steps move %llu chunks; at most %llu are possible",
                            (unsigned long long)events, 4ull * DF_FILE_MOST_STEPS);
  free(order->events);
  order->n_events = 0;
  order->events = malloc((events + 1) * sizeof *order->events);
  s.blocks = calloc(m->n_blocks + 1u, sizeof *s.blocks);
  s.rank_of = calloc(m->n_blocks + 1u, sizeof *s.rank_of);
  s.active = calloc(m->n_blocks + 1u, sizeof *s.active);
  s.turn = calloc(m->n + 1u, sizeof *s.turn);
  s.least = calloc(m->n_steps + 1u, sizeof *s.least);
  const int has_memory = order->events && s.blocks && s.rank_of && s.active && s.turn && s.least;
  int fine = has_memory ? 1 : df_file_no_memory(diagnostic);
  for (uint32_t r = 0; fine && r < m->n; r++)
    for (uint32_t b = m->ranks[r].first; b < m->ranks[r].first + m->ranks[r].n_blocks; b++)
      s.rank_of[b] = r;
  for (uint32_t b = 0; fine && b < m->n_blocks; b++)
    if (m->blocks[b].n_steps > 0) s.active[s.n_active++] = b;
  if (fine) {
    find_least_orders(&s);
    fine = run(&s, order, diagnostic);
  }
  free(s.blocks);
  free(s.rank_of);
  free(s.active);
  free(s.turn);
  free(s.least);
  return fine;
}

void df_file_order_free(df_file_order *order) {
  free(order->events);
  free(order->from);
  *order = (df_file_order){0};
}
