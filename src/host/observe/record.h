/* Recordings of runs. */
#ifndef DF_HOST_OBSERVE_RECORD_H
#define DF_HOST_OBSERVE_RECORD_H

#include "base/mutex.h"
#include "host/state/context.h"

dfcclResult_t df_recorder_open(dfcclContext_t context);
void df_record_run(dfcclContext_t context, const df_coll *coll, uint64_t run) DF_RANK_LOCKED;
void df_record_sync(dfcclContext_t context) DF_RANK_LOCKED;
/* Whether events wait to be written to the file. */
int df_record_is_behind(dfcclContext_t context) DF_RANK_LOCKED;
void df_record_flush(dfcclContext_t context) DF_RANK_LOCKED;
void df_recorder_close(dfcclContext_t context);
/* In a forked child: closes the descriptor. The file is the parent's. */
void df_recorder_close_in_child(dfcclContext_t context);

#endif
