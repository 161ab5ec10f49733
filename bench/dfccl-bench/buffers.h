/* The buffers that a rank measures with, of the memory that the options name. */
#ifndef DF_BENCH_DFCCL_BENCH_BUFFERS_H
#define DF_BENCH_DFCCL_BENCH_BUFFERS_H

#include "common/launch.h"
#include "options.h"

/* One of max_bytes; the rank gives it back. false: the rank has failed. */
bool df_bench_buffer_take(df_tool_rank *self, const df_bench_options *options,
                          dfcclContext_t context, void **buffer);
/* false: the rank has failed. After a failure the library may still own buffers: they go with the
 * process. */
bool df_bench_buffer_give(df_tool_rank *self, const df_bench_options *options,
                          dfcclContext_t context, void *buffer);

#endif
