/* Log to standard error, silent unless DFCCL_DEBUG asks for it (error, warn, info, trace). */
#ifndef DF_BASE_LOG_H
#define DF_BASE_LOG_H

#include "base/attributes.h"

typedef enum { DF_LOG_NONE, DF_LOG_ERROR, DF_LOG_WARN, DF_LOG_INFO, DF_LOG_TRACE } df_log_level;

void df_log_set_level(df_log_level level); /* set once, when the environment has been read */
df_log_level df_log_get_level(void);
void df_log(df_log_level level, const char *format, ...) DF_PRINTF(2, 3); /* one line, one write */

#endif
