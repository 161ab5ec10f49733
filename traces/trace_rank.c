/* The rank of a trace. A number in a file's name may be a date, a version or a process, so it is a
 * rank only behind the word "rank", or if it is the only difference between the names. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "trace_limits.h"
#include "trace_calls.h"

enum { NO_NUMBER = -1, TOO_DIFFERENT = -2 };

static bool starts_number(const char *text, const char *at) {
  return isdigit((unsigned char)*at) && (at == text || !isdigit((unsigned char)at[-1]));
}

static bool read_rank(const char *digits, uint32_t *rank) {
  const unsigned long value = strtoul(digits, NULL, 10);
  *rank = (uint32_t)value;
  return value < DF_TRACE_MAX_GPUS;
}

/* The number behind the last "rank" of the text: rank3, rank_3, rank-3, rank.3, rank=3. */
static bool find_named(const char *text, uint32_t *rank) {
  bool found = false;
  for (const char *at = text; *at; at++) {
    if (strncasecmp(at, "rank", 4) != 0) continue;
    const char *digits = at + 4;
    if (*digits && strchr("_-.= ", *digits)) digits++;
    if (isdigit((unsigned char)*digits)) found = read_rank(digits, rank);
  }
  return found;
}

/* Which of their numbers, from 0, is different in the two names, which must be equal otherwise. */
static int differing_number(const char *a, const char *b) {
  const char *whole_a = a, *whole_b = b;
  int place = NO_NUMBER, number = 0;
  while (*a || *b) {
    if (!starts_number(whole_a, a) || !starts_number(whole_b, b)) {
      if (*a++ != *b++) return TOO_DIFFERENT;
      continue;
    }
    const size_t bytes_a = strspn(a, "0123456789"), bytes_b = strspn(b, "0123456789");
    if (bytes_a != bytes_b || memcmp(a, b, bytes_a) != 0) {
      if (place != NO_NUMBER) return TOO_DIFFERENT;
      place = number;
    }
    number++;
    a += bytes_a;
    b += bytes_b;
  }
  return place;
}

static bool find_differing(const char *const *files, int count, const char *file, uint32_t *rank) {
  int place = NO_NUMBER, number = 0;
  for (int i = 1; i < count; i++) {
    const int other = differing_number(files[0], files[i]);
    if (other == NO_NUMBER && strcmp(files[0], files[i]) == 0) continue;
    if (other < 0 || (place != NO_NUMBER && other != place)) return false;
    place = other;
  }
  for (const char *at = file; *at && place != NO_NUMBER; at++)
    if (starts_number(file, at) && number++ == place) return read_rank(at, rank);
  return false;
}

static const char *base_name(const char *file) {
  return strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
}

bool df_trace_names_rank(const char *file, uint32_t *rank) {
  return find_named(base_name(file), rank);
}

dfcclResult_t df_trace_rank_of(df_trace_rank *trace, const char *const *files, int count,
                               const cJSON *root) {
  const cJSON *given = cJSON_IsObject(root) ? cJSON_GetObjectItemCaseSensitive(root, "rank") : NULL;
  const char *name = base_name(trace->file);
  int64_t number = 0;
  if (given) { /* dfccl's own dumps */
    const dfcclResult_t result =
        df_json_whole(trace->file, "rank", given, 0, DF_TRACE_MAX_GPUS - 1, &number);
    trace->rank = (uint32_t)number;
    return result;
  }
  if (find_named(name, &trace->rank) || find_named(trace->file, &trace->rank) ||
      find_differing(files, count, trace->file, &trace->rank))
    return dfcclSuccess;
  trace->rank = 0;
  trace->rank_assumed = count == 1;
  if (count == 1) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument,
                 "%s: which rank is it? Give it a name with its rank, for example rank_3.json",
                 trace->file);
}
