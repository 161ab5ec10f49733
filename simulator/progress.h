/* A progress line on standard error, only while that is a terminal and the work is long. */
#ifndef DF_SIM_PROGRESS_H
#define DF_SIM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  char label[48];
  bool shown, terminal;
  uint64_t start_ns, last_ns;
} df_progress;

void df_progress_start(df_progress *progress, const char *label);

/* done of total; one caller at a time. */
void df_progress_update(df_progress *progress, uint64_t done, uint64_t total);

/* Wipes the line. */
void df_progress_finish(df_progress *progress);

/* The most memory that this process has held, in bytes. */
uint64_t df_peak_memory_bytes(void);

#endif
