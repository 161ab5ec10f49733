/* Where a process listens, as other hosts read it. The scope of a link-local IPv6 address is the
 * reader's own interface, so an address has none. */
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
  uint32_t mbit; /* a second, as its interface says; 0: not known */
  uint8_t bytes[16];
} df_address;
DF_STATIC_ASSERT(sizeof(df_address) == 24, "part of the protocol between hosts");

enum {
  DF_ADDRESSES_MAX = 6, /* of one process */
  DF_ADDRESS_TEXT = 64
};

/* 127.0.0.1 */
df_address df_address_loopback(uint16_t port);

/* Could somebody be called there? Of what another process says. */
bool df_address_is_sane(const df_address *address);
bool df_address_is_link_local(const df_address *address);
bool df_address_is_loopback(const df_address *address);
/* Ports and speeds may differ. */
bool df_address_same_host(const df_address *a, const df_address *b);

/* Returns the bytes of it. scope: an interface's index, for link-local ones. */
uint32_t df_address_to_socket(const df_address *address, uint32_t scope,
                              struct sockaddr_storage *socket);
/* False: of another family. */
bool df_address_from_socket(df_address *address, const struct sockaddr_storage *socket);

/* "10.0.0.1:5000", "[fd00::1]:5000"; without a port if that is 0. */
const char *df_address_text(const df_address *address, char text[DF_ADDRESS_TEXT]);
/* With the interface's name, if the address is link-local. */
const char *df_address_scoped_text(const df_address *address, uint32_t scope,
                                   char text[DF_ADDRESS_TEXT]);
/* The reverse, for numbers only. False: not an address. */
bool df_address_parse(df_address *address, const char *text, size_t length);

#endif
