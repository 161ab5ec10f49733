/*
 * Conversion of blocks to one list per rank. A plan has one list per rank, and a file has
 * concurrent blocks. All blocks of all ranks are executed symbolically, with a given number of
 * slots in each connection. The order in which a rank's steps were executed is its list. The list
 * waits only where the file's blocks would wait: connections deliver messages in order, so whether
 * all blocks end does not depend on which block goes first.
 */
#ifndef DF_PLANS_MSCCL_ORDER_H
#define DF_PLANS_MSCCL_ORDER_H

#include "plans/msccl/model.h"

typedef struct df_file_event {
  uint16_t rank, part;  /* part: number of the chunk, of a step whose chunks are moved one by one */
  uint32_t block, step; /* indices into the model's arrays */
} df_file_event;

typedef struct df_file_order {
  df_file_event *events; /* without steps that only wait */
  uint32_t n_events;
  uint32_t *from; /* [n_blocks] the block that sends to this one; or UINT32_MAX */
} df_file_order;

/* Checks that the two ends of each connection agree, and fills order->from. */
int df_file_connect(const df_file_model *model, df_file_order *order,
                    df_file_diagnostic *diagnostic);

/* 1: *order contains the events. 0: a diagnostic has been recorded. -1: more slots are needed.
 * one_by_one: each message has one chunk. */
int df_file_schedule(const df_file_model *model, uint32_t slots, int one_by_one,
                     df_file_order *order, df_file_diagnostic *diagnostic);
void df_file_order_free(df_file_order *order);

#endif
