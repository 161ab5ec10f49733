/* The choice of the device, and functions that do not depend on its kind. */
#include "devices/device.h"

#include <string.h>

void df_device_init(df_rank_device *device, dfcclBackend_t backend) {
  const df_device_kind *kind = &df_device_cpu;
#if defined(DF_WITH_CUDA)
  if (backend == dfcclBackendCuda) kind = &df_device_cuda;
#endif
  (void)backend;
  *device = (df_rank_device){
      .kind = kind, .executor = kind->executor, .memory = kind->memory, .streams = kind->streams};
}

dfcclResult_t df_device_choose(df_device_choice *choice) {
#if defined(DF_WITH_CUDA)
  if (choice->backend != dfcclBackendCpu) {
    dfcclResult_t result = df_cuda_choose(choice);
    if (result == dfcclSuccess) choice->backend = dfcclBackendCuda;
    if (result == dfcclSuccess || choice->backend == dfcclBackendCuda) return result;
  }
#else
  if (choice->backend == dfcclBackendCuda)
    return df_fail(dfcclInvalidUsage,
                   "config.backend is cuda, but this library was built without CUDA");
#endif
  choice->backend = dfcclBackendCpu;
  if (choice->max_blocks != 0) return dfcclSuccess;
  choice->max_blocks = choice->shared_blocks = 1;
  return dfcclSuccess;
}

void df_device_fill_info(dfcclBackend_t backend, int ordinal, df_device_info *info) {
  memset(info, 0, sizeof *info);
  info->backend = (uint32_t)backend;
  (void)ordinal;
#if defined(DF_WITH_CUDA)
  if (backend == dfcclBackendCuda) df_cuda_fill_info(ordinal, info);
#endif
}

dfcclResult_t df_device_take_range(df_rank_device *device, uint64_t bytes, df_range *range) {
  return df_arena_take_apart(device->arena, device->host.lock, bytes, range);
}
