#include "transports/wire/shield.h"

#include <sodium.h>

#include "transports/wire/sealed.h"

#if defined(DF_WITH_TLS)
int df_shield_has_tls(void) { return 1; }
#else
int df_shield_has_tls(void) { return 0; }
#endif

dfcclResult_t df_shield_raise(const df_shield *shield, const df_greeter *greeter, df_stream *below,
                              df_stream **stream) {
  unsigned char key[DF_KEY_BYTES];
  *stream = below;
  if (!df_shield_needs_keys(shield)) return dfcclSuccess;
  dfcclResult_t result = df_greeting_traffic_key(greeter, key);
  const df_cipher_kind kind = shield->all_have_aes ? DF_CIPHER_AES : DF_CIPHER_CHACHA;
  df_sealed *sealed;
  if (result == dfcclSuccess)
    result = df_sealed_open(&sealed, below, kind, shield->level == DF_SECURITY_ENCRYPT, key,
                            greeter->calls);
  sodium_memzero(key, sizeof key);
  if (result == dfcclSuccess) *stream = &sealed->stream;
  return result;
}
