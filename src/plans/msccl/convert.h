/*
 * From ordered steps to plans. Each step becomes one primitive. What a file leaves to the buffers
 * is decided here:
 *   - where a chunk is: in the input, in the output, in scratch memory. Input is never written; what
 *     a file writes to it, or to an output that a rank does not have, goes to scratch memory;
 *   - the length of a chunk, which follows it wherever it is stored, since the last one is shorter;
 *   - what a run in place would overwrite too early is copied to scratch memory at the beginning;
 *   - dfcclAvg divides where the last contribution is added.
 */
#ifndef DF_PLANS_MSCCL_CONVERT_H
#define DF_PLANS_MSCCL_CONVERT_H

#include "plans/msccl/order.h"
#include "plans/plan.h"

typedef struct df_file_target {
  uint32_t root;  /* position of what is the file's root */
  int one_by_one; /* as the order */
  int average;
  df_plan **plans;  /* [n] by position; NULL: not wanted. Empty, with keys */
  uint32_t **lines; /* [n] by position: of each primitive, of wanted plans; or NULL */
} df_file_target;

/* 1: done. 0: complained. -1: the chunks of some message do not lie in a row: one by one they do. */
int df_file_convert(const df_file_model *model, const df_file_order *order,
                    const df_file_target *target, df_file_diagnostic *diagnostic);

#endif
