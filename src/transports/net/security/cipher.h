/*
 * Encrypts the records of one direction of a connection with one key. A record is a length of 4
 * bytes (little-endian), the length's check of 8 bytes, that many bytes, and a tag of 16 bytes. The
 * record's number is the nonce, so a record that was changed, lost, repeated or reordered does not
 * decrypt. The check has a key of its own. The key of the rest changes after rekey_every records,
 * because a key of AES-GCM should not encrypt more.
 *
 * The ciphers are AES-256-GCM, and ChaCha20-Poly1305 for processors without AES. If only integrity
 * is requested, the record is their additional data and stays readable. libsodium encrypts short
 * records; OpenSSL, if the library was built with it, is two to three times as fast with long ones.
 * Both produce the same bytes.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_CIPHER_H
#define DF_TRANSPORTS_NET_SECURITY_CIPHER_H

#include <sodium.h>
#include <stdint.h>

#include "base/result.h"
#include "bootstrap/net/listeners.h"
#include "bootstrap/rendezvous/handshake.h"

enum { DF_RECORD_MOST = 64 << 10, DF_RECORD_LENGTH = 4, DF_RECORD_TAG = 16 };
enum { DF_RECORD_HEAD = DF_RECORD_LENGTH + DF_HEAD_CHECK_BYTES };
enum { DF_RECORD_MORE = DF_RECORD_HEAD + DF_RECORD_TAG };
DF_STATIC_ASSERT(DF_RECORD_LENGTH == sizeof(uint32_t), "the length is a number");

typedef enum { DF_CIPHER_AES, DF_CIPHER_CHACHA } df_cipher_kind;

typedef struct df_cipher {
  crypto_aead_aes256gcm_state aes;
  df_cipher_kind kind;
  int hides; /* 1: encrypts; 0: integrity alone */
  int seals; /* 1: encrypts; 0: decrypts */
  uint64_t number, rekey_every;
  unsigned char key[DF_KEY_BYTES], head_key[DF_HEAD_KEY_BYTES];
  void *fast; /* the context of OpenSSL; NULL: none */
} df_cipher;

/* Returns 1 if this processor has AES instructions. libsodium must be initialized. */
int df_cipher_has_aes(void);

void df_cipher_begin(df_cipher *cipher, df_cipher_kind kind, int hides, int seals,
                     const unsigned char key[DF_KEY_BYTES]);
void df_cipher_end(df_cipher *cipher);

/* Makes the next record: bytes + DF_RECORD_MORE bytes at record. plain may be record +
 * DF_RECORD_HEAD. */
void df_cipher_seal(df_cipher *cipher, uint8_t *record, const void *plain, uint32_t bytes);
/* Reads the length of the next record from its first DF_RECORD_HEAD bytes. Returns 0 if they are
 * not its head. */
int df_cipher_read_head(const df_cipher *cipher, const uint8_t *record, uint32_t *bytes);
/* Returns 0 if it is not the next record; the output is then meaningless. plain may be record +
 * DF_RECORD_HEAD. */
int df_cipher_open(df_cipher *cipher, const uint8_t *record, uint32_t bytes, void *plain);

#endif
