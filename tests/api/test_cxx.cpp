// Promise: the public header is usable from C++ and clean under -Wall -Wextra -pedantic; every
// function of it is in the shared library with C linkage.
#include "dfccl.h"

#include <cstdio>

namespace {
template <typename Function> bool present(Function *function) { return function != nullptr; }
} // namespace

int main() {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  bool all = present(dfcclGetVersion) && present(dfcclGetUniqueId) && present(dfcclInit) &&
             present(dfcclInitAll) && present(dfcclInitAllDevices) && present(dfcclInitFromEnv) &&
             present(dfcclDestroy) && present(dfcclAbort) && present(dfcclGetErrorString) &&
             present(dfcclGetLastError) && present(dfcclGetRank) &&
             present(dfcclRegisterAllReduce) && present(dfcclRegisterReduce) &&
             present(dfcclRegisterBroadcast) && present(dfcclRegisterAllGather) &&
             present(dfcclRegisterReduceScatter) && present(dfcclRegisterAllToAll) &&
             present(dfcclDeregister) && present(dfcclRunAllReduce) && present(dfcclRunReduce) &&
             present(dfcclRunBroadcast) && present(dfcclRunAllGather) &&
             present(dfcclRunReduceScatter) && present(dfcclRunAllToAll) && present(dfcclRun) &&
             present(dfcclWaitRun) && present(dfcclAbortCollectives) && present(dfcclTest) &&
             present(dfcclWait) && present(dfcclWaitAll) && present(dfcclDeviceSynchronize) &&
             present(dfcclMemAlloc) && present(dfcclMemFree) && present(dfcclGetStats) &&
             present(dfcclGetMemory) && present(dfcclGetCollectiveMemory) && present(dfcclDump);
  int version = 0;
  if (!all || dfcclGetVersion(&version) != dfcclSuccess) return 1;
  if (config.size != sizeof config || options.magic != DFCCL_COLL_OPTIONS_MAGIC ||
      stats.version != DFCCL_VERSION_CODE || run.run != 0)
    return 1;
  std::printf("version %d\n", version);
  return version == DFCCL_VERSION_CODE ? 0 : 1;
}
