/* What tuners have learnt is kept in the file of DFCCL_TUNE_FILE (tuning/tuning_file.h). */
#ifndef DF_HOST_SWITCHING_TUNING_STORE_H
#define DF_HOST_SWITCHING_TUNING_STORE_H

#include "host/state/context.h"

/* dfcclInvalidUsage: the file is wrong. Without a file nothing is kept. */
dfcclResult_t df_tuning_store_open(dfcclContext_t context);
/* Without the lock: it waits for the disk. A file that cannot be written is told in the log. */
void df_tuning_store_write(dfcclContext_t context);

/* [lock] NULL: nothing is known of the collective. */
const df_rule *df_tuning_store_find(const dfcclContext_t context, const df_coll *registered);
/* [lock] The rule says which variant; its task is the collective's. */
void df_tuning_store_note(dfcclContext_t context, const df_coll *registered, df_rule rule,
                          double us, double registered_us);

#endif
