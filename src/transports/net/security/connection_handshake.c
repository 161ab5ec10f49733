#include "transports/net/security/connection_handshake.h"

#include <sodium.h>
#include <string.h>

static void begin(df_connection_handshake *handshake, df_stream *stream, uint32_t rank,
                  const unsigned char key[DF_KEY_BYTES], int makes_keys) {
  memset(handshake, 0, sizeof *handshake);
  handshake->stream = stream;
  handshake->rank = rank;
  handshake->makes_keys = makes_keys;
  memcpy(handshake->key, key, sizeof handshake->key);
  if (!makes_keys) randombytes_buf(handshake->nonce, sizeof handshake->nonce);
}

/* Makes the nonce when it is needed, so that a caller that sends nothing costs no computation. */
static void draw_keys(df_connection_handshake *handshake) {
  if (!handshake->makes_keys) return;
  randombytes_buf(handshake->secret, sizeof handshake->secret);
  crypto_scalarmult_base(handshake->nonce, handshake->secret);
}

static void put(df_connection_handshake *handshake, const void *message, uint32_t bytes) {
  memcpy(handshake->out, message, bytes);
  handshake->out_at = 0;
  handshake->out_end = bytes;
}

void df_connection_handshake_call(df_connection_handshake *handshake, df_stream *stream,
                                  uint32_t rank, uint32_t peer, uint32_t port, uint32_t number,
                                  const unsigned char key[DF_KEY_BYTES], int makes_keys) {
  begin(handshake, stream, rank, key, makes_keys);
  draw_keys(handshake);
  handshake->calls = 1;
  handshake->peer = peer;
  handshake->port = port;
  handshake->number = number;
  df_connection_greeting greeting;
  df_message_start(&greeting, DF_MESSAGE_GREETING, sizeof greeting);
  greeting.from = (int32_t)rank;
  greeting.to = (int32_t)peer;
  greeting.port = port;
  greeting.number = number;
  memcpy(greeting.nonce, handshake->nonce, sizeof greeting.nonce);
  put(handshake, &greeting, sizeof greeting);
}

void df_connection_handshake_listen(df_connection_handshake *handshake, df_stream *stream,
                                    uint32_t rank, const unsigned char secret[DF_KEY_BYTES],
                                    int makes_keys) {
  begin(handshake, stream, rank, secret, makes_keys);
}

void df_connection_handshake_key(unsigned char key[DF_KEY_BYTES],
                                 const unsigned char secret[DF_KEY_BYTES], uint32_t peer) {
  df_derive(key, DF_KEY_BYTES, secret, "dfccl wire to a peer", &peer, sizeof peer, NULL, 0);
}

void df_connection_handshake_channel_key(unsigned char key[DF_KEY_BYTES],
                                         const df_remote_rank *remote) {
  df_derive(key, DF_KEY_BYTES, remote->key, "dfccl line again", NULL, 0, NULL, 0);
}

/* Derives from the key of the peer and both nonces. */
static void derive(df_connection_handshake *handshake, const unsigned char key[DF_KEY_BYTES],
                   const unsigned char *caller, const unsigned char *listener) {
  const uint32_t who[4] = {handshake->calls ? handshake->rank : handshake->peer,
                           handshake->calls ? handshake->peer : handshake->rank, handshake->port,
                           handshake->number};
  unsigned char nonces[2 * DF_NONCE_BYTES], derived[DF_KEY_BYTES];
  memcpy(nonces, caller, DF_NONCE_BYTES);
  memcpy(nonces + DF_NONCE_BYTES, listener, DF_NONCE_BYTES);
  df_derive(derived, sizeof derived, key, "dfccl wire", who, sizeof who, nonces, sizeof nonces);
  memcpy(handshake->key, derived, sizeof handshake->key);
}

static df_connection_handshake_state receive(df_connection_handshake *handshake,
                                             df_message_type type, uint32_t bytes) {
  while (handshake->in_have < bytes) {
    const df_stream_room room = {handshake->in + handshake->in_have, bytes - handshake->in_have};
    int64_t came = handshake->stream->read(handshake->stream, &room, 1);
    if (came == DF_STREAM_ENDED) return DF_HANDSHAKE_REFUSED;
    if (came == 0) return DF_HANDSHAKE_PENDING;
    handshake->in_have += (uint32_t)came;
  }
  handshake->in_have = 0;
  df_header header;
  memcpy(&header, handshake->in, sizeof header);
  return df_header_is(&header, type, bytes) ? DF_HANDSHAKE_DONE : DF_HANDSHAKE_REFUSED;
}

static df_connection_handshake_state handle_greeting(df_connection_handshake *handshake,
                                                     uint32_t n_ranks) {
  df_connection_greeting greeting;
  df_connection_handshake_state state = receive(handshake, DF_MESSAGE_GREETING, sizeof greeting);
  if (state != DF_HANDSHAKE_DONE) return state;
  memcpy(&greeting, handshake->in, sizeof greeting);
  if (greeting.to != (int32_t)handshake->rank || greeting.from < 0 ||
      (uint32_t)greeting.from >= n_ranks || greeting.from == greeting.to)
    return DF_HANDSHAKE_REFUSED;
  handshake->peer = (uint32_t)greeting.from;
  handshake->port = greeting.port;
  handshake->number = greeting.number;
  unsigned char key[DF_KEY_BYTES];
  if (handshake->port == DF_HANDSHAKE_CONTROL_PORT) {
    const df_remote_rank *remote = handshake->remote ? &handshake->remote[handshake->peer] : NULL;
    if (remote == NULL || !remote->has_channel) return DF_HANDSHAKE_REFUSED;
    handshake->makes_keys = 1;
    df_connection_handshake_channel_key(key, remote);
  } else
    df_connection_handshake_key(key, handshake->key, handshake->peer);
  draw_keys(handshake);
  memcpy(handshake->other_nonce, greeting.nonce, sizeof greeting.nonce);
  derive(handshake, key, greeting.nonce, handshake->nonce);
  df_answer answer;
  df_message_start(&answer, DF_MESSAGE_ANSWER, sizeof answer);
  memcpy(answer.nonce, handshake->nonce, sizeof answer.nonce);
  df_message_seal(&answer, sizeof answer, handshake->key);
  put(handshake, &answer, sizeof answer);
  return DF_HANDSHAKE_PENDING;
}

static df_connection_handshake_state handle_answer(df_connection_handshake *handshake) {
  df_answer answer;
  df_connection_handshake_state state = receive(handshake, DF_MESSAGE_ANSWER, sizeof answer);
  if (state != DF_HANDSHAKE_DONE) return state;
  memcpy(&answer, handshake->in, sizeof answer);
  memcpy(handshake->other_nonce, answer.nonce, sizeof answer.nonce);
  derive(handshake, handshake->key, handshake->nonce, answer.nonce);
  if (!df_message_verify(&answer, sizeof answer, handshake->key)) return DF_HANDSHAKE_REFUSED;
  handshake->is_proven = 1;
  df_signal proof;
  df_message_start(&proof, DF_MESSAGE_PROOF, sizeof proof);
  df_message_seal(&proof, sizeof proof, handshake->key);
  put(handshake, &proof, sizeof proof);
  return DF_HANDSHAKE_PENDING;
}

static df_connection_handshake_state handle_proof(df_connection_handshake *handshake) {
  df_connection_handshake_state state = receive(handshake, DF_MESSAGE_PROOF, sizeof(df_signal));
  if (state != DF_HANDSHAKE_DONE) return state;
  if (!df_message_verify(handshake->in, sizeof(df_signal), handshake->key))
    return DF_HANDSHAKE_REFUSED;
  handshake->is_proven = 1;
  return DF_HANDSHAKE_DONE;
}

static df_connection_handshake_state flush(df_connection_handshake *handshake) {
  while (handshake->out_at < handshake->out_end) {
    df_stream_part part = {handshake->out + handshake->out_at,
                           handshake->out_end - handshake->out_at};
    int64_t taken = handshake->stream->write(handshake->stream, &part, 1);
    if (taken == DF_STREAM_ENDED) return DF_HANDSHAKE_REFUSED;
    if (taken == 0) return DF_HANDSHAKE_PENDING;
    handshake->out_at += (uint32_t)taken;
  }
  return DF_HANDSHAKE_DONE;
}

df_connection_handshake_state df_connection_handshake_progress(df_connection_handshake *handshake,
                                                               uint32_t n_ranks) {
  df_connection_handshake_state state = flush(handshake);
  if (state != DF_HANDSHAKE_DONE) return state;
  if (handshake->is_proven) return DF_HANDSHAKE_DONE;
  const int has_answered = !handshake->calls && handshake->out_end != 0;
  if (has_answered) return handle_proof(handshake);
  state = handshake->calls ? handle_answer(handshake) : handle_greeting(handshake, n_ranks);
  if (state != DF_HANDSHAKE_PENDING || handshake->out_at == handshake->out_end) return state;
  return df_connection_handshake_progress(handshake, n_ranks);
}

dfcclResult_t df_connection_handshake_traffic_key(const df_connection_handshake *handshake,
                                                  unsigned char key[DF_KEY_BYTES]) {
  unsigned char shared[DF_KEY_BYTES];
  if (crypto_scalarmult(shared, handshake->secret, handshake->other_nonce) != 0)
    return df_fail(dfcclRemoteError, "rank %u sent an invalid public key", handshake->peer);
  df_derive(key, DF_KEY_BYTES, handshake->key, "dfccl wire traffic", shared, sizeof shared, NULL,
            0);
  sodium_memzero(shared, sizeof shared);
  return dfcclSuccess;
}
