/* Every limit of the simulator, in one place. Input is checked against them, and the sentence names
 * the limit. */
#ifndef DF_SIM_SIM_LIMITS_H
#define DF_SIM_SIM_LIMITS_H

#include "trace_limits.h"

#define DF_SIM_MAX_GPUS DF_TRACE_MAX_GPUS
#define DF_SIM_MAX_GROUPS DF_TRACE_MAX_GROUPS
#define DF_SIM_MAX_MEMBERSHIPS DF_TRACE_MAX_MEMBERSHIPS
#define DF_SIM_MAX_COLLECTIVES_PER_GROUP (1u << 24) /* 24 bits of an order key (layout.h) */
#define DF_SIM_MAX_COLLECTIVES (1u << 30)
#define DF_SIM_MAX_SLOTS (UINT64_C(1) << 40) /* collectives of all GPUs together */
#define DF_SIM_MAX_DENSE_EVENTS DF_TRACE_MAX_EVENTS
#define DF_SIM_MAX_ORACLE_PARTS (UINT64_C(1) << 12) /* GPUs times collectives */
#define DF_SIM_MAX_ROUNDS (UINT64_C(1) << 50)
#define DF_SIM_MAX_THREADS 1024
#define DF_SIM_MAX_PROCESSES (1u << 20) /* the authors' num_process: a factor of the rounds */
#define DF_SIM_MAX_SWEEP_POINTS 200     /* points of one axis */
#define DF_SIM_MAX_TIME_BYTES (UINT64_C(64) << 30) /* in one collective */
#define DF_SIM_MAX_TRACE_EVENTS 2000000            /* events of one picture */

#define DF_SIM_MAX_CONFIG_BYTES (UINT64_C(64) << 20)

#endif
