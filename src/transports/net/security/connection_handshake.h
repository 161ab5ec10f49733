/*
 * The ends of a connection prove their identity (bootstrap/rendezvous/handshake.h). The key of the
 * listener for this peer was sent in an offer over an encrypted control channel.
 *
 *   caller   -> listener   GREETING   its rank, a nonce
 *   listener -> caller     ANSWER     a nonce, and the proof
 *   caller   -> listener   PROOF      the other proof; frames follow
 *
 * If frames will be encrypted, the nonces are X25519 keys that were drawn for this connection. An
 * attacker who obtains all other keys later still cannot read what was sent over it.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_CONNECTION_HANDSHAKE_H
#define DF_TRANSPORTS_NET_SECURITY_CONNECTION_HANDSHAKE_H

#include "bootstrap/rendezvous/handshake.h"
#include "transports/net/stream/stream.h"

/* The port number for a control channel (control_reconnect.h), whose key the mesh has made. */
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
  uint32_t rank, peer; /* listener: an unproven claim until the handshake is done */
  uint32_t port;       /* port of the pump; unproven like peer */
  /* number of the call of this port, so that old calls are refused; unproven like peer */
  uint32_t number;
  int calls;                    /* this end is the caller */
  int is_proven;                /* the other end has proven its identity */
  const df_remote_rank *remote; /* listener: the ranks that may have a channel; NULL: none */
  int makes_keys;               /* the nonces are public keys */
  unsigned char nonce[DF_NONCE_BYTES], other_nonce[DF_NONCE_BYTES];
  unsigned char secret[DF_KEY_BYTES]; /* the private key of the nonce */
  unsigned char key[DF_KEY_BYTES];    /* the offered key; later the key of the connection */
  uint8_t in[sizeof(df_answer)], out[sizeof(df_answer)];
  uint32_t in_have, out_at, out_end;
} df_connection_handshake;

/* key: the key of the listener for this peer. makes_keys: the same at both ends. */
void df_connection_handshake_call(df_connection_handshake *handshake, df_stream *stream,
                                  uint32_t rank, uint32_t peer, uint32_t port, uint32_t number,
                                  const unsigned char key[DF_KEY_BYTES], int makes_keys);
/* secret: the key of each peer derives from it (df_connection_handshake_key). */
void df_connection_handshake_listen(df_connection_handshake *handshake, df_stream *stream,
                                    uint32_t rank, const unsigned char secret[DF_KEY_BYTES],
                                    int makes_keys);
/* Makes the key for the connection of a control channel; the same at both ends. */
void df_connection_handshake_channel_key(unsigned char key[DF_KEY_BYTES],
                                         const df_remote_rank *remote);
void df_connection_handshake_key(unsigned char key[DF_KEY_BYTES],
                                 const unsigned char secret[DF_KEY_BYTES], uint32_t peer);

/* Continues as far as the stream allows. Reads nothing after the handshake. */
df_connection_handshake_state df_connection_handshake_progress(df_connection_handshake *handshake,
                                                               uint32_t n_ranks);
/* Derives the key of the traffic after the handshake: equal at both ends, and nobody else can
 * compute it. dfcclRemoteError: the key of the other end is an invalid point. */
dfcclResult_t df_connection_handshake_traffic_key(const df_connection_handshake *handshake,
                                                  unsigned char key[DF_KEY_BYTES]);

#endif
