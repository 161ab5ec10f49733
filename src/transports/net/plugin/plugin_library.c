#include "transports/net/plugin/plugin_library.h"

#include <stdio.h>
#include <string.h>

#include "base/foreign_log.h"
#include "base/plugin_file.h"
#include "base/text.h"

enum { FILE_BYTES = 600, TRIED_BYTES = 320 };

DF_FOREIGN_LOG(df_plugin_write_log, "network plugin");

dfcclResult_t df_plugin_load(df_plugin *plugin, const char *name) {
  char tried[TRIED_BYTES] = "";
  df_text text = {tried, sizeof tried};
  void *library = df_plugin_file_open("net", name, &text);
  if (library == NULL)
    return df_fail(
        dfcclInvalidUsage,
        "DFCCL_NET names network plugin \"%.64s\", which cannot be opened (%s): give its "
        "file (plugin:/...), or put its directory into LD_LIBRARY_PATH",
        name, tried);
  *plugin = (df_plugin){0};
  plugin->table = df_plugin_file_table(library, "ncclNetPlugin", DF_PLUGIN_OLDEST, DF_PLUGIN_NEWEST,
                                       &plugin->version);
  if (plugin->table) return dfcclSuccess;
  return df_fail(
      dfcclInvalidUsage,
      "DFCCL_NET names network plugin \"%.128s\", which has none of ncclNetPlugin_v%d to "
      "_v%d: it is no network plugin, or for another version of NCCL",
      name, DF_PLUGIN_OLDEST, DF_PLUGIN_NEWEST);
}

static dfcclResult_t failure(const df_plugin *plugin, const char *name, const char *what,
                             int error) {
  const char *said = df_foreign_last_warning();
  return df_fail(dfcclSystemError,
                 "network plugin \"%.64s\" (version %d): %s fails with %d (%s)%s%s%s; set "
                 "DFCCL_DEBUG=info to see what it logs, or use DFCCL_NET=tcp",
                 name, plugin->version, what, error, df_plugin_error(error),
                 *said ? "; it says \"" : "", said, *said ? "\"" : "");
}

dfcclResult_t df_plugin_start(df_plugin *plugin, const char *name, int *device,
                              df_plugin_device *properties) {
  int n = 0;
  (void)df_foreign_last_warning();
  int error = df_plugin_init(plugin, df_plugin_write_log);
  if (error) return failure(plugin, name, "init", error);
  error = df_plugin_devices(plugin, &n);
  if (error) return failure(plugin, name, "devices", error);
  for (int i = 0; i < n; i++) {
    error = df_plugin_describe(plugin, i, properties);
    if (error) return failure(plugin, name, "getProperties", error);
    *device = i;
    if (properties->takes_host_memory && properties->message_most >= DF_PLUGIN_MESSAGE_LEAST)
      return dfcclSuccess;
  }
  return df_fail(dfcclInvalidUsage,
                 "network plugin \"%.64s\" (%s, version %d) finds %s: choose another one, or use "
                 "DFCCL_NET=tcp",
                 name, df_plugin_name(plugin), plugin->version,
                 n ? "no device that takes host memory in messages of 512 bytes"
                   : "no device on this host");
}
