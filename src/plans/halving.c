/*
 * Recursive halving. Reduce-scatter: Thakur, Rabenseifner and Gropp (IJHPCA 2005, section 4.3).
 * All-reduce and reduce: Rabenseifner (ICCS 2004, section 3). 2 log2(n) rounds with no more bytes than
 * a ring.
 */
#include "plans/build.h"

/* ---- all-reduce: piece i belongs to index i of the fold ---- */

/*
 * Sums live in the output, lent to the partner that takes their piece over. Only the final value
 * overwrites them, after the partner has read.
 */
static void reduce_scatter_pieces(df_plan *plan, df_fold fold, uint32_t v, int in_output) {
  for (uint32_t d = fold.size / 2; d >= 1; d /= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d), order = df_plan_order(v, v ^ d);
    const uint32_t wide = plan->key.several ? d : 1;
    for (uint32_t i = 0; i < d; i += wide) {
      uint32_t keep = (v & ~(d - 1)) | i, give = keep ^ d;
      df_plan_send(plan, give, partner, in_output ? df_output(give) : df_input(give));
      df_plan_widen(plan, wide, 1);
      df_place own = in_output ? df_output(keep) : df_input(keep);
      if (d > 1)
        df_plan_reduce(plan, order, keep, partner, DF_NO_PEER, own, df_output(keep));
      else /* final: it starts the all-gather */
        df_plan_reduce(plan, order | df_plan_average(plan), keep, partner, partner, own,
                       df_output(keep));
      df_plan_widen(plan, wide, 1);
    }
    in_output = 1;
  }
}

static void all_gather_pieces(df_plan *plan, df_fold fold, uint32_t v) {
  for (uint32_t d = 1; d < fold.size; d *= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d);
    const uint32_t wide = plan->key.several ? d : 1;
    for (uint32_t i = 0; i < d; i += wide) {
      uint32_t have = (v & ~(d - 1)) | i;
      if (d > 1) {
        df_plan_send(plan, have, partner, df_output(have));
        df_plan_widen(plan, wide, 1);
      }
      df_plan_receive(plan, have ^ d, partner, DF_NO_PEER, df_output(have ^ d));
      df_plan_widen(plan, wide, 1);
    }
  }
}

static void all_reduce(df_plan *plan) {
  uint32_t r = plan->key.position;
  df_fold fold = df_fold_of(plan->key.n);
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = fold.size;
  const uint32_t wide = plan->key.several ? fold.size : 1; /* between guest and host */
  if (plan->key.several) plan->longest = fold.extra ? fold.size : DF_MAX(fold.size / 2, 1u);
  if (df_fold_is_guest(fold, r)) {
    for (uint32_t i = 0; i < fold.size; i += wide) {
      df_plan_send(plan, i, r + 1, df_input(i));
      df_plan_widen(plan, wide, 1);
    }
    for (uint32_t i = 0; i < fold.size; i += wide) {
      df_plan_receive(plan, i, r + 1, DF_NO_PEER, df_output(i));
      df_plan_widen(plan, wide, 1);
    }
    return;
  }
  int host = df_fold_is_host(fold, r);
  for (uint32_t i = 0; host && i < fold.size; i += wide) {
    df_plan_reduce(plan, 0, i, r - 1, DF_NO_PEER, df_input(i), df_output(i));
    df_plan_widen(plan, wide, 1);
  }
  reduce_scatter_pieces(plan, fold, df_fold_index(fold, r), host);
  all_gather_pieces(plan, fold, df_fold_index(fold, r));
  for (uint32_t i = 0; host && i < fold.size; i += wide) {
    df_plan_send(plan, i, r - 1, df_output(i));
    df_plan_widen(plan, wide, 1);
  }
}

/* ---- reduce: the same halving, then the pieces are gathered along a binomial tree ---- */

/* Members are numbered so that the root is index 0 of the fold, and no guest. */
typedef struct rooted_fold {
  df_fold fold;
  uint32_t n, shift; /* position = member + shift, modulo n */
} rooted_fold;

static rooted_fold root_fold(const df_plan *plan) {
  const uint32_t n = plan->key.n;
  const df_fold fold = df_fold_of(n);
  return (rooted_fold){fold, n, (plan->key.root + n - (fold.extra != 0)) % n};
}

static uint32_t position_at(const rooted_fold *at, uint32_t index) {
  return (df_fold_member(at->fold, index) + at->shift) % at->n;
}

/* The root has an output for the sums. */
static df_place sum_of(const df_plan *plan, uint32_t piece) {
  return plan->key.position == plan->key.root ? df_output(piece) : df_scratch(piece);
}

static void send_pieces(df_plan *plan, uint32_t first, uint32_t n, uint32_t to) {
  const uint32_t wide = plan->key.several ? n : 1;
  for (uint32_t i = first; i < first + n; i += wide) {
    df_plan_send(plan, i, to, sum_of(plan, i));
    df_plan_widen(plan, wide, 1);
  }
}

/* Ends with the piece of index v, which an odd one sends on at once. */
static void halve_pieces(df_plan *plan, const rooted_fold *at, uint32_t v, int is_summed) {
  for (uint32_t d = at->fold.size / 2; d >= 1; d /= 2) {
    const uint32_t partner = position_at(at, v ^ d), order = df_plan_order(v, v ^ d);
    const uint32_t wide = plan->key.several ? d : 1;
    for (uint32_t i = 0; i < d; i += wide) {
      const uint32_t keep = (v & ~(d - 1)) | i, give = keep ^ d;
      const df_place own = is_summed ? sum_of(plan, keep) : df_input(keep);
      df_plan_send(plan, give, partner, is_summed ? sum_of(plan, give) : df_input(give));
      df_plan_widen(plan, wide, 1);
      if (d > 1)
        df_plan_reduce(plan, order, keep, partner, DF_NO_PEER, own, sum_of(plan, keep));
      else if (v & 1)
        df_plan_reduce(plan, order | df_plan_average(plan), keep, partner, partner, own,
                       df_nowhere());
      else
        df_plan_reduce(plan, order | df_plan_average(plan), keep, partner, DF_NO_PEER, own,
                       sum_of(plan, keep));
      df_plan_widen(plan, wide, 1);
    }
    is_summed = 1;
  }
}

static void gather_pieces(df_plan *plan, const rooted_fold *at, uint32_t v) {
  for (uint32_t d = 1; d < at->fold.size && (v & (d - 1)) == 0; d *= 2) {
    const uint32_t partner = position_at(at, v ^ d), wide = plan->key.several ? d : 1;
    if (v & d) {
      if (d > 1) send_pieces(plan, v, d, partner);
      return;
    }
    for (uint32_t i = v + d; i < v + 2 * d; i += wide) {
      df_plan_receive(plan, i, partner, DF_NO_PEER, sum_of(plan, i));
      df_plan_widen(plan, wide, 1);
    }
  }
}

static void reduce(df_plan *plan) {
  const rooted_fold at = root_fold(plan);
  const df_fold fold = at.fold;
  const uint32_t member = (plan->key.position + at.n - at.shift) % at.n;
  const uint32_t wide = plan->key.several ? fold.size : 1; /* from guest to host */
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = plan->scratch_pieces = fold.size; /* the root's too: all cut alike */
  if (plan->key.several) plan->longest = fold.extra ? fold.size : DF_MAX(fold.size / 2, 1u);
  if (df_fold_is_guest(fold, member)) {
    for (uint32_t i = 0; i < fold.size; i += wide) {
      df_plan_send(plan, i, (member + 1 + at.shift) % at.n, df_input(i));
      df_plan_widen(plan, wide, 1);
    }
    return;
  }
  const int is_host = df_fold_is_host(fold, member);
  for (uint32_t i = 0; is_host && i < fold.size; i += wide) {
    df_plan_reduce(plan, 0, i, (member - 1 + at.shift) % at.n, DF_NO_PEER, df_input(i),
                   sum_of(plan, i));
    df_plan_widen(plan, wide, 1);
  }
  halve_pieces(plan, &at, df_fold_index(fold, member), is_host);
  gather_pieces(plan, &at, df_fold_index(fold, member));
}

void df_plan_rabenseifner(df_plan *plan) {
  if (plan->key.operation == DF_OP_REDUCE)
    reduce(plan);
  else
    all_reduce(plan);
}

/* ---- reduce-scatter: piece i belongs to position i ---- */

static void finish(df_plan *plan, uint32_t order, uint32_t piece, uint32_t partner, df_place own) {
  int mine = piece == plan->key.position;
  df_plan_reduce(plan, order | df_plan_average(plan), piece, partner, mine ? DF_NO_PEER : piece,
                 own, mine ? df_output(0) : df_nowhere());
}

/* Sums live in scratch: the input must stay, and the output has room for one piece. */
void df_plan_halving(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position, piece;
  df_fold fold = df_fold_of(n);
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  plan->scratch_pieces = n;
  const uint32_t all = plan->key.several ? n : 1;
  if (plan->key.several) plan->longest = fold.extra ? n : DF_MAX(n / 2, 1u);
  if (df_fold_is_guest(fold, r)) {
    for (piece = 0; piece < n; piece += all) {
      df_plan_send(plan, piece, r + 1, df_input(piece));
      df_plan_widen(plan, all, 1);
    }
    df_plan_receive(plan, r, r + 1, DF_NO_PEER, df_output(0));
    return;
  }
  int summed = df_fold_is_host(fold, r);
  for (piece = 0; summed && piece < n; piece += all) {
    df_plan_reduce(plan, 0, piece, r - 1, DF_NO_PEER, df_input(piece), df_scratch(piece));
    df_plan_widen(plan, all, 1);
  }
  uint32_t v = df_fold_index(fold, r);
  for (uint32_t d = fold.size / 2; d >= 1; d /= 2) {
    uint32_t partner = df_fold_member(fold, v ^ d), order = df_plan_order(v, v ^ d);
    const df_fold_members give = df_fold_range(fold, v ^ d, d), keep = df_fold_range(fold, v, d);
    /* In the last round a host's two pieces go different ways. */
    const uint32_t wide = plan->key.several && d > 1 ? n : 1;
    for (uint32_t at = 0; at < DF_MAX(give.n, keep.n); at += wide) {
      if (at < give.n) {
        piece = give.first + at;
        df_plan_send(plan, piece, partner, summed ? df_scratch(piece) : df_input(piece));
        df_plan_widen(plan, DF_MIN(wide, give.n), 1);
      }
      if (at >= keep.n) continue;
      piece = keep.first + at;
      df_place own = summed ? df_scratch(piece) : df_input(piece);
      if (d > 1)
        df_plan_reduce(plan, order, piece, partner, DF_NO_PEER, own, df_scratch(piece));
      else
        finish(plan, order, piece, partner, own);
      df_plan_widen(plan, DF_MIN(wide, keep.n), 1);
    }
    summed = 1;
  }
}
