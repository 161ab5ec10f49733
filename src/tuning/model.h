/*
 * How long a run takes, by formulas: crossings, bytes through the busiest rank's port, and bytes
 * that are combined. Sources: Weingram et al. (xCCL, JCST 2023), section 4.1; Singh et al. (PCCL,
 * 2025), section 2.2. Rates are constants, since members must come to the same numbers. So a
 * prediction gives the order of magnitude and the faster algorithm; bench-predicted compares
 * it with runs.
 */
#ifndef DF_TUNING_MODEL_H
#define DF_TUNING_MODEL_H

#include "plans/plan.h"

typedef enum { DF_NEAR_PROCESS, DF_NEAR_HOST, DF_FAR, DF_NEAR_GPU } df_distance;

typedef struct df_model_question {
  df_operation operation;
  uint32_t n;
  uint64_t bytes; /* bytes of a rank's larger buffer */
  uint64_t slot_bytes;
  uint32_t split; /* split of two-level algorithms; number of values of a digit of bcube, 0: 4 */
  uint32_t hosts; /* hosts of hierarchical algorithms; 0: one */
  uint32_t ranks_on_a_core; /* at least 1 */
  df_distance distance;     /* distance of the farthest members */
} df_model_question;

/* Microseconds; negative: there is no formula. */
double df_model_us(const df_model_question *question, int algorithm);

/* Microseconds that no algorithm can go below, if each byte that a rank must receive is copied once
 * at `bytes_per_us`, and ranks share the cores. 0: the operation has no bound. */
double df_model_bound_us(df_operation operation, uint32_t n, uint64_t bytes, uint32_t n_cores,
                         double bytes_per_us);

#endif
