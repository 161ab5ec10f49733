#include "transports/net/security/cipher.h"

#include <string.h>

#if defined(DF_WITH_TLS)
#include <openssl/evp.h>
#endif

#include "base/assert.h"
#include "base/attributes.h"
#include "bootstrap/rendezvous/handshake.h"

enum {
  NONCE = 12,
  FAST_MIN = 2048 /* libsodium is faster with shorter records */
};
#define REKEY_EVERY ((uint64_t)1 << 20)

DF_STATIC_ASSERT((int)crypto_aead_aes256gcm_NPUBBYTES == NONCE &&
                     (int)crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE,
                 "one nonce for both");
DF_STATIC_ASSERT((int)crypto_aead_aes256gcm_ABYTES == DF_RECORD_TAG &&
                     (int)crypto_aead_chacha20poly1305_ietf_ABYTES == DF_RECORD_TAG,
                 "one length of tags for both");
DF_STATIC_ASSERT((int)crypto_aead_aes256gcm_KEYBYTES == DF_KEY_BYTES &&
                     (int)crypto_aead_chacha20poly1305_ietf_KEYBYTES == DF_KEY_BYTES,
                 "one length of keys for both");

int df_cipher_has_aes(void) { return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available(); }

/* ---- OpenSSL */

#if defined(DF_WITH_TLS)
static int fast_key(df_cipher *c) {
  const EVP_CIPHER *how = c->kind == DF_CIPHER_AES ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
  if (c->fast == NULL) c->fast = EVP_CIPHER_CTX_new();
  return c->fast && EVP_CipherInit_ex(c->fast, how, NULL, c->key, NULL, c->seals) == 1;
}

static void fast_end(df_cipher *c) { EVP_CIPHER_CTX_free(c->fast); }

/* tag: read when decrypting, written when encrypting. */
static int fast_go(df_cipher *c, const uint8_t *nonce, const uint8_t *known, uint32_t known_bytes,
                   const uint8_t *from, uint32_t bytes, uint8_t *to, uint8_t *tag) {
  uint8_t rest[16];
  int n;
  if (EVP_CipherInit_ex(c->fast, NULL, NULL, NULL, nonce, c->seals) != 1 ||
      (!c->seals && EVP_CIPHER_CTX_ctrl(c->fast, EVP_CTRL_AEAD_SET_TAG, DF_RECORD_TAG, tag) != 1) ||
      EVP_CipherUpdate(c->fast, NULL, &n, known, (int)known_bytes) != 1 ||
      (bytes && EVP_CipherUpdate(c->fast, to, &n, from, (int)bytes) != 1) ||
      EVP_CipherFinal_ex(c->fast, rest, &n) != 1)
    return 0;
  return !c->seals || EVP_CIPHER_CTX_ctrl(c->fast, EVP_CTRL_AEAD_GET_TAG, DF_RECORD_TAG, tag) == 1;
}
#else
#define fast_key(c) 0
#define fast_end(c) (void)0
#define fast_go(...) 0
#endif

/* ---- libsodium */

static void plain_seal(df_cipher *c, const uint8_t *nonce, const uint8_t *known,
                       uint32_t known_bytes, const uint8_t *from, uint32_t bytes, uint8_t *to,
                       uint8_t *tag) {
  if (c->kind == DF_CIPHER_AES)
    crypto_aead_aes256gcm_encrypt_detached_afternm(to, tag, NULL, from, bytes, known, known_bytes,
                                                   NULL, nonce, &c->aes);
  else
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(to, tag, NULL, from, bytes, known,
                                                       known_bytes, NULL, nonce, c->key);
}

static int plain_open(df_cipher *c, const uint8_t *nonce, const uint8_t *known,
                      uint32_t known_bytes, const uint8_t *from, uint32_t bytes, uint8_t *to,
                      const uint8_t *tag) {
  if (c->kind == DF_CIPHER_AES)
    return crypto_aead_aes256gcm_decrypt_detached_afternm(to, NULL, from, bytes, tag, known,
                                                          known_bytes, nonce, &c->aes) == 0;
  return crypto_aead_chacha20poly1305_ietf_decrypt_detached(to, NULL, from, bytes, tag, known,
                                                            known_bytes, nonce, c->key) == 0;
}

/* ---- both */

/* libsodium is used if the library has no OpenSSL, or if OpenSSL fails. */
static void take_key(df_cipher *c) {
  if (c->kind == DF_CIPHER_AES) crypto_aead_aes256gcm_beforenm(&c->aes, c->key);
  if (fast_key(c)) return;
  fast_end(c);
  c->fast = NULL;
}

void df_cipher_begin(df_cipher *c, df_cipher_kind kind, int hides, int seals,
                     const unsigned char key[DF_KEY_BYTES]) {
  DF_ASSERT(kind != DF_CIPHER_AES || df_cipher_has_aes());
  memset(c, 0, sizeof *c);
  c->kind = kind;
  c->hides = hides;
  c->seals = seals;
  c->rekey_every = REKEY_EVERY;
  memcpy(c->key, key, sizeof c->key);
  df_derive(c->head_key, sizeof c->head_key, key, "dfccl heads of records", NULL, 0, NULL, 0);
  take_key(c);
}

void df_cipher_end(df_cipher *c) {
  fast_end(c);
  sodium_memzero(c, sizeof *c);
}

/* Makes the nonce of the next record, and changes the key when it is due. */
static void next_record(df_cipher *c, uint8_t nonce[NONCE]) {
  if (c->number && c->number % c->rekey_every == 0) {
    unsigned char next[DF_KEY_BYTES];
    df_derive(next, sizeof next, c->key, "dfccl next key of a wire", NULL, 0, NULL, 0);
    memcpy(c->key, next, sizeof c->key);
    sodium_memzero(next, sizeof next);
    take_key(c);
  }
  memset(nonce, 0, NONCE);
  memcpy(nonce, &c->number, sizeof c->number);
  c->number++;
}

void df_cipher_seal(df_cipher *c, uint8_t *record, const void *plain, uint32_t bytes) {
  DF_ASSERT(c->seals && bytes > 0 && bytes <= DF_RECORD_MOST);
  uint8_t nonce[NONCE], *to = record + DF_RECORD_HEAD, *tag = to + bytes;
  memcpy(record, &bytes, DF_RECORD_LENGTH);
  df_head_check(record + DF_RECORD_LENGTH, c->head_key, c->number, &bytes, DF_RECORD_LENGTH);
  next_record(c, nonce);
  if (!c->hides && plain != to) memcpy(to, plain, bytes);
  const uint32_t known = DF_RECORD_HEAD + (c->hides ? 0 : bytes), hidden = c->hides ? bytes : 0;
  if (c->fast && bytes >= FAST_MIN && fast_go(c, nonce, record, known, plain, hidden, to, tag))
    return;
  plain_seal(c, nonce, record, known, plain, hidden, to, tag);
}

int df_cipher_read_head(const df_cipher *c, const uint8_t *record, uint32_t *bytes) {
  uint8_t check[DF_HEAD_CHECK_BYTES];
  memcpy(bytes, record, DF_RECORD_LENGTH);
  df_head_check(check, c->head_key, c->number, bytes, DF_RECORD_LENGTH);
  return *bytes > 0 && *bytes <= DF_RECORD_MOST &&
         sodium_memcmp(check, record + DF_RECORD_LENGTH, sizeof check) == 0;
}

int df_cipher_open(df_cipher *c, const uint8_t *record, uint32_t bytes, void *plain) {
  DF_ASSERT(!c->seals && bytes > 0 && bytes <= DF_RECORD_MOST);
  const uint8_t *from = record + DF_RECORD_HEAD;
  uint8_t nonce[NONCE], tag[DF_RECORD_TAG];
  next_record(c, nonce);
  memcpy(tag, from + bytes, sizeof tag);
  const uint32_t known = DF_RECORD_HEAD + (c->hides ? 0 : bytes), hidden = c->hides ? bytes : 0;
  const int opened = c->fast && bytes >= FAST_MIN
                         ? fast_go(c, nonce, record, known, from, hidden, plain, tag)
                         : plain_open(c, nonce, record, known, from, hidden, plain, tag);
  if (opened && !c->hides && plain != from) memcpy(plain, from, bytes);
  return opened;
}
