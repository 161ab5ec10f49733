/* The buffers of one run on one rank, with the surrounding bytes, which must not change. */
#ifndef DF_TESTS_SUPPORT_BUFFERS_H
#define DF_TESTS_SUPPORT_BUFFERS_H

#include "support/ranks.h"

enum {
  DF_IN_PLACE = 1,    /* one buffer, as the collective's kind defines it */
  DF_ZERO_COPY = 2,   /* from dfcclMemAlloc */
  DF_UNUSED_NULL = 4, /* buffers that this member does not use are NULL */
  DF_ODD_OFFSET = 8   /* aligned to the element and no further */
};

typedef struct {
  const df_collective *coll;
  dfcclContext_t ctx; /* DF_ZERO_COPY memory */
  int position, flags;
  uint64_t run;
  void *send, *recv;                    /* for dfcclRun */
  char *memory, *send_area, *recv_area; /* as the test sees the buffers */
  char *device_memory;                  /* DF_ZERO_COPY memory that only the device reaches */
  size_t memory_bytes, send_bytes, recv_bytes;
} df_buffers;

/* Allocates and fills the buffers. The collective must not move in memory while they exist. */
void df_buffers_make(df_buffers *buffers, dfcclContext_t ctx, const df_collective *coll,
                     int position, uint64_t run, int flags);
/* Compares the result, the surrounding bytes, and buffers that must not have been written. Returns
 * false and a sentence on a difference. */
bool df_buffers_good(const df_buffers *buffers, char *sentence, size_t sentence_bytes);
void df_buffers_check(const df_buffers *buffers); /* fails the test */
void df_buffers_free(df_buffers *buffers);

/* One run of a registered collective on all its members: the calling thread submits it, waits and
 * checks. */
void df_exchange(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll, uint64_t run,
                 int flags);
/* Registers the collective, runs it once, and deregisters it. */
void df_once(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll, int flags);

/* One rank's part in rounds of collectives of all ranks, registered as 0 to count - 1. Each round
 * runs them in an order of its own, waits for all of them and checks them. `between` (NULL: none)
 * is called before all rounds but the first. */
void df_take_part_in_disorder(dfcclContext_t ctx, const df_collective *colls, int count, int rank,
                              uint64_t rounds, df_random *random,
                              dfcclResult_t (*between)(dfcclContext_t ctx));

/* One rank's part of a run: submit, wait, check. */
void df_take_part(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll, int position,
                  uint64_t run, int flags);

#endif
