#include "base/foreign_log.h"

#include <stdio.h>
#include <string.h>

#include "base/result.h"

/* Returns whether all conversions are of integers and none takes its width from an argument. Other
 * conversions may not match their arguments: one plugin passes a character for %s. */
static int is_harmless(const char *format) {
  for (const char *at = format; (at = strchr(at, '%')) != NULL; at++) {
    at += 1 + strspn(at + 1, "-+ #0123456789");
    at += strspn(at, "hljzt");
    if (*at == '\0' || strchr("diuxXoc%", *at) == NULL) return 0;
  }
  return 1;
}

enum { WARNING_BYTES = 120 };
static _Thread_local char warning[WARNING_BYTES];

void df_foreign_say(const char *who, int foreign_level, const char *format, va_list arguments) {
  enum { WARN = 2, INFO = 3 };
  char text[DF_SENTENCE_BYTES];
  if (format == NULL) return;
  const df_log_level level = foreign_level <= WARN   ? DF_LOG_WARN
                             : foreign_level == INFO ? DF_LOG_INFO
                                                     : DF_LOG_TRACE;
  if (level != DF_LOG_WARN && level > df_log_get_level()) return;
  if (is_harmless(format))
    vsnprintf(text, sizeof text, format, arguments);
  else
    snprintf(text, sizeof text, "%s", format);
  if (level == DF_LOG_WARN) snprintf(warning, sizeof warning, "%.*s", WARNING_BYTES - 1, text);
  df_log(level, "%s: %s", who, text);
}

const char *df_foreign_last_warning(void) {
  static _Thread_local char copy[WARNING_BYTES];
  memcpy(copy, warning, sizeof copy);
  warning[0] = '\0';
  return copy;
}
