/*
 * Manner: everything that is decided about how one collective travels, and why. It is made in one
 * place (manner.c) from one question, once for each registration; what depends on the moment (rings
 * that are in use already, who has mapped what) is asked for at link set-up by the functions below.
 * Members compare algorithm, split and shape; the rest is each rank's own.
 */
#ifndef DF_TUNING_MANNER_H
#define DF_TUNING_MANNER_H

#include "topology/topology.h"
#include "transports/transport.h"
#include "tuning/choice.h"

typedef struct df_manner_question {
  const df_tuning *tuning;
  const df_topology *topology;
  df_question choice; /* operation, group, bytes, memory, name */
  uint64_t count;
  uint32_t element_bytes;
  uint32_t max_blocks;
  int on_gpu;
  int host_sees_links; /* the host's processors write the rings */
  int has_borrowed_turns;
} df_manner_question;

typedef struct df_manner {
  df_choice choice;  /* algorithm, split, and limits of the shape */
  df_shape shape;    /* blocks, chunks, slots, stride, where a payload begins */
  uint64_t lend_min; /* message bytes from which buffers are lent; UINT64_MAX: never */
  uint8_t lends;     /* DF_LENDS_IN_PLACE, DF_LENDS_STREAMED */
  uint8_t stream;    /* DF_STREAM_*: whether results are written past the caches */
  int borrowed_turn; /* its runs are so short that their submitter executes the first turn */
  int runs_ahead;    /* some members wait for nobody, and may be many runs ahead */
  uint32_t ranks_on_a_core, crowded;
  df_memory_kind memory; /* of the question */
  const df_policy *policy;
} df_manner;

/* Algorithm and split, of which the plan follows. 0: the operation has no algorithm of that name. */
int df_manner_choose(df_manner *manner, const df_manner_question *question);
/* The rest. `plan` is the one that was chosen. */
void df_manner_decide(df_manner *manner, const df_manner_question *question, const df_plan *plan);

/* The rings in which this rank receives, while its rings take used_bytes already. */
df_ring df_manner_ring(const df_manner *manner, const df_manner_question *question,
                       const df_plan *plan, uint64_t used_bytes);

/* Slots of each block in memory that `readers` ranks of other processes map; 0: no common slots.
 * links: of block 0, as set up. */
uint32_t df_manner_common_slots(const df_manner *manner, const df_manner_question *question,
                                const df_plan *plan, const df_link *links, uint32_t readers,
                                uint64_t used_bytes);

/* The decisions and their reasons, one a line ("form: flagged, since ..."), cut to fit. */
void df_manner_explain(const df_manner *manner, const df_manner_question *question,
                       const df_plan *plan, const df_ring *ring, char *text, size_t bytes);

#endif
