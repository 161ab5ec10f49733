/* The network interfaces of this host, and the choice of those that a job may use
 * (DFCCL_NET_INTERFACES). */
#ifndef DF_BOOTSTRAP_NET_INTERFACES_H
#define DF_BOOTSTRAP_NET_INTERFACES_H

#include "base/result.h"
#include "bootstrap/net/address.h"

enum { DF_INTERFACE_NAME = 16, DF_INTERFACES_MAX = 64, DF_NOT_READY_TEXT = 160 };

/* An interface with two addresses has two of these entries. */
typedef struct df_interface {
  char name[DF_INTERFACE_NAME];
  uint32_t index;
  uint8_t prefix; /* bits */
  bool is_chosen;
  df_address address; /* port 0 */
} df_interface;

typedef struct df_interfaces {
  int n;
  df_interface of[DF_INTERFACES_MAX];
  /* Interfaces that the pattern chooses and that cannot be used yet: "rail0 has no carrier, rail1
   * is down"; "": none. */
  char not_ready[DF_NOT_READY_TEXT];
} df_interfaces;

/* Finds the interfaces that are up and marks those that the pattern chooses; NULL or "" chooses all
 * but lo, docker* and virbr*. The pattern is a comma-separated list: NAME or =NAME, PREFIX*, an
 * address, ADDRESS/BITS; a "!" before an item excludes it. Without an item that adds, the default
 * set is added. dfcclInProgress, without a sentence: the pattern chooses only interfaces that are
 * not ready, and *interfaces is valid. dfcclInvalidUsage: an item is malformed, or the pattern
 * chooses no interface; the sentence names the existing interfaces. dfcclSystemError. */
dfcclResult_t df_interfaces_find(df_interfaces *interfaces, const char *pattern);

/* Does the same, but waits until until_ns for an interface that is not ready. A warning names it.
 * dfcclTimeout: it did not become ready. */
dfcclResult_t df_interfaces_await(df_interfaces *interfaces, const char *pattern,
                                  uint64_t until_ns);

/* Writes the addresses of the chosen interfaces, link-local ones last, at most `most`. Returns
 * their number. */
int df_interfaces_offer(const df_interfaces *interfaces, df_address *addresses, int most);

/* Returns whether the address belongs to this host. */
bool df_interfaces_have(const df_interfaces *interfaces, const df_address *address);

/* Returns whether the address is in the network of the interface, so that no router is between. */
bool df_interface_reaches(const df_interface *interface, const df_address *address);

/* Writes "lo (127.0.0.1, ::1), rail0 (10.77.0.1)". */
void df_interfaces_text(const df_interfaces *interfaces, char *text, size_t bytes);

/* Identities of a host, never 0. Processes with the same df_machine_identity share a boot and a
 * network namespace, so they reach each other at the loopback address. Processes with the same
 * df_host_identity also share an IPC namespace, so they can share memory. */
uint64_t df_machine_identity(void);
uint64_t df_host_identity(void);

#endif
