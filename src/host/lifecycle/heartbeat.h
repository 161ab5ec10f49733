/*
 * Questions to ranks of other hosts while runs wait for them. A stopped process answers none, though
 * its host's system acknowledges every byte, so TCP would never tell. They go over control's lines,
 * and the service thread answers: a rank that computes is no stopped rank.
 */
#ifndef DF_HOST_LIFECYCLE_HEARTBEAT_H
#define DF_HOST_LIFECYCLE_HEARTBEAT_H

#include "host/state/context.h"

/* The service thread is not started. Nothing is asked if no rank is on another host, or without
 * DFCCL_NET_TIMEOUT_MS. dfcclOutOfMemory. */
dfcclResult_t df_pings_add(dfcclContext_t context);
void df_pings_free(dfcclContext_t context);

/* An executor falls asleep with runs that wait for peers. Any thread. */
void df_pings_begin(dfcclContext_t context);
/* [lock] */
void df_pings_receive(dfcclContext_t context, uint32_t from, const df_message *message);

#endif
