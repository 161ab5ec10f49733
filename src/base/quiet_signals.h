/* Signals that system calls raise in the calling thread: SIGPIPE for a pipe without a reader, and
 * SIGXFSZ for a file beyond its size limit. The library reports the error instead and never lets
 * the signal end the process. */
#ifndef DF_BASE_QUIET_SIGNALS_H
#define DF_BASE_QUIET_SIGNALS_H

#include <signal.h>

typedef struct df_quiet_signals {
  sigset_t before, pending;
} df_quiet_signals;

/* From this call until df_quiet_signals_end the calling thread blocks both signals, and system
 * calls fail with EPIPE or EFBIG instead. */
void df_quiet_signals_begin(df_quiet_signals *quiet);
/* Discards the signals that were raised in between, and keeps those that were pending before.
 * Preserves errno. */
void df_quiet_signals_end(const df_quiet_signals *quiet);

#endif
