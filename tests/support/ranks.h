/* Contexts, collectives and callbacks for tests whose ranks live in one process. */
#ifndef DF_TESTS_SUPPORT_RANKS_H
#define DF_TESTS_SUPPORT_RANKS_H

#include "support/harness.h"
#include "support/reference.h"

/* The default configuration, with the backend that the environment variable TEST_BACKEND names: cpu
 * (the default) or cuda. */
dfcclConfig_t df_config(void);
/* TEST_DEVICES, with TEST_BACKEND=cuda: rank r uses device r modulo this number, unless its
 * configuration names one. 0: all ranks use the current device. */
int df_test_devices(void);

/* All ranks of a job in this process (dfcclInitAll), registered with the watchdog. config NULL:
 * df_config. */
void df_make_contexts(dfcclContext_t *ctxs, int ranks, const dfcclConfig_t *config);
/* Destroys the contexts, each in a thread of its own, because a destroy may wait for a peer's
 * runs. */
void df_free_contexts(dfcclContext_t *ctxs, int ranks);

/* The dfcclRegister and dfcclRun function of the collective's kind. */
dfcclResult_t df_register(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll);
dfcclResult_t df_run(dfcclContext_t ctx, dfcclCollId_t id, df_kind kind, const void *send,
                     void *recv, dfcclCallback_t callback, void *arg);
/* Registers on every member of the group. */
void df_register_all(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll);
void df_deregister_all(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll);

/* An all-reduce (sum) of count int32 among ranks 0 to members - 1. */
df_collective df_simple(size_t count, int members);

/* Runs body(rank, arg) for each rank in a thread of its own and waits for all. */
void df_in_threads(int ranks, void (*body)(int rank, void *arg), void *arg);

/* Counts callbacks. */
typedef struct {
  atomic_int calls, failures;
  atomic_int status; /* status of the latest call */
} df_tally;
void df_tally_callback(dfcclCollId_t coll, dfcclResult_t status, void *tally);

/* Whether the text contains the words. Used for sentences that must name a value. */
bool df_mentions(const char *text, const char *words);

dfcclStats_t df_stats(dfcclContext_t ctx);

#endif
