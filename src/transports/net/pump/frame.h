/*
 * A little-endian header of 16 bytes, then DF_FRAME_DATA's payload. A frame names a link by its
 * receiver's number. Messages are named by the low half of their number.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_FRAME_H
#define DF_TRANSPORTS_NET_PUMP_FRAME_H

#include "base/assert.h"
#include "base/attributes.h"

typedef enum {
  DF_FRAME_OPEN = 0xd1, /* sequence: the sender's number; part: the epoch, if not 0 say the state */
  DF_FRAME_DATA,        /* part `part` of message `sequence` */
  DF_FRAME_LENT,        /* the same, and the sender's buffer waits for the credit */
  DF_FRAME_CREDIT,      /* sequence: the last message that the block is done with */
  DF_FRAME_COUNT,       /* sequence and, above, bytes: elements of the run of the next message */
  /* sequence, and in the place of bytes: the first message and part that are not here. part: of
   * which epoch this is true. */
  DF_FRAME_STATE,
  DF_FRAME_LEAVES, /* the rank leaves: the connection's end is no loss */
  DF_FRAME_ASK,    /* sequence: a number; DF_FRAME_ANSWER says that all before it is here */
  DF_FRAME_ANSWER, /* the number, and part: the port that had the question */
  DF_FRAME_BEYOND,
  /* With any of them: the receiver's system acknowledges it as soon as it is read. */
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
