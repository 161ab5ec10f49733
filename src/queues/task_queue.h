/* Task queue: the incomplete collectives of one block, in the order of their places. Each
 * collective has at most one entry, so the queue is never full. Other threads read length with
 * relaxed loads. */
#ifndef DF_QUEUES_TASK_QUEUE_H
#define DF_QUEUES_TASK_QUEUE_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"

typedef struct df_task_queue {
  uint32_t *order;   /* [DF_MAX_COLLECTIVES] collective at each place */
  uint32_t *pending; /* [DF_MAX_COLLECTIVES] number of incomplete runs of each collective */
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
