/* One connection of the root; no call waits. A caller can make the root store one message at most,
 * and only one that is due. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_CLIENT_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_CLIENT_H

#include "bootstrap/rendezvous/handshake.h"

typedef enum {
  DF_CALLER_NEW,    /* HELLO is due */
  DF_CALLER_PROVEN, /* JOIN is due */
  DF_CALLER_JOINED, /* PLACE, DONE or LEAVE may come */
  DF_CALLER_MESHED, /* LEAVE may come */
  DF_CALLER_DECIDED /* FAILURE or GO is queued: no other message matters */
} df_caller_stage;

typedef struct {
  int fd;
  df_caller_stage stage;
  uint64_t deadline_ns; /* deadline for a complete JOIN */
  unsigned char key[DF_KEY_BYTES];
  int rank, pid;
  bool is_first; /* the connection belongs to the rank that created the root */

  union {
    df_header header;
    df_hello hello;
    df_join_request join;
    df_signal signal;
    df_place place;
    df_refusal refusal;
    unsigned char bytes[DF_MESSAGE_BYTES_MAX];
  } in;
  size_t in_used;

  /* Small messages in order; all that one caller receives fit. The records of the table, which all
   * callers share, are sent when the byte at bulk_at is due. */
  unsigned char out[2048];
  size_t out_used, out_sent, bulk_at;
  const unsigned char *bulk;
  size_t bulk_bytes, bulk_sent;
} df_caller;

typedef enum {
  DF_CALLER_NOTHING,
  DF_CALLER_MESSAGE, /* a complete message is in `in`; clear in_used afterwards */
  DF_CALLER_GONE,    /* end of file, or a connection error */
  DF_CALLER_NONSENSE
} df_caller_event;

df_caller_event df_caller_read(df_caller *caller);

void df_caller_queue(df_caller *caller, const void *message, size_t bytes);

/* May be called repeatedly, but only while no other output is queued. */
void df_caller_queue_news(df_caller *caller, const void *message, size_t bytes);

/* The records must exist until the caller is closed. */
void df_caller_queue_bulk(df_caller *caller, const void *records, size_t bytes);

/* Returns false if the connection is broken. */
bool df_caller_flush(df_caller *caller);

bool df_caller_has_output(const df_caller *caller);

#endif
