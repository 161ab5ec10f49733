/* Prints the output of dfccl-info net. Returns false if it failed and has printed the reason. */
#ifndef DF_BENCH_INFO_NET_H
#define DF_BENCH_INFO_NET_H

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "bootstrap/net/interfaces.h"

/* This host's interfaces, and the settings. */
bool df_info_host(bool json);

/* All pairs of a job's ranks; this process is one of them. */
bool df_info_job(bool json);

/* For both: the array "interfaces"; a table of them, with the prefix before each line. */
void df_info_add_interfaces(cJSON *object, const df_interfaces *all);
void df_info_print_interfaces_head(const char *prefix);
void df_info_print_interfaces(const df_interfaces *all, const char *prefix);

#endif
