/*
 * A frame is a little-endian header of 16 bytes, followed by the payload if it is DF_FRAME_DATA or
 * DF_FRAME_LENT. A frame names a link by the number of its receiver, and a message by the low half
 * of its number.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_FRAME_H
#define DF_TRANSPORTS_NET_PUMP_FRAME_H

#include "base/assert.h"
#include "base/attributes.h"

typedef enum {
  DF_FRAME_OPEN =
      /* sequence: the sender's number of the link; part: the epoch; if it is not 0, the receiver
       * answers with STATE */
  0xd1,
  DF_FRAME_DATA,   /* data of part `part` of message `sequence` */
  DF_FRAME_LENT,   /* the same; the buffer of the sender waits for the credit */
  DF_FRAME_CREDIT, /* sequence: the last message that the block has released */
  /* sequence, and bytes as the upper half: elements of the run of the next message */
  DF_FRAME_COUNT,
  /* sequence and bytes: the first message and part that have not arrived; part: the epoch for which
   * this is true */
  DF_FRAME_STATE,
  DF_FRAME_LEAVES, /* the rank leaves: the end of the connection is no loss */
  DF_FRAME_ASK, /* sequence: number of a question, answered when everything before it has arrived */
  DF_FRAME_ANSWER, /* sequence: number of the question; part: the port that asked */
  DF_FRAME_BEYOND,
  /* Combined with any kind: the system of the receiver acknowledges the frame as soon as it is
   * read. */
  DF_FRAME_IS_AWAITED = 0x20
} df_frame_kind;
DF_STATIC_ASSERT((DF_FRAME_OPEN & DF_FRAME_IS_AWAITED) == 0 &&
                     (DF_FRAME_BEYOND & DF_FRAME_IS_AWAITED) == 0,
                 "a bit that no kind has");

typedef struct df_frame {
  uint32_t link;
  uint8_t kind, block;
  uint16_t part;
  uint32_t bytes;
  uint32_t sequence;
} df_frame;
DF_STATIC_ASSERT(sizeof(df_frame) == 16, "part of the protocol between processes");
DF_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are sent as they lie");

#endif
