#ifndef DF_HOST_LIFECYCLE_OPEN_DEVICE_H
#define DF_HOST_LIFECYCLE_OPEN_DEVICE_H

#include "host/state/context.h"

/* Opens the context's device. Settings, cards, peers, and the work bell are there. */
dfcclResult_t df_host_open_device(dfcclContext_t context);

#endif
