/* Facts that each rank sends to all others when the job forms. */
#ifndef DF_HOST_STATE_PEER_INFO_H
#define DF_HOST_STATE_PEER_INFO_H

#include "host/state/context.h"

typedef struct df_card_content {
  uint32_t version, max_blocks;
  df_device_card device;
  df_transport_card transport;
  /* A bit for each processor that its process may use, modulo their number. */
  uint64_t cpus[DF_TOPOLOGY_CPU_WORDS];
  uint32_t shared_blocks;
  uint64_t files; /* df_file_directory_digest */
  char host_name[DF_HOST_NAME];
} df_card_content;
DF_STATIC_ASSERT(sizeof(df_card_content) <= DF_CARD_BYTES, "a card holds it");

/* This rank's facts, as the mesh distributes them. */
df_card df_context_card(const df_settings *settings);
df_card_content df_context_peer_content(dfcclContext_t context, uint32_t rank);
df_device_card df_context_peer_card(dfcclContext_t context, uint32_t rank);
df_transport_card df_context_transport_card(dfcclContext_t context, uint32_t rank);
/* Whether the rank has the same algorithm files as this rank (settings.files). */
int df_context_has_files_of(dfcclContext_t context, uint32_t rank);

#endif
