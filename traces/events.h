/* Sequences: what each GPU submits, event by event: a round drawn from a configuration, or a
 * recorded schedule. */
#ifndef DF_TRACES_EVENTS_H
#define DF_TRACES_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
