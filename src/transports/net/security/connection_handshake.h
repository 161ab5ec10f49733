/*
 * The ends of a connection prove who they are (bootstrap/rendezvous/handshake.h). The listener's key for this
 * peer came in an offer, through control's connection, which nobody else reads.
 *
 *   caller   -> listener   GREETING   who it is, a nonce
 *   listener -> caller     ANSWER     a nonce, and the proof
 *   caller   -> listener   PROOF      the other proof; frames follow
 *
 * If frames will be sealed, the nonces are X25519 keys, drawn for this connection: who learns all
 * other keys later still cannot read what went over it.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_CONNECTION_HANDSHAKE_H
#define DF_TRANSPORTS_NET_SECURITY_CONNECTION_HANDSHAKE_H

#include "bootstrap/rendezvous/handshake.h"
#include "transports/net/stream/stream.h"

/* The port of control's line (control_reconnect.h), whose key the mesh has made. */
#define DF_HANDSHAKE_CONTROL_PORT UINT32_MAX

typedef struct df_connection_greeting {
  df_header header;
  int32_t from, to;
  uint32_t port, number;
  unsigned char nonce[DF_NONCE_BYTES];
} df_connection_greeting;
DF_STATIC_ASSERT(sizeof(df_connection_greeting) == 64, "GREETING has no padding");

typedef enum {
  DF_HANDSHAKE_REFUSED = -1,
  DF_HANDSHAKE_PENDING,
  DF_HANDSHAKE_DONE
} df_connection_handshake_state;

typedef struct df_connection_handshake {
  df_stream *stream;
  uint32_t rank, peer; /* listener: peer is a claim until it stands */
  uint32_t port;       /* of the peer's pump; as peer */
  uint32_t number;     /* of the caller's calls of this port: an old one comes too late; as peer */
  int calls;           /* this end is the caller */
  int is_proven;       /* the other end has proven itself */
  const df_remote_rank *remote; /* listener: of those who may have a line; NULL: nobody has */
  int makes_keys;               /* the nonces are keys */
  unsigned char nonce[DF_NONCE_BYTES], other_nonce[DF_NONCE_BYTES];
  unsigned char secret[DF_KEY_BYTES]; /* whose public key is the nonce */
  unsigned char key[DF_KEY_BYTES];    /* as offered; later the connection's */
  uint8_t in[sizeof(df_answer)], out[sizeof(df_answer)];
  uint32_t in_have, out_at, out_end;
} df_connection_handshake;

/* key: the listener's for this peer. makes_keys: both ends do, or neither. */
void df_connection_handshake_call(df_connection_handshake *handshake, df_stream *stream,
                                  uint32_t rank, uint32_t peer, uint32_t port, uint32_t number,
                                  const unsigned char key[DF_KEY_BYTES], int makes_keys);
/* secret: makes each peer's key (df_connection_handshake_key). */
void df_connection_handshake_listen(df_connection_handshake *handshake, df_stream *stream,
                                    uint32_t rank, const unsigned char secret[DF_KEY_BYTES],
                                    int makes_keys);
/* The key for a line, both ends'. */
void df_connection_handshake_channel_key(unsigned char key[DF_KEY_BYTES],
                                         const df_remote_rank *remote);
void df_connection_handshake_key(unsigned char key[DF_KEY_BYTES],
                                 const unsigned char secret[DF_KEY_BYTES], uint32_t peer);

/* Goes as far as the stream lets it. Reads nothing after the greeting. */
df_connection_handshake_state df_connection_handshake_progress(df_connection_handshake *handshake,
                                                               uint32_t n_ranks);
/* Of a connection that stands: equal at both ends, and nobody else can work it out. dfcclRemoteError:
 * the other end's key is a senseless point. */
dfcclResult_t df_connection_handshake_traffic_key(const df_connection_handshake *handshake,
                                                  unsigned char key[DF_KEY_BYTES]);

#endif
