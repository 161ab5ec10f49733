/* Result codes with their names and texts, from one list, and the sentence of the latest
 * failure. */
#ifndef DF_BASE_RESULT_H
#define DF_BASE_RESULT_H

#include <stdarg.h>

#include "base/attributes.h"
#include "dfccl.h"

#define DF_RESULT_MAP(X)                                                                           \
  X(dfcclSuccess, "success")                                                                       \
  X(dfcclUnhandledCudaError, "a CUDA call failed")                                                 \
  X(dfcclSystemError, "a system call failed")                                                      \
  X(dfcclInternalError, "internal error: a defect of this library")                                \
  X(dfcclInvalidArgument, "invalid argument")                                                      \
  X(dfcclInvalidUsage, "invalid usage")                                                            \
  X(dfcclRemoteError, "remote error: a peer died, left or gave up, or its connection was lost")    \
  X(dfcclInProgress, "in progress: not complete yet")                                              \
  X(dfcclTimeout, "timeout: not complete within the configured time")                              \
  X(dfcclMismatch,                                                                                 \
    "mismatch: ranks registered or ran a collective differently, or their settings differ")        \
  X(dfcclAborted, "aborted by dfcclAbort or dfcclAbortCollectives")                                \
  X(dfcclOutOfMemory, "out of memory, or of another system resource")

enum { DF_SENTENCE_BYTES = 512 };

/* Records the calling thread's latest failure and returns code. Only the function that detects the
 * failure calls it. Control characters become "?". */
dfcclResult_t df_fail(dfcclResult_t code, const char *format, ...) DF_PRINTF(2, 3);

/* The same for a failure that was recorded and logged before, which is not logged again. */
dfcclResult_t df_fail_again(dfcclResult_t code, const char *sentence);

/* Returns the sentence, which is valid until the next df_fail of this thread. */
const char *df_last_sentence(void);

const char *df_result_name(dfcclResult_t code);

#endif
