/* Signals that system calls raise in the calling thread. The library reports such an error and never lets it end
 * the process: a pipe without a reader (SIGPIPE), a file beyond the limit of its size (SIGXFSZ). */
#ifndef DF_BASE_QUIET_SIGNALS_H
#define DF_BASE_QUIET_SIGNALS_H

#include <signal.h>

typedef struct df_quiet_signals {
  sigset_t before, pending;
} df_quiet_signals;

/* Until _end the calling thread blocks both signals, and system calls fail with EPIPE or EFBIG instead. */
void df_quiet_signals_begin(df_quiet_signals *quiet);
/* Discards what was raised in between and keeps what was pending before. Keeps errno. */
void df_quiet_signals_end(const df_quiet_signals *quiet);

#endif
