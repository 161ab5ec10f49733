#include <dfccl.h>
#include <stdio.h>

int main(void) {
  dfcclContext_t ctx[2];
  float data[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  if (dfcclInitAll(ctx, 2, NULL) != dfcclSuccess) return puts(dfcclGetLastError(NULL)), 1;
  for (int rank = 0; rank < 2; rank++) {
    dfcclRegisterAllReduce(ctx[rank], 7, 4, dfcclFloat32, dfcclSum, NULL);
    dfcclRunAllReduce(ctx[rank], 7, data[rank], data[rank], NULL, NULL);
  }
  for (int rank = 0; rank < 2; rank++) {
    if (dfcclWait(ctx[rank], 7) != dfcclSuccess) puts(dfcclGetLastError(ctx[rank]));
    printf("rank %d: %g ... %g\n", rank, data[rank][0], data[rank][3]);
  }
  for (int rank = 0; rank < 2; rank++) dfcclDestroy(ctx[rank]);
}
