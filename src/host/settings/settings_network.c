/* The settings of multi-node jobs. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/log.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/net/interfaces.h"
#include "host/settings/settings.h"
#include "transports/net/stream/net_backend.h"
#include "transports/net/security/protection.h"

enum { SECRET_MIN = 16, SECRET_MAX = 1024 };

static dfcclResult_t refuse_empty(void) {
  static const char *const names[] = {"DFCCL_NET_INTERFACES", "DFCCL_NET_PORTS",
                                      "DFCCL_NET_ADVERTISE",  "DFCCL_SECRET",
                                      "DFCCL_SECRET_FILE",    "DFCCL_ROOT"};
  for (size_t i = 0; i < DF_COUNT_OF(names); i++) {
    const char *value = getenv(names[i]);
    if (value && *value == '\0')
      return df_fail(dfcclInvalidUsage, "environment variable %s is \"\"; unset it or give a value",
                     names[i]);
  }
  return dfcclSuccess;
}

static dfcclResult_t read_interfaces(df_network_settings *network) {
  const char *value = getenv("DFCCL_NET_INTERFACES");
  if (value == NULL) return dfcclSuccess;
  if (strlen(value) >= sizeof network->interfaces)
    return df_fail(dfcclInvalidUsage,
                   "environment variable DFCCL_NET_INTERFACES has %zu characters, more than %zu",
                   strlen(value), sizeof network->interfaces - 1);
  strcpy(network->interfaces, value);
  df_interfaces *all = calloc(1, sizeof *all);
  if (all == NULL) return df_fail(dfcclOutOfMemory, "no memory for the interfaces");
  dfcclResult_t result = df_interfaces_find(all, network->interfaces);
  free(all);
  /* Only the join needs the interface, and waits for it. */
  return result == dfcclInProgress ? dfcclSuccess : result;
}

/* "50000" or "50000-50100" */
static dfcclResult_t read_ports(df_network_settings *network) {
  const char *value = getenv("DFCCL_NET_PORTS");
  unsigned first = 0, last = 0;
  int used = 0, used_first = 0;
  if (value == NULL) return dfcclSuccess;
  if (sscanf(value, "%5u%n-%5u%n", &first, &used_first, &last, &used) == 1) {
    last = first;
    used = used_first;
  }
  if (value[0] < '0' || value[0] > '9' || used == 0 || value[used] != '\0' || first < 1 ||
      last < first || last > 65535)
    return df_fail(
        dfcclInvalidUsage,
        "environment variable DFCCL_NET_PORTS is \"%.64s\"; it must be a port or a range "
        "of ports, such as 50000-50100",
        value);
  network->first_port = (uint16_t)first;
  network->last_port = (uint16_t)last;
  return dfcclSuccess;
}

/* Whether ranks can call the address. The port may still follow. */
static int is_callable(df_address address) {
  if (address.port == 0) address.port = 1;
  return df_address_is_sane(&address);
}

static dfcclResult_t read_advertised(df_network_settings *network) {
  const char *value = getenv("DFCCL_NET_ADVERTISE");
  for (const char *at = value; at && *at;) {
    const size_t length = strcspn(at, ",");
    if (network->n_advertised == DF_ADDRESSES_MAX ||
        !df_address_parse(&network->advertised[network->n_advertised], at, length) ||
        !is_callable(network->advertised[network->n_advertised]))
      return df_fail(
          dfcclInvalidUsage,
          "environment variable DFCCL_NET_ADVERTISE is \"%.128s\"; it must be up to %d "
          "addresses that ranks can call, with commas between them, in numbers, each with or "
          "without a port",
          value, DF_ADDRESSES_MAX);
    network->n_advertised++;
    at += length + (at[length] == ',');
  }
  return dfcclSuccess;
}

/* Reads the first line. */
static dfcclResult_t read_secret_file(const char *path, char *text, size_t bytes) {
  struct stat status;
  FILE *file = fopen(path, "re");
  if (file == NULL || fstat(fileno(file), &status) != 0) {
    const int error = errno;
    if (file) fclose(file);
    return df_fail(dfcclInvalidUsage, "environment variable DFCCL_SECRET_FILE names \"%.200s\": %s",
                   path, strerror(error));
  }
  if (S_ISREG(status.st_mode) && (status.st_mode & 077)) {
    fclose(file);
    return df_fail(dfcclInvalidUsage,
                   "environment variable DFCCL_SECRET_FILE names \"%.200s\", which other users may "
                   "read; run chmod 600 on it",
                   path);
  }
  const char *line = fgets(text, (int)bytes, file);
  fclose(file);
  if (line == NULL) text[0] = '\0';
  text[strcspn(text, "\r\n")] = '\0';
  return dfcclSuccess;
}

static dfcclResult_t read_secret(df_network_settings *network) {
  const char *value = getenv("DFCCL_SECRET"), *path = getenv("DFCCL_SECRET_FILE");
  char text[SECRET_MAX + 2] = "";
  dfcclResult_t result = dfcclSuccess;
  if (value == NULL && path == NULL) return dfcclSuccess;
  if (value && path)
    return df_fail(dfcclInvalidUsage,
                   "environment variables DFCCL_SECRET and DFCCL_SECRET_FILE are both set");
  if (path)
    result = read_secret_file(path, text, sizeof text);
  else
    snprintf(text, sizeof text, "%s", value);
  const size_t length = strlen(text);
  if (result == dfcclSuccess && (length < SECRET_MIN || length > SECRET_MAX))
    result = df_fail(dfcclInvalidUsage,
                     "the secret of environment variable %s has %zu characters; it must have %d to "
                     "%d (make one: openssl rand -hex 32)",
                     path ? "DFCCL_SECRET_FILE" : "DFCCL_SECRET", length, SECRET_MIN, SECRET_MAX);
  if (result == dfcclSuccess) result = df_handshake_ready();
  if (result == dfcclSuccess) {
    static const unsigned char none[DF_KEY_BYTES];
    df_derive(network->secret, sizeof network->secret, none, "dfccl secret", text, length, NULL, 0);
    network->has_secret = 1;
  }
  sodium_memzero(text, sizeof text);
  return result;
}

/* HOST:PORT or [IPV6]:PORT. Without brackets the end of an IPv6 address could be a port. */
static dfcclResult_t read_root(df_network_settings *network) {
  const char *value = getenv("DFCCL_ROOT");
  if (value == NULL) return dfcclSuccess;
  const char *colon = strrchr(value, ':');
  char *end = NULL;
  unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
  const int has_brackets = value[0] == '[' && colon && colon > value && colon[-1] == ']';
  const int is_host = colon && colon != value &&
                      (has_brackets || memchr(value, ':', (size_t)(colon - value)) == NULL);
  if (!is_host || colon[1] < '0' || colon[1] > '9' || *end != '\0' || port < 1 || port > 65535 ||
      strlen(value) >= sizeof network->root)
    return df_fail(
        dfcclInvalidUsage,
        "environment variable DFCCL_ROOT is \"%.128s\"; it must be HOST:PORT of rank 0, with "
        "brackets around an IPv6 address",
        value);
  strcpy(network->root, value);
  return dfcclSuccess;
}

static dfcclResult_t read_tls(df_tls_files *files) {
  const struct {
    const char *variable;
    char *path;
  } all[] = {
      {"DFCCL_TLS_CERT", files->cert}, {"DFCCL_TLS_KEY", files->key}, {"DFCCL_TLS_CA", files->ca}};
  if (!df_protection_has_tls())
    return df_fail(
        dfcclInvalidUsage,
        "DFCCL_NET_SECURITY is tls, but this library was built without TLS: configure it "
        "with -Dtls=enabled");
  for (size_t i = 0; i < DF_COUNT_OF(all); i++) {
    const char *value = getenv(all[i].variable);
    if (value == NULL || *value == '\0' || strlen(value) >= DF_TLS_PATH)
      return df_fail(
          dfcclInvalidUsage,
          "DFCCL_NET_SECURITY is tls, so environment variable %s must name a file, in at "
          "most %d characters",
          all[i].variable, DF_TLS_PATH - 1);
    strcpy(all[i].path, value);
  }
  return dfcclSuccess;
}

/* With "none" and without a secret, every process is admitted: all ranks use a public secret. */
static dfcclResult_t read_security(df_network_settings *network) {
  static uint32_t was_said;
  static const unsigned char none[DF_KEY_BYTES];
  const int word = df_read_word("DFCCL_NET_SECURITY", df_security_names, DF_SECURITY_BEYOND,
                                DF_SECURITY_AUTH, "auth, integrity, encrypt, tls, none");
  if (word < 0) return dfcclInvalidUsage;
  network->security = (df_security)word;
  if (network->security == DF_SECURITY_TLS) return read_tls(&network->tls);
  if (network->security != DF_SECURITY_NONE) return dfcclSuccess;
  /* A tool may call this before DFCCL_DEBUG is read. */
  if (df_log_get_level() >= DF_LOG_WARN && df_system_exchange_u32(&was_said, 1) == 0)
    df_log(DF_LOG_WARN, "DFCCL_NET_SECURITY=none: any process that reaches this job's ports may "
                        "join it, and read and change its data");
  if (network->has_secret) return dfcclSuccess;
  dfcclResult_t result = df_handshake_ready();
  if (result != dfcclSuccess) return result;
  df_derive(network->secret, sizeof network->secret, none, "dfccl no secret", NULL, 0, NULL, 0);
  network->has_secret = network->secret_is_public = 1;
  return dfcclSuccess;
}

/* Reads DFCCL_NET: a word, or a network backend: "verbs", "plugin:NAME". With "auto," before it,
 * the backend is used only between hosts. */
static dfcclResult_t read_net(df_network_settings *network, df_net *net) {
  static const char *const nets[] = {"auto", "tcp", "none"};
  static const char automatic[] = "auto,";
  const char *value = getenv("DFCCL_NET"), *choice = value ? value : "";
  const int is_automatic = strncasecmp(choice, automatic, strlen(automatic)) == 0;
  if (is_automatic) choice += strlen(automatic);
  if (is_automatic || strcmp(choice, "verbs") == 0 || strncmp(choice, "plugin:", 7) == 0) {
    const char *rest;
    *net = is_automatic ? DF_NET_AUTO : DF_NET_BACKEND;
    if (strlen(choice) >= sizeof network->net_backend)
      return df_fail(dfcclInvalidUsage,
                     "environment variable DFCCL_NET has %zu characters; a plugin's name may have "
                     "%zu",
                     strlen(choice), sizeof network->net_backend - 1);
    strcpy(network->net_backend, choice);
    if (df_net_backend_find(choice, &rest)) return dfcclSuccess;
    return df_fail(
        dfcclInvalidUsage,
        "environment variable DFCCL_NET is \"%.128s\", and this build has no such "
        "network (verbs: configure with -Dverbs=enabled; plugin: with -Dnccl_net=enabled)",
        value);
  }
  int word = df_read_word("DFCCL_NET", nets, 3, DF_NET_AUTO,
                          "auto, tcp, none, verbs, plugin:NAME, and auto,verbs or "
                          "auto,plugin:NAME");
  if (word < 0) return dfcclInvalidUsage;
  *net = (df_net)word;
  network->is_off = *net == DF_NET_NONE;
  return dfcclSuccess;
}

dfcclResult_t df_settings_read_network(df_network_settings *network, df_net *net) {
  memset(network, 0, sizeof *network);
  dfcclResult_t result = df_settings_check_names();
  if (result == dfcclSuccess) result = read_net(network, net);
  if (result != dfcclSuccess) return result;
  result = refuse_empty();
  if (result == dfcclSuccess && !network->is_off) result = read_interfaces(network);
  if (result == dfcclSuccess) result = read_ports(network);
  if (result == dfcclSuccess) result = read_advertised(network);
  if (result == dfcclSuccess) result = read_secret(network);
  if (result == dfcclSuccess) result = read_security(network);
  if (result == dfcclSuccess) result = read_root(network);
  return result;
}
