/*
 * BCube all-reduce (Guo et al., SIGCOMM 2009; Gloo's algorithm of this name). The numbers of
 * members are written with digits. Members that differ in one digit only form a group, in which all
 * exchange with all: first a reduce-scatter digit by digit, then an all-gather in the opposite
 * order. It sends no more bytes than a ring, in as many rounds as there are digits. A digit has at
 * most `split` values, unless the number of members has a larger prime factor, so any number of
 * members can be written.
 */
#include "plans/build.h"

enum { DIGITS_MOST = 16 };

static uint32_t largest_factor(uint32_t n, uint32_t most) {
  for (uint32_t f = DF_MIN(n, most); f > 1; f--)
    if (n % f == 0) return f;
  for (uint32_t f = 2; f < n; f++) /* the smallest prime, which is too large */
    if (n % f == 0) return f;
  return n;
}

static uint32_t digits_of(uint32_t n, uint32_t base, uint32_t values[DIGITS_MOST]) {
  uint32_t digits = 0;
  for (; n > 1; n /= values[digits++]) values[digits] = largest_factor(n, base);
  return digits;
}

/* The members of the group are `step` apart, and so are their shares of the buffer. */
typedef struct digit {
  uint32_t first, step, values, own; /* first: first member of the group, and first of its shares */
} digit;

static uint32_t other(const digit *d, uint32_t turns) {
  return d->first + (d->own + turns) % d->values * d->step;
}

static void send_rows(df_plan *plan, const digit *d, int is_own, uint32_t at, int from_input) {
  const uint32_t share = df_plan_share(plan), n = d->step * share, row = df_plan_row(plan, n);
  for (uint32_t t = 1; t < d->values; t++) {
    const uint32_t to = other(d, t) + plan->key.position - other(d, 0);
    const uint32_t piece = other(d, is_own ? 0 : t) * share + at;
    df_plan_send(plan, piece, to, from_input ? df_input(piece) : df_output(piece));
    df_plan_widen(plan, DF_MIN(row, n - at), 1);
  }
}

static void reduce_rows(df_plan *plan, const digit *d, uint32_t at, int is_first) {
  const uint32_t share = df_plan_share(plan), n = d->step * share, row = df_plan_row(plan, n);
  const uint32_t piece = other(d, 0) * share + at;
  for (uint32_t t = 1; t < d->values; t++) {
    const uint32_t from = other(d, d->values - t);
    const int last = d->step == 1 && t + 1 == d->values;
    df_plan_reduce(plan,
                   df_plan_order(d->own, (from - d->first) / d->step) |
                       (last ? df_plan_average(plan) : 0),
                   piece, from + plan->key.position - other(d, 0), DF_NO_PEER,
                   is_first && t == 1 ? df_input(piece) : df_output(piece), df_output(piece));
    df_plan_widen(plan, DF_MIN(row, n - at), 1);
  }
}

static void receive_rows(df_plan *plan, const digit *d, uint32_t at) {
  const uint32_t share = df_plan_share(plan), n = d->step * share, row = df_plan_row(plan, n);
  for (uint32_t t = 1; t < d->values; t++) {
    const uint32_t from = other(d, d->values - t), piece = from * share + at;
    df_plan_receive(plan, piece, from + plan->key.position - other(d, 0), DF_NO_PEER,
                    df_output(piece));
    df_plan_widen(plan, DF_MIN(row, n - at), 1);
  }
}

/* The own share is received from all others. Sums are in the output and are lent to the members
 * that continue with them. Each member sends one message ahead of those that it has received. */
static void scatter_digit(df_plan *plan, const digit *d, int is_first) {
  const uint32_t n = d->step * df_plan_share(plan), row = df_plan_row(plan, n);
  for (uint32_t at = 0; at < n + row; at += row) {
    if (at < n) send_rows(plan, d, 0, at, is_first);
    if (at >= row) reduce_rows(plan, d, at - row, is_first);
  }
}

static void gather_digit(df_plan *plan, const digit *d) {
  const uint32_t n = d->step * df_plan_share(plan), row = df_plan_row(plan, n);
  for (uint32_t at = 0; at < n + row; at += row) {
    if (at < n) send_rows(plan, d, 1, at, 0);
    if (at >= row) receive_rows(plan, d, at - row);
  }
}

void df_plan_bcube(df_plan *plan) {
  const uint32_t n = plan->key.n, base = DF_MAX(plan->key.split, 2u);
  uint32_t values[DIGITS_MOST] = {n}, digits = digits_of(n, base, values);
  digit all[DIGITS_MOST];
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = n * df_plan_share(plan);
  df_plan_set_longest(plan, plan->pieces / values[0]);
  for (uint32_t i = 0, first = 0, size = n; i < digits; i++) {
    const uint32_t step = size / values[i], own = (plan->key.position - first) / step;
    all[i] = (digit){first, step, values[i], own};
    first += own * step;
    size = step;
  }
  for (uint32_t i = 0; i < digits; i++) scatter_digit(plan, &all[i], i == 0);
  for (uint32_t i = digits; i > 0; i--) gather_digit(plan, &all[i - 1]);
}
