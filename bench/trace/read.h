/* The reader of one trace file, for the files that read its lines. */
#ifndef DF_BENCH_TRACE_READ_H
#define DF_BENCH_TRACE_READ_H

#include <cjson/cJSON.h>

#include "trace/job.h"

/* Nanoseconds: of a clock that starts with the machine 36 years. Sums and differences of times,
 * also of different ranks, fit 64 bits. */
#define MOST_CLOCK_NS ((uint64_t)1 << 60)

/* The share of all files that was read, for a person who waits. */
typedef struct progress {
  uint64_t bytes, all_bytes;
  bool is_wanted, is_shown;
} progress;

/* Where a reader is. */
typedef struct place {
  const char *file;
  size_t line;
  df_job_trace *job;
  uint32_t rank;
  bool has_head;
  size_t first; /* index of the first collective of this file */
  progress *progress;
} place;

/* Prints the sentence with file and line. Returns false. */
bool df_place_fails(const place *at, const char *what);
/* Grows an array to hold one more. */
bool df_make_room(void **array, size_t *room, size_t used, size_t bytes);
/* A whole number that a double holds exactly. */
bool df_read_number(const cJSON *line, const char *name, uint64_t *number);
const char *df_trace_read_word(const cJSON *line, const char *name);
/* The collective with this number in the file; NULL: no earlier line has it. */
df_traced_collective *df_place_find(const place *at, uint64_t number);

/* Read a line of src/host/observe/turns.c. *known: whether it is one about a turn, or a message. */
bool df_read_turn(place *at, const cJSON *line, bool *known);
bool df_read_message(place *at, const cJSON *line, bool *known);

#endif
