#include "buffers.h"

#include "common/memory.h"

bool df_bench_buffer_take(df_tool_rank *self, const df_bench_options *options,
                          dfcclContext_t context, void **buffer) {
  if (options->library_memory)
    return df_tool_rank_check(self, dfcclMemAlloc(context, buffer, options->max_bytes),
                              "dfcclMemAlloc");
  *buffer = df_tool_memory_alloc(options->max_bytes);
  if (*buffer != NULL) return true;
  df_tool_rank_fail(self, dfcclOutOfMemory, "no memory for a buffer of %zu bytes",
                    options->max_bytes);
  return false;
}

bool df_bench_buffer_give(df_tool_rank *self, const df_bench_options *options,
                          dfcclContext_t context, void *buffer) {
  if (options->library_memory)
    return df_tool_rank_check(self, dfcclMemFree(context, buffer), "dfcclMemFree");
  df_tool_memory_free(buffer, options->max_bytes);
  return true;
}
