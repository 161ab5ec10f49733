/*
 * The protection of a connection after its ends have proven their identity: the level of
 * DFCCL_NET_SECURITY, as a stream between the pump and the stream of the network.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_PROTECTION_H
#define DF_TRANSPORTS_NET_SECURITY_PROTECTION_H

#include "bootstrap/net/security.h"
#include "transports/net/security/connection_handshake.h"
#include "transports/net/stream/stream.h"

typedef struct df_protection {
  df_security level;
  int all_have_aes;   /* the processors of all ranks have AES instructions */
  struct df_tls *tls; /* DF_SECURITY_TLS: certificate and key, owned by this structure */
} df_protection;

/* Returns 1 if the ends of a connection exchange keys in their handshake. */
static inline int df_protection_needs_keys(const df_protection *protection) {
  return protection->level != DF_SECURITY_AUTH && protection->level != DF_SECURITY_NONE;
}

/* Returns 0 if this library was built without TLS. */
int df_protection_has_tls(void);

/* files: for DF_SECURITY_TLS. Fails with dfcclInvalidUsage, which names the file. */
dfcclResult_t df_protection_make(df_protection *protection, df_security level, int all_have_aes,
                                 const df_tls_files *files);
void df_protection_free(df_protection *protection);

/* *stream: the stream for frames; it is `below` itself if the level leaves frames as they are. The
 * handshake must be done. Fails with dfcclOutOfMemory. */
dfcclResult_t df_protection_add(const df_protection *protection,
                                const df_connection_handshake *handshake, df_stream *below,
                                df_stream **stream);
/* Closes a stream that df_protection_add has made, but not the stream below. */
static inline void df_protection_remove(df_stream *stream) {
  if (stream->close) stream->close(stream);
}

#endif
