/* Tuning results, which are kept in the file of DFCCL_TUNE_FILE (tuning/tuning_file.h). */
#ifndef DF_HOST_SWITCHING_TUNING_STORE_H
#define DF_HOST_SWITCHING_TUNING_STORE_H

#include "base/mutex.h"
#include "host/state/context.h"

/* dfcclInvalidUsage: the file is malformed. Without a file nothing is kept. */
dfcclResult_t df_tuning_store_open(dfcclContext_t context);
/* Without the lock, because it waits for the disk. Logs a warning if the file cannot be written.
 */
void df_tuning_store_write(dfcclContext_t context);

/* NULL: no result of the collective is known. */
const df_rule *df_tuning_store_find(const dfcclContext_t context,
                                    const df_coll *registered) DF_RANK_LOCKED;
/* Stores a result. The rule contains the variant; its task is the collective's. */
void df_tuning_store_note(dfcclContext_t context, const df_coll *registered, df_rule rule,
                          double us, double registered_us) DF_RANK_LOCKED;

#endif
