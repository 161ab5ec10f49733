/* Estimate: how often a configuration deadlocks, over many rounds and several threads. */
#ifndef DF_SIM_ESTIMATE_H
#define DF_SIM_ESTIMATE_H

#include "config.h"
#include "field.h"
#include "layout.h"
#include "progress.h"

typedef enum { DF_ENGINE_SPARSE, DF_ENGINE_DENSE, DF_ENGINE_ORACLE, DF_ENGINE_REFERENCE } df_engine;
extern const char *const df_engine_names[4];

typedef struct {
  df_engine engine;
  unsigned threads;       /* 1 .. DF_SIM_MAX_THREADS */
  uint64_t rounds;        /* numbered from 0 */
  uint64_t stream_rounds; /* reference: rounds of one random stream, the i-th seeded with seed + i;
                             0: one stream, as the published program has (one thread then) */
  df_progress *progress;  /* or NULL */
} df_estimate_options;

typedef struct {
  uint64_t rounds, deadlocks;
  double seconds;
} df_estimate;

/* Counts the deadlocks in rounds 0 .. rounds - 1. The result depends on config (with its seed) and
 * rounds, not on threads. All exact engines give the same result. */
dfcclResult_t df_estimate_run(const df_config *config, const df_layout *layout,
                              const df_estimate_options *options, df_estimate *estimate);

/* One sequential pass over rounds first .. first + count - 1 that calls report for each verdict;
 * for tests and searches. report returns false to stop. */
dfcclResult_t df_estimate_verdicts(const df_config *config, const df_layout *layout,
                                   df_engine engine, uint64_t first, uint64_t count,
                                   bool (*report)(void *context, uint64_t round, bool deadlock),
                                   void *context);

/* The chances of config's rounds on layout. */
void df_estimate_field(const df_config *config, const df_layout *layout, df_field *field);

#endif
