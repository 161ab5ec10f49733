/* The implementation of dfcclGetConfiguration. */
#ifndef DF_HOST_API_DESCRIBE_H
#define DF_HOST_API_DESCRIBE_H

#include "host/state/context.h"

/* configuration: checked by the caller; written up to the lesser of its size and this library's. */
dfcclResult_t df_get_configuration(dfcclContext_t context, dfcclCollId_t id,
                                   dfcclConfiguration_t *configuration);

#endif
