/* Handlers of the kinds of control messages, and of the events that control reports about peers. */
#ifndef DF_HOST_LIFECYCLE_MESSAGE_HANDLERS_H
#define DF_HOST_LIFECYCLE_MESSAGE_HANDLERS_H

#include "host/state/context.h"

/* Before the service thread starts. */
void df_subscribe(dfcclContext_t context);
df_control_events df_control_events_of(dfcclContext_t context);

#endif
