/*
 * What protects a connection after its ends have proven themselves: the level of
 * DFCCL_NET_SECURITY, as a stream between the pump and the network's stream.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_PROTECTION_H
#define DF_TRANSPORTS_NET_SECURITY_PROTECTION_H

#include "bootstrap/net/security.h"
#include "transports/net/security/connection_handshake.h"
#include "transports/net/stream/stream.h"

typedef struct df_protection {
  df_security level;
  int all_have_aes;   /* every rank's processor */
  struct df_tls *tls; /* DF_SECURITY_TLS: certificate and key; the shield's */
} df_protection;

/* The ends of a connection exchange keys when they greet each other. */
static inline int df_protection_needs_keys(const df_protection *protection) {
  return protection->level != DF_SECURITY_AUTH && protection->level != DF_SECURITY_NONE;
}

/* 0: this library was built without TLS. */
int df_protection_has_tls(void);

/* files: for DF_SECURITY_TLS. dfcclInvalidUsage names a file. */
dfcclResult_t df_protection_make(df_protection *protection, df_security level, int all_have_aes,
                                 const df_tls_files *files);
void df_protection_free(df_protection *protection);

/* *stream: for frames; below itself if the level leaves them as they are. greeter: stands.
 * dfcclOutOfMemory. */
dfcclResult_t df_protection_add(const df_protection *protection,
                                const df_connection_handshake *handshake, df_stream *below,
                                df_stream **stream);
/* What df_protection_add has made. Not the stream below. */
static inline void df_protection_remove(df_stream *stream) {
  if (stream->close) stream->close(stream);
}

#endif
