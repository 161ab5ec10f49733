/*
 * Public structs that may grow: size, magic and version first, new members last. The struct of an
 * older program is smaller than this library's, and that of a newer program is larger.
 */
#ifndef DF_HOST_SETTINGS_ABI_STRUCT_H
#define DF_HOST_SETTINGS_ABI_STRUCT_H

#include "base/result.h"

typedef struct df_growing {
  const char *name;        /* name of the argument */
  const char *initializer; /* the macro that fills it */
  size_t size;
  size_t least; /* smallest size accepted */
  unsigned magic;
} df_growing;

extern const df_growing df_growing_config, df_growing_options, df_growing_run, df_growing_stats,
    df_growing_configuration, df_growing_memory, df_growing_membership;

/*
 * The struct may be read and written up to the lesser of its size and this library's. A smaller one
 * must end where a member ends. A larger one must be zero beyond this library's size: otherwise the
 * caller requests something that this library lacks. Errors: dfcclInvalidArgument.
 */
dfcclResult_t df_growing_check(const df_growing *kind, const void *given);

/* Also copies the given struct over the defaults in *whole, which has this library's size. */
dfcclResult_t df_growing_read(const df_growing *kind, const void *given, void *whole);

#endif
