/*
 * The pump that joins two processes' rings over a stream. A link is two local rings, one at each
 * end. The pump plays each ring's far neighbour with link.h. So the step knows nothing of it.
 *
 *   outgoing  Sends only against the far ring's credit, and hands each credit on to the block. So a
 *             run is through when it would be with shared memory. A lent buffer is borrowed within
 *             one call: the rest is copied. So a cancelled run does not wait for the network.
 *   incoming  Bytes go straight into a slot, free because of the credit. Publishes the commit word
 *             after the last byte, and passes the block's credits on.
 *
 * Both ends know a message's length from its number. Empty messages are not sent. Of a varying
 * collective, a frame with the run's count goes before the data. A frame that makes no sense ends the connection; none leads outside of a slot. No call waits, and each does a
 * bounded amount of work. Not thread-safe: its caller has a lock.
 */
#ifndef DF_TRANSPORTS_WIRE_WIRE_H
#define DF_TRANSPORTS_WIRE_WIRE_H

#include "base/result.h"
#include "context/descriptor.h"
#include "primitives/link.h"
#include "transports/wire/frame.h"
#include "transports/wire/stream.h"

#if defined(DF_SIMULATION) /* several frames a message here, too */
enum { DF_WIRE_FRAME_BYTES = 24, DF_WIRE_INPUT_BYTES = 32 };
#else
enum {
  DF_WIRE_FRAME_BYTES = 64 << 10, /* payload that stays in a private cache */
  DF_WIRE_INPUT_BYTES = 4 << 10   /* many small frames at once */
};
#endif
enum {
  DF_WIRE_BUDGET = 4, /* full frames in a call, each way */
  DF_WIRE_REASON_BYTES = 160
};

/* Copied when the link is made. */
typedef struct df_wire_route {
  const df_link *ends; /* [n_blocks] the pump's; peer_bell: the block's */
  const df_part *parts;
  const uint16_t *piece_of; /* [messages] of a loop */
  uint32_t messages;
  uint32_t n_blocks;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  uint8_t varying;
} df_wire_route;

/* Message numbers do not wrap: no run comes so far. */
typedef struct df_wire_ring {
  df_link end; /* The pump's end. */
  df_part part;
  df_part run;     /* The part's share of the latest run. */
  uint64_t next;   /* first message not yet carried */
  uint64_t credit; /* outgoing: as told; incoming: as told to the far end */
  uint32_t at;     /* Bytes of message `next` that were carried. */
  int has_messages;
  int has_count; /* The count of message `next` was carried. */
} df_wire_ring;

typedef struct df_wire_link {
  uint32_t id, far_id;
  uint32_t far_slots; /* Outgoing: slots of each ring at the far end. */
  int incoming;
  int is_open; /* DF_FRAME_OPEN was sent (outgoing) or came */
  uint32_t messages, n_blocks;
  uint16_t *piece_of;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  uint8_t varying;
  df_wire_ring rings[];
} df_wire_link;

typedef struct df_wire {
  df_stream *stream;
  df_wire_link **links; /* by the id's low bits; NULL: free */
  uint32_t *generations;
  uint32_t n_links, capacity;
  uint32_t turn;
  df_bell *noted; /* A bell that the call rings at its end. */

  uint32_t frame_bytes; /* Most payload of a frame. */
  uint8_t *output;      /* What the stream has not taken. */
  uint32_t output_at, output_end;

  uint8_t *input;
  uint32_t input_at, input_end;
  int has_more;         /* the latest call stopped early */
  df_frame frame;       /* The frame whose payload comes. */
  uint32_t rest;        /* Bytes of it that have not come. */
  df_wire_link *target; /* NULL: nowhere */

  int is_mute; /* the stream takes nothing more; it may still bring something */
  int is_lost;
  char reason[DF_WIRE_REASON_BYTES];
} df_wire;

/* frame_bytes: the far end's may differ. */
dfcclResult_t df_wire_make(df_wire **wire, df_stream *stream, uint32_t frame_bytes);
/* And its links. The stream is the caller's. */
void df_wire_free(df_wire *wire);

/* Incoming. The rings have not been written to. The link's id goes to the far end. */
dfcclResult_t df_wire_accept(df_wire *wire, const df_wire_route *route, df_wire_link **link);
/* Outgoing. far_id, far_slots: of the far end's df_wire_accept. The rings here have as many slots:
 * gaps of empty messages, and credits for several messages, are made for that. */
dfcclResult_t df_wire_connect(df_wire *wire, const df_wire_route *route, uint32_t far_id,
                              uint32_t far_slots, df_wire_link **link);
/* Does not touch the rings again. What still comes for them goes nowhere. */
void df_wire_release(df_wire *wire, df_wire_link *link);

/* Returns 1 when something was done: call again. 0: wait until the stream is ready, or a block
 * publishes or releases. */
int df_wire_pump(df_wire *wire);
/* Something that the far end has room for waits for the stream. */
int df_wire_has_pending(df_wire *wire);
/* As far as the blocks and the latest call tell. */
int df_wire_is_due(df_wire *wire);

#endif
