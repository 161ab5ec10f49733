/*
 * A TLS 1.3 stream upon another stream (DFCCL_NET_SECURITY=tls, OpenSSL). Both ends show
 * certificates of one authority. Then both send a proof that is made of the TLS session and of the
 * connection's key: who has a certificate and not the job's secret cannot stand between them. No name
 * is compared: the secret says which job it is.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_TLS_H
#define DF_TRANSPORTS_NET_SECURITY_TLS_H

#include "base/result.h"
#include "bootstrap/net/listeners.h"
#include "transports/net/stream/stream.h"

typedef struct df_tls df_tls; /* a rank's certificate, key and authority */

/* dfcclInvalidUsage names the variable, the file and what is wrong with it. dfcclOutOfMemory. */
dfcclResult_t df_tls_make(df_tls **tls, const df_tls_files *files);
/* Also of NULL. No stream of it is open. */
void df_tls_free(df_tls *tls);

/* key: of the connection, which both ends have. dfcclOutOfMemory. */
dfcclResult_t df_tls_open(df_stream **stream, df_tls *tls, df_stream *below,
                          const unsigned char key[DF_KEY_BYTES], int calls);

#endif
