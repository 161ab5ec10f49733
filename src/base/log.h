/* Log to standard error, silent unless DFCCL_DEBUG asks for it (error, warn, info, trace). */
#ifndef DF_BASE_LOG_H
#define DF_BASE_LOG_H

#include <stddef.h>
#include <sys/types.h>

#include "base/attributes.h"

typedef enum { DF_LOG_NONE, DF_LOG_ERROR, DF_LOG_WARN, DF_LOG_INFO, DF_LOG_TRACE } df_log_level;

void df_log_set_level(df_log_level level); /* set once, when the environment has been read */
df_log_level df_log_get_level(void);
/* One line, one write. Never waits: a line that cannot be written at once is dropped, and the next
 * line tells how many were. */
void df_log(df_log_level level, const char *format, ...) DF_PRINTF(2, 3);

enum {
  DF_PIECE_BYTES = 4096
}; /* a pipe that poll calls writable takes so much at once (PIPE_BUF) */

/* Both return the bytes written or -errno, and never raise SIGPIPE. df_write_now does not wait: it
 * writes at most DF_PIECE_BYTES, and returns -EAGAIN if the reader is slow. */
ssize_t df_write(int fd, const char *text, size_t bytes);
ssize_t df_write_now(int fd, const char *text, size_t bytes);

#endif
