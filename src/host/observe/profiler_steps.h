/* Messages of a run's network links, as a profiler plugin hears of them (ProxyStep). */
#ifndef DF_HOST_OBSERVE_PROFILER_STEPS_H
#define DF_HOST_OBSERVE_PROFILER_STEPS_H

#include "host/observe/profiler_abi.h"
#include "transports/watch.h"

enum { DF_STEPS_MOST = 64 /* of a link, begun and not ended; more are not told */ };

typedef struct df_step {
  uint64_t sequence;
  void *handle; /* NULL: the plugin has dropped it */
} df_step;

/* Of a link in a run. */
typedef struct df_steps {
  const uint8_t *ring; /* NULL: the link did not stand when the run was submitted */
  uint64_t first, end; /* the run's messages */
  int rank, sends;
  void *parent; /* the link's event; NULL: nothing is told */
  uint32_t n;
  df_step open[DF_STEPS_MOST];
} df_steps;

/* All: with the plugin's lock. */
void df_steps_receive(df_steps *steps, const df_profiler_table *plugin, void *context,
                      df_watch_event what, const uint8_t *ring, uint64_t sequence, uint32_t bytes);
/* The run has ended. */
void df_steps_stop(df_steps *steps, const df_profiler_table *plugin);

#endif
