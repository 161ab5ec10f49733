#include "tuning/calibration.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "dfccl.h"
#include "tuning/table.h"

/* FNV-1a. */
static uint64_t hash_of(uint64_t hash, const char *text) {
  for (; *text != '\0'; text++) hash = (hash ^ (uint8_t)*text) * 1099511628211u;
  return hash;
}
static const uint64_t HASH_BASIS = 14695981039346656037u;

void df_machine_processor(char *text, size_t bytes) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(text, bytes, "unknown processor");
  while (file && fgets(line, sizeof line, file)) {
    const char *value = strchr(line, ':');
    if (value == NULL || strncmp(line, "model name", 10) != 0) continue;
    snprintf(text, bytes, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    break;
  }
  if (file) fclose(file);
}

void df_calibration_describe_machine(char text[DF_CALIBRATION_MACHINE_BYTES]) {
  char processor[80];
  df_text out = {text, DF_CALIBRATION_MACHINE_BYTES};
  df_machine_processor(processor, sizeof processor);
  df_say(&out, "dfccl %d.%d.%d; %s; %ld processors", DFCCL_VERSION_CODE / 10000,
         DFCCL_VERSION_CODE / 100 % 100, DFCCL_VERSION_CODE % 100, processor,
         sysconf(_SC_NPROCESSORS_ONLN));
}

int df_calibration_path(const char *cache, const char *home, char path[DF_CALIBRATION_PATH_BYTES]) {
  char machine[DF_CALIBRATION_MACHINE_BYTES];
  const int has_cache = cache && cache[0] == '/'; /* others are to be ignored */
  if (!has_cache && (home == NULL || home[0] != '/')) return 0;
  df_calibration_describe_machine(machine);
  const int length = snprintf(path, DF_CALIBRATION_PATH_BYTES, "%s%s/dfccl/calibration-%08x.table",
                              has_cache ? cache : home, has_cache ? "" : "/.cache",
                              (unsigned)hash_of(HASH_BASIS, machine));
  return length < DF_CALIBRATION_PATH_BYTES;
}

/* The file's text, which the caller frees. NULL: there is none, or it cannot be read. */
static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rbe");
  char *text = file ? malloc(DF_MAX_TUNING_BYTES + 2) : NULL;
  if (file == NULL && errno != ENOENT)
    df_log(DF_LOG_WARN, "the calibration %s is left out: %s", path, strerror(errno));
  if (text != NULL) {
    *bytes = fread(text, 1, DF_MAX_TUNING_BYTES + 1, file);
    text[*bytes] = '\0';
    if (ferror(file) || *bytes > DF_MAX_TUNING_BYTES) {
      df_log(DF_LOG_WARN, "the calibration %s is left out: it %s", path,
             ferror(file) ? "cannot be read" : "is too long");
      free(text);
      text = NULL;
    }
  }
  if (file) fclose(file);
  return text;
}

static int is_of_this_machine(const char *text) {
  char machine[DF_CALIBRATION_MACHINE_BYTES];
  df_calibration_describe_machine(machine);
  const char *line = strstr(text, "\n" DF_CALIBRATION_WORD);
  if (line == NULL) return 0;
  line += strlen("\n" DF_CALIBRATION_WORD);
  return strcspn(line, "\r\n") == strlen(machine) && strncmp(line, machine, strlen(machine)) == 0;
}

/* Rules that name algorithm files would need these, and are not made. */
static int has_files(const df_tuning *read) {
  for (uint32_t i = 0; i < read->n_rules; i++)
    if (read->rules[i].algorithm == DF_FROM_FILE) return 1;
  return 0;
}

static void take(df_tuning *tuning, const df_tuning *read, const char *path) {
  if (read->n_rules > DF_MAX_TUNING_RULES - tuning->n_rules) {
    df_log(DF_LOG_WARN,
           "the calibration %s is left out: DFCCL_TUNING and it have more than %d rules", path,
           DF_MAX_TUNING_RULES);
    return;
  }
  const uint32_t first = tuning->n_rules;
  memcpy(tuning->rules + first, read->rules, read->n_rules * sizeof *read->rules);
  memcpy(tuning->lines + first, read->lines, read->n_rules * sizeof *read->lines);
  tuning->n_calibrated = read->n_rules;
}

void df_calibration_read(df_tuning *tuning, const char *path) {
  char sentence[DF_SENTENCE_BYTES];
  size_t bytes = 0;
  char *text = read_file(path, &bytes);
  df_tuning *read = text ? malloc(sizeof *read) : NULL;
  if (read == NULL) {
    free(text);
    return;
  }
  if (!is_of_this_machine(text))
    df_log(DF_LOG_WARN, "the calibration %s is left out: it is of another machine", path);
  else if (!df_tuning_parse(read, text, bytes, path, sentence, sizeof sentence))
    df_log(DF_LOG_WARN, "the calibration is left out: %s", sentence);
  else if (has_files(read))
    df_log(DF_LOG_WARN, "the calibration %s is left out: it names algorithm files", path);
  else
    take(tuning, read, path);
  free(read);
  free(text);
}

uint64_t df_calibration_digest(const df_tuning *tuning) {
  uint64_t hash = tuning->n_calibrated ? HASH_BASIS : 0;
  for (uint32_t i = 0; i < tuning->n_calibrated; i++) {
    char line[320];
    df_rule_print(&tuning->rules[tuning->n_rules + i], line, sizeof line);
    hash = hash_of(hash, line);
  }
  return hash;
}
