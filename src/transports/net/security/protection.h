/*
 * What protects a connection after its ends have proven themselves: the level of
 * DFCCL_NET_SECURITY, as a stream between the pump and the network's stream.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_PROTECTION_H
#define DF_TRANSPORTS_NET_SECURITY_PROTECTION_H

#include "bootstrap/net/security.h"
#include "transports/net/security/connection_handshake.h"
#include "transports/net/stream/stream.h"

typedef struct df_shield {
  df_security level;
  int all_have_aes;   /* every rank's processor */
  struct df_tls *tls; /* DF_SECURITY_TLS: certificate and key; the shield's */
} df_shield;

/* The ends of a connection exchange keys when they greet each other. */
static inline int df_shield_needs_keys(const df_shield *shield) {
  return shield->level != DF_SECURITY_AUTH && shield->level != DF_SECURITY_NONE;
}

/* 0: this library was built without TLS. */
int df_shield_has_tls(void);

/* files: for DF_SECURITY_TLS. dfcclInvalidUsage names a file. */
dfcclResult_t df_shield_make(df_shield *shield, df_security level, int all_have_aes,
                             const df_tls_files *files);
void df_shield_free(df_shield *shield);

/* *stream: for frames; below itself if the level leaves them as they are. greeter: stands.
 * dfcclOutOfMemory. */
dfcclResult_t df_shield_raise(const df_shield *shield, const df_greeter *greeter, df_stream *below,
                              df_stream **stream);
/* What df_shield_raise has made. Not the stream below. */
static inline void df_shield_lower(df_stream *stream) {
  if (stream->close) stream->close(stream);
}

#endif
