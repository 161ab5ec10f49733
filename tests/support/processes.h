/* Ranks as processes: forked by the test, and joined by a unique id that they receive through a
 * pipe. */
#ifndef DF_TESTS_SUPPORT_PROCESSES_H
#define DF_TESTS_SUPPORT_PROCESSES_H

#include <sys/types.h>

#include "support/harness.h"

enum { DF_FAMILY_MAX = 64 };

typedef struct {
  int ranks;
  pid_t pids[DF_FAMILY_MAX];
} df_family;

/* A rank's process calls body(rank, ranks, id, arg). When body returns, the process ends with
 * status 0 (after the leak check under AddressSanitizer); after a failed check it ends with 1. The
 * child has a watchdog of its own with the given seconds, and dies with its parent. Rank 0 creates
 * the id. */
typedef void (*df_rank_body)(int rank, int ranks, const dfcclUniqueId *id, void *arg);
void df_fork(df_family *family, int ranks, double seconds, df_rank_body body, void *arg);

/* A hook that each rank's process calls first, while it has one thread: as rank of ranks. */
void df_on_rank_start(void (*enter)(int rank, int ranks));

/* Waits for a rank's process; returns its wait status. */
int df_reap(df_family *family, int rank);
/* Waits for all processes; each must have ended with status 0. */
void df_join(df_family *family);

/* Starts a process beside the ranks, which calls body() and ends with status 0. The seconds are
 * those of its watchdog. */
pid_t df_start_process(void (*body)(void), double seconds);
/* Waits for it; it must have ended with status 0, or by a signal. */
void df_end_process(pid_t pid, int is_killed);

/* Calls dfcclInit with the usual configuration, and registers the context with the watchdog. */
dfcclContext_t df_init(int rank, int ranks, const dfcclUniqueId *id, const dfcclConfig_t *config);
void df_finish(dfcclContext_t ctx); /* dfcclDestroy */

/* Zeroed memory that forked children share with their parent; never freed. */
void *df_shared(size_t bytes);

#endif
