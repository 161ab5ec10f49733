#include "transports/net/security/protection.h"

#include <sodium.h>

#include "transports/net/security/records.h"

#if defined(DF_WITH_TLS)
#include "transports/net/security/tls.h"
int df_protection_has_tls(void) { return 1; }
#else /* unreachable: the settings have refused the level */
#define df_tls_make(...) dfcclInvalidUsage
#define df_tls_free(tls) (void)0
#define df_tls_open(...) dfcclInvalidUsage
int df_protection_has_tls(void) { return 0; }
#endif

dfcclResult_t df_protection_make(df_protection *protection, df_security level, int all_have_aes,
                                 const df_tls_files *files) {
  *protection = (df_protection){.level = level, .all_have_aes = all_have_aes};
  (void)files;
  return level == DF_SECURITY_TLS ? df_tls_make(&protection->tls, files) : dfcclSuccess;
}

void df_protection_free(df_protection *protection) {
  df_tls_free(protection->tls);
  protection->tls = NULL;
}

static dfcclResult_t seal(const df_protection *protection, int calls, const unsigned char *key,
                          df_stream *below, df_stream **stream) {
  const df_cipher_kind kind = protection->all_have_aes ? DF_CIPHER_AES : DF_CIPHER_CHACHA;
  df_encrypted *encrypted;
  dfcclResult_t result = df_encrypted_open(&encrypted, below, kind,
                                           protection->level == DF_SECURITY_ENCRYPT, key, calls);
  if (result == dfcclSuccess) *stream = &encrypted->stream;
  return result;
}

dfcclResult_t df_protection_add(const df_protection *protection,
                                const df_connection_handshake *handshake, df_stream *below,
                                df_stream **stream) {
  unsigned char key[DF_KEY_BYTES];
  *stream = below;
  if (!df_protection_needs_keys(protection)) return dfcclSuccess;
  dfcclResult_t result = df_connection_handshake_traffic_key(handshake, key);
  if (result == dfcclSuccess && protection->level == DF_SECURITY_TLS)
    result = df_tls_open(stream, protection->tls, below, key, handshake->calls);
  else if (result == dfcclSuccess)
    result = seal(protection, handshake->calls, key, below, stream);
  sodium_memzero(key, sizeof key);
  return result;
}
