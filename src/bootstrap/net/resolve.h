/* Names of other hosts. The own name is never looked up: it may lead to a loopback address. */
#ifndef DF_BOOTSTRAP_NET_RESOLVE_H
#define DF_BOOTSTRAP_NET_RESOLVE_H

#include "base/result.h"
#include "bootstrap/net/address.h"

/* An address in numbers, or a name; ports are 0. The system's resolver keeps no deadline, so a
 * thread asks, which ends later if the deadline passes. *n: how many, at most `most`.
 * dfcclInProgress: the resolver has no answer yet, ask again. dfcclTimeout, dfcclInvalidUsage (no
 * such host), dfcclOutOfMemory, dfcclSystemError. */
dfcclResult_t df_resolve(const char *host, uint64_t deadline_ns, df_address *addresses, int most,
                         int *n);

#endif
