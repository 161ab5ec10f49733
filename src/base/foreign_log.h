/* What plugins made for other libraries print through ours. */
#ifndef DF_BASE_FOREIGN_LOG_H
#define DF_BASE_FOREIGN_LOG_H

#include <stdarg.h>

#include "base/log.h"

/* As NCCL's plugins count levels. Nothing is formatted that would not be printed, but warnings. 1: text
 * is the line, and *level ours; 0: nothing is to be printed. */
int df_foreign_text(int foreign_level, const char *format, va_list arguments, char *text,
                    size_t bytes, df_log_level *level) DF_PRINTF(2, 0);

#endif
