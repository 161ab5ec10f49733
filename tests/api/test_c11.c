/* Promise: the public header needs no other header and is clean C11 under -Wall -Wextra -pedantic.
 */
#include "dfccl.h"
#include "dfccl.h"

#include <stdio.h>

_Static_assert(sizeof(dfcclUniqueId) == 128, "the identity is 128 plain bytes");
_Static_assert(dfcclSuccess == 0 && dfcclUnhandledCudaError == 1 && dfcclSystemError == 2 &&
                   dfcclInternalError == 3 && dfcclInvalidArgument == 4 && dfcclInvalidUsage == 5 &&
                   dfcclRemoteError == 6 && dfcclInProgress == 7,
               "result codes 0 to 7 are NCCL's");
_Static_assert(dfcclTimeout == 8 && dfcclMismatch == 9 && dfcclAborted == 10 &&
                   dfcclOutOfMemory == 11,
               "our own result codes");
_Static_assert(dfcclInt8 == 0 && dfcclUint8 == 1 && dfcclInt32 == 2 && dfcclUint32 == 3 &&
                   dfcclInt64 == 4 && dfcclUint64 == 5 && dfcclFloat16 == 6 && dfcclFloat32 == 7 &&
                   dfcclFloat64 == 8 && dfcclBfloat16 == 9 && dfcclFloat8e4m3 == 10 &&
                   dfcclFloat8e5m2 == 11,
               "data types are NCCL's");
_Static_assert(dfcclInt16 == 12 && dfcclUint16 == 13, "our own data types");
_Static_assert(dfcclSum == 0 && dfcclProd == 1 && dfcclMax == 2 && dfcclMin == 3 && dfcclAvg == 4,
               "operators are NCCL's");
_Static_assert(dfcclBand == 5 && dfcclBor == 6 && dfcclBxor == 7, "our own operators");

static void callback(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  (void)coll;
  (void)status;
  (void)arg;
}

int main(void) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  dfcclCallback_t pointer = callback;
  int version = 0;
  if (config.size != sizeof config || options.size != sizeof options || stats.size != sizeof stats)
    return 1;
  if (run.size != sizeof run || run.magic != DFCCL_RUN_MAGIC || run.flags != 0) return 1;
  if (config.device != -1 || pointer == NULL) return 1;
  if (dfcclGetVersion(&version) != dfcclSuccess || version != DFCCL_VERSION_CODE) {
    printf("version %d, header %d\n", version, DFCCL_VERSION_CODE);
    return 1;
  }
  return 0;
}
