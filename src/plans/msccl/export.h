/* Export of plans as MSCCL's XML, for other libraries and tools, and for df_plan_file_read. */
#ifndef DF_PLANS_MSCCL_EXPORT_H
#define DF_PLANS_MSCCL_EXPORT_H

#include <stdio.h>

#include "plans/plan.h"

/*
 * Writes the plans of all positions of a key; key->position is ignored. Each peer has its own block
 * for sending, and one for receiving. A primitive of several actions is split, and a step that
 * reads or overwrites another block's chunk waits for that block. dfcclInvalidArgument: such a file
 * is impossible, and *sentence gives the reason.
 */
dfcclResult_t df_plan_export(const df_plan_key *key, FILE *out, char *sentence,
                             size_t sentence_bytes);

#endif
