/*
 * A stream of sealed records (cipher.h) upon another stream. A record that does not open ends
 * the stream, and nothing of the record is given out. The stream below may be cut short unnoticed:
 * the pump says goodbye in a frame. Small parts share a record. A large part has a record of its own,
 * sealed from where it lies, and opened to where it belongs. Nothing is allocated after opening.
 */
#ifndef DF_TRANSPORTS_NET_SECURITY_RECORDS_H
#define DF_TRANSPORTS_NET_SECURITY_RECORDS_H

#include "transports/net/security/cipher.h"
#include "transports/net/stream/write_buffer.h"

enum {
  DF_ENCRYPTED_FIRST = 8 << 10, /* read at once, when a record's length is not known */
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
  uint32_t plain_at, plain_end; /* of in: opened, and not yet read */
  int is_dry;                   /* the stream below says when there is more */
  int is_forged;
} df_encrypted;

/* key: of the connection, which both ends have. calls: this end is the caller. dfcclOutOfMemory. */
dfcclResult_t df_encrypted_open(df_encrypted **encrypted, df_stream *below, df_cipher_kind kind,
                                int hides, const unsigned char key[DF_KEY_BYTES], int calls);

#endif
