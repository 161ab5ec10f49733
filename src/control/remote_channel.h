/*
 * A channel: control messages to and from a rank of another host, over TCP, always encrypted, since
 * keys of other connections go over it. It outlives its connections: messages are numbered, and
 * their sender keeps them until the other end has told that it has them (messenger.h). On a new
 * connection each end first tells how many it has, and the other end goes on there.
 *
 * A record is a head, a message, and a tag of 16; the record's number in the connection is the
 * nonce. Each connection has keys of its own. Nothing waits.
 */
#ifndef DF_CONTROL_REMOTE_CHANNEL_H
#define DF_CONTROL_REMOTE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/limits.h"

typedef enum {
  DF_RECORD_MESSAGE = 1,
  DF_RECORD_COUNT, /* the head is all of it */
  DF_RECORD_END    /* the sender says nothing more, and wants nothing more */
} df_record_kind;

typedef struct df_record_head {
  uint32_t bytes; /* behind the head */
  uint32_t kind;
  uint64_t received; /* messages, by the sender of the record */
} df_record_head;
DF_STATIC_ASSERT(sizeof(df_record_head) == 16, "part of the protocol between processes");

enum { DF_REMOTE_CHANNEL_KEY = 32, DF_REMOTE_CHANNEL_OVERHEAD = sizeof(df_record_head) + 16 };

typedef struct df_remote_channel {
  uint32_t rank, peer;
  unsigned char send_key[DF_REMOTE_CHANNEL_KEY], receive_key[DF_REMOTE_CHANNEL_KEY];
  uint64_t records_sent, records_received; /* of this connection */
  uint64_t sent, acknowledged;             /* messages */
  uint64_t received, told;                 /* told: the other end knows of so many */
  int may_send;                            /* The other end has said where to go on. */
  int owes_count;                          /* This end has not. */
  int has_ended;                           /* This end has sent DF_RECORD_END. */
  uint32_t have;                           /* bytes of the head, or of the record */
  df_record_head head;
  uint8_t *record; /* that has begun to come; else NULL */
  uint8_t *rest;   /* of a record that has begun to go out; else NULL */
  size_t rest_at, rest_end;
} df_remote_channel;

/* key: of this pair of ranks, for the first connection. NULL: no memory. */
df_remote_channel *df_remote_channel_open(const unsigned char key[DF_REMOTE_CHANNEL_KEY],
                                          uint32_t rank, uint32_t peer);
/* Also of NULL. */
void df_remote_channel_close(df_remote_channel *channel);
/* A new connection, with a key of its own. Messages after `acknowledged` are to be sent again, once
 * it may send. */
void df_remote_channel_renew(df_remote_channel *channel,
                             const unsigned char key[DF_REMOTE_CHANNEL_KEY]);

/* Writes bytes + DF_REMOTE_CHANNEL_OVERHEAD to `record`, and returns how many. Records must be sent in the
 * order of these calls. */
size_t df_remote_channel_encrypt(df_remote_channel *channel, df_record_kind kind,
                                 const void *message, size_t bytes, uint8_t *record);
/* Sends a sealed record, or keeps what the socket does not take. -1: the connection is of no more
 * use (errno, also ENOMEM). */
int df_remote_channel_send(df_remote_channel *channel, int socket, const uint8_t *record,
                           size_t bytes);
/* Sends what was kept. 1: nothing is left; 0: not now; -1: as df_remote_channel_send. */
int df_remote_channel_flush(df_remote_channel *channel, int socket);

typedef enum {
  DF_REMOTE_CHANNEL_RECORD, /* came, and was sealed with the key */
  DF_REMOTE_CHANNEL_NOTHING,
  DF_REMOTE_CHANNEL_ENDED, /* the connection. *error: an errno value; 0: the other end closed it */
  DF_REMOTE_CHANNEL_MESSAGE,
  DF_REMOTE_CHANNEL_ACKNOWLEDGED, /* no message, but what the other end has */
  DF_REMOTE_CHANNEL_END,
  DF_REMOTE_CHANNEL_MALFORMED /* not sealed with the key, too long, or numbers that cannot be */
} df_remote_channel_event;

/* At most one record, with a message of DF_MAX_MESSAGE_BYTES at most: RECORD, NOTHING, NONSENSE;
 * ENDED also without memory. Touches nothing that sending does. */
df_remote_channel_event df_remote_channel_read(df_remote_channel *channel, int socket,
                                               uint8_t *message, size_t *bytes, int *error);
/* What the record is: MESSAGE, TOLD, END or NONSENSE. Counts it. */
df_remote_channel_event df_remote_channel_take(df_remote_channel *channel);

#endif
