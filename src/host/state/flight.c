#include "host/state/flight.h"

#include <stdlib.h>

df_flight_run_facts df_flight_facts(const df_flight *flight, uint64_t place) {
  const df_flight_entry *entry = &flight->ring->entries[place];
  df_flight_run_facts facts = {.submitted = entry->submitted,
                               .begun = entry->submitted,
                               .ended = entry->ended,
                               .run = entry->run,
                               .registration = entry->registration,
                               .status = entry->status & ~(uint32_t)DF_FLIGHT_IS_RARE};
  if (entry->status & DF_FLIGHT_IS_RARE) {
    facts.begun = flight->ring->rare[place].begun;
    facts.count = flight->ring->rare[place].count;
  }
  return facts;
}

df_flight *df_flight_make(void) {
  df_flight *flight = calloc(1, sizeof *flight);
  if (flight == NULL) return NULL;
  flight->ring = calloc(1, sizeof *flight->ring);
  if (flight->ring == NULL) {
    free(flight);
    return NULL;
  }
  flight->first_ticks = df_ticks();
  flight->first_ns = df_clock_ns();
  return flight;
}

void df_flight_free(df_flight *flight) {
  for (uint32_t i = 0; flight && flight->former && i < DF_FLIGHT_RUNS; i++)
    free(flight->former[i].ranks);
  if (flight == NULL) return;
  free(flight->former);
  free(flight->ring);
  free(flight);
}
