#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "host/settings/settings.h"
#include "info/net.h"

static const char *control_protection(const df_network_settings *network) {
  return network->secret_is_public ? "control messages are encrypted, but with a key that is public"
                                   : "control messages are encrypted (X25519, ChaCha20-Poly1305)";
}

static const char *data_protection(const df_network_settings *network) {
  static const char *const sentences[DF_SECURITY_BEYOND] = {
      [DF_SECURITY_AUTH] = "connections for data are authenticated; data is in the clear",
      [DF_SECURITY_INTEGRITY] = "connections for data are authenticated; data is protected against "
                                "changes, and can be read",
      [DF_SECURITY_ENCRYPT] = "connections for data are authenticated; data is encrypted "
                              "(AES-256-GCM or ChaCha20-Poly1305)",
      [DF_SECURITY_TLS] = "connections for data are authenticated, by certificates too; data is "
                          "encrypted (TLS 1.3)",
      [DF_SECURITY_NONE] = "connections for data are authenticated; data is in the clear"};
  return network->secret_is_public
             ? "every process that reaches a job's ports may join it; data is in the clear"
             : sentences[network->security];
}

static const char *secret_text(const df_network_settings *network) {
  if (network->secret_is_public) return "none: every process may join (DFCCL_NET_SECURITY=none)";
  return network->has_secret ? "is set"
                             : "none: jobs of several hosts need a unique id, or DFCCL_SECRET "
                               "(openssl rand -hex 32)";
}

static void ports_text(const df_network_settings *network, char *text, size_t bytes) {
  if (network->first_port == 0)
    snprintf(text, bytes, "any");
  else
    snprintf(text, bytes, "%u-%u", network->first_port, network->last_port);
}

void df_info_add_interfaces(cJSON *object, const df_interfaces *all) {
  char text[DF_ADDRESS_TEXT];
  cJSON *list = cJSON_AddArrayToObject(object, "interfaces");
  for (int i = 0; i < all->n; i++) {
    const df_interface *one = &all->of[i];
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "name", one->name);
    cJSON_AddStringToObject(entry, "address", df_address_text(&one->address, text));
    cJSON_AddNumberToObject(entry, "prefix", one->prefix);
    cJSON_AddNumberToObject(entry, "mbit_per_s", one->address.mbit);
    cJSON_AddBoolToObject(entry, "used", one->is_chosen);
    cJSON_AddItemToArray(list, entry);
  }
}

static bool print_json(const df_interfaces *all, const df_network_settings *network,
                       const char *host) {
  char text[DF_ADDRESS_TEXT];
  cJSON *object = cJSON_CreateObject();
  df_info_add_interfaces(object, all);
  cJSON_AddStringToObject(object, "host", host);
  ports_text(network, text, sizeof text);
  cJSON_AddStringToObject(object, "ports", text);
  cJSON_AddBoolToObject(object, "secret", network->has_secret && !network->secret_is_public);
  cJSON_AddStringToObject(object, "root", network->root);
  cJSON *security = cJSON_AddObjectToObject(object, "security");
  cJSON_AddStringToObject(security, "level", df_security_names[network->security]);
  cJSON_AddStringToObject(security, "control", control_protection(network));
  cJSON_AddStringToObject(security, "data", data_protection(network));
  return df_tool_print_json(object);
}

void df_info_print_interfaces_head(const char *prefix) {
  printf("%s%-12s %-34s %10s  %s\n", prefix, "interface", "address", "Mbit/s", "used");
}

void df_info_print_interfaces(const df_interfaces *all, const char *prefix) {
  char text[DF_ADDRESS_TEXT], speed[24];
  for (int i = 0; i < all->n; i++) {
    const df_interface *one = &all->of[i];
    char address[DF_ADDRESS_TEXT + 8];
    snprintf(address, sizeof address, "%s/%u", df_address_text(&one->address, text), one->prefix);
    snprintf(speed, sizeof speed, "%u", one->address.mbit);
    printf("%s%-12s %-34s %10s  %s\n", prefix, one->name, address,
           one->address.mbit ? speed : "unknown", one->is_chosen ? "yes" : "no");
  }
}

static void print_text(const df_interfaces *all, const df_network_settings *network,
                       const char *host) {
  char text[DF_ADDRESS_TEXT];
  printf("host %s\n\n", host);
  df_info_print_interfaces_head("");
  df_info_print_interfaces(all, "");
  ports_text(network, text, sizeof text);
  printf("\nports     %s (DFCCL_NET_PORTS)\n", text);
  printf("secret    %s\n", secret_text(network));
  printf("security  %s (DFCCL_NET_SECURITY): %s; %s\n", df_security_names[network->security],
         control_protection(network), data_protection(network));
}

bool df_info_host(bool json) {
  char host[256] = "";
  df_network_settings network;
  df_interfaces *all = calloc(1, sizeof *all);
  df_net net;
  dfcclResult_t result = df_settings_read_network(&network, &net);
  if (result == dfcclSuccess && all) result = df_interfaces_find(all, network.interfaces);
  if (result == dfcclInProgress)
    df_fail(result, "environment variable DFCCL_NET_INTERFACES is \"%.128s\", but interface %s",
            network.interfaces, all->not_ready);
  if (result != dfcclSuccess || all == NULL) {
    df_tool_error("%s", all ? df_last_sentence() : "out of memory");
    free(all);
    return false;
  }
  gethostname(host, sizeof host - 1);
  bool fine = true;
  if (json)
    fine = print_json(all, &network, host);
  else
    print_text(all, &network, host);
  free(all);
  return fine;
}
