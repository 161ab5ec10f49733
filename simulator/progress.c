#include "progress.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

static const uint64_t patience_ns = 1000000000u, interval_ns = 200000000u;

void df_progress_start(df_progress *progress, const char *label) {
  uint64_t now = df_clock_ns();
  *progress =
      (df_progress){.terminal = isatty(STDERR_FILENO) == 1, .start_ns = now, .last_ns = now};
  snprintf(progress->label, sizeof progress->label, "%s", label);
}

void df_progress_update(df_progress *progress, uint64_t done, uint64_t total) {
  if (!progress->terminal || total == 0) return;
  uint64_t now = df_clock_ns();
  if (now - progress->start_ns < patience_ns || now - progress->last_ns < interval_ns) return;
  progress->last_ns = now;
  progress->shown = true;
  double share = (double)done / (double)total, spent = (double)(now - progress->start_ns) * 1e-9;
  fprintf(stderr, "\r\033[K%s: %.1f%%, %.0f s", progress->label, 100.0 * share, spent);
  if (share > 0.0) fprintf(stderr, ", about %.0f s left", spent / share - spent);
  fflush(stderr);
}

void df_progress_finish(df_progress *progress) {
  if (progress->shown) fputs("\r\033[K", stderr);
  progress->shown = false;
}

uint64_t df_peak_memory_bytes(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024u : 0;
}
