#include "transports/net/security/connection_handshake.h"

#include <sodium.h>
#include <string.h>

static void begin(df_greeter *greeter, df_stream *stream, uint32_t rank,
                  const unsigned char key[DF_KEY_BYTES], int makes_keys) {
  memset(greeter, 0, sizeof *greeter);
  greeter->stream = stream;
  greeter->rank = rank;
  greeter->makes_keys = makes_keys;
  memcpy(greeter->key, key, sizeof greeter->key);
  if (!makes_keys) randombytes_buf(greeter->nonce, sizeof greeter->nonce);
}

/* When a nonce is needed: a caller who says nothing costs no arithmetic. */
static void draw_keys(df_greeter *greeter) {
  if (!greeter->makes_keys) return;
  randombytes_buf(greeter->secret, sizeof greeter->secret);
  crypto_scalarmult_base(greeter->nonce, greeter->secret);
}

static void put(df_greeter *greeter, const void *message, uint32_t bytes) {
  memcpy(greeter->out, message, bytes);
  greeter->out_at = 0;
  greeter->out_end = bytes;
}

void df_greeting_call(df_greeter *greeter, df_stream *stream, uint32_t rank, uint32_t peer,
                      uint32_t port, uint32_t number, const unsigned char key[DF_KEY_BYTES],
                      int makes_keys) {
  begin(greeter, stream, rank, key, makes_keys);
  draw_keys(greeter);
  greeter->calls = 1;
  greeter->peer = peer;
  greeter->port = port;
  greeter->number = number;
  df_wire_greeting greeting;
  df_message_start(&greeting, DF_MESSAGE_GREETING, sizeof greeting);
  greeting.from = (int32_t)rank;
  greeting.to = (int32_t)peer;
  greeting.port = port;
  greeting.number = number;
  memcpy(greeting.nonce, greeter->nonce, sizeof greeting.nonce);
  put(greeter, &greeting, sizeof greeting);
}

void df_greeting_listen(df_greeter *greeter, df_stream *stream, uint32_t rank,
                        const unsigned char secret[DF_KEY_BYTES], int makes_keys) {
  begin(greeter, stream, rank, secret, makes_keys);
}

void df_greeting_key(unsigned char key[DF_KEY_BYTES], const unsigned char secret[DF_KEY_BYTES],
                     uint32_t peer) {
  df_derive(key, DF_KEY_BYTES, secret, "dfccl wire to a peer", &peer, sizeof peer, NULL, 0);
}

void df_greeting_line_key(unsigned char key[DF_KEY_BYTES], const df_far_rank *far) {
  df_derive(key, DF_KEY_BYTES, far->key, "dfccl line again", NULL, 0, NULL, 0);
}

/* From the peer's key and both nonces. */
static void derive(df_greeter *greeter, const unsigned char key[DF_KEY_BYTES],
                   const unsigned char *caller, const unsigned char *listener) {
  const uint32_t who[4] = {greeter->calls ? greeter->rank : greeter->peer,
                           greeter->calls ? greeter->peer : greeter->rank, greeter->port,
                           greeter->number};
  unsigned char nonces[2 * DF_NONCE_BYTES], derived[DF_KEY_BYTES];
  memcpy(nonces, caller, DF_NONCE_BYTES);
  memcpy(nonces + DF_NONCE_BYTES, listener, DF_NONCE_BYTES);
  df_derive(derived, sizeof derived, key, "dfccl wire", who, sizeof who, nonces, sizeof nonces);
  memcpy(greeter->key, derived, sizeof greeter->key);
}

static df_greeting_state receive(df_greeter *greeter, df_message_type type, uint32_t bytes) {
  while (greeter->in_have < bytes) {
    const df_stream_room room = {greeter->in + greeter->in_have, bytes - greeter->in_have};
    int64_t came = greeter->stream->read(greeter->stream, &room, 1);
    if (came == DF_STREAM_ENDED) return DF_GREETING_REFUSED;
    if (came == 0) return DF_GREETING_GOES_ON;
    greeter->in_have += (uint32_t)came;
  }
  greeter->in_have = 0;
  df_header header;
  memcpy(&header, greeter->in, sizeof header);
  return df_header_is(&header, type, bytes) ? DF_GREETING_STANDS : DF_GREETING_REFUSED;
}

static df_greeting_state hear_greeting(df_greeter *greeter, uint32_t n_ranks) {
  df_wire_greeting greeting;
  df_greeting_state state = receive(greeter, DF_MESSAGE_GREETING, sizeof greeting);
  if (state != DF_GREETING_STANDS) return state;
  memcpy(&greeting, greeter->in, sizeof greeting);
  if (greeting.to != (int32_t)greeter->rank || greeting.from < 0 ||
      (uint32_t)greeting.from >= n_ranks || greeting.from == greeting.to)
    return DF_GREETING_REFUSED;
  greeter->peer = (uint32_t)greeting.from;
  greeter->port = greeting.port;
  greeter->number = greeting.number;
  unsigned char key[DF_KEY_BYTES];
  if (greeter->port == DF_GREETING_LINE) {
    const df_far_rank *far = greeter->far ? &greeter->far[greeter->peer] : NULL;
    if (far == NULL || !far->has_line) return DF_GREETING_REFUSED;
    greeter->makes_keys = 1;
    df_greeting_line_key(key, far);
  } else
    df_greeting_key(key, greeter->key, greeter->peer);
  draw_keys(greeter);
  memcpy(greeter->other_nonce, greeting.nonce, sizeof greeting.nonce);
  derive(greeter, key, greeting.nonce, greeter->nonce);
  df_answer answer;
  df_message_start(&answer, DF_MESSAGE_ANSWER, sizeof answer);
  memcpy(answer.nonce, greeter->nonce, sizeof answer.nonce);
  df_message_seal(&answer, sizeof answer, greeter->key);
  put(greeter, &answer, sizeof answer);
  return DF_GREETING_GOES_ON;
}

static df_greeting_state hear_answer(df_greeter *greeter) {
  df_answer answer;
  df_greeting_state state = receive(greeter, DF_MESSAGE_ANSWER, sizeof answer);
  if (state != DF_GREETING_STANDS) return state;
  memcpy(&answer, greeter->in, sizeof answer);
  memcpy(greeter->other_nonce, answer.nonce, sizeof answer.nonce);
  derive(greeter, greeter->key, greeter->nonce, answer.nonce);
  if (!df_message_verify(&answer, sizeof answer, greeter->key)) return DF_GREETING_REFUSED;
  greeter->is_proven = 1;
  df_signal proof;
  df_message_start(&proof, DF_MESSAGE_PROOF, sizeof proof);
  df_message_seal(&proof, sizeof proof, greeter->key);
  put(greeter, &proof, sizeof proof);
  return DF_GREETING_GOES_ON;
}

static df_greeting_state hear_proof(df_greeter *greeter) {
  df_greeting_state state = receive(greeter, DF_MESSAGE_PROOF, sizeof(df_signal));
  if (state != DF_GREETING_STANDS) return state;
  if (!df_message_verify(greeter->in, sizeof(df_signal), greeter->key)) return DF_GREETING_REFUSED;
  greeter->is_proven = 1;
  return DF_GREETING_STANDS;
}

static df_greeting_state flush(df_greeter *greeter) {
  while (greeter->out_at < greeter->out_end) {
    df_stream_part part = {greeter->out + greeter->out_at, greeter->out_end - greeter->out_at};
    int64_t taken = greeter->stream->write(greeter->stream, &part, 1);
    if (taken == DF_STREAM_ENDED) return DF_GREETING_REFUSED;
    if (taken == 0) return DF_GREETING_GOES_ON;
    greeter->out_at += (uint32_t)taken;
  }
  return DF_GREETING_STANDS;
}

df_greeting_state df_greeting_progress(df_greeter *greeter, uint32_t n_ranks) {
  df_greeting_state state = flush(greeter);
  if (state != DF_GREETING_STANDS) return state;
  if (greeter->is_proven) return DF_GREETING_STANDS;
  const int has_answered = !greeter->calls && greeter->out_end != 0;
  if (has_answered) return hear_proof(greeter);
  state = greeter->calls ? hear_answer(greeter) : hear_greeting(greeter, n_ranks);
  if (state != DF_GREETING_GOES_ON || greeter->out_at == greeter->out_end) return state;
  return df_greeting_progress(greeter, n_ranks);
}

dfcclResult_t df_greeting_traffic_key(const df_greeter *greeter, unsigned char key[DF_KEY_BYTES]) {
  unsigned char shared[DF_KEY_BYTES];
  if (crypto_scalarmult(shared, greeter->secret, greeter->other_nonce) != 0)
    return df_fail(dfcclRemoteError, "rank %u sent a key that makes no sense", greeter->peer);
  df_derive(key, DF_KEY_BYTES, greeter->key, "dfccl wire traffic", shared, sizeof shared, NULL, 0);
  sodium_memzero(shared, sizeof shared);
  return dfcclSuccess;
}
