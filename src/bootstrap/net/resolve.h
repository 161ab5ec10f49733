/* Look-up of the names of other hosts. The own name is never looked up, because it may lead to a
 * loopback address. */
#ifndef DF_BOOTSTRAP_NET_RESOLVE_H
#define DF_BOOTSTRAP_NET_RESOLVE_H

#include "base/result.h"
#include "bootstrap/net/address.h"

/* host is a numeric address or a name; the ports of the result are 0. The resolver of the system
 * observes no deadline, so a thread calls it; if the deadline passes, the thread ends later. *n
 * becomes the number of addresses, at most `most`. dfcclInProgress: the resolver has no answer
 * yet, call again. dfcclTimeout, dfcclInvalidUsage (no such host), dfcclOutOfMemory,
 * dfcclSystemError. */
dfcclResult_t df_resolve(const char *host, uint64_t deadline_ns, df_address *addresses, int most,
                         int *n);

#endif
