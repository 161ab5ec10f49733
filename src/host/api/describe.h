/* What dfcclGetConfiguration tells of a collective. */
#ifndef DF_HOST_API_DESCRIBE_H
#define DF_HOST_API_DESCRIBE_H

#include "host/state/context.h"

/* configuration: checked; written up to the lesser of its size and ours. */
dfcclResult_t df_get_configuration(dfcclContext_t context, dfcclCollId_t id,
                                   dfcclConfiguration_t *configuration);

#endif
