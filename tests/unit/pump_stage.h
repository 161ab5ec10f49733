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

typedef struct pump_stage pump_stage;

typedef struct pump_side {
  df_stream stream;
  pump_stage *stage;
  wire_pipe *in, *out;
  df_pump *wire;
  df_bell bell;
  int is_stuck; /* accepts and returns no bytes */
  int has_left; /* the other end is closed: writes fail, and reads end after the remaining bytes */
  int gathers;  /* its writes may be held back */
} pump_side;

struct pump_stage {
  wire_pipe pipes[2];
  pump_side sides[2];
  df_random random;
  int most;     /* bytes of one read or write; 0: any number */
  int refusals; /* percentage of calls that accept or return no bytes */
};

void pump_stage_make(pump_stage *stage, uint64_t seed, uint32_t frame_bytes);
void pump_stage_free(pump_stage *stage);
/* Moves bytes both ways. Returns 1 when it did something. */
int pump_side_progress(pump_side *side);

enum { PUMP_FLOW_MESSAGES = 4 };

/* The description of a flow, drawn at random or given. */
typedef struct wire_form {
  uint32_t chunk, loops, n_messages, local_slots, remote_slots, element_bytes;
  uint32_t least_slots; /* least number of slots that the plan needs */
  uint32_t missing;     /* elements that the last loop lacks */
  uint32_t offset;      /* payload_offset */
  int is_packed, geometry, lends, release_mask;
  int varying; /* each run has a count of its own */
} wire_form;

/* Messages of one link with one block, from side `from` to the other side. */
typedef struct pump_flow {
  pump_stage *stage;
  int from;
  wire_form form;
  uint32_t number; /* distinguishes payloads */
  df_part part;
  df_pump_pieces piece_of[PUMP_FLOW_MESSAGES];
  uint8_t *local, *remote; /* rings, with a guard behind each */
  df_link writer, reader;  /* the blocks' ends */
  df_pump_link *out, *in;  /* the pumps' */
  uint8_t **lent;          /* [local_slots] */
  uint64_t sent, received; /* messages, empty ones included */
  uint64_t written_most;   /* messages to write */
} pump_flow;

wire_form wire_form_draw(df_random *random);
void pump_flow_make(pump_flow *flow, pump_stage *stage, int from, uint32_t number,
                    const wire_form *form, uint64_t messages);
/* Detaches the flow from both pumps, if they still exist. */
void pump_flow_release(pump_flow *flow);
void pump_flow_free(pump_flow *flow); /* checks the guards */
uint32_t pump_flow_bytes(const pump_flow *flow, uint64_t sequence);
/* A turn of the block that sends. Returns 1 when it has sent something. */
int pump_flow_send(pump_flow *flow);
/* A turn of the block that receives: every element is checked. */
int pump_flow_receive(pump_flow *flow);
static inline int pump_flow_is_through(const pump_flow *flow) {
  return flow->received == flow->written_most;
}

/* Messages of 400 bytes in 4 slots. */
extern const wire_form wire_plain;
/* One side; the connection is not lost. */
void pump_stage_pump(pump_stage *stage, int side);
/* Both sides, until each has received all that the blocks have done. */
void pump_stage_settle(pump_stage *stage);
/* One turn of a side, or of a block of a flow. */
void pump_stage_turn(pump_stage *stage, pump_flow *flows, int n_flows);
/* The sender's end, or the receiver's. */
void pump_flow_release_end(pump_flow *flow, int at_sender);

#endif
