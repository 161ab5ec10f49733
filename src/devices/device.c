/* The choice of the device, and what ranks tell each other about theirs. */
#include <string.h>

#include "host/context.h"

void df_device_init(df_rank_device *device, const df_settings *settings) {
  const df_device_kind *kind = &df_device_cpu;
#if defined(DF_WITH_CUDA)
  if (settings->backend == dfcclBackendCuda) kind = &df_device_cuda;
#endif
  (void)settings;
  *device = (df_rank_device){
      .kind = kind, .executor = kind->executor, .memory = kind->memory, .streams = kind->streams};
}

dfcclResult_t df_device_choose(df_settings *settings) {
#if defined(DF_WITH_CUDA)
  if (settings->backend != dfcclBackendCpu) {
    dfcclResult_t result = df_cuda_choose(settings);
    if (result == dfcclSuccess) settings->backend = dfcclBackendCuda;
    if (result == dfcclSuccess || settings->backend == dfcclBackendCuda) return result;
  }
#else
  if (settings->backend == dfcclBackendCuda)
    return df_fail(dfcclInvalidUsage,
                   "config.backend is cuda, but this library was built without CUDA");
#endif
  settings->backend = dfcclBackendCpu;
  if (settings->max_blocks == 0) settings->max_blocks = 1;
  return dfcclSuccess;
}

void df_device_fill_card(const df_settings *settings, df_device_card *card) {
  memset(card, 0, sizeof *card);
  card->backend = (uint32_t)settings->backend;
#if defined(DF_WITH_CUDA)
  if (settings->backend == dfcclBackendCuda) df_cuda_fill_card(settings, card);
#endif
}
