#include "bootstrap/rendezvous/handshake.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

static const uint32_t message_magic = 0xdfcc1b57u;

dfcclResult_t df_handshake_ready(void) {
  if (sodium_init() >= 0) return dfcclSuccess;
  return df_fail(dfcclSystemError, "libsodium cannot be initialised: no source of random numbers");
}

void df_message_start(void *message, df_message_type type, size_t bytes) {
  DF_ASSERT(bytes >= sizeof(df_header));
  memset(message, 0, bytes);
  df_header header = {message_magic, DF_BUILD, (uint32_t)type, (uint32_t)bytes};
  memcpy(message, &header, sizeof header);
}

bool df_header_is(const df_header *header, df_message_type type, size_t bytes) {
  return header->magic == message_magic && header->version == DF_BUILD &&
         header->type == (uint32_t)type && header->bytes == bytes;
}

bool df_header_is_foreign(const df_header *header) {
  return header->magic == message_magic && header->version != DF_BUILD;
}

void df_message_seal(void *message, size_t bytes, const unsigned char key[DF_KEY_BYTES]) {
  DF_ASSERT(bytes >= sizeof(df_header) + DF_MAC_BYTES);
  unsigned char *mac = (unsigned char *)message + bytes - DF_MAC_BYTES;
  crypto_generichash(mac, DF_MAC_BYTES, message, bytes - DF_MAC_BYTES, key, DF_KEY_BYTES);
}

bool df_message_verify(const void *message, size_t bytes, const unsigned char key[DF_KEY_BYTES]) {
  DF_ASSERT(bytes >= sizeof(df_header) + DF_MAC_BYTES);
  const unsigned char *mac = (const unsigned char *)message + bytes - DF_MAC_BYTES;
  unsigned char expected[DF_MAC_BYTES];
  crypto_generichash(expected, sizeof expected, message, bytes - DF_MAC_BYTES, key, DF_KEY_BYTES);
  return sodium_memcmp(mac, expected, DF_MAC_BYTES) == 0;
}

void df_refusal_write(df_refusal *refusal, df_message_type type, dfcclResult_t code,
                      const char *reason, const unsigned char key[DF_KEY_BYTES]) {
  df_message_start(refusal, type, sizeof *refusal);
  refusal->code = (uint32_t)code;
  snprintf(refusal->reason, sizeof refusal->reason, "%s", reason);
  df_message_seal(refusal, sizeof *refusal, key);
}

dfcclResult_t df_refusal_read(const df_refusal *refusal, const char *who) {
  dfcclResult_t code = dfcclRemoteError;
  if (refusal->code > dfcclSuccess && refusal->code <= dfcclOutOfMemory)
    code = (dfcclResult_t)refusal->code;
  int length = (int)strnlen(refusal->reason, sizeof refusal->reason);
  return df_fail(code, "%s%.*s", who, length, refusal->reason);
}

void df_derive(unsigned char *out, size_t out_bytes, const unsigned char key[DF_KEY_BYTES],
               const char *purpose, const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key, DF_KEY_BYTES, out_bytes);
  /* The terminating zero prevents that one purpose is the beginning of another. For one purpose a
   * and b always have the same lengths. */
  crypto_generichash_update(&state, (const unsigned char *)purpose, strlen(purpose) + 1);
  if (a_bytes > 0) crypto_generichash_update(&state, a, a_bytes);
  if (b_bytes > 0) crypto_generichash_update(&state, b, b_bytes);
  crypto_generichash_final(&state, out, out_bytes);
}

DF_STATIC_ASSERT((int)crypto_shorthash_BYTES == DF_HEAD_CHECK_BYTES &&
                     (int)crypto_shorthash_KEYBYTES == DF_HEAD_KEY_BYTES,
                 "the check is SipHash-2-4");

void df_head_check(unsigned char check[DF_HEAD_CHECK_BYTES],
                   const unsigned char key[DF_HEAD_KEY_BYTES], uint64_t number, const void *head,
                   size_t bytes) {
  unsigned char all[sizeof number + DF_HEAD_BYTES_MAX];
  DF_ASSERT(bytes <= DF_HEAD_BYTES_MAX);
  memcpy(all, &number, sizeof number);
  memcpy(all + sizeof number, head, bytes);
  crypto_shorthash(check, all, sizeof number + bytes, key);
}

void df_key_from_secret(unsigned char key[DF_KEY_BYTES],
                        const unsigned char secret[DF_SECRET_BYTES]) {
  unsigned char padded[DF_KEY_BYTES] = {0};
  memcpy(padded, secret, DF_SECRET_BYTES);
  df_derive(key, DF_KEY_BYTES, padded, "dfccl job of an id", NULL, 0, NULL, 0);
  sodium_memzero(padded, sizeof padded);
}

void df_key_from_text(unsigned char key[DF_KEY_BYTES], const char *text, uint32_t user) {
  static const unsigned char none[DF_KEY_BYTES];
  df_derive(key, DF_KEY_BYTES, none, "dfccl job of a key", &user, sizeof user, text, strlen(text));
}

void df_key_from_text_and_secret(unsigned char key[DF_KEY_BYTES], const char *text,
                                 const unsigned char secret[DF_KEY_BYTES]) {
  df_derive(key, DF_KEY_BYTES, secret, "dfccl job of a key and a secret", text, strlen(text), NULL,
            0);
}

void df_tag_from_text(unsigned char tag[DF_TAG_BYTES], const char *text) {
  static const unsigned char none[DF_KEY_BYTES];
  df_derive(tag, DF_TAG_BYTES, none, "dfccl tag", text, strlen(text), NULL, 0);
}

typedef struct {
  char magic[8];
  uint32_t version;
  uint32_t port;
  unsigned char secret[DF_SECRET_BYTES];
  uint64_t machine;
  df_address addresses[DF_ID_ADDRESSES_MAX];
  unsigned char check[16]; /* distinguishes a damaged id from one of another job */
} id_layout;

DF_STATIC_ASSERT(sizeof(id_layout) == sizeof(dfcclUniqueId), "the id has 128 bytes");
DF_STATIC_ASSERT(offsetof(id_layout, check) == 112, "the id has no padding");

static const char id_magic[8] = "DFCCLID";

static void id_check(unsigned char check[16], const id_layout *layout) {
  crypto_generichash(check, 16, (const unsigned char *)layout, offsetof(id_layout, check), NULL, 0);
}

void df_id_write(dfcclUniqueId *id, const df_id_content *content) {
  id_layout layout = {
      .version = DFCCL_VERSION_CODE, .port = content->port, .machine = content->machine};
  memcpy(layout.magic, id_magic, sizeof layout.magic);
  memcpy(layout.secret, content->secret, DF_SECRET_BYTES);
  memcpy(layout.addresses, content->addresses, sizeof layout.addresses);
  id_check(layout.check, &layout);
  memcpy(id, &layout, sizeof layout);
  sodium_memzero(&layout, sizeof layout);
}

dfcclResult_t df_id_read(const dfcclUniqueId *id, df_id_content *content) {
  id_layout layout;
  memcpy(&layout, id, sizeof layout);
  if (memcmp(layout.magic, id_magic, sizeof layout.magic) != 0)
    return df_fail(dfcclInvalidArgument,
                   "the unique id was not made by dfcclGetUniqueId (its first bytes are wrong)");
  if (layout.version != DFCCL_VERSION_CODE)
    return df_fail(dfcclInvalidUsage, "the unique id is of version %u, this library of version %d",
                   layout.version, DFCCL_VERSION_CODE);
  unsigned char check[16];
  bool is_sane = layout.port > 0 && layout.port <= 65535;
  for (int i = 0; i < DF_ID_ADDRESSES_MAX; i++)
    is_sane &= layout.addresses[i].family == 0 || df_address_is_sane(&layout.addresses[i]);
  id_check(check, &layout);
  if (memcmp(check, layout.check, sizeof check) != 0 || !is_sane)
    return df_fail(dfcclInvalidArgument, "the unique id was damaged on its way: not all of its 128 "
                                         "bytes are those that dfcclGetUniqueId wrote");
  *content = (df_id_content){.port = (uint16_t)layout.port, .machine = layout.machine};
  memcpy(content->secret, layout.secret, DF_SECRET_BYTES);
  memcpy(content->addresses, layout.addresses, sizeof layout.addresses);
  sodium_memzero(&layout, sizeof layout);
  return dfcclSuccess;
}
