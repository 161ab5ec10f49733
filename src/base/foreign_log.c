#include "base/foreign_log.h"

#include <stdio.h>
#include <string.h>

/* All conversions are of integers, and none takes its width from an argument. Others may not fit
 * their arguments: one plugin passes a character for %s. */
static int is_harmless(const char *format) {
  for (const char *at = format; (at = strchr(at, '%')) != NULL; at++) {
    at += 1 + strspn(at + 1, "-+ #0123456789");
    at += strspn(at, "hljzt");
    if (*at == '\0' || strchr("diuxXoc%", *at) == NULL) return 0;
  }
  return 1;
}

int df_foreign_text(int foreign_level, const char *format, va_list arguments, char *text,
                    size_t bytes, df_log_level *level) {
  enum { WARN = 2, INFO = 3 };
  if (format == NULL) return 0;
  *level = foreign_level <= WARN ? DF_LOG_WARN : foreign_level == INFO ? DF_LOG_INFO : DF_LOG_TRACE;
  if (*level != DF_LOG_WARN && *level > df_log_get_level()) return 0;
  if (is_harmless(format))
    vsnprintf(text, bytes, format, arguments);
  else
    snprintf(text, bytes, "%s", format);
  return 1;
}
