/* Sequences: what each GPU submits, event by event: a round drawn from a configuration, or a
 * recorded schedule. The dense and oracle engines judge them. */
#ifndef DF_SIM_SEQUENCES_H
#define DF_SIM_SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

#include "field.h"
#include "layout.h"

#define DF_EVENT_SYNC UINT32_MAX

typedef struct {
  uint32_t gpu_count, group_count;
  uint64_t coll_count;
  bool single_queue; /* one collective at a time on a GPU; else barriers are DF_EVENT_SYNC events */

  /* Groups, and the group of each collective; borrowed from a layout or a schedule. */
  const uint32_t *member_first, *member;
  const uint32_t *group_of; /* collective -> group */

  /* Events: collective numbers and DF_EVENT_SYNC. */
  uint64_t *first; /* GPU -> its range in event[]; gpu_count + 1 entries */
  uint32_t *event;
} df_sequences;

static inline uint32_t df_sequences_members(const df_sequences *sequences, uint32_t collective) {
  uint32_t group = sequences->group_of[collective];
  return sequences->member_first[group + 1] - sequences->member_first[group];
}

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
