#include "control/remote_channel.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bootstrap/rendezvous/handshake.h"

enum { TAG = crypto_aead_chacha20poly1305_ietf_ABYTES };
DF_STATIC_ASSERT(TAG + sizeof(df_record_head) == DF_LINE_OVERHEAD, "what a record adds");
DF_STATIC_ASSERT((int)DF_LINE_KEY == (int)DF_KEY_BYTES, "keys come from df_derive");

static void set_keys(df_line *line, const unsigned char key[DF_LINE_KEY]) {
  df_derive(line->send_key, DF_LINE_KEY, key, "dfccl line", &line->rank, sizeof line->rank, NULL,
            0);
  df_derive(line->receive_key, DF_LINE_KEY, key, "dfccl line", &line->peer, sizeof line->peer, NULL,
            0);
}

df_line *df_line_open(const unsigned char key[DF_LINE_KEY], uint32_t rank, uint32_t peer) {
  df_line *line = calloc(1, sizeof *line);
  if (line == NULL) return NULL;
  line->rank = rank;
  line->peer = peer;
  line->may_send = 1;
  set_keys(line, key);
  return line;
}

static void forget_parts(df_line *line) {
  free(line->record);
  free(line->rest);
  line->record = line->rest = NULL;
  line->rest_at = line->rest_end = 0;
  line->have = 0;
}

void df_line_close(df_line *line) {
  if (line == NULL) return;
  forget_parts(line);
  sodium_memzero(line, sizeof *line);
  free(line);
}

void df_line_renew(df_line *line, const unsigned char key[DF_LINE_KEY]) {
  forget_parts(line);
  set_keys(line, key);
  line->records_sent = line->records_received = 0;
  line->may_send = line->has_ended = 0;
  line->owes_count = 1;
}

/* ---- sending */

static void make_nonce(unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES],
                       uint64_t number) {
  memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
  memcpy(nonce, &number, sizeof number);
}

size_t df_line_seal(df_line *line, df_record_kind kind, const void *message, size_t bytes,
                    uint8_t *record) {
  unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  const df_record_head head = {
      .bytes = (uint32_t)bytes + TAG, .kind = (uint32_t)kind, .received = line->received};
  make_nonce(nonce, line->records_sent++);
  memcpy(record, &head, sizeof head);
  crypto_aead_chacha20poly1305_ietf_encrypt(record + sizeof head, NULL, message, bytes, record,
                                            sizeof head, NULL, nonce, line->send_key);
  line->sent += kind == DF_RECORD_MESSAGE;
  line->told = line->received;
  line->owes_count = 0;
  line->has_ended |= kind == DF_RECORD_END;
  return bytes + DF_LINE_OVERHEAD;
}

/* Returns how many bytes were taken; -1: never again. */
static ssize_t send_some(int socket, const uint8_t *bytes, size_t n) {
  size_t taken = 0;
  while (taken < n) {
    struct iovec part = {.iov_base = (void *)(uintptr_t)(bytes + taken), .iov_len = n - taken};
    const struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      taken += (size_t)sent;
    else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM)
      break;
    else if (errno != EINTR)
      return -1;
  }
  return (ssize_t)taken;
}

int df_line_put(df_line *line, int socket, const uint8_t *record, size_t bytes) {
  const ssize_t taken = send_some(socket, record, bytes);
  if (taken < 0) return -1;
  if ((size_t)taken == bytes) return 1;
  line->rest_at = 0;
  line->rest_end = bytes - (size_t)taken;
  line->rest = malloc(line->rest_end);
  errno = ENOMEM;
  if (line->rest == NULL) return -1;
  memcpy(line->rest, record + taken, line->rest_end);
  return 0;
}

int df_line_flush(df_line *line, int socket) {
  if (line->rest == NULL) return 1;
  const ssize_t taken =
      send_some(socket, line->rest + line->rest_at, line->rest_end - line->rest_at);
  if (taken < 0) return -1;
  line->rest_at += (size_t)taken;
  if (line->rest_at < line->rest_end) return 0;
  free(line->rest);
  line->rest = NULL;
  return 1;
}

/* ---- receiving */

/* 1: all bytes are there. */
static int fill(df_line *line, int socket, uint8_t *to, uint32_t bytes, df_line_event *event,
                int *error) {
  while (line->have < bytes) {
    struct iovec part = {.iov_base = to + line->have, .iov_len = bytes - line->have};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    *error = got < 0 ? errno : 0;
    *event = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? DF_LINE_NOTHING : DF_LINE_ENDED;
    if (got <= 0) return 0;
    line->have += (uint32_t)got;
  }
  line->have = 0;
  return 1;
}

static int is_of_length(const df_record_head *head) {
  return head->bytes >= TAG && head->bytes <= DF_MAX_MESSAGE_BYTES + TAG;
}

static df_line_event open_record(df_line *line, uint8_t *message, size_t *bytes) {
  unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  make_nonce(nonce, line->records_received++);
  const int bad = crypto_aead_chacha20poly1305_ietf_decrypt(
      message, NULL, NULL, line->record, line->head.bytes, (const unsigned char *)&line->head,
      sizeof line->head, nonce, line->receive_key);
  *bytes = line->head.bytes - TAG;
  free(line->record);
  line->record = NULL;
  return bad ? DF_LINE_NONSENSE : DF_LINE_RECORD;
}

df_line_event df_line_read(df_line *line, int socket, uint8_t *message, size_t *bytes, int *error) {
  df_line_event event = DF_LINE_NOTHING;
  if (line->record == NULL) {
    if (!fill(line, socket, (uint8_t *)&line->head, sizeof line->head, &event, error)) return event;
    if (!is_of_length(&line->head)) return DF_LINE_NONSENSE;
    line->record = malloc(line->head.bytes);
    *error = ENOMEM;
    if (line->record == NULL) return DF_LINE_ENDED;
  }
  if (!fill(line, socket, line->record, line->head.bytes, &event, error)) return event;
  return open_record(line, message, bytes);
}

/* The first record of a new connection tells where the other end is, and so where this one goes
 * on. */
df_line_event df_line_take(df_line *line) {
  const df_record_head *head = &line->head;
  const int is_message = head->kind == DF_RECORD_MESSAGE;
  if (head->received < line->acknowledged || head->received > line->sent) return DF_LINE_NONSENSE;
  if (is_message ? !line->may_send : head->bytes != TAG) return DF_LINE_NONSENSE;
  line->acknowledged = head->received;
  if (!line->may_send) line->sent = line->acknowledged;
  line->may_send = 1;
  line->received += is_message;
  if (is_message) return DF_LINE_MESSAGE;
  if (head->kind == DF_RECORD_COUNT) return DF_LINE_TOLD;
  return head->kind == DF_RECORD_END ? DF_LINE_END : DF_LINE_NONSENSE;
}
