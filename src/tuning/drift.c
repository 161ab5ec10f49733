#include "tuning/drift.h"

#include <stdlib.h>

#include "base/attributes.h"

enum { WINDOWS = 2, MOST_PATIENCE = 10 };
static const double some = 0.15, great = 0.5;

static int count_beyond(int before, double ratio, double least) {
  if (ratio > 1 + least) return DF_MAX(before, 0) + 1;
  return ratio < 1 / (1 + least) ? DF_MIN(before, 0) - 1 : 0;
}

void df_drift_note(df_drift *drift, double ns) {
  if (drift->level_ns == 0) drift->level_ns = ns;
  drift->windows = count_beyond(drift->windows, ns / drift->level_ns, some);
  drift->greatly = count_beyond(drift->greatly, ns / drift->level_ns, great);
}

void df_drift_forget(df_drift *drift) { drift->windows = drift->greatly = 0; }

int df_drift_is_certain(const df_drift *drift) {
  return abs(drift->greatly) >= WINDOWS || abs(drift->windows) >= WINDOWS << drift->patience;
}

void df_drift_add_patience(df_drift *drift) {
  if (drift->patience < MOST_PATIENCE) drift->patience++;
}
