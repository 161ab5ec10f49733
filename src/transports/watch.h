/* The watch: a function that is called for each message that a network carries (a profiler). */
#ifndef DF_TRANSPORTS_WATCH_H
#define DF_TRANSPORTS_WATCH_H

#include <stdint.h>

typedef enum {
  DF_WATCH_SENDS, /* its first bytes are given to the network, perhaps again after a loss */
  DF_WATCH_SENT,  /* the remote end has received it, and all before it */
  DF_WATCH_COMES, /* a part of it has arrived */
  DF_WATCH_CAME   /* it has arrived completely */
} df_watch_event;

/* ring: the memory of the link of a block. Messages are counted from 1. report runs in any thread
 * that moves bytes, with the lock of the transport: it must not call this library, and its duration
 * delays messages. */
typedef struct df_message_watch {
  void (*report)(void *who, df_watch_event what, const uint8_t *ring, uint64_t sequence,
                 uint32_t bytes);
  void *who;
} df_message_watch;

#endif
