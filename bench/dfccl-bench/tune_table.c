#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tune.h"

/* An algorithm stays in use for the next size while it is at most this much slower than the best.
 */
static const double TOLERANCE = 1.05;
/* So much slower at the next size that its time has a step between. */
static const double SURPRISE = 1.3;

static void write_processor(FILE *file) {
  char line[256], *name = NULL;
  FILE *info = fopen("/proc/cpuinfo", "r");
  while (info && !name && fgets(line, sizeof line, info))
    if (strncmp(line, "model name", 10) == 0 && (name = strchr(line, ':')) != NULL)
      name[strcspn(name, "\n")] = '\0';
  if (info) fclose(info);
  fprintf(file, "# processor%s, %ld cores\n", name ? name : ": unknown",
          sysconf(_SC_NPROCESSORS_ONLN));
}

void df_tune_write_header(FILE *file, bool is_calibration, int argc, char **argv) {
  char date[64] = "unknown";
  struct utsname machine;
  struct tm parts;
  time_t now = time(NULL);
  int version = 0;
  if (gmtime_r(&now, &parts)) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &parts);
  fprintf(file, "%s\n", DF_TUNING_HEADER);
  if (is_calibration) {
    char described[DF_CALIBRATION_MACHINE_BYTES];
    df_calibration_describe_machine(described);
    fprintf(file, DF_CALIBRATION_WORD "%s\n", described);
  }
  fprintf(file, "# date: %s\n", date);
  if (uname(&machine) == 0)
    fprintf(file, "# machine: %s %s %s\n", machine.sysname, machine.release, machine.machine);
  write_processor(file);
  if (dfcclGetVersion(&version) == dfcclSuccess)
    fprintf(file, "# version: %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  fprintf(file, "# command: dfccl-bench");
  for (int i = 1; i < argc; i++) fprintf(file, " %s", argv[i]);
  fprintf(file, "\n#\n# operation   ranks  bytes       memory  algorithm\n");
}

/* The ways that a rule may name: with `files`, all. The measurements of others count as none. */
typedef struct {
  const df_tune_series *series;
  bool files;
} way_set;

/* 0: no rule may name it. */
static double us_of(const way_set *set, int size, int way) {
  const bool is_open = set->series->sizes[size].us[DF_TUNE_CHOICE] == 0 || way == DF_TUNE_CHOICE ||
                       set->series->sizes[size].standing[way] != DF_TUNE_MEASURED;
  return is_open && (set->files || df_tune_file(way) == NULL) ? set->series->sizes[size].us[way]
                                                              : 0;
}

/* Ways that have not won count only as far as the library's choice. */
static double best_of(const way_set *set, int size) {
  const double choice = set->series->sizes[size].us[DF_TUNE_CHOICE];
  double best = choice;
  for (int way = 0; way < DF_TUNE_WAYS; way++) {
    const double us = us_of(set, size, way);
    const bool counts = choice == 0 || set->series->sizes[size].standing[way] == DF_TUNE_WINNER;
    if (counts && us > 0 && (best == 0 || us < best)) best = us;
  }
  return best;
}

/* Returns the time of a way divided by that of the best one. */
static double ratio_of(const way_set *set, int size, int way) {
  const double us = us_of(set, size, way);
  return us > 0 ? us / best_of(set, size) : DF_TUNE_HOPELESS;
}

/* How many sizes from `first` on a way is as good as the best. */
static int good_for(const way_set *set, int first, int way) {
  int i = first;
  while (i < set->series->n_sizes && ratio_of(set, i, way) <= TOLERANCE) i++;
  return i - first;
}

/* Few rules: where the library's choice is good, there is none; any other is for the way that is
 * good for the most sizes. 0: nothing was measured. */
static int choose_ways(const way_set *set, int *chosen) {
  for (int first = 0; first < set->series->n_sizes;) {
    int sizes = good_for(set, first, DF_TUNE_CHOICE), best = DF_TUNE_CHOICE;
    const bool is_good = sizes > 0;
    for (int way = 0; way < DF_TUNE_CHOICE && !is_good; way++) {
      const int good = good_for(set, first, way);
      if (good > sizes) sizes = good, best = way;
    }
    if (sizes == 0) return 0;
    for (int i = 0; i < sizes; i++) chosen[first + i] = best;
    first += sizes;
  }
  return set->series->n_sizes > 0;
}

static double risk_of(const way_set *set, int size, int way) {
  return fmax(ratio_of(set, size, way), ratio_of(set, size + 1, way));
}

/* Half way between two sizes that were measured, as sizes go. */
static uint64_t half_way(size_t smaller, size_t larger) {
  return (uint64_t)(sqrt((double)smaller) * sqrt((double)larger));
}

typedef struct rule_writer {
  FILE *file;
  df_rule rule;
} rule_writer;

static void write_rule(rule_writer *writer, int way, uint64_t bytes_most) {
  char line[320];
  if (bytes_most < writer->rule.bytes_least) return;
  writer->rule.loaded = df_tune_file(way);
  writer->rule.algorithm = (df_algorithm)df_tune_algorithm(way);
  writer->rule.slot_bytes = df_tune_slot_bytes(way);
  writer->rule.bytes_most = bytes_most;
  df_rule_print(&writer->rule, line, sizeof line);
  if (way != DF_TUNE_CHOICE) fprintf(writer->file, "%s\n", line);
  writer->rule.bytes_least = bytes_most + 1;
}

/* Behind a size whose way is another one than the next size's. Many times have a step somewhere
 * between two sizes, so neither way reaches where the other size says that it is slow; if both
 * are, a third one that is good at both has what lies between. */
static void write_border(rule_writer *writer, const way_set *set, int size, int before, int after) {
  const size_t smaller = set->series->sizes[size].bytes,
               larger = set->series->sizes[size + 1].bytes;
  const double risk_before = risk_of(set, size, before), risk_after = risk_of(set, size, after);
  if (risk_before <= SURPRISE && risk_after <= SURPRISE) {
    write_rule(writer, before, half_way(smaller, larger));
  } else if (risk_after > SURPRISE && risk_before <= SURPRISE) {
    write_rule(writer, before, larger - 1);
  } else {
    int between = after;
    for (int way = 0; way < DF_TUNE_WAYS; way++)
      if (risk_of(set, size, way) < risk_of(set, size, between)) between = way;
    write_rule(writer, before, smaller);
    if (risk_after > SURPRISE) write_rule(writer, between, larger - 1);
  }
}

static void write_rules(FILE *file, const way_set *set, uint32_t ranks_least, uint32_t ranks_most) {
  rule_writer writer = {.file = file,
                        .rule = {.operation = set->series->operation,
                                 .memory = set->series->memory,
                                 .ranks_least = ranks_least,
                                 .ranks_most = ranks_most}};
  int chosen[DF_TUNE_MAX_SIZES];
  if (!choose_ways(set, chosen)) return;
  for (int i = 0; i + 1 < set->series->n_sizes; i++)
    if (chosen[i] != chosen[i + 1]) write_border(&writer, set, i, chosen[i], chosen[i + 1]);
  const int last = set->series->n_sizes - 1;
  write_rule(&writer, chosen[last],
             set->series->is_cut ? set->series->sizes[last].bytes : UINT64_MAX);
}

/* A file is for its number of ranks only: groups around it get rules without files. */
void df_tune_write_rules(FILE *file, const df_tune_series *series, uint32_t ranks_least,
                         uint32_t ranks_most) {
  bool has_files = false;
  for (int way = 0; way < DF_TUNE_WAYS; way++)
    has_files |= df_tune_file(way) != NULL && df_tune_has(way, series->operation, series->n_ranks);
  if (has_files)
    write_rules(file, &(way_set){series, true}, (uint32_t)series->n_ranks,
                (uint32_t)series->n_ranks);
  write_rules(file, &(way_set){series, false}, ranks_least, ranks_most);
}

void df_tune_write_times(FILE *file, const df_tune_series *series) {
  for (int i = 0; i < series->n_sizes; i++) {
    fprintf(file, "# %s %d %s %zu:", df_operation_word(series->operation), series->n_ranks,
            series->memory == DF_MEMORY_HOST ? "host" : "process", series->sizes[i].bytes);
    for (int a = 0; a < DF_TUNE_WAYS; a++)
      if (series->sizes[i].us[a] > 0)
        fprintf(file, " %s %.3g", df_tune_label(a), series->sizes[i].us[a]);
    fputc('\n', file);
  }
}

/* us = latency + slope * bytes with the least relative errors. */
typedef struct {
  double latency, slope, typical, worst; /* the errors of the fit */
  int sizes;
} line_fit;

static line_fit fit_line(const df_tune_series *series, int algorithm) {
  double w = 0, x = 0, xx = 0, y = 0, xy = 0;
  line_fit fit = {0};
  for (int i = 0; i < series->n_sizes; i++) {
    const double us = series->sizes[i].us[algorithm], bytes = (double)series->sizes[i].bytes;
    if (us <= 0) continue;
    const double weight = 1 / (us * us);
    w += weight, x += weight * bytes, xx += weight * bytes * bytes;
    y += weight * us, xy += weight * us * bytes;
    fit.sizes++;
  }
  const double determinant = w * xx - x * x;
  if (fit.sizes < 3 || determinant <= 0) return fit;
  fit.slope = (w * xy - x * y) / determinant;
  fit.latency = (y - fit.slope * x) / w;
  for (int i = 0; i < series->n_sizes; i++) {
    const double us = series->sizes[i].us[algorithm], bytes = (double)series->sizes[i].bytes;
    if (us <= 0) continue;
    const double error = fabs((fit.latency + fit.slope * bytes) / us - 1);
    fit.typical += error * error / fit.sizes;
    if (error > fit.worst) fit.worst = error;
  }
  fit.typical = sqrt(fit.typical);
  return fit;
}

/* The best one leads the next by more than both spread. */
static int is_sure(const df_tune_series *series, int size) {
  const double *us = series->sizes[size].us, *spread = series->sizes[size].spread;
  int best = -1, sure = 1;
  for (int a = 0; a < DF_TUNE_WAYS; a++)
    if (us[a] > 0 && (best < 0 || us[a] < us[best])) best = a;
  for (int a = 0; best >= 0 && a < DF_TUNE_WAYS; a++)
    if (a != best && us[a] > 0 && us[a] * (1 - spread[a] / 2) < us[best] * (1 + spread[best] / 2))
      sure = 0;
  return sure;
}

void df_tune_write_fits(FILE *file, const df_tune_series *series) {
  const char *memory = series->memory == DF_MEMORY_HOST ? "host" : "process";
  const char *word = df_operation_word(series->operation);
  int sure = 0;
  for (int i = 0; i < series->n_sizes; i++) sure += is_sure(series, i);
  fprintf(file, "# %s %d %s: the best is certain at %d of %d sizes\n", word, series->n_ranks,
          memory, sure, series->n_sizes);
  for (int a = 0; a < DF_TUNE_WAYS; a++) {
    const line_fit fit = fit_line(series, a);
    if (fit.sizes < 3) continue;
    fprintf(file, "# %s %d %s %s: %.3g + %.3g, mostly within %.0f%%, at worst %.0f%%, %d sizes\n",
            word, series->n_ranks, memory, df_tune_label(a), fit.latency, fit.slope * 1024,
            fit.typical * 100, fit.worst * 100, fit.sizes);
  }
}
