#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/quiet_signals.h"

static uint32_t current_level = DF_LOG_NONE;
static uint32_t lines_lost; /* lost lines since the latest written line */

void df_log_set_level(df_log_level level) { df_store_relaxed_u32(&current_level, (uint32_t)level); }

df_log_level df_log_get_level(void) { return (df_log_level)df_load_relaxed_u32(&current_level); }

static ssize_t write_waiting(int fd, const char *text, size_t bytes) {
  return write(fd, text, bytes);
}

static ssize_t write_if_ready(int fd, const char *text, size_t bytes) {
  struct pollfd entry = {.fd = fd, .events = POLLOUT};
  int ready = poll(&entry, 1, 0);
  if (ready > 0) return write(fd, text, DF_MIN(bytes, DF_PIECE_BYTES));
  if (ready == 0) errno = EAGAIN;
  return -1;
}

/* Another process may fill a pipe between poll and write, so the write asks newer kernels not to
 * wait. Files do not support the flag, but a write to a file never waits for a reader. */
static ssize_t write_without_waiting(int fd, const char *text, size_t bytes) {
#ifdef RWF_NOWAIT
  struct stat status;
  struct iovec part = {.iov_base = (void *)(uintptr_t)text,
                       .iov_len = DF_MIN(bytes, DF_PIECE_BYTES)};
  if (fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))) {
    ssize_t written = pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
    if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)) return written;
  }
#endif
  return write_if_ready(fd, text, bytes);
}

static ssize_t without_signal(ssize_t (*writes)(int, const char *, size_t), int fd,
                              const char *text, size_t bytes) {
  df_quiet_signals quiet;
  df_quiet_signals_begin(&quiet);
  const ssize_t written = writes(fd, text, bytes);
  const int error = written < 0 ? errno : 0;
  df_quiet_signals_end(&quiet);
  return error ? -error : written;
}

ssize_t df_write(int fd, const char *text, size_t bytes) {
  return without_signal(write_waiting, fd, text, bytes);
}

ssize_t df_write_now(int fd, const char *text, size_t bytes) {
  return without_signal(write_without_waiting, fd, text, bytes);
}

void df_log(df_log_level level, const char *format, ...) {
  static const char *const names[] = {"", "error", "warn", "info", "trace"};
  if (level > df_log_get_level()) return;
  char text[1152];
  int head = 0;
  uint32_t lost = df_load_relaxed_u32(&lines_lost);
  if (lost > 0 && !df_system_claim_u32(&lines_lost, lost, 0))
    lost = 0; /* another line reports the lost ones */
  if (lost > 0)
    head = snprintf(text, sizeof text, "dfccl[%d] warn: %u lines before this one are lost\n",
                    (int)getpid(), lost);
  head += snprintf(text + head, sizeof text - (size_t)head, "dfccl[%d] %s: ", (int)getpid(),
                   names[level]);
  va_list arguments;
  va_start(arguments, format);
  int body = vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
  va_end(arguments);
  size_t length = DF_MIN((size_t)head + (size_t)(body < 0 ? 0 : body), sizeof text - 2);
  text[length++] = '\n';
  if (df_write_now(STDERR_FILENO, text, length) < 0) df_system_add_u32(&lines_lost, lost + 1);
}
