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

static void send_row(df_plan *plan, uint32_t piece, uint32_t n, uint32_t to, df_place from) {
  df_plan_send(plan, piece, to, from);
  df_plan_widen(plan, n, 1);
}

/* The members of the group are `step` apart, and so are their shares of the pieces. */
typedef struct digit {
  uint32_t first, step, values, own; /* first: first member of the group, and first of its pieces */
} digit;

static uint32_t other(const digit *d, uint32_t turns) {
  return d->first + (d->own + turns) % d->values * d->step;
}

/* The own share is received from all others. Sums are in the output and are lent to the members
 * that continue with them. */
static void scatter_digit(df_plan *plan, const digit *d, int is_first) {
  const uint32_t wide = plan->key.several ? d->step : 1, own = other(d, 0);
  const uint32_t offset = plan->key.position - own; /* index among the members that have
                                                       this digit */
  for (uint32_t i = 0; i < d->step; i += wide) {
    for (uint32_t t = 1; t < d->values; t++) {
      const uint32_t to = other(d, t);
      send_row(plan, to + i, wide, to + offset, is_first ? df_input(to + i) : df_output(to + i));
    }
    for (uint32_t t = 1; t < d->values; t++) {
      const uint32_t from = other(d, d->values - t);
      const int last = d->step == 1 && t + 1 == d->values;
      df_plan_reduce(
          plan,
          df_plan_order(d->own, (from - d->first) / d->step) | (last ? df_plan_average(plan) : 0),
          own + i, from + offset, DF_NO_PEER,
          is_first && t == 1 ? df_input(own + i) : df_output(own + i), df_output(own + i));
      df_plan_widen(plan, wide, 1);
    }
  }
}

static void gather_digit(df_plan *plan, const digit *d) {
  const uint32_t wide = plan->key.several ? d->step : 1, own = other(d, 0);
  const uint32_t offset = plan->key.position - own;
  for (uint32_t i = 0; i < d->step; i += wide) {
    for (uint32_t t = 1; t < d->values; t++)
      send_row(plan, own + i, wide, other(d, t) + offset, df_output(own + i));
    for (uint32_t t = 1; t < d->values; t++) {
      const uint32_t from = other(d, d->values - t);
      df_plan_receive(plan, from + i, from + offset, DF_NO_PEER, df_output(from + i));
      df_plan_widen(plan, wide, 1);
    }
  }
}

void df_plan_bcube(df_plan *plan) {
  const uint32_t n = plan->key.n, base = DF_MAX(plan->key.split, 2u);
  uint32_t values[DIGITS_MOST] = {n}, digits = digits_of(n, base, values);
  digit all[DIGITS_MOST];
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = n;
  if (plan->key.several) plan->longest = n / values[0];
  for (uint32_t i = 0, first = 0, size = n; i < digits; i++) {
    const uint32_t step = size / values[i], own = (plan->key.position - first) / step;
    all[i] = (digit){first, step, values[i], own};
    first += own * step;
    size = step;
  }
  for (uint32_t i = 0; i < digits; i++) scatter_digit(plan, &all[i], i == 0);
  for (uint32_t i = digits; i > 0; i--) gather_digit(plan, &all[i - 1]);
}
