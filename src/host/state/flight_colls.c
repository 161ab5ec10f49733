#include "host/state/flight_colls.h"

#include <stdlib.h>
#include <string.h>

#include "host/state/survival.h"

uint32_t df_flight_group(const df_coll *coll, const uint32_t **ranks) {
  *ranks = coll->survival ? coll->survival->ranks : coll->ranks;
  return coll->survival ? coll->survival->n : coll->n;
}

df_flight_coll df_flight_describe(const df_coll *coll) {
  df_flight_coll described = {.last = coll->runs.last_flight,
                              .id = coll->id,
                              .count = coll->survival ? coll->survival->count : coll->count,
                              .registration = (uint32_t)coll->runs.words->latest,
                              .operation = coll->operation,
                              .type = coll->type,
                              .root = coll->root,
                              .position = coll->position};
  memcpy(described.name, coll->name, sizeof described.name);
  return described;
}

void df_flight_keep(df_flight *flight, df_coll *coll) {
  if (coll->registered || !df_flight_has(flight, coll->runs.last_flight)) return;
  /* Pages that are never used cost nothing. */
  if (flight->former == NULL) flight->former = calloc(DF_FLIGHT_RUNS, sizeof *flight->former);
  if (flight->former == NULL) return;
  df_flight_coll *place = &flight->former[(coll->runs.last_flight - 1) % DF_FLIGHT_RUNS];
  const uint32_t *ranks;
  free(place->ranks);
  *place = df_flight_describe(coll);
  place->n = df_flight_group(coll, &ranks);
  place->ranks = (uint32_t *)ranks;
  if (coll->survival)
    coll->survival->ranks = NULL;
  else
    coll->ranks = NULL;
}
