/* Command lines: every command describes its options in a table. */
#ifndef DF_SIM_OPTIONS_H
#define DF_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/result.h"

typedef enum { DF_OPTION_FLAG, DF_OPTION_WHOLE, DF_OPTION_WORD, DF_OPTION_TEXT } df_option_kind;

typedef struct {
  const char *name; /* with its dashes */
  df_option_kind kind;
  uint64_t low, high;       /* WHOLE */
  const char *const *words; /* WORD: word_count of them; *index is set */
  int word_count;
  bool *given; /* set when the option appears; may be NULL except for FLAG */
  uint64_t *whole;
  int *index;
  const char **text;
} df_option;

/* Sorts arguments into options and files: files[] gets the arguments that are not options, at most
 * max_files. Options may stand before, between or after them; "--" ends them. */
dfcclResult_t df_options_parse(int argument_count, char **arguments, const df_option *options,
                               int option_count, const char **files, int max_files,
                               int *file_count);

/* The number of processors, for --threads; at least 1. */
unsigned df_default_threads(void);

#endif
