/*
 * A stream of encrypted records (cipher.h) on top of another stream. A record that does not decrypt
 * ends the stream, and none of its bytes are returned. A truncated stream below is not detected
 * here, because the pump says goodbye in a frame. Small parts share a record. A large part has
 * records of its own, encrypted from its place and decrypted to its destination. No memory is
 * allocated after opening.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_RECORDS_H
#define DF_TRANSPORTS_NET_SECURITY_RECORDS_H

#include "transports/net/security/cipher.h"
#include "transports/net/stream/write_buffer.h"

enum {
  DF_ENCRYPTED_FIRST = 8 << 10, /* bytes to read when the length of a record is unknown */
  DF_ENCRYPTED_AHEAD = 2048 + 2 * DF_RECORD_MORE,
  DF_ENCRYPTED_IN = DF_RECORD_MOST + DF_RECORD_MORE + DF_ENCRYPTED_FIRST + DF_ENCRYPTED_AHEAD,
  DF_ENCRYPTED_OUT = DF_RECORD_MOST + DF_OUTBOX_GATHERED + 4 * DF_RECORD_MORE
};

typedef struct df_encrypted {
  df_cipher sends, receives;
  df_stream stream;
  df_stream *below;
  df_outbox outbox;
  uint8_t *in;
  uint32_t in_at, in_end;
  uint32_t plain_at, plain_end; /* range of `in` that is decrypted and not yet read */
  int is_dry; /* the stream below has nothing more; it becomes ready when it has */
  int is_forged;
} df_encrypted;

/* key: the key of the connection, the same at both ends. calls: this end is the caller. Fails with
 * dfcclOutOfMemory. */
dfcclResult_t df_encrypted_open(df_encrypted **encrypted, df_stream *below, df_cipher_kind kind,
                                int hides, const unsigned char key[DF_KEY_BYTES], int calls);

#endif
