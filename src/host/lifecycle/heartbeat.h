/* Heartbeats: questions to ranks of other hosts while runs wait for them. A stopped process does
 * not answer, though its host's kernel acknowledges every byte, so TCP would never report it.
 * Questions and answers travel on the control channels, and the service thread answers: a rank that
 * computes still answers. */
#ifndef DF_HOST_LIFECYCLE_HEARTBEAT_H
#define DF_HOST_LIFECYCLE_HEARTBEAT_H

#include "base/mutex.h"
#include "host/state/context.h"

/* Before the service thread is started. Without ranks on other hosts, or without
 * DFCCL_NET_TIMEOUT_MS, no rank is asked. dfcclOutOfMemory. */
dfcclResult_t df_pings_add(dfcclContext_t context);
void df_pings_free(dfcclContext_t context);

/* An executor begins to sleep with runs that wait for peers. Any thread. */
void df_pings_begin(dfcclContext_t context);
void df_pings_receive(dfcclContext_t context, uint32_t from,
                      const df_message *message) DF_RANK_LOCKED;

#endif
