/* The library of a network plugin: found as NCCL finds it, never unloaded, since its threads may
 * outlive it. One thread at a time. */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_LIBRARY_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_LIBRARY_H

#include "base/result.h"
#include "transports/net/plugin/nccl_net_abi.h"

/* name: what follows plugin: in DFCCL_NET. The newest table that the library has, not initialized
 * yet. dfcclInvalidUsage. */
dfcclResult_t df_plugin_load(df_plugin *plugin, const char *name);
/* Initializes it, and looks for a device: the first that takes host memory. The plugin's calls may
 * take as long as they like. dfcclInvalidUsage, dfcclSystemError. */
dfcclResult_t df_plugin_start(df_plugin *plugin, const char *name, int *device,
                              df_plugin_device *properties);
/* What the plugin logs. */
void df_plugin_write_log(int level, unsigned long flags, const char *file, int line,
                         const char *format, ...) DF_PRINTF(5, 6);

#endif
