/* Opens the libraries of plugins made for NCCL. */
#ifndef DF_BASE_PLUGIN_FILE_H
#define DF_BASE_PLUGIN_FILE_H

#include "base/text.h"

/*
 * kind is "net", "tuner" or "profiler". name is a file if it contains a slash. Otherwise the loader
 * searches for libnccl-KIND-NAME.so, and then for NAME itself; an empty name selects
 * libnccl-KIND.so. Returns NULL if nothing was found; *tried then has the loader's messages. A
 * library that was built without plugins always returns NULL.
 */
void *df_plugin_file_open(const char *kind, const char *name, df_text *tried);
/* Returns the newest of SYMBOL_v<oldest> to SYMBOL_v<newest> and stores its version. Returns NULL
 * if the library has none of them; the library is then closed. */
const void *df_plugin_file_table(void *library, const char *symbol, int oldest, int newest,
                                 int *version);

#endif
