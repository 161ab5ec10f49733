/* Facts that each rank sends to all others when the job forms. */
#ifndef DF_HOST_STATE_PEER_INFO_H
#define DF_HOST_STATE_PEER_INFO_H

#include "host/state/context.h"

typedef struct df_peer_info_content {
  uint32_t version, max_blocks;
  df_device_info device;
  df_transport_info transport;
  /* One bit for each processor that the rank's process may use; numbers wrap modulo the number of
   * bits. */
  uint64_t cpus[DF_TOPOLOGY_CPU_WORDS];
  uint32_t shared_blocks;
  uint32_t survive;
  uint64_t files;       /* df_file_directory_digest */
  uint64_t calibration; /* df_calibration_digest */
  char host_name[DF_HOST_NAME];
} df_peer_info_content;
DF_STATIC_ASSERT(sizeof(df_peer_info_content) <= DF_PEER_INFO_BYTES,
                 "it fits into the peer info of the mesh");

/* Makes this rank's facts in the form that the mesh distributes. */
df_peer_info df_make_peer_info(const df_settings *settings);
df_peer_info_content df_peer_info_of(dfcclContext_t context, uint32_t rank);
df_device_info df_peer_device_info(dfcclContext_t context, uint32_t rank);
df_transport_info df_peer_transport_info(dfcclContext_t context, uint32_t rank);
/* Forgets the calibrated rules unless all ranks have the same ones: members of a group must choose
 * alike. */
void df_agree_on_calibration(dfcclContext_t context);
/* Whether the rank has the same algorithm files as this rank (settings.files). */
int df_peer_has_same_files(dfcclContext_t context, uint32_t rank);

#endif
