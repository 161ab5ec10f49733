#include "ways_world.h"

#include <string.h>

const df_ways_terms exchange = {.one_way = 0}, one_way = {.one_way = 1};

void begin(world *w, df_ways_terms terms, const move_times now[DF_WAYS]) {
  move_times kept[DF_WAYS];
  memcpy(kept, now, sizeof kept); /* they may be in *w */
  *w = (world){.random = {17}, .line_ns = NEAR_NS, .per_run = 1};
  memcpy(w->now, kept, sizeof w->now);
  df_ways_open(&w->ways, terms, 0, &w->memory);
}

void reopen(world *w) {
  const df_ways_terms terms = {.one_way = w->ways.one_way};
  df_ways_close(&w->ways);
  df_ways_open(&w->ways, terms, w->n_slots, &w->memory);
  memset(w->words, 0, sizeof w->words);
  w->sent = 0;
}

uint64_t cost_of(const world *w, uint32_t way) {
  const move_times *t = &w->now[way];
  const uint64_t ends =
      w->ways.one_way ? DF_MAX(t->write_ns, t->read_ns) : t->write_ns + t->read_ns;
  return ends + (way == DF_WAY_LENT ? w->hidden_ns : 0);
}

static void read_from(world *w, uint32_t at) {
  uint32_t *word = &w->words[w->in_ring[at].way];
  if (w->in_ring[at].is_timed) *word = df_way_read_word(*word, MESSAGE, w->in_ring[at].read_ns);
  w->in_ring[at].is_timed = 0;
}

/* The receiver is one lap behind, but lent messages are read before their run ends. */
static void read_one(world *w) {
  if (w->sent >= LAP) read_from(w, (uint32_t)(w->sent % LAP));
  const uint32_t last = (uint32_t)((w->sent + LAP - 1) % LAP);
  if (w->sent > 0 && w->in_ring[last].way == DF_WAY_LENT) read_from(w, last);
}

uint32_t in_use(const world *w, int may_lend) { return df_way_in_use(w->ways.record, may_lend); }

uint32_t send_one(world *w, int may_lend) {
  int is_timed;
  read_one(w);
  if (df_ways_wants_look(&w->ways)) df_ways_look(&w->ways, w->line_ns);
  const df_way_message message = {
      .bytes = MESSAGE, .run = w->sent / w->per_run, .now_ns = w->clock_ns, .may_lend = may_lend};
  const uint32_t before = in_use(w, may_lend), way = df_ways_next(&w->ways, &message, &is_timed);
  uint8_t *left_by = &w->left_by[w->sent % DF_MAX(w->n_slots, 1u)];
  const int is_first = w->first_ns && way == DF_WAY_CACHED && *left_by != way;
  const uint64_t cost = is_first ? w->first_ns : cost_of(w, way), usual = cost_of(w, before);
  const int is_trial = way != before;
  uint64_t write_ns = w->now[way].write_ns, read_ns = w->now[way].read_ns;
  *left_by = (uint8_t)way;
  if (is_first) write_ns = read_ns = w->first_ns / 2;
  if (w->sent < w->slow) write_ns *= 2;
  if (w->interrupted && df_random_below(&w->random, w->interrupted) == 0) write_ns += 5000000;
  if (w->interrupted && df_random_below(&w->random, w->interrupted) == 0) read_ns += 5000000;
  CHECK(way < DF_WAYS && (way != DF_WAY_LENT || may_lend), "way %u", way);
  w->in_ring[w->sent % LAP].way = way;
  w->in_ring[w->sent % LAP].is_timed = is_timed;
  w->in_ring[w->sent % LAP].read_ns = read_ns;
  if (is_timed) df_ways_note(&w->ways, way, MESSAGE, write_ns, w->words[way]);
  w->clock_ns += w->runs_ahead && way != DF_WAY_LENT ? w->now[way].write_ns : cost;
  w->sent++;
  if (w->sent % w->per_run == 0) w->clock_ns += w->elsewhere_ns;
  if (w->noise_ns) w->clock_ns += df_random_below(&w->random, w->noise_ns);
  w->total_ns += cost;
  w->longest_ns = DF_MAX(w->longest_ns, cost);
  w->n_trial += (uint64_t)is_trial;
  if (is_trial && cost > usual) w->excess_ns += cost - usual;
  return way;
}

void send_many(world *w, uint64_t n, int may_lend) {
  for (uint64_t i = 0; i < n; i++) send_one(w, may_lend);
}

void look_many(world *w, uint64_t ns) {
  w->line_ns = ns;
  for (int i = 0; i < DF_WAY_FIRST_LOOKS; i++) df_ways_look(&w->ways, ns);
}

int is_right(const world *w, uint32_t way, int may_lend) {
  uint64_t best = UINT64_MAX;
  for (uint32_t other = 0; other < (may_lend ? DF_WAYS : DF_WAY_LENT); other++)
    best = DF_MIN(best, cost_of(w, other));
  return cost_of(w, way) * 100 <= best * (100 + 2 * (100 - DF_WAY_SLOT_PERCENT));
}
