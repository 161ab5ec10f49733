/*
 * Conversion of ordered steps to plans. Each step becomes one primitive. The following decisions,
 * which a file leaves open, are made here:
 *   - the place of a chunk: the input, the output or scratch memory. The input is never written. A
 *     chunk that a file writes to the input, or to an output that a rank does not have, is stored
 *     in scratch memory;
 *   - the length of a chunk. It follows the chunk wherever the chunk is stored, since the last one
 *     is shorter;
 *   - chunks that a run in place would overwrite too early are copied to scratch memory at the
 *     beginning;
 *   - dfcclAvg divides where the last contribution is added.
 */
#ifndef DF_PLANS_MSCCL_CONVERT_H
#define DF_PLANS_MSCCL_CONVERT_H

#include "plans/msccl/order.h"
#include "plans/plan.h"

typedef struct df_file_target {
  uint32_t root;  /* position in the group of the file's root */
  int one_by_one; /* as in df_file_schedule */
  int average;
  df_plan **plans;  /* [n] by position; NULL: not wanted. Plans are empty, with keys */
  uint32_t **lines; /* [n] by position: the line of each primitive of wanted plans; or NULL */
} df_file_target;

/* 1: done. 0: a diagnostic has been recorded. -1: the chunks of some message are not side by side,
 * so the order must be one_by_one. */
int df_file_convert(const df_file_model *model, const df_file_order *order,
                    const df_file_target *target, df_file_diagnostic *diagnostic);

#endif
