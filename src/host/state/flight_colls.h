/* Collectives as the flight recorder describes them. */
#ifndef DF_HOST_STATE_FLIGHT_COLLS_H
#define DF_HOST_STATE_FLIGHT_COLLS_H

#include "host/state/flight.h"

/* Describes the collective, without ranks. */
df_flight_coll df_flight_describe(const df_coll *coll) DF_RANK_LOCKED;
/* The group as registered. */
uint32_t df_flight_group(const df_coll *coll, const uint32_t **ranks);
/* The record of the collective is about to be freed. Takes over its list of ranks if entries need
 * it. */
void df_flight_keep(df_flight *flight, df_coll *coll) DF_RANK_LOCKED;

#endif
