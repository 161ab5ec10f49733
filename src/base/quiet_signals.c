#include "base/quiet_signals.h"

#include <errno.h>
#include <time.h>

static const int raised_by_calls[] = {SIGPIPE, SIGXFSZ};
enum { N_RAISED = sizeof raised_by_calls / sizeof raised_by_calls[0] };

void df_quiet_signals_begin(df_quiet_signals *quiet) {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (int i = 0; i < N_RAISED; i++) sigaddset(&blocked, raised_by_calls[i]);
  sigpending(&quiet->pending);
  pthread_sigmask(SIG_BLOCK, &blocked, &quiet->before);
}

void df_quiet_signals_end(const df_quiet_signals *quiet) {
  const int error = errno;
  sigset_t now;
  sigpending(&now);
  for (int i = 0; i < N_RAISED; i++) {
    sigset_t one;
    const int signal = raised_by_calls[i];
    if (!sigismember(&now, signal) || sigismember(&quiet->pending, signal)) continue;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigtimedwait(&one, NULL, &(struct timespec){0});
  }
  pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
  errno = error;
}
