/* The service thread. [lock]: the caller holds context->lock. */
#ifndef DF_CONTROL_SERVICE_H
#define DF_CONTROL_SERVICE_H

#include "host/context.h"

dfcclResult_t df_service_start(dfcclContext_t context);
void df_service_stop(dfcclContext_t context);
void df_service_wake(dfcclContext_t context);
void df_service_handle(dfcclContext_t context, uint32_t from, const df_message *message,
                       int fd); /* [lock] takes fd */

#endif
