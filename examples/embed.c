#include <dfccl.h>
#include <stdio.h>

static int failed(dfcclResult_t result) {
  if (result != dfcclSuccess) puts(dfcclGetLastError(NULL));
  return result != dfcclSuccess;
}

int main(void) {
  dfcclContext_t ctx[2];
  float data[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  if (failed(dfcclInitAll(ctx, 2, NULL))) return 1;
  for (int rank = 0; rank < 2; rank++) {
    dfcclContext_t own = ctx[rank];
    if (failed(dfcclRegisterAllReduce(own, 7, 4, dfcclFloat32, dfcclSum, NULL))) return 1;
    if (failed(dfcclRunAllReduce(own, 7, data[rank], data[rank], NULL, NULL))) return 1;
  }
  for (int rank = 0; rank < 2; rank++) {
    if (failed(dfcclWait(ctx[rank], 7))) return 1;
    printf("rank %d: %g ... %g\n", rank, data[rank][0], data[rank][3]);
  }
  for (int rank = 0; rank < 2; rank++)
    if (failed(dfcclDestroy(ctx[rank]))) return 1;
}
