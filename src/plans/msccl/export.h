/* Plans as MSCCL's XML, so that other libraries and tools can have them, and read them back. */
#ifndef DF_PLANS_MSCCL_EXPORT_H
#define DF_PLANS_MSCCL_EXPORT_H

#include <stdio.h>

#include "plans/plan.h"

/*
 * All positions' plans of a key, whose position counts for nothing. Each peer has a block of its
 * own for sending, and one for receiving; what a primitive fuses is taken apart, and what reads or
 * overwrites another block's chunk waits for it. dfcclInvalidArgument: there is no such file, and
 * *sentence says why.
 */
dfcclResult_t df_plan_export(const df_plan_key *key, FILE *out, char *sentence,
                             size_t sentence_bytes);

#endif
