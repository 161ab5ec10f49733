/*
 * Wire: the pump that joins rings of two processes over a stream. A link to a rank that shares no
 * memory is two local rings: one in the sender's process, into which the block writes as if the
 * receiver were a thread of this process, and one in the receiver's. The pump plays the far
 * neighbour of each, with the same functions of link.h as a block: the receiver of an outgoing
 * ring, the sender of an incoming one. So the step function knows nothing of it.
 *
 *   outgoing  A message is sent only if the far ring has a slot for it: its receiver has said so by
 *             a credit. When the stream has taken the message, the pump releases the local slot. A
 *             lent buffer is borrowed while the stream takes a frame of it, and never across calls:
 *             what the stream leaves over is copied. So a run that was given up takes its buffers
 *             back without waiting for the network.
 *   incoming  Bytes go from the stream into the slot, which is free, since they came against a
 *             credit. When all of them are there, the pump publishes the commit word. Credits that
 *             the block gives are passed on as they are found.
 *
 * Both ends know how long each message is: it follows from its number, as for the step. Empty
 * messages are not sent.
 *
 * What comes in is checked. A frame that makes no sense ends the connection with a sentence. No
 * frame leads outside of a slot.
 *
 * No call waits, and each does a bounded amount of work. Not thread-safe: its caller has a lock.
 */
#ifndef DF_TRANSPORTS_WIRE_WIRE_H
#define DF_TRANSPORTS_WIRE_WIRE_H

#include "base/result.h"
#include "context/descriptor.h"
#include "primitives/link.h"
#include "transports/wire/frame.h"
#include "transports/wire/stream.h"

#if defined(DF_SIMULATION) /* small worlds have messages of several frames, too */
enum { DF_WIRE_FRAME_BYTES = 24, DF_WIRE_INPUT_BYTES = 32 };
#else
enum {
  DF_WIRE_FRAME_BYTES = 64 << 10, /* of payload: what stays in a private cache on its way */
  DF_WIRE_INPUT_BYTES = 4 << 10   /* read ahead, so that small frames come many at a time */
};
#endif
enum {
  DF_WIRE_BUDGET = 4,             /* frames of full length in one call, each way */
  DF_WIRE_REASON_BYTES = 160
};

/* What a link's messages are, for all of its blocks. Copied when the link is made. */
typedef struct df_wire_route {
  const df_link *ends; /* [n_blocks] those that the pump plays; peer_bell: the block's */
  const df_part *parts;
  const uint16_t *piece_of; /* [messages] what each message of a loop is about */
  uint32_t messages;
  uint32_t n_blocks;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
} df_wire_route;

/* One block's ring. Numbers of messages do not wrap: no run comes so far. */
typedef struct df_wire_ring {
  df_link end; /* that the pump plays */
  df_part part;
  uint64_t next;   /* the first message that was not carried as a whole */
  uint64_t credit; /* outgoing: as the far end has told. Incoming: as it was told */
  uint32_t at;     /* bytes of message `next` that were carried */
  int has_messages;
} df_wire_ring;

typedef struct df_wire_link {
  uint32_t id, far_id; /* the two ends' numbers of it */
  uint32_t far_slots;  /* outgoing: of each ring at the far end */
  int incoming;
  int is_open; /* outgoing: DF_FRAME_OPEN was sent. Incoming: it has come */
  uint32_t messages, n_blocks;
  uint16_t *piece_of;
  uint16_t pieces;
  uint8_t geometry, element_bytes;
  df_wire_ring rings[];
} df_wire_link;

typedef struct df_wire {
  df_stream *stream;
  df_wire_link **links; /* by the low bits of their number; NULL: free */
  uint32_t *generations;
  uint32_t n_links, capacity;
  uint32_t turn;  /* the link that is looked at first */
  df_bell *noted; /* to be rung at the end of the call */

  uint32_t frame_bytes; /* of payload, at most */
  uint8_t *output;      /* the rest of a frame that the stream did not take */
  uint32_t output_at, output_end;

  uint8_t *input;
  uint32_t input_at, input_end;
  int has_more;         /* the latest call stopped before the stream had nothing more */
  df_frame frame;       /* whose payload comes */
  uint32_t rest;        /* bytes of it that have not come */
  df_wire_link *target; /* of that payload; NULL: it goes nowhere */

  int is_lost;
  char reason[DF_WIRE_REASON_BYTES]; /* meaningful when lost */
} df_wire;

/* frame_bytes: as DF_WIRE_FRAME_BYTES; the far end's may differ. */
dfcclResult_t df_wire_make(df_wire **wire, df_stream *stream, uint32_t frame_bytes);
/* With its links. The stream is the caller's. */
void df_wire_free(df_wire *wire);

/* A link in whose local rings the pump is the sender. Its id goes to the far end, which connects to
 * it. The rings have not been written to. */
dfcclResult_t df_wire_accept(df_wire *wire, const df_wire_route *route, df_wire_link **link);
/* A link in whose local rings the pump is the receiver. far_id: as the far end's df_wire_accept has
 * said; far_slots: of its rings. */
dfcclResult_t df_wire_connect(df_wire *wire, const df_wire_route *route, uint32_t far_id,
                              uint32_t far_slots, df_wire_link **link);
/* The rings' memory is not touched any more. What the far end still sends for it goes nowhere. */
void df_wire_release(df_wire *wire, df_wire_link *link);

/* Carries what there is. Returns 1 when something was done: then a further call may do more. 0: it
 * goes on when the stream is ready, or a block has published or released. */
int df_wire_pump(df_wire *wire);
/* Would df_wire_pump do something, as far as the blocks and the latest call tell? */
int df_wire_is_due(df_wire *wire);

#endif
