/* The library of a network plugin. It is found as NCCL finds it, and never unloaded, because its
 * threads may outlive it. Used by one thread at a time. */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_LIBRARY_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_LIBRARY_H

#include "base/result.h"
#include "transports/net/plugin/nccl_net_abi.h"

/* name: the text after "plugin:" in DFCCL_NET. Finds the newest table that the library has; it is
 * not initialized yet. Fails with dfcclInvalidUsage. */
dfcclResult_t df_plugin_load(df_plugin *plugin, const char *name);
/* Initializes the plugin and finds the first device that accepts host memory. The duration of the
 * calls is unbounded. Fails with dfcclInvalidUsage, dfcclSystemError. */
dfcclResult_t df_plugin_start(df_plugin *plugin, const char *name, int *device,
                              df_plugin_device *properties);
/* Receives log messages of the plugin. */
void df_plugin_write_log(int level, unsigned long flags, const char *file, int line,
                         const char *format, ...) DF_PRINTF(5, 6);

#endif
