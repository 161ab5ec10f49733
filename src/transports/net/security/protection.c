#include "transports/net/security/protection.h"

#include <sodium.h>

#include "transports/net/security/records.h"

#if defined(DF_WITH_TLS)
#include "transports/net/security/tls.h"
int df_shield_has_tls(void) { return 1; }
#else /* settings have refused it */
#define df_tls_make(...) dfcclInvalidUsage
#define df_tls_free(tls) (void)0
#define df_tls_open(...) dfcclInvalidUsage
int df_shield_has_tls(void) { return 0; }
#endif

dfcclResult_t df_shield_make(df_shield *shield, df_security level, int all_have_aes,
                             const df_tls_files *files) {
  *shield = (df_shield){.level = level, .all_have_aes = all_have_aes};
  (void)files;
  return level == DF_SECURITY_TLS ? df_tls_make(&shield->tls, files) : dfcclSuccess;
}

void df_shield_free(df_shield *shield) {
  df_tls_free(shield->tls);
  shield->tls = NULL;
}

static dfcclResult_t seal(const df_shield *shield, int calls, const unsigned char *key,
                          df_stream *below, df_stream **stream) {
  const df_cipher_kind kind = shield->all_have_aes ? DF_CIPHER_AES : DF_CIPHER_CHACHA;
  df_sealed *sealed;
  dfcclResult_t result =
      df_sealed_open(&sealed, below, kind, shield->level == DF_SECURITY_ENCRYPT, key, calls);
  if (result == dfcclSuccess) *stream = &sealed->stream;
  return result;
}

dfcclResult_t df_shield_raise(const df_shield *shield, const df_greeter *greeter, df_stream *below,
                              df_stream **stream) {
  unsigned char key[DF_KEY_BYTES];
  *stream = below;
  if (!df_shield_needs_keys(shield)) return dfcclSuccess;
  dfcclResult_t result = df_greeting_traffic_key(greeter, key);
  if (result == dfcclSuccess && shield->level == DF_SECURITY_TLS)
    result = df_tls_open(stream, shield->tls, below, key, greeter->calls);
  else if (result == dfcclSuccess)
    result = seal(shield, greeter->calls, key, below, stream);
  sodium_memzero(key, sizeof key);
  return result;
}
