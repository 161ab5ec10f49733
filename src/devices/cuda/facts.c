/* The choice of the GPU of a rank, the capabilities of the GPU, and the GPUs of other ranks that it
 * reaches. */
#include <stdio.h>
#include <string.h>

#include "devices/cuda/state.h"

dfcclResult_t df_cuda_fail(cudaError_t error, const char *what) {
  return df_cuda_call_failed((int)error, what);
}

dfcclResult_t df_cuda_read_facts(df_cuda_facts *facts, int ordinal) {
  struct cudaDeviceProp properties;
  memset(facts, 0, sizeof *facts);
  cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return df_cuda_fail(error, "reading the properties of a CUDA device");
  facts->ordinal = ordinal;
  facts->multiprocessors = properties.multiProcessorCount;
  facts->major = properties.major;
  facts->minor = properties.minor;
  memcpy(facts->uuid, &properties.uuid, sizeof facts->uuid);
  snprintf(facts->name, sizeof facts->name, "%.63s", properties.name);
  if (properties.major < 8)
    return df_fail(dfcclInvalidUsage,
                   "CUDA device %d (%s) has compute capability %d.%d; 8.0 is needed", ordinal,
                   facts->name, properties.major, properties.minor);
  if (!properties.unifiedAddressing || !properties.canMapHostMemory)
    return df_fail(dfcclInvalidUsage,
                   "CUDA device %d (%s) cannot address page-locked host memory as the host does",
                   ordinal, facts->name);
  return dfcclSuccess;
}

enum { DF_CUDA_ATTRIBUTE_MPS = 133 }; /* cudaDevAttrMpsEnabled; older toolkits lack it */

static dfcclResult_t choose_ordinal(int request, int *ordinal) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return df_cuda_fail(error, "counting the CUDA devices");
  if (count == 0) return df_fail(dfcclInvalidUsage, "there is no CUDA device");
  *ordinal = request;
  if (request < 0 && (error = cudaGetDevice(ordinal)) != cudaSuccess)
    return df_cuda_fail(error, "reading the current CUDA device");
  if (*ordinal >= count)
    return df_fail(dfcclInvalidArgument,
                   "CUDA device %d does not exist: this process has %d, numbered from 0 "
                   "(CUDA_VISIBLE_DEVICES)",
                   request, count);
  return dfcclSuccess;
}

dfcclResult_t df_cuda_choose(df_device_choice *choice) {
  df_cuda_facts facts;
  int ordinal = 0;
  dfcclResult_t result = choose_ordinal(choice->ordinal, &ordinal);
  if (result == dfcclSuccess) result = df_cuda_read_facts(&facts, ordinal);
  if (result != dfcclSuccess) return result;
  if (choice->launches_block)
    return df_fail(dfcclInvalidUsage, "environment variable CUDA_LAUNCH_BLOCKING is set: a launch "
                                      "would wait until the daemon leaves; unset it");
  choice->ordinal = ordinal;
  if (choice->max_blocks != 0) return dfcclSuccess;
  choice->max_blocks =
      DF_MIN((int)DF_CUDA_MOST_BLOCKS, DF_MAX(1, facts.multiprocessors / (int)DF_CUDA_BLOCK_SHARE));
  choice->shared_blocks =
      DF_MIN((int)DF_CUDA_SHARED_BLOCKS,
             DF_MAX(1, facts.multiprocessors / (int)DF_CUDA_SHARED_BLOCK_SHARE));
  return dfcclSuccess;
}

void df_cuda_fill_info(int ordinal, df_device_info *info) {
  df_cuda_facts facts;
  int has_mps = 0;
  info->ordinal = ordinal;
  if (df_cuda_read_facts(&facts, ordinal) == dfcclSuccess)
    memcpy(info->uuid, facts.uuid, sizeof info->uuid);
  if (cudaDeviceGetAttribute(&has_mps, (enum cudaDeviceAttr)DF_CUDA_ATTRIBUTE_MPS, ordinal) !=
      cudaSuccess)
    cudaGetLastError(); /* an older driver does not have the attribute */
  else
    info->has_mps = has_mps != 0;
}

dfcclResult_t df_cuda_load_everything(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  const void *kernels[] = {df_cuda_daemon_kernel(), df_cuda_timed_kernel(), df_cuda_write_kernel(),
                           df_cuda_wait_kernel(), df_cuda_clock_kernel()};
  for (size_t i = 0; i < DF_COUNT_OF(kernels); i++) {
    struct cudaFuncAttributes attributes; /* reading the attributes loads the kernel */
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernels[i]);
    if (error != cudaSuccess) return df_cuda_fail(error, "loading the library's kernels");
    if (i == 0) state->shared_bytes = attributes.sharedSizeBytes;
  }
  /* The first copy and the first fill may load code, too. */
  uint64_t word = 0;
  dfcclResult_t result = df_cuda_clear_memory(device, state->gate, sizeof *state->gate);
  return result == dfcclSuccess ? df_cuda_upload(device, state->gate, &word, sizeof word) : result;
}

/* ---- other ranks' GPUs ---- */

static int find_device(const df_device_info *info, const int *ordinals, uint8_t (*uuids)[16],
                       int count) {
  for (int d = 0; d < count; d++)
    if (memcmp(uuids[d], info->uuid, sizeof info->uuid) == 0) return ordinals[d];
  return -1;
}

static dfcclResult_t join(df_rank_device *device, uint32_t rank, int is_local, int theirs) {
  df_cuda_state *state = df_cuda_state_of(device);
  int mine = state->facts.ordinal, can = 0, atomics = 0;
  state->peer_devices[rank] = theirs;
  state->peer_lends[rank] = 1;
  if (theirs == mine) return dfcclSuccess;
  state->peer_lends[rank] = 0;
  if (theirs < 0) return dfcclSuccess; /* the mapping shows whether it is possible */
  cudaError_t error = cudaDeviceCanAccessPeer(&can, mine, theirs);
  if (error != cudaSuccess) return df_cuda_fail(error, "checking peer access between GPUs");
  if (!can)
    return df_fail(dfcclInvalidUsage,
                   "rank %u uses CUDA device %d and rank %u device %d, which cannot access each "
                   "other's memory; there is no transport between them yet",
                   device->rank, mine, rank, theirs);
  if (is_local) { /* opening a handle does this for other processes */
    error = cudaDeviceEnablePeerAccess(theirs, 0);
    if (error != cudaSuccess && error != cudaErrorPeerAccessAlreadyEnabled)
      return df_cuda_fail(error, "enabling peer access between GPUs");
    cudaGetLastError();
  }
  /* A compare-and-swap in the memory of the reader protects lent buffers. */
  error = cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, mine, theirs);
  if (error != cudaSuccess) cudaGetLastError();
  state->peer_lends[rank] = error == cudaSuccess && atomics;
  return dfcclSuccess;
}

dfcclResult_t df_cuda_find_peers(df_rank_device *device) {
  enum { MOST = 128 };
  int ordinals[MOST], count = 0, n = 0;
  uint8_t uuids[MOST][16];
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return df_cuda_fail(error, "counting the CUDA devices");
  for (int d = 0; d < count && n < MOST; d++) {
    struct cudaDeviceProp properties;
    if ((error = cudaGetDeviceProperties(&properties, d)) != cudaSuccess)
      return df_cuda_fail(error, "reading the properties of a CUDA device");
    memcpy(uuids[n], &properties.uuid, sizeof uuids[n]);
    ordinals[n++] = d;
  }
  for (uint32_t r = 0; r < device->n_ranks; r++) {
    df_device_info info;
    int is_local = device->host.read_peer_info(device->host.host, r, &info);
    int theirs = is_local ? info.ordinal : find_device(&info, ordinals, uuids, n);
    dfcclResult_t result = join(device, r, is_local, theirs);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}
