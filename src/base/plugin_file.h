/* Opens the libraries of plugins made for NCCL. */
#ifndef DF_BASE_PLUGIN_FILE_H
#define DF_BASE_PLUGIN_FILE_H

#include "base/text.h"

/*
 * kind: "net", "tuner" or "profiler". name: a file if it has a slash; else libnccl-KIND-NAME.so is
 * looked for as the loader does, and then NAME itself; empty: libnccl-KIND.so. NULL: none, and *tried
 * says what the loader said. Of a library that was built without plugins: always NULL.
 */
void *df_plugin_file_open(const char *kind, const char *name, df_text *tried);
/* The newest of SYMBOL_v<oldest> to SYMBOL_v<newest>, and its version. NULL: it has none; then the
 * library is closed again. */
const void *df_plugin_file_table(void *library, const char *symbol, int oldest, int newest,
                                 int *version);

#endif
