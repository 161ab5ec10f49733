/* A stage for one rank of three. The rank is a context made of the library's parts. The test plays
 * its peers, which count as processes of their own, at the other ends of their connections. */
#ifndef DF_TESTS_UNIT_STAGE_H
#define DF_TESTS_UNIT_STAGE_H

#include "host/state/context.h"
#include "support/harness.h"

enum { STAGE_RANKS = 3, STAGE_COUNT = 100 };

typedef struct df_stage {
  dfcclContext_t context; /* rank 0 */
  int peers[STAGE_RANKS]; /* the ends of ranks 1 and 2 */
} df_stage;

typedef union df_datagram {
  df_message message;
  uint8_t bytes[DF_MAX_MESSAGE_BYTES];
} df_datagram;

void stage_open(df_stage *s);
/* change: modifies the peer info of the ranks. */
dfcclResult_t stage_open_with(df_stage *s, void (*change)(df_peer_info *peer_info));
/* Rank 1 has sent the place of its bell, so that links with it can be connected. */
void stage_open_with_bell(df_stage *s);
/* Destroys the context, and closes the remaining ends. */
void stage_close(df_stage *s);
/* Simulates the end of a peer's process. */
void stage_die(df_stage *s, int peer);

/* Blocks until the rank sends a message to this peer. 0: the connection has ended. */
int stage_receive(const df_stage *s, int peer, df_datagram *datagram);
/* Blocks until a message of this kind and object. 0: the connection has ended without it. */
int stage_has_received(const df_stage *s, int peer, df_message_kind kind, uint64_t id);
/* text: its payload; NULL: none. */
void stage_say(const df_stage *s, int peer, df_message message, const char *text);

/* Delivers the message as if rank 1 had sent it, without the connection; takes over fd. */
void stage_handle(const df_stage *s, df_message *message, int fd);
/* Ordinary shared memory. */
void stage_offer_segment(const df_stage *s, uint64_t id, uint64_t bytes, uint64_t use);
/* Rings in which that peer receives for the collective. */
void stage_offer_rings(const df_stage *s, uint32_t peer, dfcclCollId_t id,
                       const df_shm_offer *offer);
/* A collective of ranks 0 and 1, as rank 1 announces it. */
void stage_announce(const df_stage *s, dfcclCollId_t id, const df_announcement *announcement);
/* An all-reduce of ranks 0 and 1, of STAGE_COUNT bytes. */
dfcclResult_t stage_register_of_two(const df_stage *s, dfcclCollId_t id);
/* Rank 0 waits for `count` bytes that rank 1 never sends; returns when the run is in the daemon. */
void stage_begin_broadcast(const df_stage *s, dfcclCollId_t id, size_t count, const void *send,
                           void *recv);
/* The announcement of a member that registers the same collective. */
df_announcement stage_announcement_of(const df_stage *s, dfcclCollId_t id);

#endif
