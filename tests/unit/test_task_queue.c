/*
 * Promises of src/queues/task_queue.h: an entry is inserted at its place and removed from it, all
 * other entries keep their order, and length and high-water mark are correct.
 */
#include "queues/task_queue.h"

#include <string.h>

#include "support/harness.h"

enum { MODEL_MAX = 200 };

DF_TEST(task_queue, order_is_kept, 30) {
  uint32_t order[MODEL_MAX], model[MODEL_MAX], length = 0, high = 0;
  df_task_queue queue = {.order = order};
  df_random random = {11};
  for (uint32_t i = 0; i < 50000; i++) {
    int growing = df_random_chance(&random, i / 1000 % 2 ? 60 : 40);
    if ((growing && length < MODEL_MAX) || length == 0) {
      uint32_t place = (uint32_t)df_random_below(&random, (int)length + 1);
      memmove(&model[place + 1], &model[place], (length - place) * sizeof *model);
      model[place] = i;
      length++;
      df_task_queue_insert(&queue, place, i);
    } else {
      uint32_t place = (uint32_t)df_random_below(&random, (int)length);
      memmove(&model[place], &model[place + 1], (length - place - 1) * sizeof *model);
      length--;
      df_task_queue_remove(&queue, place);
    }
    high = DF_MAX(high, length);
    CHECK(queue.length == length, "length %u instead of %u", queue.length, length);
    CHECK(queue.high_water == high, "high-water mark %u instead of %u", queue.high_water, high);
    CHECK(memcmp(order, model, length * sizeof *order) == 0, "another order after %u changes", i);
  }
  CHECK(high == MODEL_MAX, "it was never full: %u", high);
}
