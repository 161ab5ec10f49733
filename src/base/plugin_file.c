#include "base/plugin_file.h"

#include <stdio.h>
#include <string.h>

#if defined(DF_WITH_PLUGINS)
#include <dlfcn.h>

static void *try_file(const char *file, df_text *tried, int is_first) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  const char *why = dlerror();
  df_say(tried, "%s%s", is_first ? "" : "; ", why ? why : file);
  return NULL;
}

void *df_plugin_file_open(const char *kind, const char *name, df_text *tried) {
  char file[600];
  if (strchr(name, '/')) return try_file(name, tried, 1);
  snprintf(file, sizeof file, *name ? "libnccl-%s-%s.so" : "libnccl-%s%s.so", kind, name);
  void *library = try_file(file, tried, 1);
  return library || *name == '\0' ? library : try_file(name, tried, 0);
}

const void *df_plugin_file_table(void *library, const char *symbol, int oldest, int newest,
                                 int *version) {
  for (*version = newest; *version >= oldest; --*version) {
    char name[48];
    snprintf(name, sizeof name, "%s_v%d", symbol, *version);
    const void *table = dlsym(library, name);
    if (table) return table;
  }
  dlclose(library);
  return NULL;
}
#else
void *df_plugin_file_open(const char *kind, const char *name, df_text *tried) {
  (void)kind, (void)name;
  df_say(tried, "the library was built with -Dnccl_net=disabled");
  return NULL;
}

const void *df_plugin_file_table(void *library, const char *symbol, int oldest, int newest,
                                 int *version) {
  (void)library, (void)symbol, (void)oldest, (void)newest, (void)version;
  return NULL;
}
#endif
