#include "common/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static const char *tool_name = "dfccl";

void df_tool_set_name(const char *name) { tool_name = name; }

static void write_message(const char *format, va_list arguments) {
  char line[1024];
  int used = snprintf(line, sizeof line, "%s: ", tool_name);
  used += vsnprintf(line + used, sizeof line - (size_t)used, format, arguments);
  if (used > (int)sizeof line - 2) used = (int)sizeof line - 2;
  line[used] = '\n';
  line[used + 1] = '\0';
  fputs(line, stderr);
}

void df_tool_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_message(format, arguments);
  va_end(arguments);
}

void df_tool_usage_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_message(format, arguments);
  va_end(arguments);
  exit(DF_TOOL_USAGE);
}

const char *df_tool_suggest(const char *text, const char *const *words, size_t n, char room[96]) {
  const char *nearest = df_nearest_word(text, strlen(text), words, n);
  snprintf(room, 96, "%s%.60s", nearest ? "; perhaps it should be " : "", nearest ? nearest : "");
  return room;
}

_Noreturn static void unknown_long_option(const char *word, const struct option *known) {
  enum { MOST_OPTIONS = 64 };
  const char *names[MOST_OPTIONS];
  size_t n = 0;
  for (; known[n].name && n < MOST_OPTIONS; n++) names[n] = known[n].name;
  const char *nearest = df_nearest_word(word + 2, strcspn(word + 2, "="), names, n);
  df_tool_usage_error("unknown option %s%s%s (try --help)", word,
                      nearest ? "; perhaps it should be --" : "", nearest ? nearest : "");
}

void df_tool_bad_option(int returned, char **argv, const struct option *known) {
  const char *word = argv[optind - 1];
  if (returned == ':') df_tool_usage_error("option %s needs a value (try --help)", word);
  if (optopt > 0 && optopt < 128 && strncmp(word, "--", 2) != 0)
    df_tool_usage_error("unknown option -%c (try --help)", optopt);
  if (optopt != 0) df_tool_usage_error("option %s takes no value (try --help)", word);
  unknown_long_option(word, known);
}

void df_tool_print_version(void) {
  int version = 0;
  dfcclGetVersion(&version);
  printf("%s %d.%d.%d\n", tool_name, version / 10000, version / 100 % 100, version % 100);
}

int64_t df_tool_parse_integer(const char *option, const char *text, int64_t min, int64_t max) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
    df_tool_usage_error("option %s wants a whole number from %lld to %lld, not '%s'", option,
                        (long long)min, (long long)max, text);
  return value;
}

void df_tool_parse_numbers(const char *option, const char *form, const char *text, int count,
                           const df_tool_range *ranges, double *values) {
  const char *at = text;
  for (int i = 0; i < count; i++) {
    char *end = NULL;
    const double value = strtod(at, &end);
    const bool more = *end == ':' && i + 1 < count;
    if (end == at || !(value >= ranges[i].least && value <= ranges[i].most) ||
        (*end != '\0' && !more))
      break;
    values[i] = value;
    if (!more) return;
    at = end + 1;
  }
  df_tool_usage_error("option %s wants %s, not '%s'", option, form, text);
}

size_t df_tool_parse_size(const char *option, const char *text) {
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  bool fine = end != text && errno == 0 && text[0] >= '0' && text[0] <= '9';
  unsigned shift = 0;
  if (fine && *end != '\0') {
    static const char suffixes[] = "kmgKMG";
    const char *suffix = strchr(suffixes, *end);
    fine = suffix != NULL && end[1] == '\0';
    if (fine) shift = 10u * (unsigned)((suffix - suffixes) % 3 + 1);
  }
  if (!fine || value > (UINT64_C(1) << 40 >> shift))
    df_tool_usage_error("option %s wants a size such as 8, 64K or 1G (at most 1024G), not '%s'",
                        option, text);
  return (size_t)(value << shift);
}

dfcclBackend_t df_tool_parse_backend(const char *text) {
  if (strcmp(text, "cpu") == 0) return dfcclBackendCpu;
  if (strcmp(text, "cuda") == 0) return dfcclBackendCuda;
  df_tool_usage_error("option --backend wants cpu or cuda, not '%s'", text);
}

const char *df_tool_backend_name(dfcclBackend_t backend) {
  return backend == dfcclBackendCuda ? "cuda" : "cpu";
}

bool df_tool_print_json(cJSON *object) {
  char *text = object == NULL ? NULL : cJSON_PrintUnformatted(object);
  cJSON_Delete(object);
  if (text == NULL) {
    df_tool_error("out of memory for the JSON object");
    return false;
  }
  puts(text);
  cJSON_free(text);
  return df_tool_flush_or_say();
}

bool df_tool_flush(void) { return fflush(stdout) == 0 && !ferror(stdout); }

bool df_tool_flush_or_say(void) {
  if (df_tool_flush()) return true;
  df_tool_error("standard output cannot be written");
  return false;
}

int df_tool_end_output(int status) {
  if (status == DF_TOOL_FAILED || status == DF_TOOL_USAGE) return status;
  return df_tool_flush_or_say() ? status : DF_TOOL_FAILED;
}

bool df_tool_progress_wanted(void) { return isatty(STDERR_FILENO) == 1; }

void df_tool_progress(const char *format, ...) {
  char text[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\r\033[K%s", text);
  fflush(stderr);
}
