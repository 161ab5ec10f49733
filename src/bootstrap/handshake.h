/*
 * What travels during the rendezvous, and how it is authenticated.
 *
 *   rank -> root   HELLO      a nonce
 *   root -> rank   CHALLENGE  a nonce, and the proof that the root knows the secret
 *   rank -> root   JOIN       number of ranks, rank, card, where it listens
 *   root -> rank   WELCOME    the rank is counted in (until then it may try again)
 *   root -> rank   TABLE      when all are there: every rank's record
 *   rank -> root   DONE       its sockets to all others stand
 *   root -> rank   GO         everybody's sockets stand
 *   root -> rank   FAILURE    at any time after JOIN: the job is off, and why
 *   rank -> root   LEAVE      at any time after WELCOME: this rank gives up, and why
 *
 *   rank j -> lower rank i   GREETING   who it is, a nonce
 *   rank i -> rank j         ANSWER     a nonce, and the proof
 *   rank j -> rank i         PROOF      the other proof
 *
 * From CHALLENGE (ANSWER) on, each message ends in a keyed hash (BLAKE2b) over all its bytes, under
 * a key derived from the secret and both sides' nonces: it can be neither forged nor replayed, and
 * its type, which it covers, keeps it from being sent back to its author. All ranks are on one host
 * and of one version (the header says which), so integers travel as they are in memory.
 */
#ifndef DF_BOOTSTRAP_HANDSHAKE_H
#define DF_BOOTSTRAP_HANDSHAKE_H

#include <stdbool.h>

#include "bootstrap/mesh_types.h"

enum {
  DF_SECRET_BYTES = 16,
  DF_KEY_BYTES = 32,
  DF_NONCE_BYTES = 32,
  DF_MAC_BYTES = 32,
  DF_TOKEN_BYTES = 16, /* a process, see process.h */
  DF_NAME_BYTES = 16,  /* an abstract Unix address, see sockets.h */
  DF_SESSION_BYTES = 16,
  DF_REASON_BYTES = 444
};

typedef enum {
  DF_MESSAGE_HELLO = 1,
  DF_MESSAGE_CHALLENGE,
  DF_MESSAGE_JOIN,
  DF_MESSAGE_WELCOME,
  DF_MESSAGE_TABLE,
  DF_MESSAGE_DONE,
  DF_MESSAGE_GO,
  DF_MESSAGE_FAILURE,
  DF_MESSAGE_LEAVE,
  DF_MESSAGE_GREETING,
  DF_MESSAGE_ANSWER,
  DF_MESSAGE_PROOF
} df_message_type;

/* The start of every message. */
typedef struct {
  uint32_t magic;
  uint32_t version; /* DFCCL_VERSION_CODE: cards are opaque, so every rank runs the same version */
  uint32_t type;
  uint32_t bytes; /* of the whole message, this header included */
} df_header;

typedef struct {
  df_header header;
  unsigned char nonce[DF_NONCE_BYTES];
} df_hello;

typedef struct {
  df_header header;
  unsigned char nonce[DF_NONCE_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_challenge;

/* One rank, as all others get to know it. */
typedef struct {
  int32_t pid; /* for sentences only */
  unsigned char token[DF_TOKEN_BYTES];
  unsigned char name[DF_NAME_BYTES]; /* where it listens for higher ranks */
  df_card card;
} df_record;

typedef struct {
  df_header header;
  int32_t n_ranks;
  int32_t rank;
  uint32_t timeout_ms; /* the rank's limit */
  uint32_t left_ms;    /* of it */
  df_record record;
  unsigned char mac[DF_MAC_BYTES];
} df_join_request;

/* WELCOME, DONE, GO, PROOF: the type says it all. */
typedef struct {
  df_header header;
  unsigned char mac[DF_MAC_BYTES];
} df_signal;

/* FAILURE, LEAVE */
typedef struct {
  df_header header;
  uint32_t code;
  char reason[DF_REASON_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_refusal;

/* Followed by n_ranks df_record, of which digest is the hash: hashed once, sent to all. */
typedef struct {
  df_header header;
  unsigned char session[DF_SESSION_BYTES];
  unsigned char digest[DF_MAC_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_table;

typedef struct {
  df_header header;
  int32_t from, to;
  unsigned char nonce[DF_NONCE_BYTES];
} df_greeting;

typedef struct {
  df_header header;
  unsigned char nonce[DF_NONCE_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_answer;

DF_STATIC_ASSERT(sizeof(df_header) == 16, "the header has no padding");
DF_STATIC_ASSERT(sizeof(df_hello) == 48, "HELLO has no padding");
DF_STATIC_ASSERT(sizeof(df_challenge) == 80, "CHALLENGE has no padding");
DF_STATIC_ASSERT(sizeof(df_record) == 292, "a record has no padding");
DF_STATIC_ASSERT(sizeof(df_join_request) == 356, "JOIN has no padding");
DF_STATIC_ASSERT(sizeof(df_signal) == 48, "signals have no padding");
DF_STATIC_ASSERT(sizeof(df_refusal) == 496, "FAILURE and LEAVE have no padding");
DF_STATIC_ASSERT(sizeof(df_table) == 96, "TABLE has no padding");
DF_STATIC_ASSERT(sizeof(df_greeting) == 56, "GREETING has no padding");
DF_STATIC_ASSERT(sizeof(df_answer) == 80, "ANSWER has no padding");

/* The largest message that a rank sends the root, and the other way round (the records apart). */
enum { DF_MESSAGE_BYTES_MAX = sizeof(df_refusal) };

/* Prepares the library that does the hashing. Call before anything below; any thread, cheap.
 * Errors: dfcclSystemError. */
dfcclResult_t df_handshake_ready(void);

/* Zeroes a message of bytes bytes and fills its header. */
void df_message_start(void *message, df_message_type type, size_t bytes);

/* Whether a header is of this protocol and version, of that type and length. */
bool df_header_is(const df_header *header, df_message_type type, size_t bytes);

/* Whether a header is of this protocol, but sent by another version of the library. */
bool df_header_is_foreign(const df_header *header);

/* Writes the hash of a finished message into its last DF_MAC_BYTES. */
void df_message_seal(void *message, size_t bytes, const unsigned char key[DF_KEY_BYTES]);

/* Whether the last DF_MAC_BYTES are that hash; takes the same time wherever they differ. */
bool df_message_verify(const void *message, size_t bytes, const unsigned char key[DF_KEY_BYTES]);

/* A sealed FAILURE or LEAVE; reason is cut to DF_REASON_BYTES - 1. */
void df_refusal_write(df_refusal *refusal, df_message_type type, dfcclResult_t code,
                      const char *reason, const unsigned char key[DF_KEY_BYTES]);

/* Records a verified FAILURE or LEAVE as this thread's failure (df_fail) and returns its code, one
 * of the public ones other than success. who: put before the sentence; may be "". */
dfcclResult_t df_refusal_read(const df_refusal *refusal, const char *who);

/* out = hash of purpose, a and b under key: the one way keys and identities are made of others. */
void df_derive(unsigned char *out, size_t out_bytes, const unsigned char key[DF_KEY_BYTES],
               const char *purpose, const void *a, size_t a_bytes, const void *b, size_t b_bytes);

/* The job's key from the secret of an id, or from a launcher's key of this user. */
void df_key_from_secret(unsigned char key[DF_KEY_BYTES],
                        const unsigned char secret[DF_SECRET_BYTES]);
void df_key_from_text(unsigned char key[DF_KEY_BYTES], const char *text, uint32_t user);

/* How long after its limit of timeout_ms a rank still waits for the root's reason. */
static inline uint32_t df_news_ms(int timeout_ms) {
  return DF_MIN((uint32_t)timeout_ms / 4, 2000u);
}

/* The unique id: writes port and secret into it, and reads them back. Errors of the latter:
 * dfcclInvalidArgument (not an id, or damaged), dfcclInvalidUsage (of another version). */
void df_id_write(dfcclUniqueId *id, uint16_t port, const unsigned char secret[DF_SECRET_BYTES]);
dfcclResult_t df_id_read(const dfcclUniqueId *id, uint16_t *port,
                         unsigned char secret[DF_SECRET_BYTES]);

#endif
