/* The flight recorder's files: DIR/rank-<R>.flight.json (DFCCL_FLIGHT=DIR), written by the service
 * thread at the first failure, and at each dump. dfccl-top --flight gets the same text. The
 * recorder itself is state/flight.h. docs/FLIGHT.md describes the file. */
#ifndef DF_HOST_OBSERVE_FLIGHT_H
#define DF_HOST_OBSERVE_FLIGHT_H

#include "base/growing_text.h"
#include "base/mutex.h"
#include "host/state/context.h"

/* Adds the writer to the jobs of the service thread, which does not run yet. A directory that
 * cannot be written to is logged here, before it is needed. */
void df_flight_open(dfcclContext_t context);
/* The service thread does not run any more. Writes the file that is due. */
void df_flight_close(dfcclContext_t context);

/* A collective or the whole context has failed. The first failure is kept, and requests a file. */
void df_flight_fail(dfcclContext_t context, dfcclResult_t status,
                    const char *sentence) DF_RANK_LOCKED;
/* This rank has lost the other one. why begins with a verb. */
void df_flight_lose(dfcclContext_t context, uint32_t rank, const char *why) DF_RANK_LOCKED;
/* Why a file is written. */
typedef enum { DF_FLIGHT_FAILURE, DF_FLIGHT_DUMP, DF_FLIGHT_QUESTION } df_flight_reason;
/* Requests a file. Any thread, with or without the lock. */
void df_flight_request(dfcclContext_t context, df_flight_reason reason);
/* Waits until the requested file is written, because many programs end at the first failure. A
 * disk that hangs is waited for 2 s. Without the lock. */
void df_flight_await(dfcclContext_t context);

/* Returns a descriptor of anonymous memory with the text of a file, or -errno. */
int df_flight_memory(dfcclContext_t context);

/* ---- flight_copy.c: a copy of the runs, for a reader that does not hold the lock */

typedef enum { DF_FLIGHT_WAITING, DF_FLIGHT_RUNNING, DF_FLIGHT_ENDED } df_flight_state;

typedef struct df_flight_run {
  df_flight_run_facts entry; /* ended 0: it has not ended */
  df_flight_state state;
  uint32_t coll; /* index in colls; DF_NOBODY: not known any more */
} df_flight_run;

typedef struct df_flight_copy {
  df_flight_coll *colls; /* by registration */
  uint32_t n_colls;
  uint32_t *ranks;     /* memory of the lists of ranks */
  df_flight_run *runs; /* by time of submission */
  uint32_t n_runs;
  uint64_t n_before; /* runs that ended before those of the copy */
  uint64_t n_open;   /* runs that have not ended, with those that the copy leaves out */
  /* One moment: the counter, and nanoseconds since 1970. */
  uint64_t now_ticks, now_unix_ns;
  double ns_per_tick;
} df_flight_copy;

/* Returns 0 if there is no memory. */
int df_flight_copy_make(dfcclContext_t context, df_flight_copy *copy) DF_RANK_LOCKED;
void df_flight_copy_free(df_flight_copy *copy);
/* Nanoseconds since 1970. */
uint64_t df_flight_unix_ns(const df_flight_copy *copy, uint64_t ticks);

/* ---- flight_json.c */

/* Facts about the rank itself. */
typedef struct df_flight_head {
  uint32_t rank, n_ranks;
  df_flight_reason reason;
  dfcclResult_t failed; /* dfcclSuccess: no failure */
  uint64_t failed_at;
  char sentence[DF_SENTENCE_BYTES];
  df_flight_loss losses[DF_FLIGHT_LOSSES];
  uint32_t n_losses;
} df_flight_head;

void df_flight_grow_json(df_growing_text *text, const df_flight_head *head,
                         const df_flight_copy *copy);

#endif
