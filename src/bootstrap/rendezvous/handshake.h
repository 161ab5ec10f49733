/*
 * The messages of the rendezvous.
 *
 *   rank -> root   HELLO      the job (a tag), a nonce
 *   root -> rank   CHALLENGE  a nonce, proof of the secret
 *   rank -> root   JOIN       n_ranks, rank, peer info, address
 *   root -> rank   WELCOME    the rank is counted in (before, it may try again)
 *   root -> rank   SPREAD     the job is multi-node: the rank opens listeners
 *   rank -> root   PLACE      the addresses of the listeners
 *   root -> rank   NEWS       the ranks that are still missing
 *   root -> rank   TABLE      all records
 *   rank -> root   DONE       the sockets of the rank are connected
 *   root -> rank   GO         the sockets of all ranks are connected
 *   root -> rank   FAILURE    after JOIN: why the job has failed
 *   rank -> root   LEAVE      after WELCOME: why the rank gives up
 *
 *   rank j -> lower rank i   GREETING   ranks, a nonce
 *   rank i -> rank j         ANSWER     a nonce, proof
 *   rank j -> rank i         PROOF      proof
 *
 * From CHALLENGE (ANSWER) on, each message ends with a hash that is keyed by the secret and both
 * nonces, so that no other process can forge or replay it. The hash covers the type, so a message
 * cannot be reflected to its sender.
 */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_HANDSHAKE_H
#define DF_BOOTSTRAP_RENDEZVOUS_HANDSHAKE_H

#include <stdbool.h>

#include "bootstrap/net/address.h"
#include "bootstrap/net/mesh_types.h"

enum {
  DF_SECRET_BYTES = 16,
  DF_NONCE_BYTES = 32,
  DF_MAC_BYTES = 32,
  DF_TOKEN_BYTES = 16, /* the token of a process, see fork_guard.h */
  DF_NAME_BYTES = 16,  /* the name of an abstract Unix address, see sockets.h */
  DF_SESSION_BYTES = 16,
  DF_TAG_BYTES = 16,
  DF_ID_ADDRESSES_MAX = 3,
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
  DF_MESSAGE_PROOF,
  DF_MESSAGE_SPREAD,
  DF_MESSAGE_PLACE,
  DF_MESSAGE_NEWS,
  /* a process enters a running job (bootstrap/entry.h) */
  DF_MESSAGE_ENTRY_REQUEST,
  DF_MESSAGE_ENTRY_NOTED,
  DF_MESSAGE_ENTRY_TABLE,
  DF_MESSAGE_ENTRY_RECORDS,
  DF_MESSAGE_ENTRY_MEMBER
} df_message_type;

/* The version of everything that ranks send to each other: these messages, peer info, control
 * messages, frames. It is incremented with each change of them between two builds of one
 * version. */
enum { DF_PROTOCOL = 9 };

/* Ranks with different builds refuse each other. */
#define DF_BUILD ((uint32_t)DF_PROTOCOL << 24 | (uint32_t)DFCCL_VERSION_CODE)
#define DF_BUILD_VERSION(build) ((build)&0xffffffu)
#define DF_BUILD_PROTOCOL(build) ((build) >> 24)

typedef struct {
  uint32_t magic;
  uint32_t version; /* DF_BUILD */
  uint32_t type;
  uint32_t bytes;
} df_header;

/* The hash is keyed by the key of the job alone, so that a root sends its version only to a process
 * that has the key. */
typedef struct {
  df_header header;
  unsigned char tag[DF_TAG_BYTES]; /* distinguishes the jobs at one port; public */
  unsigned char nonce[DF_NONCE_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_hello;

typedef struct {
  df_header header;
  unsigned char nonce[DF_NONCE_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_challenge;

typedef struct {
  int32_t pid;
  int32_t n_addresses;  /* 0: this rank has no listeners */
  uint32_t relays_from; /* see df_network_settings; the value of rank 0 is used */
  uint32_t padding;
  uint64_t machine, host; /* df_machine_identity, df_host_identity */
  df_address addresses[DF_ADDRESSES_MAX];
  unsigned char token[DF_TOKEN_BYTES];
  unsigned char name[DF_NAME_BYTES]; /* higher ranks call this address */
  df_peer_info info;
} df_record;

typedef struct {
  df_header header;
  int32_t n_ranks;
  int32_t rank;
  uint32_t timeout_ms;
  uint32_t left_ms; /* the rest of the rank's timeout */
  df_record record;
  unsigned char mac[DF_MAC_BYTES];
} df_join_request;

typedef struct {
  df_header header;
  unsigned char mac[DF_MAC_BYTES];
} df_signal;

typedef struct {
  df_header header;
  int32_t n_addresses;
  uint32_t padding;
  df_address addresses[DF_ADDRESSES_MAX];
  unsigned char mac[DF_MAC_BYTES];
} df_place;

typedef struct {
  df_header header;
  uint32_t code;
  char reason[DF_REASON_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_refusal;

/* n_ranks of df_record follow; digest is their hash, which is the same for all ranks. */
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
} df_handshake_greeting;

typedef struct {
  df_header header;
  unsigned char nonce[DF_NONCE_BYTES];
  unsigned char mac[DF_MAC_BYTES];
} df_answer;

DF_STATIC_ASSERT(sizeof(df_header) == 16, "the header has no padding");
DF_STATIC_ASSERT(sizeof(df_hello) == 96, "HELLO has no padding");
DF_STATIC_ASSERT(sizeof(df_challenge) == 80, "CHALLENGE has no padding");
DF_STATIC_ASSERT(sizeof(df_record) == 464, "a record has no padding");
DF_STATIC_ASSERT(sizeof(df_join_request) == 528, "JOIN has no padding");
DF_STATIC_ASSERT(sizeof(df_signal) == 48, "signals have no padding");
DF_STATIC_ASSERT(sizeof(df_place) == 200, "PLACE has no padding");
DF_STATIC_ASSERT(sizeof(df_refusal) == 496, "FAILURE and LEAVE have no padding");
DF_STATIC_ASSERT(sizeof(df_table) == 96, "TABLE has no padding");
DF_STATIC_ASSERT(sizeof(df_handshake_greeting) == 56, "GREETING has no padding");
DF_STATIC_ASSERT(sizeof(df_answer) == 80, "ANSWER has no padding");

enum { DF_MESSAGE_BYTES_MAX = sizeof(df_join_request) };

/* Initialises the cryptography. Must precede every other call of this header; any thread, cheap. */
dfcclResult_t df_handshake_ready(void);

void df_message_start(void *message, df_message_type type, size_t bytes);

bool df_header_is(const df_header *header, df_message_type type, size_t bytes);

/* Returns whether the header is of this protocol, but of another version. */
bool df_header_is_foreign(const df_header *header);

/* Writes the hash into the last DF_MAC_BYTES of the message. */
void df_message_seal(void *message, size_t bytes, const unsigned char key[DF_KEY_BYTES]);

/* Checks the hash in constant time, wherever the hashes differ. */
bool df_message_verify(const void *message, size_t bytes, const unsigned char key[DF_KEY_BYTES]);

void df_refusal_write(df_refusal *refusal, df_message_type type, dfcclResult_t code,
                      const char *reason, const unsigned char key[DF_KEY_BYTES]);

/* Passes a verified message to df_fail and returns its code, which is never success. who is put
 * before the sentence. */
dfcclResult_t df_refusal_read(const df_refusal *refusal, const char *who);

/* Derives out as the hash of purpose, a and b under key. */
void df_derive(unsigned char *out, size_t out_bytes, const unsigned char key[DF_KEY_BYTES],
               const char *purpose, const void *a, size_t a_bytes, const void *b, size_t b_bytes);

/* The check of the head of an encrypted record. It shows a forged length before the bytes that the
 * length announces arrive, which may be never: a receiver that trusts the length would wait for
 * them, and swallow the records that follow. number: the record's number in its direction. */
enum { DF_HEAD_KEY_BYTES = 16, DF_HEAD_CHECK_BYTES = 8, DF_HEAD_BYTES_MAX = 16 };
void df_head_check(unsigned char check[DF_HEAD_CHECK_BYTES],
                   const unsigned char key[DF_HEAD_KEY_BYTES], uint64_t number, const void *head,
                   size_t bytes);

void df_key_from_secret(unsigned char key[DF_KEY_BYTES],
                        const unsigned char secret[DF_SECRET_BYTES]);
void df_key_from_text(unsigned char key[DF_KEY_BYTES], const char *text, uint32_t user);
/* Derives the key of a multi-node job. */
void df_key_from_text_and_secret(unsigned char key[DF_KEY_BYTES], const char *text,
                                 const unsigned char secret[DF_KEY_BYTES]);
void df_tag_from_text(unsigned char tag[DF_TAG_BYTES], const char *text);

#define DF_NEEDS_SECRET                                                                            \
  "beyond one host a job needs one: make it (openssl rand -hex 32), and give it to every rank in " \
  "DFCCL_SECRET, or in a file that DFCCL_SECRET_FILE names"

/* Arguments: process and user of a process of this host, "rank 0" or the like, and its user. */
#define DF_OTHER_USER                                                                              \
  "process %d of this host runs as user %u, %s as user %u; the ranks of a job that are on one "    \
  "host need the same user"

/* Returns how long after its limit a rank still waits for the reason from the root. */
static inline uint32_t df_news_ms(int timeout_ms) {
  return DF_MIN((uint32_t)timeout_ms / 4, 2000u);
}

typedef struct {
  uint16_t port; /* port of all listeners, unless an address has another one */
  unsigned char secret[DF_SECRET_BYTES];
  uint64_t machine; /* the machine of the root, on which ranks call the loopback address */
  df_address addresses[DF_ID_ADDRESSES_MAX]; /* family 0: none */
} df_id_content;

/* Errors of df_id_read: dfcclInvalidArgument (not an id, or damaged), dfcclInvalidUsage (another
 * version). */
void df_id_write(dfcclUniqueId *id, const df_id_content *content);
dfcclResult_t df_id_read(const dfcclUniqueId *id, df_id_content *content);

#endif
