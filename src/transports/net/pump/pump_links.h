/*
 * The links of two ranks, as their pumps see them. A link is two local rings, one at each end; the
 * pump plays the remote neighbour of each ring with link.h. Both ends compute the length of a
 * message from its number. Empty messages are not sent. For a varying collective, a frame with the
 * count of the run precedes the data.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_PUMP_LINKS_H
#define DF_TRANSPORTS_NET_PUMP_PUMP_LINKS_H

#include "base/result.h"
#include "context/descriptor.h"
#include "primitives/link.h"

enum { DF_PUMP_PARTS = 64 /* parts of a message, at most */ };

/* The pieces of a message, as in df_primitive. */
typedef struct df_pump_pieces {
  uint16_t piece, pieces, stride;
} df_pump_pieces;

/* Description of a link, copied when the link is made. */
typedef struct df_pump_route {
  const df_link *ends; /* [n_blocks] the pump's ends; peer_bell: the bell of the block */
  const df_part *parts;
  const df_pump_pieces *piece_of; /* [messages] the pieces of the messages of a loop */
  const df_extent *extents;       /* lengths of the pieces of a PIECE_TABLE; else NULL */
  uint32_t messages;
  uint32_t n_blocks;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  uint8_t varying;      /* the first messages of a run carry its count */
  uint32_t least_slots; /* free slots without which ranks could wait for each other in a circle */
  uint64_t lend_min;    /* as in df_pump, for this link */
  uint64_t collective;  /* as in df_route; for the watch only, as is peer */
  uint32_t peer;
} df_pump_route;

/* Message numbers do not wrap around: no run gets that far. */
typedef struct df_pump_ring {
  df_link end; /* the end of the pump */
  df_part part;
  df_part run;     /* the share of `part` that the latest run uses */
  uint64_t next;   /* the first message that was not sent, or has not arrived; never an empty one */
  uint64_t most;   /* outgoing: the first message that was never sent */
  uint64_t credit; /* outgoing: the credit received; incoming: the credit sent to the remote end */
  uint32_t due;    /* incoming: this many released slots are announced at once */
  uint64_t wanted; /* incoming: the remote end waits for the credit of this message */
  uint64_t *have;  /* incoming: for each slot, a bit for each part that has arrived */
  uint32_t at;     /* outgoing: parts of message `next` that were sent */
  int has_messages;
  int has_count;    /* the count of the next message was carried */
  int may_lend;     /* incoming: messages are long enough to be lent */
  int state_is_due; /* incoming: a DF_FRAME_STATE has to be sent */
  int is_halted;    /* outgoing: nothing is sent until DF_FRAME_STATE arrives */
} df_pump_ring;

typedef struct df_pump_link {
  uint32_t id, remote_id;
  uint32_t remote_slots; /* outgoing: number of slots of each remote ring */
  uint32_t part_bytes;   /* payload bytes of a frame, at most */
  int incoming;
  int is_open;    /* DF_FRAME_OPEN was sent (outgoing) or has arrived (incoming) */
  uint16_t epoch; /* how often the connection of its messages was lost, as the sender counts */
  int is_bulk;    /* its messages are large, and delay no small ones */
  uint32_t port;  /* port of the latest DF_FRAME_OPEN; a varying link uses no other */
  uint32_t messages, n_blocks;
  uint32_t peer;
  uint64_t collective;
  df_pump_pieces *piece_of;
  uint32_t *elements_of; /* [messages] lengths, with a PIECE_TABLE; else NULL */
  uint64_t *have;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  uint8_t varying; /* df_varies; if it varies, its frames arrive in order */
  df_pump_ring rings[];
} df_pump_link;

typedef struct df_pump_links {
  df_pump_link **links; /* index: the low bits of the id; NULL: free */
  uint32_t *generations;
  uint32_t n, capacity;
} df_pump_links;

dfcclResult_t df_pump_links_add(df_pump_links *all, const df_pump_route *route,
                                uint32_t frame_bytes, df_pump_link **link);
void df_pump_links_remove(df_pump_links *all, df_pump_link *link);
void df_pump_links_free(df_pump_links *all);
/* Returns NULL if the link was removed. *is_known is 0 if there never was such a link. */
df_pump_link *df_pump_links_find(const df_pump_links *all, uint32_t id, int *is_known);

uint32_t df_pump_message_bytes(const df_pump_link *link, const df_pump_ring *ring,
                               uint64_t sequence);
/* Returns 1 if the message carries the count of its run. Such a message exists even if it is
 * empty. */
int df_pump_brings_count(const df_pump_link *link, const df_pump_ring *ring, uint64_t sequence);
void df_pump_take_up_run(const df_pump_link *link, df_pump_ring *ring, uint64_t count);
/* Advances ring->next to the next message, and past the empty ones that follow. */
void df_pump_pass(const df_pump_link *link, df_pump_ring *ring);
/* The same from a message that is not before ring->next. */
void df_pump_pass_to(const df_pump_link *link, df_pump_ring *ring, uint64_t sequence);

/* Returns the number near `near` that has the given low half. */
static inline uint64_t df_pump_whole(uint64_t near, uint32_t low) {
  return near + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)near);
}

/* The place of the count in the next message, if the message carries one. */
static inline uint64_t *df_pump_count_of(df_pump_ring *ring) {
  return (uint64_t *)(df_link_slot(&ring->end, ring->next) + DF_LINK_COUNT_OFFSET);
}

#endif
