/* Registration of collectives. */
#ifndef DF_HOST_REGISTRATION_H
#define DF_HOST_REGISTRATION_H

#include "host/registry.h"

dfcclResult_t df_register(dfcclContext_t context, const df_registration *registration);
dfcclResult_t df_deregister(dfcclContext_t context, dfcclCollId_t id);
#endif
