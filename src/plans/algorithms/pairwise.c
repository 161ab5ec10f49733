/*
 * Pairwise exchange (Thakur, Rabenseifner and Gropp, IJHPCA 2005, section 4). Each rank sends a
 * chunk before it overwrites it, so it is correct in place, for any n. The rounds are those of a
 * tournament: in round k the partners are r and p with r + p = k, modulo n if n is odd. If n is
 * even, all ranks except the last are paired in this way modulo n - 1, and the last rank is paired
 * with the one that is left.
 */
#include "plans/build.h"

/* The partner in round k; r itself: no partner. */
static uint32_t partner_of(uint32_t n, uint32_t r, uint32_t k) {
  const uint32_t odd = n - (n % 2 == 0);
  if (r == odd) return k * ((odd + 1) / 2) % odd; /* the rank with r + r = k */
  const uint32_t partner = (k + odd - r) % odd;
  return partner == r && odd < n ? odd : partner;
}

void df_plan_pairwise(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position, odd = n - (n % 2 == 0); /* rounds */
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  plan->direct_in_place = 0; /* received chunks overwrite what would be lent */
  for (uint32_t k = 0; k < odd; k++) {
    const uint32_t partner = partner_of(n, r, k);
    if (partner == r) continue;
    df_plan_send(plan, partner, partner, df_input(partner));
    df_plan_receive(plan, partner, partner, DF_NO_PEER, df_output(partner));
  }
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(r), df_output(r));
}
