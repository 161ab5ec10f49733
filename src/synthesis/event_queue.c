#include "synthesis/event_queue.h"

#include <stdlib.h>

static int is_before(const df_event *a, const df_event *b) {
  return a->at < b->at || (a->at == b->at && a->what < b->what);
}

void df_event_add(df_event_queue *queue, double at, uint64_t what) {
  if (queue->n == queue->capacity) {
    const uint64_t capacity = queue->capacity ? queue->capacity * 2 : 1024;
    df_event *heap = realloc(queue->heap, capacity * sizeof *heap);
    if (heap == NULL) {
      queue->failed = 1;
      return;
    }
    queue->heap = heap;
    queue->capacity = capacity;
  }
  const df_event event = {at, what};
  uint64_t i = queue->n++;
  for (; i > 0 && is_before(&event, &queue->heap[(i - 1) / 2]); i = (i - 1) / 2)
    queue->heap[i] = queue->heap[(i - 1) / 2];
  queue->heap[i] = event;
}

df_event df_event_take(df_event_queue *queue) {
  const df_event first = queue->heap[0], last = queue->heap[--queue->n];
  uint64_t i = 0;
  for (uint64_t child = 1; child < queue->n; child = 2 * i + 1) {
    if (child + 1 < queue->n && is_before(&queue->heap[child + 1], &queue->heap[child])) child++;
    if (!is_before(&queue->heap[child], &last)) break;
    queue->heap[i] = queue->heap[child];
    i = child;
  }
  queue->heap[i] = last;
  return first;
}

void df_event_queue_free(df_event_queue *queue) { free(queue->heap); }
