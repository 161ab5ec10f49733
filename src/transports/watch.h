/* The watch: a function that is called for each message that a network carries (a
 * profiler, a trace). */
#ifndef DF_TRANSPORTS_WATCH_H
#define DF_TRANSPORTS_WATCH_H

#include <stdint.h>

typedef enum {
  DF_WATCH_SENDS, /* its first bytes are given to the network, perhaps again after a loss */
  DF_WATCH_SENT,  /* the remote end has received it, and all before it */
  DF_WATCH_COMES, /* a part of it has arrived */
  DF_WATCH_CAME   /* it has arrived completely */
} df_watch_event;

/* A message of a link of a block. */
typedef struct df_watched_message {
  const uint8_t *ring; /* the memory of the link */
  uint64_t collective; /* as in df_route */
  uint64_t sequence;   /* counted from 1 */
  uint32_t peer, block;
  uint32_t bytes; /* DF_WATCH_SENDS, DF_WATCH_COMES: of the whole message; else 0 */
  int is_sent;    /* by this rank */
} df_watched_message;

/* report runs in any thread that moves bytes, with the lock of the transport: it must not call this
 * library, and its duration delays messages. */
typedef struct df_message_watch {
  void (*report)(void *who, df_watch_event what, const df_watched_message *message);
  void *who;
  const struct df_message_watch *next; /* notified, too; NULL: none */
} df_message_watch;

#endif
