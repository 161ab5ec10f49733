/*
 * Proofs that the process of a rank on this host has ended. The kernel closes a process's
 * connections a moment before it reports the end, so a lost connection waits a little for its
 * proof. A rank that was excluded may have missed the notice, if its socket was full: so the
 * notice is also a word in memory that it maps, which is read after each proof.
 */
#ifndef DF_HOST_MEMBERSHIP_PROCESS_ENDS_H
#define DF_HOST_MEMBERSHIP_PROCESS_ENDS_H

#include "base/mutex.h"
#include "host/state/context.h"

typedef struct df_process_ends {
  int *pidfds;       /* [n_ranks] -1: there can be no proof */
  uint64_t *lost_ns; /* [n_ranks] when the connection was lost; 0: it is there, or was judged */
  uint32_t n_ranks, n_awaited;
} df_process_ends;

/* 0: no memory. A process without a descriptor (old kernels, no free descriptor) is never proved to
 * have ended. */
int df_process_ends_open(dfcclContext_t context, df_process_ends *ends);
void df_process_ends_close_files(const df_process_ends *ends);
void df_process_ends_close(df_process_ends *ends);
/* The connection to the rank was lost. */
void df_process_ends_await(df_process_ends *ends, uint32_t rank, uint64_t now_ns);
/* Time until df_process_ends_take has to look; -1: nothing is awaited. */
int df_process_ends_tick_ms(const df_process_ends *ends);
/* Returns 1 and a rank whose connection was lost, when there is a proof or none came in time. */
int df_process_ends_take(dfcclContext_t context, df_process_ends *ends, uint64_t now_ns,
                         uint32_t *rank, int *is_proved) DF_RANK_LOCKED;
/* Whether the kernel has reported the end of the rank's process. */
int df_process_ends_is_over(const df_process_ends *ends, uint32_t rank);
/* Another process has the rank: it is the one at the other end of the socket. */
void df_process_ends_replace(df_process_ends *ends, uint32_t rank, int socket);
/* Sets the word by which the rank learns that this rank excludes it. */
void df_process_ends_notify(dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED;

#endif
