#ifndef DF_HOST_LIFECYCLE_OPEN_DEVICE_H
#define DF_HOST_LIFECYCLE_OPEN_DEVICE_H

#include "host/state/context.h"

/* Opens the context's device. Settings, peer info, control peers and the work bell exist already.
 */
dfcclResult_t df_host_open_device(dfcclContext_t context);

#endif
