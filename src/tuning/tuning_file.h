/*
 * Tuning file: the tuner's results, for the next job. It is a tuning table (tuning/table.h) whose
 * rules follow the line of the machine on which they were measured:
 *
 *   dfccl-tuning 1
 *   # machine: dfccl 0.1.0; AMD EPYC; 2 cores; eth0; 4 ranks on 1 host
 *   allreduce     4      1M          process ring slot=64K # 123.4 us, 150.2 us as registered
 *
 * Rules of other machines, and comments, stay as they are.
 */
#ifndef DF_TUNING_TUNING_FILE_H
#define DF_TUNING_TUNING_FILE_H

#include "base/result.h"
#include "plans/msccl/directory.h"
#include "tuning/table.h"

enum { DF_MACHINE_BYTES = 256, DF_MAX_TUNING_CACHE = 16384 };

typedef struct df_tuning_cache {
  df_rule rule;
  double us, registered_us; /* 0: read from the file */
  int is_new;               /* not written yet */
} df_tuning_cache;

typedef struct df_tuning_store {
  char machine[DF_MACHINE_BYTES];
  df_tuning_cache *tuning_cache;
  uint32_t n, capacity;
  uint32_t n_new;
  const df_file_directory *files; /* that rules may name; NULL: none */
} df_tuning_store;

/* The facts that times depend on: version, processor, cores, network interfaces, ranks and hosts.
 * */
void df_tuning_cache_describe_machine(char *text, size_t bytes, uint32_t n_cores, uint32_t n_ranks,
                                      uint32_t n_hosts);

/* The rules of memory->machine, but those of files that memory->files lacks. A file that is not
 * there is empty. dfcclInvalidUsage: FILE:LINE. */
dfcclResult_t df_tuning_cache_read(df_tuning_store *memory, const char *path);
/* The latest that fits; NULL: none. */
const df_rule *df_tuning_cache_find(const df_tuning_store *memory, df_operation operation,
                                    uint32_t n, uint64_t bytes, df_memory_kind kind);
/* Replaces an earlier result for the same task. The result is lost if there is no memory. */
void df_tuning_cache_note(df_tuning_store *memory, const df_tuning_cache *tuning_cache);
/* Takes the new results; the caller frees *taken. */
uint32_t df_tuning_cache_take_new(df_tuning_store *memory, df_tuning_cache **taken);
/* Reads the file anew, puts n rules into the machine's part, and replaces the file at once, so that
 * no reader sees half of it. Writers wait for each other, up to 30 s for one that does not end.
 * dfcclSystemError, dfcclInvalidUsage. */
dfcclResult_t df_tuning_cache_write(const char *path, const char *machine,
                                    const df_tuning_cache *tuning_cache, uint32_t n);
void df_tuning_cache_free(df_tuning_store *memory);

#endif
