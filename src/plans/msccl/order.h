/*
 * From blocks to one list. A plan is one list a rank, and a file has blocks side by side. All blocks
 * of all ranks are executed symbolically, with so many slots in each connection; the order in which
 * a rank's steps were executed is its list. It waits nowhere where the file's blocks would not:
 * connections hand messages on in order, so whether all ends does not depend on who goes first.
 */
#ifndef DF_PLANS_MSCCL_ORDER_H
#define DF_PLANS_MSCCL_ORDER_H

#include "plans/msccl/model.h"

typedef struct df_file_event {
  uint16_t rank, part;  /* part: of a step whose chunks go one by one */
  uint32_t block, step; /* in the model's arrays */
} df_file_event;

typedef struct df_file_order {
  df_file_event *events; /* no steps that only wait */
  uint32_t n_events;
  uint32_t *from; /* [n_blocks] the block that sends what this one receives; or UINT32_MAX */
} df_file_order;

/* What the two ends of each connection do fits. Fills order->from. */
int df_file_connect(const df_file_model *model, df_file_order *order,
                    df_file_diagnostic *diagnostic);

/* 1: *order has the events. 0: complained. -1: more slots are needed. one_by_one: each message has
 * one chunk. */
int df_file_schedule(const df_file_model *model, uint32_t slots, int one_by_one,
                     df_file_order *order, df_file_diagnostic *diagnostic);
void df_file_order_free(df_file_order *order);

#endif
