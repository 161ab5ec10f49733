/*
 * A TLS 1.3 stream on top of another stream (DFCCL_NET_SECURITY=tls, OpenSSL). Both ends present
 * certificates of one authority. Then both send a proof that derives from the TLS session and from
 * the key of the connection, so that an attacker who has a certificate but not the secret of the
 * job cannot intercept the connection. Names are not compared, because the secret identifies the
 * job.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_TLS_H
#define DF_TRANSPORTS_NET_SECURITY_TLS_H

#include "base/result.h"
#include "bootstrap/net/listeners.h"
#include "transports/net/stream/stream.h"

typedef struct df_tls df_tls; /* certificate, key and authority of a rank */

/* Fails with dfcclInvalidUsage, which names the variable, the file and the fault, or
 * dfcclOutOfMemory. */
dfcclResult_t df_tls_make(df_tls **tls, const df_tls_files *files);
/* tls may be NULL. No stream of it may be open. */
void df_tls_free(df_tls *tls);

/* key: the key of the connection, the same at both ends. Fails with dfcclOutOfMemory. */
dfcclResult_t df_tls_open(df_stream **stream, df_tls *tls, df_stream *below,
                          const unsigned char key[DF_KEY_BYTES], int calls);

#endif
