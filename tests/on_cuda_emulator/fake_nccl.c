/* Replaces NCCL for gpu-nccl: every all-reduce is a copy. FAKE_NCCL_VERSION is its version. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

typedef struct unique_id {
  char internal[128];
} unique_id;

#define FAKE __attribute__((visibility("default")))

FAKE int ncclGetVersion(int *version);
FAKE int ncclGetUniqueId(unique_id *id);
FAKE int ncclCommInitRank(void **communicator, int ranks, unique_id id, int rank);
FAKE int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
                       void *communicator, cudaStream_t stream);
FAKE const char *ncclGetErrorString(int result);

int ncclGetVersion(int *version) {
  const char *wanted = getenv("FAKE_NCCL_VERSION");
  *version = wanted ? atoi(wanted) : 23000;
  return 0;
}
int ncclGetUniqueId(unique_id *id) {
  memset(id, 0, sizeof *id);
  return 0;
}
int ncclCommInitRank(void **communicator, int ranks, unique_id id, int rank) {
  static int one;
  (void)ranks, (void)id, (void)rank;
  *communicator = &one;
  return 0;
}
int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *communicator,
                  cudaStream_t stream) {
  (void)type, (void)op, (void)communicator;
  return (int)cudaMemcpyAsync(recv, send, count * sizeof(float), cudaMemcpyDeviceToDevice, stream);
}
const char *ncclGetErrorString(int result) { return cudaGetErrorString((cudaError_t)result); }
