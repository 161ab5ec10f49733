#include "host/state/peer_info.h"

#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "bootstrap/net/interfaces.h"
#include "transports/net/security/cipher.h"

/* Of the word before the colon: where a plugin lies may differ between hosts. */
static uint32_t fabric_kind(const char *fabric) {
  uint32_t hash = 0;
  for (const char *at = fabric; *at && *at != ':'; at++) hash = hash * 31 + (uint32_t)*at;
  return hash;
}

df_card df_context_card(const df_settings *settings) {
  df_card card;
  df_card_content content = {.version = DFCCL_VERSION_CODE,
                             .max_blocks = (uint32_t)settings->max_blocks,
                             .shared_blocks = (uint32_t)settings->shared_blocks,
                             .files = df_file_directory_digest(&settings->files)};
  df_device_fill_card(settings->backend, (int)settings->device, &content.device);
  content.transport.host = df_host_identity();
  content.transport.backend = (uint32_t)settings->backend;
  content.transport.wants_wire = settings->net == DF_NET_TCP || settings->net == DF_NET_FABRIC;
  content.transport.fabric = fabric_kind(settings->network.fabric);
  content.transport.security = (uint32_t)settings->network.security;
  content.transport.has_aes = (uint32_t)df_cipher_has_aes();
  df_cpu_allowed(content.cpus, DF_TOPOLOGY_CPU_WORDS);
  gethostname(content.host_name, sizeof content.host_name - 1);
  memset(&card, 0, sizeof card);
  memcpy(card.bytes, &content, sizeof content);
  return card;
}

df_card_content df_context_peer_content(dfcclContext_t context, uint32_t rank) {
  df_card_content content;
  memcpy(&content, context->mesh.cards[rank].bytes, sizeof content);
  return content;
}

df_device_card df_context_peer_card(dfcclContext_t context, uint32_t rank) {
  return df_context_peer_content(context, rank).device;
}

df_transport_card df_context_transport_card(dfcclContext_t context, uint32_t rank) {
  return df_context_peer_content(context, rank).transport;
}

int df_context_has_files_of(dfcclContext_t context, uint32_t rank) {
  return df_context_peer_content(context, context->rank).files ==
         df_context_peer_content(context, rank).files;
}
