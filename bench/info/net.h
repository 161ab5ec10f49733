/* What dfccl-info net prints. False: it failed, and said so. */
#ifndef DF_BENCH_INFO_NET_H
#define DF_BENCH_INFO_NET_H

#include <stdbool.h>

/* This host's interfaces, and the settings. */
bool df_info_host(bool json);

/* All pairs of a job's ranks; this process is one of them. */
bool df_info_job(bool json);

#endif
