/* Events by time, then by number: a binary heap. */
#ifndef DF_SYNTHESIS_EVENT_QUEUE_H
#define DF_SYNTHESIS_EVENT_QUEUE_H

#include <stdint.h>

#include "base/result.h"

typedef struct df_event {
  double at;
  uint64_t what;
} df_event;

typedef struct df_event_queue {
  df_event *heap;
  uint64_t n, capacity;
  int failed; /* out of memory: an event is missing */
} df_event_queue;

void df_event_add(df_event_queue *queue, double at, uint64_t what);
df_event df_event_take(df_event_queue *queue); /* there is one */
void df_event_queue_free(df_event_queue *queue);

#endif
