#include "control/remote_channel.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bootstrap/rendezvous/handshake.h"

enum {
  TAG = crypto_aead_chacha20poly1305_ietf_ABYTES,
  HEAD = sizeof(df_record_head) + DF_REMOTE_CHANNEL_CHECK
};
DF_STATIC_ASSERT(TAG + HEAD == DF_REMOTE_CHANNEL_OVERHEAD, "what a record adds");
DF_STATIC_ASSERT((int)DF_REMOTE_CHANNEL_CHECK == (int)DF_HEAD_CHECK_BYTES &&
                     (int)DF_REMOTE_CHANNEL_HEAD_KEY == (int)DF_HEAD_KEY_BYTES &&
                     sizeof(df_record_head) <= DF_HEAD_BYTES_MAX,
                 "checks come from df_head_check");
DF_STATIC_ASSERT(sizeof((df_remote_channel *)0)->in == HEAD,
                 "the head and its check follow each other");
DF_STATIC_ASSERT((int)DF_REMOTE_CHANNEL_KEY == (int)DF_KEY_BYTES, "keys come from df_derive");

static void set_keys(df_remote_channel *channel, const unsigned char key[DF_REMOTE_CHANNEL_KEY]) {
  df_derive(channel->send_key, DF_REMOTE_CHANNEL_KEY, key, "dfccl line", &channel->rank,
            sizeof channel->rank, NULL, 0);
  df_derive(channel->receive_key, DF_REMOTE_CHANNEL_KEY, key, "dfccl line", &channel->peer,
            sizeof channel->peer, NULL, 0);
  df_derive(channel->send_head_key, DF_REMOTE_CHANNEL_HEAD_KEY, key, "dfccl heads of a line",
            &channel->rank, sizeof channel->rank, NULL, 0);
  df_derive(channel->receive_head_key, DF_REMOTE_CHANNEL_HEAD_KEY, key, "dfccl heads of a line",
            &channel->peer, sizeof channel->peer, NULL, 0);
}

df_remote_channel *df_remote_channel_open(const unsigned char key[DF_REMOTE_CHANNEL_KEY],
                                          uint32_t rank, uint32_t peer) {
  df_remote_channel *channel = calloc(1, sizeof *channel);
  if (channel == NULL) return NULL;
  channel->rank = rank;
  channel->peer = peer;
  channel->may_send = 1;
  set_keys(channel, key);
  return channel;
}

static void forget_parts(df_remote_channel *channel) {
  free(channel->record);
  free(channel->rest);
  channel->record = channel->rest = NULL;
  channel->rest_at = channel->rest_end = 0;
  channel->have = 0;
}

void df_remote_channel_close(df_remote_channel *channel) {
  if (channel == NULL) return;
  forget_parts(channel);
  sodium_memzero(channel, sizeof *channel);
  free(channel);
}

void df_remote_channel_renew(df_remote_channel *channel,
                             const unsigned char key[DF_REMOTE_CHANNEL_KEY]) {
  forget_parts(channel);
  set_keys(channel, key);
  channel->records_sent = channel->records_received = 0;
  channel->may_send = channel->has_ended = 0;
  channel->owes_count = 1;
}

/* ---- sending */

static void make_nonce(unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES],
                       uint64_t number) {
  memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
  memcpy(nonce, &number, sizeof number);
}

size_t df_remote_channel_encrypt(df_remote_channel *channel, df_record_kind kind,
                                 const void *message, size_t bytes, uint8_t *record) {
  unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  const df_record_head head = {
      .bytes = (uint32_t)bytes + TAG, .kind = (uint32_t)kind, .received = channel->received};
  memcpy(record, &head, sizeof head);
  df_head_check(record + sizeof head, channel->send_head_key, channel->records_sent, &head,
                sizeof head);
  make_nonce(nonce, channel->records_sent++);
  crypto_aead_chacha20poly1305_ietf_encrypt(record + HEAD, NULL, message, bytes, record,
                                            sizeof head, NULL, nonce, channel->send_key);
  channel->sent += kind == DF_RECORD_MESSAGE;
  channel->reported = channel->received;
  channel->owes_count = 0;
  channel->has_ended |= kind == DF_RECORD_END;
  return bytes + DF_REMOTE_CHANNEL_OVERHEAD;
}

/* Returns the number of bytes that the socket accepted; -1 if the connection cannot be used any
 * more. */
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

int df_remote_channel_send(df_remote_channel *channel, int socket, const uint8_t *record,
                           size_t bytes) {
  const ssize_t taken = send_some(socket, record, bytes);
  if (taken < 0) return -1;
  if ((size_t)taken == bytes) return 1;
  channel->rest_at = 0;
  channel->rest_end = bytes - (size_t)taken;
  channel->rest = malloc(channel->rest_end);
  errno = ENOMEM;
  if (channel->rest == NULL) return -1;
  memcpy(channel->rest, record + taken, channel->rest_end);
  return 0;
}

int df_remote_channel_flush(df_remote_channel *channel, int socket) {
  if (channel->rest == NULL) return 1;
  const ssize_t taken =
      send_some(socket, channel->rest + channel->rest_at, channel->rest_end - channel->rest_at);
  if (taken < 0) return -1;
  channel->rest_at += (size_t)taken;
  if (channel->rest_at < channel->rest_end) return 0;
  free(channel->rest);
  channel->rest = NULL;
  return 1;
}

/* ---- receiving */

/* Returns 1 when all bytes have arrived. */
static int fill(df_remote_channel *channel, int socket, uint8_t *to, uint32_t bytes,
                df_remote_channel_event *event, int *error) {
  while (channel->have < bytes) {
    struct iovec part = {.iov_base = to + channel->have, .iov_len = bytes - channel->have};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    *error = got < 0 ? errno : 0;
    *event = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? DF_REMOTE_CHANNEL_NOTHING
                                                                  : DF_REMOTE_CHANNEL_ENDED;
    if (got <= 0) return 0;
    channel->have += (uint32_t)got;
  }
  channel->have = 0;
  return 1;
}

static int is_authentic(const df_remote_channel *channel) {
  const df_record_head *head = &channel->in.head;
  unsigned char check[DF_REMOTE_CHANNEL_CHECK];
  df_head_check(check, channel->receive_head_key, channel->records_received, head, sizeof *head);
  return head->bytes >= TAG && head->bytes <= DF_MAX_MESSAGE_BYTES + TAG &&
         sodium_memcmp(check, channel->in.check, sizeof check) == 0;
}

static df_remote_channel_event open_record(df_remote_channel *channel, uint8_t *message,
                                           size_t *bytes) {
  unsigned char nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
  make_nonce(nonce, channel->records_received++);
  const int bad = crypto_aead_chacha20poly1305_ietf_decrypt(
      message, NULL, NULL, channel->record, channel->in.head.bytes,
      (const unsigned char *)&channel->in.head, sizeof channel->in.head, nonce,
      channel->receive_key);
  *bytes = channel->in.head.bytes - TAG;
  free(channel->record);
  channel->record = NULL;
  return bad ? DF_REMOTE_CHANNEL_MALFORMED : DF_REMOTE_CHANNEL_RECORD;
}

df_remote_channel_event df_remote_channel_read(df_remote_channel *channel, int socket,
                                               uint8_t *message, size_t *bytes, int *error) {
  df_remote_channel_event event = DF_REMOTE_CHANNEL_NOTHING;
  if (channel->record == NULL) {
    if (!fill(channel, socket, (uint8_t *)&channel->in, HEAD, &event, error)) return event;
    if (!is_authentic(channel)) return DF_REMOTE_CHANNEL_MALFORMED;
    channel->record = malloc(channel->in.head.bytes);
    *error = ENOMEM;
    if (channel->record == NULL) return DF_REMOTE_CHANNEL_ENDED;
  }
  if (!fill(channel, socket, channel->record, channel->in.head.bytes, &event, error)) return event;
  return open_record(channel, message, bytes);
}

/* The first record of a new connection has the number of messages that the other end has received.
 * This end continues from there. */
df_remote_channel_event df_remote_channel_take(df_remote_channel *channel) {
  const df_record_head *head = &channel->in.head;
  const int is_message = head->kind == DF_RECORD_MESSAGE;
  if (head->received < channel->acknowledged || head->received > channel->sent)
    return DF_REMOTE_CHANNEL_MALFORMED;
  if (is_message ? !channel->may_send : head->bytes != TAG) return DF_REMOTE_CHANNEL_MALFORMED;
  channel->acknowledged = head->received;
  if (!channel->may_send) channel->sent = channel->acknowledged;
  channel->may_send = 1;
  channel->received += is_message;
  if (is_message) return DF_REMOTE_CHANNEL_MESSAGE;
  if (head->kind == DF_RECORD_COUNT) return DF_REMOTE_CHANNEL_ACKNOWLEDGED;
  return head->kind == DF_RECORD_END ? DF_REMOTE_CHANNEL_END : DF_REMOTE_CHANNEL_MALFORMED;
}
