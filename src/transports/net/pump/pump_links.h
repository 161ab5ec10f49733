/*
 * The links of two ranks, as their pumps see them. A link is two local rings, one at each end; the
 * pump plays each ring's remote neighbour with link.h. Both ends know a message's length from its
 * number. Empty messages are not sent. Of a varying collective, a frame with the run's count goes
 * before the data.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_PUMP_LINKS_H
#define DF_TRANSPORTS_NET_PUMP_PUMP_LINKS_H

#include "base/result.h"
#include "context/descriptor.h"
#include "primitives/link.h"

enum { DF_PUMP_PARTS = 64 /* of a message, at most */ };

/* Of a message, as in df_primitive. */
typedef struct df_pump_pieces {
  uint16_t piece, pieces, stride;
} df_pump_pieces;

/* Copied when the link is made. */
typedef struct df_pump_route {
  const df_link *ends; /* [n_blocks] the pump's; peer_bell: the block's */
  const df_part *parts;
  const df_pump_pieces *piece_of; /* [messages] of a loop */
  const df_extent *extents;       /* of pieces: LISTED; else NULL */
  uint32_t messages;
  uint32_t n_blocks;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  uint8_t varying; /* first messages bring their run's count */
} df_pump_route;

/* Message numbers do not wrap: no run comes so far. */
typedef struct df_pump_ring {
  df_link end; /* the pump's */
  df_part part;
  df_part run;     /* what the latest run is of it */
  uint64_t next;   /* the first message not sent, or not here; never an empty one */
  uint64_t most;   /* outgoing: the first message that was never sent */
  uint64_t credit; /* outgoing: as told; incoming: as told to the remote end */
  uint64_t wanted; /* incoming: the remote end waits for this message's credit */
  uint64_t *have;  /* incoming: of each slot, a bit for each part that is here */
  uint32_t at;     /* outgoing: parts of `next` that were sent */
  int has_messages;
  int has_count;   /* of the next message; was carried */
  int may_lend;    /* incoming: messages are long enough to be lent */
  int tells_state; /* incoming: DF_FRAME_STATE is due */
  int is_halted;   /* outgoing: until DF_FRAME_STATE comes */
} df_pump_ring;

typedef struct df_pump_link {
  uint32_t id, remote_id;
  uint32_t remote_slots; /* outgoing: of each ring */
  uint32_t part_bytes;   /* of a frame, at most */
  int incoming;
  int is_open;    /* DF_FRAME_OPEN was sent (outgoing) or came */
  uint16_t epoch; /* how often its messages' connection was lost, as the sender counts */
  int is_bulk;    /* its messages stand in nobody's way */
  uint32_t port;  /* the latest DF_FRAME_OPEN's; a varying link has no other */
  uint32_t messages, n_blocks;
  df_pump_pieces *piece_of;
  uint32_t *elements_of; /* [messages] LISTED; else NULL */
  uint64_t *have;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  uint8_t varying; /* df_varies; then its frames come in order */
  df_pump_ring rings[];
} df_pump_link;

typedef struct df_pump_links {
  df_pump_link **links; /* by the id's low bits; NULL: free */
  uint32_t *generations;
  uint32_t n, capacity;
} df_pump_links;

dfcclResult_t df_pump_links_add(df_pump_links *all, const df_pump_route *route,
                                uint32_t frame_bytes, df_pump_link **link);
void df_pump_links_remove(df_pump_links *all, df_pump_link *link);
void df_pump_links_free(df_pump_links *all);
/* NULL: it was removed. *is_known 0: there never was one. */
df_pump_link *df_pump_links_find(const df_pump_links *all, uint32_t id, int *is_known);

uint32_t df_pump_message_bytes(const df_pump_link *link, const df_pump_ring *ring,
                               uint64_t sequence);
/* Such a message is there, even if it is empty. */
int df_pump_brings_count(const df_pump_link *link, const df_pump_ring *ring, uint64_t sequence);
void df_pump_take_up_run(const df_pump_link *link, df_pump_ring *ring, uint64_t count);
/* ring->next is the message behind it, or behind the empty ones that follow. */
void df_pump_pass(const df_pump_link *link, df_pump_ring *ring);
/* The same of a message that is not before ring->next. */
void df_pump_pass_to(const df_pump_link *link, df_pump_ring *ring, uint64_t sequence);

/* The number near `near` whose low half is given. */
static inline uint64_t df_pump_whole(uint64_t near, uint32_t low) {
  return near + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)near);
}

/* Where the next message has its run's count, if it brings one. */
static inline uint64_t *df_pump_count_of(df_pump_ring *ring) {
  return (uint64_t *)(df_link_slot(&ring->end, ring->next) + DF_LINK_COUNT_OFFSET);
}

#endif
