/* Recordings of runs. */
#ifndef DF_HOST_OBSERVE_RECORD_H
#define DF_HOST_OBSERVE_RECORD_H

#include "host/state/context.h"

dfcclResult_t df_recorder_open(dfcclContext_t context);
void df_record_run(dfcclContext_t context, const df_coll *coll, uint64_t run); /* [lock] */
void df_record_sync(dfcclContext_t context);                                   /* [lock] */
void df_record_flush(dfcclContext_t context);                                  /* [lock] */
void df_recorder_close(dfcclContext_t context);
/* The file is the parent's. */
void df_recorder_close_in_child(dfcclContext_t context);

#endif
