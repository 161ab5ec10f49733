/*
 * Manner: how one collective travels, and why. Decided once for each registration, from one
 * question. What depends on the moment (rings in use, mappings) is decided at link set-up by the
 * functions below. Members compare algorithm, split and shape; the rest is each rank's own.
 */
#ifndef DF_TUNING_CONFIGURATION_H
#define DF_TUNING_CONFIGURATION_H

#include "topology/topology.h"
#include "transports/transport.h"
#include "tuning/choice.h"

typedef struct df_manner_question {
  const df_tuning *tuning;
  const df_topology *topology;
  df_question choice;
  uint64_t count;
  int varying; /* runs may have fewer elements */
  uint32_t element_bytes;
  uint32_t max_blocks;
  int on_gpu;
  int on_one_gpu;      /* and in one process: any buffer can be lent to any member */
  int host_sees_links; /* the host's processors write the rings */
  int has_borrowed_turns;
} df_manner_question;

typedef struct df_manner {
  df_choice choice;
  df_shape shape;
  uint64_t lend_min; /* messages from so many bytes are lent; UINT64_MAX: none */
  uint8_t lends;     /* DF_LENDS_* */
  uint8_t stream;    /* DF_STREAM_*: which results are stored past the caches */
  int borrowed_turn; /* runs are short: the submitter executes the first turn */
  int runs_ahead;    /* some members wait for nobody */
  uint32_t ranks_on_a_core, crowded;
  int several; /* a message may have several pieces */
  df_memory_kind memory;
  const df_policy *policy;
} df_manner;

/* Algorithm and split, for the plan. 0: the operation has no algorithm of that name. */
int df_manner_choose(df_manner *manner, const df_manner_question *question);
/* The rest, for the chosen plan. */
void df_manner_decide(df_manner *manner, const df_manner_question *question, const df_plan *plan);

/* Microseconds of a run, by the model; negative: it has no formula. */
double df_manner_predict(const df_manner_question *question, int algorithm, uint32_t split,
                         uint64_t slot_bytes);

/* The rings that this rank receives in; used_bytes: of its rings so far. */
df_ring df_manner_ring(const df_manner *manner, const df_manner_question *question,
                       const df_plan *plan, uint64_t used_bytes);

/* Slots of each block in memory that `readers` ranks of other processes map; 0: none. links: of
 * block 0, as set up. */
uint32_t df_manner_common_slots(const df_manner *manner, const df_manner_question *question,
                                const df_plan *plan, const df_link *links, uint32_t readers,
                                uint64_t used_bytes);

/* Of messages: "flagged", "staged" or "words"; "none" without messages. */
const char *df_manner_form(const df_manner *manner, const df_plan *plan, uint64_t count);
/* Messages may be lent instead of copied. */
int df_manner_lends(const df_manner *manner, uint32_t element_bytes);

/* Where the algorithm comes from: "it is named", "the first rule that fits, ...". */
void df_manner_say_source(const df_manner *manner, df_text *text);
/* Decisions and reasons, one a line ("form: flagged, since ..."), cut to fit. */
void df_manner_explain(const df_manner *manner, const df_manner_question *question,
                       const df_plan *plan, const df_ring *ring, char *text, size_t bytes);

#endif
