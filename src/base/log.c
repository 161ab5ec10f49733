#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/atomic.h"

static uint32_t current_level = DF_LOG_NONE;

void df_log_set_level(df_log_level level) { df_store_relaxed_u32(&current_level, (uint32_t)level); }

df_log_level df_log_get_level(void) { return (df_log_level)df_load_relaxed_u32(&current_level); }

void df_log(df_log_level level, const char *format, ...) {
  static const char *const names[] = {"", "error", "warn", "info", "trace"};
  if (level > df_log_get_level()) return;
  char line[1024];
  int head = snprintf(line, sizeof line, "dfccl[%d] %s: ", (int)getpid(), names[level]);
  va_list arguments;
  va_start(arguments, format);
  int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
  va_end(arguments);
  size_t length = DF_MIN((size_t)head + (size_t)(body < 0 ? 0 : body), sizeof line - 2);
  line[length++] = '\n';
  ssize_t written = write(STDERR_FILENO, line, length);
  (void)written; /* there is nowhere else to say so */
}
