/* Log output of plugins that were made for other libraries. */
#ifndef DF_BASE_FOREIGN_LOG_H
#define DF_BASE_FOREIGN_LOG_H

#include <stdarg.h>

#include "base/log.h"

/* Defines the log function that plugins of one kind receive, and declares it again so that a
 * semicolon can follow. Levels are counted as in the plugins of NCCL. A message that is not printed
 * is not formatted, except for warnings. */
#define DF_FOREIGN_LOG(function, who)                                                              \
  void function(int level, unsigned long flags, const char *file, int line, const char *format,    \
                ...) {                                                                             \
    va_list arguments;                                                                             \
    (void)flags, (void)file, (void)line;                                                           \
    va_start(arguments, format);                                                                   \
    df_foreign_say(who, level, format, arguments);                                                 \
    va_end(arguments);                                                                             \
  }                                                                                                \
  void function(int level, unsigned long flags, const char *file, int line, const char *format, ...)

void df_foreign_say(const char *who, int foreign_level, const char *format, va_list arguments)
    DF_PRINTF(3, 0);
/* Returns the latest warning in this thread since the last call, truncated to fit, or "" if there
 * was none. */
const char *df_foreign_last_warning(void);

#endif
