/*
 * Structs of the public header that may grow: they begin with size, magic and version, and new
 * members come last. A program that was compiled against an older header hands over less, one
 * compiled against a newer header more than this library knows.
 */
#ifndef DF_HOST_GROWING_H
#define DF_HOST_GROWING_H

#include "base/result.h"

typedef struct df_growing {
  const char *name;        /* of the argument */
  const char *initializer; /* the macro that fills it */
  size_t size;             /* what this library knows */
  size_t least;            /* the smallest accepted: where a member ends */
  unsigned magic;
} df_growing;

extern const df_growing df_growing_config, df_growing_options, df_growing_run, df_growing_stats,
    df_growing_configuration;

/*
 * May the struct be read (and written) up to the lesser of its size and ours? A smaller one must
 * end where one of our members does, a larger one must be zero where we do not know it: else the
 * caller wants something that this library cannot give. Errors: dfcclInvalidArgument.
 */
dfcclResult_t df_growing_check(const df_growing *kind, const void *given);

/* The same, and copies what was given over the defaults in *whole, a struct of our size. */
dfcclResult_t df_growing_read(const df_growing *kind, const void *given, void *whole);

#endif
