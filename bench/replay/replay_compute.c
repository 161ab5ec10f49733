#include "replay_compute.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  LOOPS_EACH_CHECK = 1000,
  CALIBRATIONS = 15,
  CALIBRATION_WORK = 2000,  /* units of work of one calibration: about 1 ms */
  STREAM_BYTES = 16 << 20,  /* larger than the caches of a core */
  STREAM_BLOCK_BYTES = 4096 /* a unit of work */
};

static double units_each_us = 1;
static _Thread_local char *stream; /* NULL: the thread has not computed yet */
static _Thread_local size_t stream_at;

/* One unit: a dependent chain that no compiler shortens. */
static uint64_t spin_unit(uint64_t value) {
  for (int i = 0; i < LOOPS_EACH_CHECK; i++)
    value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return value;
}

static void stream_unit(void) {
  if (!stream) stream = calloc(1, STREAM_BYTES);
  if (!stream) return;
  uint64_t *block = (uint64_t *)(void *)(stream + stream_at);
  for (size_t i = 0; i < STREAM_BLOCK_BYTES / sizeof *block; i++) block[i] += i;
  stream_at = (stream_at + STREAM_BLOCK_BYTES) % STREAM_BYTES;
}

static volatile uint64_t sink;

static void work(replay_compute_kind kind, uint64_t units) {
  uint64_t value = units;
  for (uint64_t i = 0; i < units; i++) {
    if (kind == REPLAY_MEMORY)
      stream_unit();
    else
      value = spin_unit(value);
  }
  sink = value;
}

/* Processor time of this thread: other programs of the machine do not count. */
static double own_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double df_replay_compute_calibrate(replay_compute_kind kind, double rate) {
  double fastest_ns = 0;
  if (kind == REPLAY_SLEEP) return 0;
  if (rate > 0) return units_each_us = rate;
  work(kind, STREAM_BYTES / STREAM_BLOCK_BYTES); /* the stream's pages */
  for (int i = 0; i < CALIBRATIONS; i++) {
    const double begin = own_ns();
    work(kind, CALIBRATION_WORK);
    const double ns = own_ns() - begin;
    if (i == 0 || ns < fastest_ns) fastest_ns = ns;
  }
  units_each_us = CALIBRATION_WORK / (fastest_ns * 1e-3);
  df_replay_compute_end();
  return units_each_us;
}

void df_replay_compute(replay_compute_kind kind, double us) {
  if (us <= 0) return;
  if (kind != REPLAY_SLEEP) {
    const double units = us * units_each_us;
    work(kind, units < 1 ? 1 : (uint64_t)(units + 0.5));
    return;
  }
  const double seconds = us * 1e-6;
  struct timespec left = {.tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0) continue;
}

void df_replay_compute_end(void) {
  free(stream);
  stream = NULL;
}

bool df_replay_core_times(replay_core_times *times) {
  bool any = false;
  DIR *tasks = opendir("/proc/self/task");
  *times = (replay_core_times){0};
  if (!tasks) return false;
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    char path[320];
    uint64_t ran = 0, waited = 0;
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2) {
      times->ran_ns += ran;
      times->waited_ns += waited;
      any = true;
    }
    fclose(file);
  }
  closedir(tasks);
  return any;
}
