/*
 * Recursive halving. Reduce-scatter: Thakur, Rabenseifner and Gropp (IJHPCA 2005, section 4.3).
 * All-reduce and reduce: Rabenseifner (ICCS 2004, section 3). It needs 2 log2(n) rounds and sends
 * no more bytes than a ring.
 */
#include "plans/build.h"

/* ---- all-reduce and reduce: piece i belongs to index i of the fold ---- */

/* Members are numbered so that the root of a reduce has index 0 of the fold and is not folded. */
typedef struct halves {
  df_fold fold;
  uint32_t n, shift; /* position = member + shift, modulo n */
  int has_root;      /* 1: a reduce */
} halves;

static halves halves_of(const df_plan *plan) {
  const uint32_t n = plan->key.n;
  const df_fold fold = df_fold_of(n);
  const int has_root = plan->key.operation == DF_OP_REDUCE;
  const uint32_t shift = has_root ? (plan->key.root + n - (fold.extra != 0)) % n : 0;
  return (halves){fold, n, shift, has_root};
}

static uint32_t position_of(const halves *all, uint32_t member) {
  return (member + all->shift) % all->n;
}

static uint32_t partner_of(const halves *all, uint32_t v, uint32_t d) {
  return position_of(all, df_fold_member(all->fold, v ^ d));
}

/* In a reduce only the root has an output. */
static df_place sum_of(const df_plan *plan, const halves *all, uint32_t piece) {
  const int has_output = !all->has_root || plan->key.position == plan->key.root;
  return has_output ? df_output(piece) : df_scratch(piece);
}

/*
 * Sums are in the output, and are lent to the partner that continues with their piece. Only the
 * final value overwrites them, after the partner has read them. In a reduce they are in scratch
 * memory, except at the root. A message is sent before the one before it is awaited, so links need
 * two slots.
 */
static void reduce_scatter_pieces(df_plan *plan, const halves *all, uint32_t v, int is_summed) {
  const uint32_t share = df_plan_share(plan);
  for (uint32_t d = all->fold.size / 2; d >= 1; d /= 2) {
    const uint32_t partner = partner_of(all, v, d), order = df_plan_order(v, v ^ d);
    const uint32_t n = d * share, row = df_plan_row(plan, n);
    const uint32_t first_kept = (v & ~(d - 1)) * share, first_given = ((v & ~(d - 1)) ^ d) * share;
    /* The last round starts the all-gather, or, at an odd index, the gather. */
    const int sends = n == 1 && (!all->has_root || v & 1);
    const int stores = n > 1 || !all->has_root || !(v & 1);
    for (uint32_t i = 0; i < n + row; i += row) {
      const uint32_t give = first_given + i, keep = first_kept + i - row;
      if (i < n) {
        df_plan_send(plan, give, partner, is_summed ? sum_of(plan, all, give) : df_input(give));
        df_plan_widen(plan, row, 1);
      }
      if (i == 0) continue;
      df_plan_reduce(plan, order | (d == 1 ? df_plan_average(plan) : 0), keep, partner,
                     sends ? partner : DF_NO_PEER,
                     is_summed ? sum_of(plan, all, keep) : df_input(keep),
                     stores ? sum_of(plan, all, keep) : df_nowhere());
      df_plan_widen(plan, row, 1);
    }
    is_summed = 1;
  }
}

/* A folded member's whole buffer is sent to its host. */
static void leave_to_host(df_plan *plan, uint32_t host) {
  const uint32_t row = df_plan_row(plan, plan->pieces);
  for (uint32_t i = 0; i < plan->pieces; i += row) {
    df_plan_send(plan, i, host, df_input(i));
    df_plan_widen(plan, row, 1);
  }
}

static void take_from_folded(df_plan *plan, const halves *all, uint32_t folded) {
  const uint32_t row = df_plan_row(plan, plan->pieces);
  for (uint32_t i = 0; i < plan->pieces; i += row) {
    df_plan_reduce(plan, 0, i, folded, DF_NO_PEER, df_input(i), sum_of(plan, all, i));
    df_plan_widen(plan, row, 1);
  }
}

static void all_gather_pieces(df_plan *plan, df_fold fold, uint32_t v) {
  const uint32_t share = df_plan_share(plan);
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    const uint32_t partner = df_fold_member(fold, v ^ d), n = d * share, row = df_plan_row(plan, n);
    const uint32_t first_own = (v & ~(d - 1)) * share, first_other = ((v & ~(d - 1)) ^ d) * share;
    for (uint32_t i = 0; i < n + row; i += row) {
      const uint32_t have = first_own + i, get = first_other + i - row;
      if (n > 1 && i < n) { /* a single piece has been sent when it was reduced */
        df_plan_send(plan, have, partner, df_output(have));
        df_plan_widen(plan, row, 1);
      }
      if (i == 0) continue;
      df_plan_receive(plan, get, partner, DF_NO_PEER, df_output(get));
      df_plan_widen(plan, row, 1);
    }
  }
}

/* The common beginning of both operations. Returns 0 for a folded member. */
static int begin(df_plan *plan, const halves *all, uint32_t member) {
  const df_fold fold = all->fold;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = fold.size * df_plan_share(plan);
  /* At the root too, so that all members cut alike. */
  if (all->has_root) plan->scratch_pieces = plan->pieces;
  df_plan_set_longest(plan, fold.extra ? plan->pieces : plan->pieces / 2);
  if (df_fold_is_folded(fold, member)) {
    leave_to_host(plan, position_of(all, member + 1));
    return 0;
  }
  const int is_host = df_fold_is_host(fold, member);
  if (is_host) take_from_folded(plan, all, position_of(all, member - 1));
  reduce_scatter_pieces(plan, all, df_fold_index(fold, member), is_host);
  return 1;
}

static void all_reduce(df_plan *plan, const halves *all) {
  const uint32_t r = plan->key.position;
  const df_fold fold = all->fold;
  const int is_active = begin(plan, all, r);
  /* Between a folded member and its host. */
  const uint32_t row = df_plan_row(plan, plan->pieces);
  if (is_active) {
    all_gather_pieces(plan, fold, df_fold_index(fold, r));
    for (uint32_t i = 0; df_fold_is_host(fold, r) && i < plan->pieces; i += row) {
      df_plan_send(plan, i, r - 1, df_output(i));
      df_plan_widen(plan, row, 1);
    }
    return;
  }
  for (uint32_t i = 0; i < plan->pieces; i += row) {
    df_plan_receive(plan, i, r + 1, DF_NO_PEER, df_output(i));
    df_plan_widen(plan, row, 1);
  }
}

/* ---- reduce: the pieces are gathered along a binomial tree ---- */

static void gather_pieces(df_plan *plan, const halves *all, uint32_t v) {
  for (uint32_t d = 1; d < all->fold.size; d *= 2) {
    const uint32_t share = df_plan_share(plan), partner = partner_of(all, v, d);
    const uint32_t n = d * share, row = df_plan_row(plan, n), own = v * share;
    if (v & d) { /* a single piece has been sent when it was reduced */
      for (uint32_t i = own; n > 1 && i < own + n; i += row) {
        df_plan_send(plan, i, partner, sum_of(plan, all, i));
        df_plan_widen(plan, row, 1);
      }
      return;
    }
    for (uint32_t i = own + n; i < own + 2 * n; i += row) {
      df_plan_receive(plan, i, partner, DF_NO_PEER, sum_of(plan, all, i));
      df_plan_widen(plan, row, 1);
    }
  }
}

void df_plan_rabenseifner(df_plan *plan) {
  const halves all = halves_of(plan);
  const uint32_t member = (plan->key.position + all.n - all.shift) % all.n;
  if (!all.has_root)
    all_reduce(plan, &all);
  else if (begin(plan, &all, member))
    gather_pieces(plan, &all, df_fold_index(all.fold, member));
}

/* ---- reduce-scatter: piece i belongs to position i ---- */

static void finish(df_plan *plan, uint32_t order, uint32_t piece, uint32_t partner, df_place own) {
  int mine = piece == plan->key.position;
  df_plan_reduce(plan, order | df_plan_average(plan), piece, partner, mine ? DF_NO_PEER : piece,
                 own, mine ? df_output(0) : df_nowhere());
}

/* Sums are in scratch memory: the input must not change, and the output has room for one piece
 * only. */
void df_plan_halving(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position, piece;
  df_fold fold = df_fold_of(n);
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  plan->scratch_pieces = n;
  const uint32_t all = df_plan_row(plan, n);
  df_plan_set_longest(plan, fold.extra ? n : DF_MAX(n / 2, 1u));
  if (df_fold_is_folded(fold, r)) {
    for (piece = 0; piece < n; piece += all) {
      df_plan_send(plan, piece, r + 1, df_input(piece));
      df_plan_widen(plan, DF_MIN(all, n - piece), 1);
    }
    df_plan_receive(plan, r, r + 1, DF_NO_PEER, df_output(0));
    return;
  }
  int summed = df_fold_is_host(fold, r);
  for (piece = 0; summed && piece < n; piece += all) {
    df_plan_reduce(plan, 0, piece, r - 1, DF_NO_PEER, df_input(piece), df_scratch(piece));
    df_plan_widen(plan, DF_MIN(all, n - piece), 1);
  }
  uint32_t v = df_fold_index(fold, r);
  for (uint32_t d = fold.size / 2; d >= 1; d /= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d), order = df_plan_order(v, v ^ d);
    const df_fold_members give = df_fold_range(fold, v ^ d, d), keep = df_fold_range(fold, v, d);
    /* In the last round the two pieces of a host have different destinations. */
    const uint32_t row = d > 1 ? df_plan_row(plan, n) : 1;
    for (uint32_t at = 0; at < DF_MAX(give.n, keep.n + row); at += row) {
      if (at < give.n) {
        piece = give.first + at;
        df_plan_send(plan, piece, partner, summed ? df_scratch(piece) : df_input(piece));
        df_plan_widen(plan, DF_MIN(row, give.n - at), 1);
      }
      if (at < row || at - row >= keep.n) continue;
      piece = keep.first + at - row;
      df_place own = summed ? df_scratch(piece) : df_input(piece);
      if (d > 1)
        df_plan_reduce(plan, order, piece, partner, DF_NO_PEER, own, df_scratch(piece));
      else
        finish(plan, order, piece, partner, own);
      df_plan_widen(plan, DF_MIN(row, keep.n - (at - row)), 1);
    }
    summed = 1;
  }
}
