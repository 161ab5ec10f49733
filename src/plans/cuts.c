#include "plans/cuts.h"

#include "base/attributes.h"
#include "base/limits.h"
#include "plans/plan.h"

enum { DF_SHARE_MOST = 64 }; /* a plan's length grows with a share's pieces */

/* Plans that have scratch memory for each member's piece have short pieces, in more loops. */
static int has_scratch_of_all(const df_cut_question *q) {
  return q->algorithm == DF_HALVING ||
         (q->algorithm == DF_RABENSEIFNER && q->operation == DF_OP_REDUCE) ||
         (q->algorithm == DF_PAT && q->operation == DF_OP_REDUCE_SCATTER);
}

static int has_shares(const df_cut_question *q) {
  return q->operation == DF_OP_ALL_REDUCE &&
         (q->algorithm == DF_RABENSEIFNER || q->algorithm == DF_BCUBE ||
          q->algorithm == DF_BINARY_BLOCKS);
}

static uint32_t power_of_two_up_to(uint64_t most) {
  uint32_t power = 1;
  while (2ull * power <= most && power < DF_ROW_WHOLE / 2) power *= 2;
  return power;
}

df_cuts df_plan_cuts(const df_cut_question *q) {
  if (q->bytes <= q->slot_bytes) return (df_cuts){DF_ROW_WHOLE, 1};
  /* Some algorithms have as many pieces as the largest power of two that n contains. */
  const uint32_t pieces =
      q->operation == DF_OP_ALL_REDUCE ? power_of_two_up_to(q->n) : DF_MAX(q->n, 1u);
  const uint64_t part = DF_DIV_UP(q->bytes, (uint64_t)DF_MAX(q->n_blocks, 1u));
  uint64_t piece = DF_ALIGN_UP(DF_DIV_UP(part, pieces), (uint64_t)DF_CACHE_LINE);
  if (has_scratch_of_all(q)) piece = DF_MIN(piece, (uint64_t)DF_MAX_SCRATCH_BYTES / q->n);
  if (DF_MIN(piece, q->slot_bytes) >= q->lend_min) return (df_cuts){1, 1};
  if (piece <= q->slot_bytes)
    return (df_cuts){power_of_two_up_to(q->slot_bytes / DF_MAX(piece, 1u)), 1};
  if (!q->is_far || !has_shares(q)) return (df_cuts){1, 1};
  const uint32_t parts = power_of_two_up_to(DF_DIV_UP(piece, q->slot_bytes));
  const uint32_t share = parts * q->slot_bytes < piece ? 2 * parts : parts;
  return (df_cuts){1, DF_MIN(share, (uint32_t)DF_SHARE_MOST)};
}
