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
#define DF_GREETING_LINE UINT32_MAX

typedef struct df_wire_greeting {
  df_header header;
  int32_t from, to;
  uint32_t port, number;
  unsigned char nonce[DF_NONCE_BYTES];
} df_wire_greeting;
DF_STATIC_ASSERT(sizeof(df_wire_greeting) == 64, "GREETING has no padding");

typedef enum {
  DF_GREETING_REFUSED = -1,
  DF_GREETING_GOES_ON,
  DF_GREETING_STANDS
} df_greeting_state;

typedef struct df_greeter {
  df_stream *stream;
  uint32_t rank, peer; /* listener: peer is a claim until it stands */
  uint32_t port;       /* of the peer's wire; as peer */
  uint32_t number;     /* of the caller's calls of this port: an old one comes too late; as peer */
  int calls;           /* this end is the caller */
  int is_proven;       /* the other end has proven itself */
  const df_far_rank *far; /* listener: of those who may have a line; NULL: nobody has */
  int makes_keys;         /* the nonces are keys */
  unsigned char nonce[DF_NONCE_BYTES], other_nonce[DF_NONCE_BYTES];
  unsigned char secret[DF_KEY_BYTES]; /* whose public key is the nonce */
  unsigned char key[DF_KEY_BYTES];    /* as offered; later the connection's */
  uint8_t in[sizeof(df_answer)], out[sizeof(df_answer)];
  uint32_t in_have, out_at, out_end;
} df_greeter;

/* key: the listener's for this peer. makes_keys: both ends do, or neither. */
void df_greeting_call(df_greeter *greeter, df_stream *stream, uint32_t rank, uint32_t peer,
                      uint32_t port, uint32_t number, const unsigned char key[DF_KEY_BYTES],
                      int makes_keys);
/* secret: makes each peer's key (df_greeting_key). */
void df_greeting_listen(df_greeter *greeter, df_stream *stream, uint32_t rank,
                        const unsigned char secret[DF_KEY_BYTES], int makes_keys);
/* The key for a line, both ends'. */
void df_greeting_line_key(unsigned char key[DF_KEY_BYTES], const df_far_rank *far);
void df_greeting_key(unsigned char key[DF_KEY_BYTES], const unsigned char secret[DF_KEY_BYTES],
                     uint32_t peer);

/* Goes as far as the stream lets it. Reads nothing after the greeting. */
df_greeting_state df_greeting_progress(df_greeter *greeter, uint32_t n_ranks);
/* Of a connection that stands: equal at both ends, and nobody else can work it out. dfcclRemoteError:
 * the other end's key is a senseless point. */
dfcclResult_t df_greeting_traffic_key(const df_greeter *greeter, unsigned char key[DF_KEY_BYTES]);

#endif
