#include "host/state/peer_info.h"

#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "bootstrap/net/interfaces.h"
#include "tuning/calibration.h"
#include "transports/net/security/cipher.h"

/* A hash of the word before the colon. The path behind it, of a plugin, may differ between hosts.
 */
static uint32_t net_backend_kind(const char *net_backend) {
  uint32_t hash = 0;
  for (const char *at = net_backend; *at && *at != ':'; at++) hash = hash * 31 + (uint32_t)*at;
  return hash;
}

df_peer_info df_make_peer_info(const df_settings *settings) {
  df_peer_info info;
  df_peer_info_content content = {.version = DFCCL_VERSION_CODE,
                                  .max_blocks = (uint32_t)settings->max_blocks,
                                  .shared_blocks = (uint32_t)settings->shared_blocks,
                                  .survive = (uint32_t)settings->survive,
                                  .files = df_file_directory_digest(&settings->files),
                                  .calibration = df_calibration_digest(&settings->tuning)};
  df_device_fill_info(settings->backend, (int)settings->device, &content.device);
  content.transport.host = df_host_identity();
  content.transport.backend = (uint32_t)settings->backend;
  content.transport.wants_wire = settings->net == DF_NET_TCP || settings->net == DF_NET_BACKEND;
  content.transport.net_backend = net_backend_kind(settings->network.net_backend);
  content.transport.security = (uint32_t)settings->network.security;
  content.transport.has_aes = (uint32_t)df_cipher_has_aes();
  df_cpu_allowed(content.cpus, DF_TOPOLOGY_CPU_WORDS);
  gethostname(content.host_name, sizeof content.host_name - 1);
  memset(&info, 0, sizeof info);
  memcpy(info.bytes, &content, sizeof content);
  return info;
}

df_peer_info_content df_peer_info_of(dfcclContext_t context, uint32_t rank) {
  df_peer_info_content content;
  memcpy(&content, context->mesh.peer_info[rank].bytes, sizeof content);
  return content;
}

df_device_info df_peer_device_info(dfcclContext_t context, uint32_t rank) {
  return df_peer_info_of(context, rank).device;
}

df_transport_info df_peer_transport_info(dfcclContext_t context, uint32_t rank) {
  return df_peer_info_of(context, rank).transport;
}

int df_peer_has_same_files(dfcclContext_t context, uint32_t rank) {
  return df_peer_info_of(context, context->rank).files == df_peer_info_of(context, rank).files;
}

void df_agree_on_calibration(dfcclContext_t context) {
  const uint64_t own = df_peer_info_of(context, context->rank).calibration;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++) {
    if (df_peer_info_of(context, rank).calibration == own) continue;
    df_log(DF_LOG_INFO,
           "rank %u: the calibration is left out, since rank %u has another one (dfccl-bench tune "
           "--quick, DFCCL_CALIBRATION)",
           context->rank, rank);
    context->settings.tuning.n_calibrated = 0;
    return;
  }
}
