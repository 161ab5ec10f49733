#include "bootstrap/net/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

df_address df_address_loopback(uint16_t port) {
  return (df_address){.family = 4, .port = port, .bytes = {127, 0, 0, 1}};
}

bool df_address_is_link_local(const df_address *address) {
  return address->family == 6 && address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80;
}

bool df_address_is_loopback(const df_address *address) {
  static const uint8_t one[16] = {[15] = 1};
  if (address->family == 4) return address->bytes[0] == 127;
  return memcmp(address->bytes, one, sizeof one) == 0;
}

static size_t bytes_of(const df_address *address) { return address->family == 4 ? 4 : 16; }

bool df_address_is_sane(const df_address *address) {
  static const uint8_t none[16];
  if ((address->family != 4 && address->family != 6) || address->port == 0) return false;
  if (memcmp(address->bytes, none, bytes_of(address)) == 0) return false;
  return address->family == 4 ? address->bytes[0] < 224 : address->bytes[0] != 0xff;
}

bool df_address_same_host(const df_address *a, const df_address *b) {
  return a->family == b->family && memcmp(a->bytes, b->bytes, bytes_of(a)) == 0;
}

uint32_t df_address_to_socket(const df_address *address, uint32_t scope,
                              struct sockaddr_storage *socket) {
  memset(socket, 0, sizeof *socket);
  if (address->family == 4) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)socket;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address->port);
    memcpy(&v4->sin_addr, address->bytes, 4);
    return sizeof *v4;
  }
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)socket;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(address->port);
  v6->sin6_scope_id = df_address_is_link_local(address) ? scope : 0;
  memcpy(&v6->sin6_addr, address->bytes, 16);
  return sizeof *v6;
}

bool df_address_from_socket(df_address *address, const struct sockaddr_storage *socket) {
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  *address = (df_address){0};
  if (socket->ss_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)socket;
    address->family = 4;
    address->port = ntohs(v4->sin_port);
    memcpy(address->bytes, &v4->sin_addr, 4);
    return true;
  }
  if (socket->ss_family != AF_INET6) return false;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)socket;
  const uint8_t *bytes = (const uint8_t *)&v6->sin6_addr;
  address->port = ntohs(v6->sin6_port);
  address->family = memcmp(bytes, mapped, sizeof mapped) == 0 ? 4 : 6;
  memcpy(address->bytes, address->family == 4 ? bytes + 12 : bytes, bytes_of(address));
  return true;
}

const char *df_address_text(const df_address *address, char text[DF_ADDRESS_TEXT]) {
  char host[INET6_ADDRSTRLEN] = "no address";
  inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, host, sizeof host);
  if (address->port == 0)
    snprintf(text, DF_ADDRESS_TEXT, "%s", host);
  else
    snprintf(text, DF_ADDRESS_TEXT, address->family == 4 ? "%s:%u" : "[%s]:%u", host,
             address->port);
  return text;
}

const char *df_address_scoped_text(const df_address *address, uint32_t scope,
                                   char text[DF_ADDRESS_TEXT]) {
  char name[IF_NAMESIZE], plain[DF_ADDRESS_TEXT];
  df_address_text(address, plain);
  if (!df_address_is_link_local(address) || if_indextoname(scope, name) == NULL) {
    memcpy(text, plain, sizeof plain);
    return text;
  }
  const int host = (int)strcspn(plain, "]");
  snprintf(text, DF_ADDRESS_TEXT, "%.*s%%%s%s", host, plain, name, plain + host);
  return text;
}

static bool parse_port(df_address *address, const char *text) {
  const char *end;
  uint64_t port;
  if (!df_read_digits(text, 65535, &port, &end) || *end != '\0' || port < 1) return false;
  address->port = (uint16_t)port;
  return true;
}

bool df_address_parse(df_address *address, const char *given, size_t length) {
  char text[DF_ADDRESS_TEXT], *host = text, *port = NULL;
  *address = (df_address){0};
  if (length >= sizeof text) return false;
  memcpy(text, given, length);
  text[length] = '\0';
  char *colon = strchr(text, ':'), *bracket = strchr(text, ']');
  if (text[0] == '[') {
    if (bracket == NULL || (bracket[1] != '\0' && bracket[1] != ':')) return false;
    if (bracket[1] == ':') port = bracket + 2;
    *bracket = '\0';
    host = text + 1;
  } else if (colon && strchr(colon + 1, ':') == NULL) {
    *colon = '\0';
    port = colon + 1;
  }
  if (port && !parse_port(address, port)) return false;
  address->family = 4;
  if (inet_pton(AF_INET, host, address->bytes) == 1) return text[0] != '[';
  address->family = 6;
  return inet_pton(AF_INET6, host, address->bytes) == 1;
}
