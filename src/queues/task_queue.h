/* Task queue: one block's incomplete collectives in order of place, one entry each: never full.
 * Others read length (relaxed). */
#ifndef DF_QUEUES_TASK_QUEUE_H
#define DF_QUEUES_TASK_QUEUE_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"

typedef struct df_task_queue {
  uint32_t *order;   /* [DF_MAX_COLLECTIVES] by place */
  uint32_t *pending; /* [DF_MAX_COLLECTIVES] incomplete runs by collective */
  uint32_t length;
  uint32_t high_water;
} df_task_queue;

DF_CORE void df_task_queue_insert(df_task_queue *queue, uint32_t place, uint32_t collective) {
  DF_ASSERT(place <= queue->length);
  DF_ASSERT(queue->length < DF_MAX_COLLECTIVES);
  for (uint32_t i = queue->length; i > place; i--) queue->order[i] = queue->order[i - 1];
  queue->order[place] = collective;
  df_store_relaxed_u32(&queue->length, queue->length + 1);
  if (queue->length > queue->high_water) df_store_relaxed_u32(&queue->high_water, queue->length);
}

DF_CORE void df_task_queue_remove(df_task_queue *queue, uint32_t place) {
  DF_ASSERT(place < queue->length);
  for (uint32_t i = place; i + 1 < queue->length; i++) queue->order[i] = queue->order[i + 1];
  df_store_relaxed_u32(&queue->length, queue->length - 1);
}

#endif
