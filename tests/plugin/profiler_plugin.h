/* The counts of the profiler plugin for tests, for the whole process. */
#ifndef PROFILER_PLUGIN_H
#define PROFILER_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

typedef struct profiler_plugin_seen {
  int version, contexts, open; /* open: events that are not stopped */
  int groups, colls, links, group_calls, calls, steps, states;
  uint64_t job;
  /* values of the latest run */
  uint64_t number;
  size_t count;
  int root;
  unsigned channels;
  char function[24], algorithm[24], protocol[12], datatype[16];
} profiler_plugin_seen;

#endif
