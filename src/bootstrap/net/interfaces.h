/* This host's network interfaces, and which of them a job may use (DFCCL_NET_INTERFACES). */
#ifndef DF_BOOTSTRAP_NET_INTERFACES_H
#define DF_BOOTSTRAP_NET_INTERFACES_H

#include "base/result.h"
#include "bootstrap/net/address.h"

enum { DF_INTERFACE_NAME = 16, DF_INTERFACES_MAX = 64 };

/* An interface with two addresses is two of these. */
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
} df_interfaces;

/* Those that are up, and which the pattern chooses; NULL or "": all but lo, docker* and virbr*.
 * The pattern is a list with commas: NAME or =NAME, PREFIX*, an address, ADDRESS/BITS; a "!" before
 * an item takes away. Without an item that adds, the default adds.
 * dfcclInvalidUsage: an item makes no sense, or the pattern chooses none; the sentence names the
 * interfaces that exist. dfcclSystemError. */
dfcclResult_t df_interfaces_find(df_interfaces *interfaces, const char *pattern);

/* Chosen ones, those of no link-local kind first; at most `most`. Returns how many. */
int df_interfaces_offer(const df_interfaces *interfaces, df_address *addresses, int most);

/* Is the address this host's own? */
bool df_interfaces_have(const df_interfaces *interfaces, const df_address *address);

/* Is the address in the interface's network, so that no router is between? */
bool df_interface_reaches(const df_interface *interface, const df_address *address);

/* "lo (127.0.0.1, ::1), rail0 (10.77.0.1)" */
void df_interfaces_text(const df_interfaces *interfaces, char *text, size_t bytes);

/* Tells hosts apart: by boot and network namespace (who is equal reaches the other by the loopback
 * address), and by IPC namespace too (who is equal shares memory). Never 0. */
uint64_t df_machine_identity(void);
uint64_t df_host_identity(void);

#endif
