/* Log on standard error, at the level that DFCCL_DEBUG selects. */
#ifndef DF_BASE_LOG_H
#define DF_BASE_LOG_H

#include <stddef.h>
#include <sys/types.h>

#include "base/attributes.h"

typedef enum { DF_LOG_NONE, DF_LOG_ERROR, DF_LOG_WARN, DF_LOG_INFO, DF_LOG_TRACE } df_log_level;

void df_log_set_level(df_log_level level);
df_log_level df_log_get_level(void);
/* Writes one line with one write and never waits. A line that cannot be written at once is lost,
 * and the next line reports the loss. */
void df_log(df_log_level level, const char *format, ...) DF_PRINTF(2, 3);

enum {
  DF_PIECE_BYTES = 4096
}; /* PIPE_BUF: a pipe that poll reports as writable accepts this many bytes */

/* Both functions return the bytes written or -errno, and never raise SIGPIPE or SIGXFSZ.
 * df_write_now never waits: it writes at most DF_PIECE_BYTES, or returns -EAGAIN. */
ssize_t df_write(int fd, const char *text, size_t bytes);
ssize_t df_write_now(int fd, const char *text, size_t bytes);

#endif
