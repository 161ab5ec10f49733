/*
 * The control channel to a rank of another host: control messages over TCP. They are always
 * encrypted, because they carry the keys of other connections. The channel outlives its TCP
 * connections: messages are numbered, and the sender keeps a message until the other end has
 * acknowledged it (messenger.h). On a new connection each end first sends the number of messages
 * that it has received, and the other end continues from there.
 *
 * A record is a head, the head's check of 8 bytes, a message, and a tag of 16 bytes. The nonce is
 * the record's number within the connection. Each connection has keys of its own. No function
 * waits.
 */
#ifndef DF_CONTROL_REMOTE_CHANNEL_H
#define DF_CONTROL_REMOTE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/limits.h"

typedef enum {
  DF_RECORD_MESSAGE = 1,
  DF_RECORD_COUNT, /* the head alone, without a message */
  DF_RECORD_END    /* the sender sends and expects nothing more */
} df_record_kind;

typedef struct df_record_head {
  uint32_t bytes; /* bytes after the head */
  uint32_t kind;
  uint64_t received; /* number of messages that the sender of this record has received */
} df_record_head;
DF_STATIC_ASSERT(sizeof(df_record_head) == 16, "part of the protocol between processes");

enum {
  DF_REMOTE_CHANNEL_KEY = 32,
  DF_REMOTE_CHANNEL_HEAD_KEY = 16,
  DF_REMOTE_CHANNEL_CHECK = 8,
  DF_REMOTE_CHANNEL_OVERHEAD = sizeof(df_record_head) + DF_REMOTE_CHANNEL_CHECK + 16
};

typedef struct df_remote_channel {
  uint32_t rank, peer;
  unsigned char send_key[DF_REMOTE_CHANNEL_KEY], receive_key[DF_REMOTE_CHANNEL_KEY];
  unsigned char send_head_key[DF_REMOTE_CHANNEL_HEAD_KEY],
      receive_head_key[DF_REMOTE_CHANNEL_HEAD_KEY];
  uint64_t records_sent, records_received; /* records of the present connection */
  uint64_t sent,
      acknowledged; /* number of messages sent, and of those acknowledged by the other end */
  uint64_t received,
      reported;   /* messages received, and how many of them this end has acknowledged */
  int may_send;   /* The other end has sent the number from which to continue. */
  int owes_count; /* This end has to send its number of received messages. */
  int has_ended;  /* This end has sent DF_RECORD_END. */
  uint32_t have;  /* bytes of the head, or of the record, that have arrived */
  struct {
    df_record_head head;
    unsigned char check[DF_REMOTE_CHANNEL_CHECK];
  } in;
  uint8_t *record; /* a record of which a part has arrived; else NULL */
  uint8_t *rest;   /* the rest of a record of which a part was sent; else NULL */
  size_t rest_at, rest_end;
} df_remote_channel;

/* key: the key of this pair of ranks for the first connection. Returns NULL if there is no
 * memory. */
df_remote_channel *df_remote_channel_open(const unsigned char key[DF_REMOTE_CHANNEL_KEY],
                                          uint32_t rank, uint32_t peer);
/* channel may be NULL. */
void df_remote_channel_close(df_remote_channel *channel);
/* Starts a new connection with its own key. The caller sends the messages after `acknowledged`
 * again, once `may_send` is set. */
void df_remote_channel_renew(df_remote_channel *channel,
                             const unsigned char key[DF_REMOTE_CHANNEL_KEY]);

/* Encrypts a record into `record`: bytes + DF_REMOTE_CHANNEL_OVERHEAD bytes, which the function
 * returns. Records must be sent in the order of these calls. */
size_t df_remote_channel_encrypt(df_remote_channel *channel, df_record_kind kind,
                                 const void *message, size_t bytes, uint8_t *record);
/* Sends an encrypted record, and keeps the part that the socket does not accept. Returns -1 if the
 * connection cannot be used any more (errno is set, also to ENOMEM). */
int df_remote_channel_send(df_remote_channel *channel, int socket, const uint8_t *record,
                           size_t bytes);
/* Sends the part that was kept. Returns 1 if nothing is left, 0 if the socket accepts no more at
 * the moment, -1 as df_remote_channel_send. */
int df_remote_channel_flush(df_remote_channel *channel, int socket);

typedef enum {
  DF_REMOTE_CHANNEL_RECORD, /* a record arrived and its tag is correct */
  DF_REMOTE_CHANNEL_NOTHING,
  /* the connection has ended; *error: an errno value, or 0 if the other end closed it */
  DF_REMOTE_CHANNEL_ENDED,
  DF_REMOTE_CHANNEL_MESSAGE,
  /* no message, only the number of messages that the other end has received */
  DF_REMOTE_CHANNEL_ACKNOWLEDGED,
  DF_REMOTE_CHANNEL_END,
  DF_REMOTE_CHANNEL_MALFORMED /* wrong check or tag, too long, or impossible numbers */
} df_remote_channel_event;

/* Reads at most one record, with a message of at most DF_MAX_MESSAGE_BYTES. Returns RECORD,
 * NOTHING, MALFORMED or ENDED (also if there is no memory). Does not access the state that sending
 * uses. */
df_remote_channel_event df_remote_channel_read(df_remote_channel *channel, int socket,
                                               uint8_t *message, size_t *bytes, int *error);
/* Evaluates the record that was read, and counts it. Returns MESSAGE, ACKNOWLEDGED, END or
 * MALFORMED. */
df_remote_channel_event df_remote_channel_take(df_remote_channel *channel);

#endif
