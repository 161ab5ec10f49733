/* Calls several addresses at one time and repeatedly, until one proves to be the root of the
 * job. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_PROBE_H
#define DF_BOOTSTRAP_RENDEZVOUS_PROBE_H

#include "base/text.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/net/interfaces.h"

enum { DF_PROBE_MAX = 64, DF_PROBE_TEXT = 400 };

/* A hint for silent addresses. */
#define DF_PROBE_FIREWALL                                                                          \
  "if a firewall drops the packets, open this port and those of DFCCL_NET_PORTS"

typedef struct df_probe_attempt {
  df_address address;
  uint32_t scope;
  int fd;
  bool is_asked; /* HELLO was sent */
  /* Error of the latest call; 0: no call yet, or the other end closed it without an answer. */
  int error;
  bool was_closed;    /* the program that listens there has closed the connection */
  uint64_t since_ns;  /* start of the call in progress; time of the next one if fd is -1 */
  uint64_t silent_ns; /* time since when the other end has sent nothing */
  unsigned char nonce[DF_NONCE_BYTES];
  df_challenge in;
  size_t in_used;
} df_probe_attempt;

typedef struct df_probe {
  unsigned char key[DF_KEY_BYTES], tag[DF_TAG_BYTES];
  int n;
  df_probe_attempt attempts[DF_PROBE_MAX];
} df_probe;

/* Adds an address. A link-local one is tried on each interface of this host. */
void df_probe_add(df_probe *probe, const df_address *address, const df_interfaces *interfaces);

/* Runs until until_ns at most. dfcclSuccess: *fd is connected to the root, with connection_key.
 * dfcclInProgress: no address has proven itself yet. dfcclRemoteError: a root of this job has
 * another secret. dfcclInvalidUsage: the root has another version. dfcclSystemError,
 * dfcclOutOfMemory. */
dfcclResult_t df_probe_step(df_probe *probe, uint64_t until_ns, int *fd,
                            unsigned char connection_key[DF_KEY_BYTES]);

/* Returns whether every address has refused the connection or has no route. */
bool df_probe_is_refused(const df_probe *probe);

/* Writes "10.77.0.1:5000 is silent for 5 s". Reads address, scope, silent_ns, was_closed and
 * error. */
void df_probe_attempt_describe(const df_probe_attempt *attempt, df_text *text);

/* Returns whether nothing comes back from the address. */
bool df_probe_is_silent(const df_probe_attempt *attempt);

/* Writes "10.77.0.1:5000 is silent for 5 s; [fd77::1]:5000 fails: Connection refused". Equal ports
 * of one host are described once, and DF_PROBE_FIREWALL is added if an address is silent. */
void df_probe_describe(const df_probe *probe, char text[DF_PROBE_TEXT]);

void df_probe_close(df_probe *probe);

#endif
