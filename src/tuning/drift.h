/* Detects that the times of the variant in use have changed: several windows in a row were slower
 * than the level, or several were faster. */
#ifndef DF_TUNING_DRIFT_H
#define DF_TUNING_DRIFT_H

#include <stdint.h>

typedef struct df_drift {
  double level_ns;      /* time when the watch began; 0: not known yet */
  int windows, greatly; /* windows in a row: positive slower, negative faster; by half and more */
  uint32_t patience;    /* doublings of how many windows must have drifted, unless greatly */
} df_drift;

/* ns: the quarter of the window's runs that waited least, because this rank may wait for others. */
void df_drift_note(df_drift *drift, double ns);
/* Forgets the windows, and keeps the level and the patience. */
void df_drift_forget(df_drift *drift);
int df_drift_is_certain(const df_drift *drift);
/* A search that followed a drift has found nothing else. */
void df_drift_add_patience(df_drift *drift);

#endif
