/*
 * Model of a network, for time in simulation: ranks on hosts, hosts on switches. A message of s
 * bytes takes latency + s / rate. Each port has a rate for each direction; messages that pass a
 * port at the same time share its rate max-min fairly (flows.h). Switches are ports too, with data
 * passing, never staying. Without contention each connection has the least rate of its ports for
 * itself. Times are seconds, rates are bytes a second.
 */
#ifndef DF_SIM_NETWORK_MODEL_H
#define DF_SIM_NETWORK_MODEL_H

#include "plans/plan.h"

enum { DF_MODEL_PATH_MAX = 4, DF_MODEL_RANKS_MAX = 4096, DF_MODEL_PORT_NAME = 48 };

typedef struct df_network_model {
  uint32_t ranks, hosts, switches;      /* switches 0: hosts meet in one that never limits */
  uint32_t *host, *local;               /* [ranks] a rank's host, and its number there */
  uint32_t *host_ranks;                 /* [hosts] */
  double inside_latency, inside_rate;   /* between ranks of a host; the rate is each rank's */
  double between_latency, between_rate; /* between hosts; the rate is each NIC's */
  uint32_t nics;                      /* NICs of a host: rank `local` uses NIC local modulo nics */
  uint32_t switch_hosts;              /* hosts below a switch */
  double switch_latency, switch_rate; /* to other switches; the rate is the switch's */
  double reduce_rate, copy_rate;      /* rates of a rank's processor; 0: takes no time */
  double overhead; /* a connection is busy for so long with each message, besides its bytes */
  int is_free_of_contention;
} df_network_model;

/*
 * file: JSON, see docs/SIMULATOR.md; NULL: each rank is a host, 5 us, 12.5 GB/s. ranks: 1 to
 * DF_MODEL_RANKS_MAX. dfcclInvalidArgument, dfcclSystemError, dfcclOutOfMemory.
 */
dfcclResult_t df_network_model_read(df_network_model *model, const char *file, uint32_t ranks);
/* The same for text in memory; file is the name used in sentences. Both: to be freed, also on
 * failure. */
dfcclResult_t df_network_model_parse(df_network_model *model, const char *file, const char *text,
                                     size_t bytes, uint32_t ranks);
void df_network_model_free(df_network_model *model);

uint32_t df_network_model_ports(const df_network_model *model);
double df_network_model_rate(const df_network_model *model, uint32_t port);
/* A port beyond the last one is a connection's own. */
const char *df_network_model_port_name(const df_network_model *model, uint32_t port,
                                       char name[DF_MODEL_PORT_NAME]);

/* The ports that messages between two ranks pass; returns how many. */
uint32_t df_network_model_path(const df_network_model *model, uint32_t from, uint32_t to,
                               uint32_t ports[DF_MODEL_PATH_MAX], double *latency);

/*
 * No algorithm can be faster: seconds. bytes: of a rank's larger buffer. The greatest of what must
 * pass the ports of one rank, one host or one switch, in either direction; and for an all-reduce
 * of what must move in all (2 (n - 1) times the buffer). The bound of ForestColl (Zhao et al.,
 * 2024) over all cuts is not less.
 */
double df_network_model_bound(const df_network_model *model, df_operation operation,
                              uint64_t bytes);

#endif
