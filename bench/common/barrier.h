/* Memory that forked processes share, and a spinning barrier for it. Ranks leave the barrier within
 * microseconds of each other; a futex would wake them one by one. */
#ifndef DF_BENCH_COMMON_BARRIER_H
#define DF_BENCH_COMMON_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory that children forked later share with their parent; NULL if there is none left.
 * Pages that nobody touches cost nothing. */
void *df_tool_shared_alloc(size_t bytes);
void df_tool_shared_free(void *memory, size_t bytes);

typedef struct {
  _Alignas(64) atomic_uint arrived; /* members now waiting */
  _Alignas(64) atomic_uint lap;     /* counts completed meetings */
  _Alignas(64) atomic_bool broken;  /* a member will never come again */
  unsigned members;
} df_tool_barrier;

/* If the members are processes, barrier lies in df_tool_shared_alloc memory. */
void df_tool_barrier_init(df_tool_barrier *barrier, unsigned members);

/* Waits until every member has called it. All members then see the data that any member wrote
 * before. Returns false, at once and in all later calls, if the barrier was broken. */
bool df_tool_barrier_wait(df_tool_barrier *barrier);

/* Frees the others when a member fails. May be called at any time by anybody. */
void df_tool_barrier_break(df_tool_barrier *barrier);

#endif
