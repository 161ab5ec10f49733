/* The application's callbacks: which one the calling thread is inside of, and their pool. */
#include <stdlib.h>

#include "base/mutex.h"
#include "host/runs/runs.h"

/* The record of the collective whose callback this thread runs. Callbacks may not wait, so they do
 * not nest. */
static _Thread_local const df_wait_words *calling_back;

int df_in_callback(void) { return calling_back != NULL; }
int df_in_callback_of(const df_wait_words *words) { return calling_back == words; }
void df_enter_callback(const df_wait_words *words) {
  static const df_wait_words of_no_collective;
  calling_back = words ? words : &of_no_collective;
}
void df_leave_callback(void) { calling_back = NULL; }

DF_APART dfcclResult_t df_grow_callbacks(dfcclContext_t context) {
  df_callback_pool *pool = &context->runs.callbacks;
  uint64_t capacity = pool->capacity ? pool->capacity * 2 : 64;
  df_pending_callback *larger = realloc(pool->entries, capacity * sizeof *larger);
  if (larger == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the callbacks of %llu outstanding runs",
                   (unsigned long long)(context->runs.accepted - context->runs.completed));
  pool->entries = larger;
  pool->capacity = capacity;
  return dfcclSuccess;
}
