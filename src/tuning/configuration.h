/*
 * Configuration: how one collective travels, and why. The decisions are made once for each
 * registration, from one question, and each stores its reason (tuning/reasons.h). Decisions that
 * depend on the moment (rings in use, mappings) are made at link set-up by the functions below.
 * Members compare algorithm, split and shape; all other decisions are each rank's own.
 */
#ifndef DF_TUNING_CONFIGURATION_H
#define DF_TUNING_CONFIGURATION_H

#include "topology/topology.h"
#include "transports/transport.h"
#include "tuning/choice.h"
#include "tuning/reasons.h"

typedef struct df_configuration_question {
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
} df_configuration_question;

typedef struct df_configuration {
  df_choice choice;
  df_shape shape;
  uint64_t lend_min; /* messages from so many bytes are lent; UINT64_MAX: none */
  uint8_t lends;     /* DF_LENDS_* */
  uint8_t stream;    /* DF_STREAM_*: which results are stored past the caches */
  int borrowed_turn; /* the submitter executes the first turn of a run */
  int runs_ahead;    /* some members wait for nobody */
  uint32_t ranks_on_a_core, oversubscribed;
  df_cuts cuts;
  df_reasons reasons; /* set by the decisions, as are the values that explanations print: */
  uint64_t result_bytes, stream_min, longest_message; /* stream_min: of each rank on a core */
  uint32_t slot_limit;                                /* most payload of a slot */
  int lends_for_certain;                              /* all of lend_min bytes or more */
  df_memory_kind memory;
  const df_policy *policy;
} df_configuration;

/* Algorithm and split, for the plan. 0: the operation has no algorithm of that name. */
int df_configuration_choose(df_configuration *configuration,
                            const df_configuration_question *question);
/* All other decisions, for the chosen plan. */
void df_configuration_decide(df_configuration *configuration,
                             const df_configuration_question *question, const df_plan *plan);

/* Microseconds of a run, by the model; negative: it has no formula. */
double df_configuration_predict(const df_configuration_question *question, int algorithm,
                                uint32_t split, uint64_t slot_bytes);

/* The rings that this rank receives in; used_bytes: of its rings so far. */
df_ring df_configuration_ring(const df_configuration *configuration,
                              const df_configuration_question *question, const df_plan *plan,
                              uint64_t used_bytes);

/* Slots of each block in memory that `readers` ranks of other processes map; 0: none. links: of
 * block 0, as set up. */
/* The least bytes of messages that other members may lend. They may have other reasons to lend
 * nothing than this one, which members do not compare. */
uint64_t df_configuration_peers_lend_min(const df_configuration *configuration);

uint32_t df_configuration_common_slots(const df_configuration *configuration,
                                       const df_configuration_question *question,
                                       const df_plan *plan, const df_link *links, uint32_t readers,
                                       uint64_t used_bytes);

/* The form of messages: "flagged", "staged" or "words"; "none" without messages. */
const char *df_configuration_form(const df_configuration *configuration, const df_plan *plan,
                                  uint64_t count);
/* Whether messages are lent instead of copied. */
int df_configuration_lends(const df_configuration *configuration, uint32_t element_bytes);

/* The source of the algorithm: "since it is named", "the first rule that fits, ...". */
void df_configuration_say_source(const df_configuration *configuration, df_text *text);
/* Decisions and reasons, one a line ("form: flagged, since ..."), cut to fit. */
void df_configuration_explain(const df_configuration *configuration,
                              const df_configuration_question *question, const df_plan *plan,
                              const df_ring *ring, char *text, size_t bytes);

#endif
