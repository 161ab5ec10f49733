/* Addresses at which a process listens, as other hosts see them. The scope of a link-local IPv6
 * address is an interface of the reader, so an address has no scope. */
#ifndef DF_BOOTSTRAP_NET_ADDRESS_H
#define DF_BOOTSTRAP_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

struct sockaddr_storage;

typedef struct df_address {
  uint16_t family; /* 4 or 6; 0: none */
  uint16_t port;
  uint32_t mbit; /* megabits per second, as the interface reports; 0: not known */
  uint8_t bytes[16];
} df_address;
DF_STATIC_ASSERT(sizeof(df_address) == 24, "part of the protocol between hosts");

enum {
  DF_ADDRESSES_MAX = 6, /* addresses of one process */
  DF_ADDRESS_TEXT = 64
};

/* 127.0.0.1 */
df_address df_address_loopback(uint16_t port);

/* Returns whether the address, which another process sent, may be one to connect to. */
bool df_address_is_sane(const df_address *address);
bool df_address_is_link_local(const df_address *address);
bool df_address_is_loopback(const df_address *address);
/* Compares hosts; ports and speeds may differ. */
bool df_address_same_host(const df_address *a, const df_address *b);

/* Returns the length of the socket address. scope: the index of an interface, for link-local
 * addresses. */
uint32_t df_address_to_socket(const df_address *address, uint32_t scope,
                              struct sockaddr_storage *socket);
/* Returns false if the socket address is of another family. */
bool df_address_from_socket(df_address *address, const struct sockaddr_storage *socket);

/* Writes "10.0.0.1:5000" or "[fd00::1]:5000"; without the port if it is 0. */
const char *df_address_text(const df_address *address, char text[DF_ADDRESS_TEXT]);
/* Writes the address, with the name of the interface if it is link-local. */
const char *df_address_scoped_text(const df_address *address, uint32_t scope,
                                   char text[DF_ADDRESS_TEXT]);
/* Parses the text of a numeric address. Returns false if it is not an address. */
bool df_address_parse(df_address *address, const char *text, size_t length);

#endif
