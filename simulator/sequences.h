/* Rounds that are drawn from a configuration, as sequences of events. */
#ifndef DF_SIM_SEQUENCES_H
#define DF_SIM_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "events.h"
#include "field.h"
#include "layout.h"

/* Expands rounds of a layout, one at a time, into sequences. */
typedef struct {
  df_sequences sequences;
  const df_layout *layout;
  const df_field *field;
  uint32_t *expected; /* the GPUs' expected orders, one after the other */
  uint32_t *group_of;
  uint32_t *holes; /* positions passed over and not emitted yet */
  df_rare_slots rare;
} df_expansion;

/* layout and field must outlive the expansion. Fails if the events do not fit in memory. */
dfcclResult_t df_expansion_create(df_expansion *expansion, const df_layout *layout,
                                  const df_field *field, bool single_queue);

/* Makes expansion->sequences those of a round; valid until the next call. */
dfcclResult_t df_expansion_round(df_expansion *expansion, uint64_t round);
void df_expansion_destroy(df_expansion *expansion);

/* Emits a run of slots that begins with nothing passed over: writes to positions[] the places
 * (0 .. count - 1) in the order in which they are emitted, given each slot's skip. Skips that reach
 * beyond the last slot are clipped. holes has room for count entries. */
void df_emit_positions(uint64_t count, const uint64_t *skips, uint32_t *holes, uint32_t *positions);

#endif
