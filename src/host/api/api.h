/* The check of the context, with which each public function begins. */
#ifndef DF_HOST_API_API_H
#define DF_HOST_API_API_H

#include "host/state/context.h"

/* dfcclInvalidArgument; dfcclInvalidUsage: the context belongs to another process. */
DF_COLD dfcclResult_t df_refuse_context(const dfcclContext_t context);

static inline dfcclResult_t df_check_context(const dfcclContext_t context) {
  if (DF_LIKELY(context != NULL && context->magic == DF_CONTEXT_MAGIC)) return dfcclSuccess;
  return df_refuse_context(context);
}

#define DF_CHECK_CONTEXT(context)                                                                  \
  do {                                                                                             \
    dfcclResult_t checked = df_check_context(context);                                             \
    if (checked != dfcclSuccess) return checked;                                                   \
  } while (0)

#endif
