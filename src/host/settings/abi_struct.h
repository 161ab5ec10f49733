/*
 * Public structs that may grow: size, magic and version first, new members last. An older program's
 * struct is smaller than ours, a newer program's larger.
 */
#ifndef DF_HOST_SETTINGS_ABI_STRUCT_H
#define DF_HOST_SETTINGS_ABI_STRUCT_H

#include "base/result.h"

typedef struct df_growing {
  const char *name;        /* of the argument */
  const char *initializer; /* the macro that fills it */
  size_t size;
  size_t least; /* smallest size accepted */
  unsigned magic;
} df_growing;

extern const df_growing df_growing_config, df_growing_options, df_growing_run, df_growing_stats,
    df_growing_configuration;

/*
 * The struct may be read and written up to the lesser of its size and ours. A smaller one must end
 * where one of our members ends. A larger one must be zero beyond ours: else the caller wants what
 * this library lacks. Errors: dfcclInvalidArgument.
 */
dfcclResult_t df_growing_check(const df_growing *kind, const void *given);

/* Also copies the given struct over the defaults in *whole, a struct of our size. */
dfcclResult_t df_growing_read(const df_growing *kind, const void *given, void *whole);

#endif
