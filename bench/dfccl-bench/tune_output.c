/* Where the table goes: a file, standard output, or the machine's calibration. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli.h"
#include "tune.h"

/* Makes the directories of the path. */
static bool make_directories(const char *path) {
  char part[DF_CALIBRATION_PATH_BYTES];
  for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
    if (mkdir(part, 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

bool df_tune_open(const df_bench_options *options, df_tune_output *out) {
  *out = (df_tune_output){.is_calibration = options->quick && options->out == NULL};
  if (!out->is_calibration) {
    out->file = options->out ? fopen(options->out, "w") : stdout;
    if (out->file == NULL) df_tool_error("cannot write %s: %s", options->out, strerror(errno));
    return out->file != NULL;
  }
  if (!df_calibration_path(getenv("XDG_CACHE_HOME"), getenv("HOME"), out->path)) {
    df_tool_error("there is no cache directory: neither XDG_CACHE_HOME nor HOME is set (--out)");
    return false;
  }
  snprintf(out->unfinished, sizeof out->unfinished, "%s.%ld", out->path, (long)getpid());
  out->file = make_directories(out->path) ? fopen(out->unfinished, "w") : NULL;
  if (out->file == NULL) df_tool_error("cannot write %s: %s", out->unfinished, strerror(errno));
  return out->file != NULL;
}

bool df_tune_close(df_tune_output *out, bool fine) {
  bool written = fflush(out->file) == 0 && !ferror(out->file);
  if (out->file != stdout && fclose(out->file) != 0) written = false;
  if (fine && !written) df_tool_error("cannot write the table");
  fine = fine && written;
  if (!out->is_calibration) return fine;
  if (fine && rename(out->unfinished, out->path) != 0) {
    df_tool_error("cannot write %s: %s", out->path, strerror(errno));
    fine = false;
  }
  if (fine)
    printf("%s\nJobs on this machine use it unless DFCCL_CALIBRATION is 0.\n", out->path);
  else
    remove(out->unfinished);
  return fine;
}
