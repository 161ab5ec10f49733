/*
 * A little-endian header of 24 bytes, then DF_FRAME_DATA's payload. A frame names a link by its
 * receiver's number.
 */
#ifndef DF_TRANSPORTS_WIRE_FRAME_H
#define DF_TRANSPORTS_WIRE_FRAME_H

#include "base/assert.h"
#include "base/attributes.h"

typedef enum {
  DF_FRAME_OPEN = 1, /* sequence: the sender's number; credits from now on */
  DF_FRAME_DATA,     /* part of message `sequence`, from byte `at` on */
  DF_FRAME_CREDIT,   /* sequence: the last message that the block is done with */
  DF_FRAME_COUNT,    /* sequence: elements of the run that the next message begins */
  DF_FRAME_KINDS
} df_frame_kind;

enum { DF_FRAME_MAGIC = 0xdfcd };

typedef struct df_frame {
  uint16_t magic;
  uint8_t kind, block;
  uint32_t link;
  uint32_t at, bytes;
  uint64_t sequence;
} df_frame;
DF_STATIC_ASSERT(sizeof(df_frame) == 24, "part of the protocol between processes");
DF_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are sent as they lie");

#endif
