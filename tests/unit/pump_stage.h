/*
 * Two pumps in one process, joined by memory that delays and splits the bytes as a seeded adversary
 * decides, and flows of messages, with a model of a block at each end that uses the links as a step
 * does. Used by test_pump.c, test_pump_frames.c and fuzz_wire.c.
 */
#ifndef DF_TESTS_UNIT_PUMP_STAGE_H
#define DF_TESTS_UNIT_PUMP_STAGE_H

#include "support/harness.h"
#include "transports/net/pump/pump.h"

/* One direction. */
typedef struct wire_pipe {
  uint8_t *bytes;
  size_t capacity, at, end;
  size_t hidden; /* the latest bytes: written, and held back until other bytes are acknowledged */
  int under_way; /* some bytes were not acknowledged */
} wire_pipe;

typedef struct wire_stage wire_stage;

typedef struct wire_side {
  df_stream stream;
  wire_stage *stage;
  wire_pipe *in, *out;
  df_wire *wire;
  df_bell bell;
  int is_stuck; /* accepts and returns no bytes */
  int has_left; /* the other end is closed: writes fail, and reads end after the remaining bytes */
  int gathers;  /* its writes may be held back */
} wire_side;

struct wire_stage {
  wire_pipe pipes[2];
  wire_side sides[2];
  df_random random;
  int most;     /* bytes of one read or write; 0: any number */
  int refusals; /* percentage of calls that accept or return no bytes */
};

void wire_stage_make(wire_stage *stage, uint64_t seed, uint32_t frame_bytes);
void wire_stage_free(wire_stage *stage);
/* Moves bytes both ways. Returns 1 when it did something. */
int wire_side_pump(wire_side *side);

enum { WIRE_FLOW_MESSAGES = 4 };

/* The description of a flow, drawn at random or given. */
typedef struct wire_form {
  uint32_t chunk, loops, n_messages, local_slots, far_slots, element_bytes;
  uint32_t missing; /* elements that the last loop lacks */
  uint32_t offset;  /* payload_offset */
  int is_packed, geometry, lends, release_mask;
  int varying; /* each run has a count of its own */
} wire_form;

/* Messages of one link with one block, from side `from` to the other side. */
typedef struct wire_flow {
  wire_stage *stage;
  int from;
  wire_form form;
  uint32_t number; /* distinguishes payloads */
  df_part part;
  df_wire_pieces piece_of[WIRE_FLOW_MESSAGES];
  uint8_t *local, *far;    /* rings, with a guard behind each */
  df_link writer, reader;  /* the blocks' ends */
  df_wire_link *out, *in;  /* the pumps' */
  uint8_t **lent;          /* [local_slots] */
  uint64_t sent, received; /* messages, empty ones included */
  uint64_t written_most;   /* messages to write */
} wire_flow;

wire_form wire_form_draw(df_random *random);
void wire_flow_make(wire_flow *flow, wire_stage *stage, int from, uint32_t number,
                    const wire_form *form, uint64_t messages);
/* Detaches the flow from both pumps, if they still exist. */
void wire_flow_release(wire_flow *flow);
void wire_flow_free(wire_flow *flow); /* checks the guards */
uint32_t wire_flow_bytes(const wire_flow *flow, uint64_t sequence);
/* A turn of the block that sends. Returns 1 when it has sent something. */
int wire_flow_send(wire_flow *flow);
/* A turn of the block that receives: every element is checked. */
int wire_flow_receive(wire_flow *flow);
static inline int wire_flow_is_through(const wire_flow *flow) {
  return flow->received == flow->written_most;
}

/* Messages of 400 bytes in 4 slots. */
extern const wire_form wire_plain;
/* One side; the connection is not lost. */
void wire_stage_pump(wire_stage *stage, int side);
/* Both sides, until each has received all that the blocks have done. */
void wire_stage_settle(wire_stage *stage);
/* One turn of a side, or of a block of a flow. */
void wire_stage_turn(wire_stage *stage, wire_flow *flows, int n_flows);
/* The sender's end, or the receiver's. */
void wire_flow_release_end(wire_flow *flow, int at_sender);

#endif
