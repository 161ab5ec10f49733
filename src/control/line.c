#include "control/line.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "bootstrap/handshake.h"

enum { TAG = crypto_aead_chacha20poly1305_ietf_ABYTES };
DF_STATIC_ASSERT(TAG + DF_LINE_LENGTH == DF_LINE_OVERHEAD, "what a record adds");
DF_STATIC_ASSERT((int)DF_LINE_KEY == (int)DF_KEY_BYTES, "keys come from df_derive");

df_line *df_line_open(const unsigned char key[DF_LINE_KEY], uint32_t rank, uint32_t peer) {
  df_line *line = calloc(1, sizeof *line);
  if (line == NULL) return NULL;
  df_derive(line->send_key, DF_LINE_KEY, key, "dfccl line", &rank, sizeof rank, NULL, 0);
  df_derive(line->receive_key, DF_LINE_KEY, key, "dfccl line", &peer, sizeof peer, NULL, 0);
  return line;
}

void df_line_close(df_line *line) {
  if (line == NULL) return;
  free(line->record);
  sodium_memzero(line, sizeof *line);
  free(line);
}

static void make_nonce(unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES],
                       uint64_t number) {
  memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
  memcpy(nonce, &number, sizeof number);
}

void df_line_seal(df_line *line, const void *message, size_t bytes, uint8_t *record) {
  unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  const uint32_t length = (uint32_t)bytes + TAG;
  make_nonce(nonce, line->sent++);
  memcpy(record, &length, sizeof length);
  crypto_aead_chacha20poly1305_ietf_encrypt(record + DF_LINE_LENGTH, NULL, message, bytes, record,
                                            DF_LINE_LENGTH, NULL, nonce, line->send_key);
}

/* 1: all bytes are there. */
static int fill(df_line *line, int socket, uint8_t *to, uint32_t bytes, df_line_event *event,
                int *error) {
  while (line->have < bytes) {
    ssize_t got = recv(socket, to + line->have, bytes - line->have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    *error = got < 0 ? errno : 0;
    *event = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? DF_LINE_NOTHING : DF_LINE_ENDED;
    if (got <= 0) return 0;
    line->have += (uint32_t)got;
  }
  line->have = 0;
  return 1;
}

static df_line_event open_record(df_line *line, uint8_t *message, size_t *bytes) {
  unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  make_nonce(nonce, line->received++);
  const int bad = crypto_aead_chacha20poly1305_ietf_decrypt(
      message, NULL, NULL, line->record, line->record_bytes, line->head, sizeof line->head, nonce,
      line->receive_key);
  *bytes = line->record_bytes - TAG;
  free(line->record);
  line->record = NULL;
  return bad ? DF_LINE_NONSENSE : DF_LINE_MESSAGE;
}

df_line_event df_line_read(df_line *line, int socket, uint8_t *message, size_t *bytes, int *error) {
  df_line_event event = DF_LINE_NOTHING;
  if (line->record == NULL) {
    if (!fill(line, socket, line->head, sizeof line->head, &event, error)) return event;
    memcpy(&line->record_bytes, line->head, sizeof line->record_bytes);
    if (line->record_bytes < TAG || line->record_bytes > DF_MAX_MESSAGE_BYTES + TAG)
      return DF_LINE_NONSENSE;
    line->record = malloc(line->record_bytes);
    *error = ENOMEM;
    if (line->record == NULL) return DF_LINE_ENDED;
  }
  if (!fill(line, socket, line->record, line->record_bytes, &event, error)) return event;
  return open_record(line, message, bytes);
}
