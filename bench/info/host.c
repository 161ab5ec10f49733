#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/interfaces.h"
#include "common/cli.h"
#include "host/settings.h"
#include "info/net.h"

static const char control_protection[] =
    "control messages are encrypted (X25519, ChaCha20-Poly1305)",
                  data_protection[] =
                      "connections for data are authenticated; data is in the clear";

static void ports_text(const df_network *network, char *text, size_t bytes) {
  if (network->first_port == 0)
    snprintf(text, bytes, "any");
  else
    snprintf(text, bytes, "%u-%u", network->first_port, network->last_port);
}

static bool print_json(const df_interfaces *all, const df_network *network, const char *host) {
  char text[DF_ADDRESS_TEXT];
  cJSON *object = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(object, "interfaces");
  cJSON_AddStringToObject(object, "host", host);
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
  ports_text(network, text, sizeof text);
  cJSON_AddStringToObject(object, "ports", text);
  cJSON_AddBoolToObject(object, "secret", network->has_secret);
  cJSON_AddStringToObject(object, "root", network->root);
  cJSON *security = cJSON_AddObjectToObject(object, "security");
  cJSON_AddStringToObject(security, "control", control_protection);
  cJSON_AddStringToObject(security, "data", data_protection);
  return df_tool_print_json(object);
}

static void print_text(const df_interfaces *all, const df_network *network, const char *host) {
  char text[DF_ADDRESS_TEXT], speed[24];
  printf("host %s\n\n%-12s %-34s %10s  %s\n", host, "interface", "address", "Mbit/s", "used");
  for (int i = 0; i < all->n; i++) {
    const df_interface *one = &all->of[i];
    char address[DF_ADDRESS_TEXT + 8];
    snprintf(address, sizeof address, "%s/%u", df_address_text(&one->address, text), one->prefix);
    snprintf(speed, sizeof speed, "%u", one->address.mbit);
    printf("%-12s %-34s %10s  %s\n", one->name, address, one->address.mbit ? speed : "unknown",
           one->is_chosen ? "yes" : "no");
  }
  ports_text(network, text, sizeof text);
  printf("\nports     %s (DFCCL_NET_PORTS)\n", text);
  printf("secret    %s\n", network->has_secret
                               ? "is set"
                               : "none: jobs of several hosts need a unique id, or DFCCL_SECRET "
                                 "(openssl rand -hex 32)");
  printf("security  %s; %s\n", control_protection, data_protection);
}

bool df_info_host(bool json) {
  char host[256] = "";
  df_network network;
  df_interfaces *all = calloc(1, sizeof *all);
  df_net net;
  dfcclResult_t result = df_settings_read_network(&network, &net);
  if (result == dfcclSuccess && all) result = df_interfaces_find(all, network.interfaces);
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
