#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "json_input.h"
#include "sim_limits.h"

unsigned df_default_threads(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > DF_SIM_MAX_THREADS ? DF_SIM_MAX_THREADS : (unsigned)online;
}

static dfcclResult_t parse_whole(const df_option *option, const char *value) {
  char *end = NULL;
  errno = 0;
  unsigned long long number = strtoull(value, &end, 10);
  if (*value >= '0' && *value <= '9' && *end == 0 && errno == 0 && number >= option->low &&
      number <= option->high) {
    *option->whole = number;
    return dfcclSuccess;
  }
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: expected a whole number from %llu to %llu, not \"%s\"",
                 option->name, (unsigned long long)option->low, (unsigned long long)option->high,
                 df_show_text(value, shown));
}

static dfcclResult_t parse_word(const df_option *option, const char *value) {
  char list[128] = "";
  for (int i = 0; i < option->word_count; i++) {
    if (strcmp(value, option->words[i]) == 0) {
      *option->index = i;
      return dfcclSuccess;
    }
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? " or " : "", option->words[i]);
  }
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: expected %s, not \"%s\"", option->name, list,
                 df_show_text(value, shown));
}

static dfcclResult_t take_value(const df_option *option, const char *value) {
  if (option->given) *option->given = true;
  if (option->kind == DF_OPTION_WHOLE) return parse_whole(option, value);
  if (option->kind == DF_OPTION_WORD) return parse_word(option, value);
  if (option->kind == DF_OPTION_TEXT) *option->text = value;
  return dfcclSuccess;
}

static dfcclResult_t unknown_option(const char *argument, size_t length, const df_option *options,
                                    int option_count) {
  enum { MOST_OPTIONS = 32 };
  const char *names[MOST_OPTIONS];
  char shown[DF_JSON_SHOWN_BYTES];
  const int n = DF_MIN(option_count, (int)MOST_OPTIONS);
  for (int i = 0; i < n; i++) names[i] = options[i].name;
  const char *nearest = df_nearest_word(argument, length, names, (size_t)n);
  return df_fail(dfcclInvalidArgument, "unknown option \"%s\"%s%s", df_show_text(argument, shown),
                 nearest ? "; perhaps it should be " : "", nearest ? nearest : "");
}

dfcclResult_t df_options_parse(int argument_count, char **arguments, const df_option *options,
                               int option_count, const char **files, int max_files,
                               int *file_count) {
  bool only_files = false;
  char shown[DF_JSON_SHOWN_BYTES];
  *file_count = 0;
  for (int i = 0; i < argument_count; i++) {
    const char *argument = arguments[i];
    if (!only_files && strcmp(argument, "--") == 0) {
      only_files = true;
      continue;
    }
    if (only_files || argument[0] != '-' || argument[1] == 0) {
      if (*file_count == max_files)
        return df_fail(dfcclInvalidArgument, "one argument too many: \"%s\"",
                       df_show_text(argument, shown));
      files[(*file_count)++] = argument;
      continue;
    }
    const df_option *found = NULL;
    const char *value = strchr(argument, '=');
    size_t length = value ? (size_t)(value - argument) : strlen(argument);
    for (int k = 0; k < option_count; k++)
      if (strlen(options[k].name) == length && strncmp(argument, options[k].name, length) == 0)
        found = &options[k];
    if (!found) return unknown_option(argument, length, options, option_count);
    if (found->kind == DF_OPTION_FLAG) {
      if (value) return df_fail(dfcclInvalidArgument, "%s takes no value", found->name);
    } else if (!value) {
      if (++i == argument_count)
        return df_fail(dfcclInvalidArgument, "%s needs a value", found->name);
      value = arguments[i];
    } else {
      value++;
    }
    dfcclResult_t result = take_value(found, value);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}
