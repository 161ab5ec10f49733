/* What plugins made for other libraries print through ours. */
#ifndef DF_BASE_FOREIGN_LOG_H
#define DF_BASE_FOREIGN_LOG_H

#include <stdarg.h>

#include "base/log.h"

/* Defines the function that plugins of one kind are given, and declares it again for the semicolon.
 * As NCCL's plugins count levels. Nothing is formatted that would not be printed, but warnings. */
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
/* This thread's latest since the last call; "": none. Cut to fit. */
const char *df_foreign_last_warning(void);

#endif
