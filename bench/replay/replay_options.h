/* The command line of dfccl-bench replay. */
#ifndef DF_BENCH_REPLAY_REPLAY_OPTIONS_H
#define DF_BENCH_REPLAY_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "dfccl.h"

typedef enum {
  REPLAY_DFCCL,       /* each call is submitted when the program makes it */
  REPLAY_ORDERED,     /* the same, with a program in the order of the file */
  REPLAY_COORDINATOR, /* rank 0 names the calls that all members are ready for (Horovod) */
  REPLAY_FIRST_STEP,  /* calls wait for the order of the first iteration (KungFu) */
  REPLAY_MPI,         /* another library, in the order of the file */
  REPLAY_GLOO,
  REPLAY_ENGINES
} replay_engine;

typedef enum { REPLAY_GIVEN, REPLAY_SHUFFLE, REPLAY_PRIORITY, REPLAY_ORDERS } replay_order;
typedef enum { REPLAY_SPIN, REPLAY_SLEEP, REPLAY_MEMORY, REPLAY_COMPUTES } replay_compute_kind;

extern const char *const replay_engine_names[], *const replay_order_names[],
                                                    *const replay_compute_names[];

enum { REPLAY_MAX_ITERATIONS = 1000 };

typedef struct {
  const char *const *files;
  int file_count;
  int n_ranks; /* 0: as many as the files have */
  replay_engine engine;
  replay_order order;
  replay_compute_kind compute;
  double scale_bytes, scale_counts, scale_compute;
  int iterations;
  uint64_t seed;
  bool env, processes, json, progress;
  bool has_float; /* the elements of all floating-point types have the type float_type */
  dfcclDataType_t float_type;
  double rate;                    /* units of computing in a microsecond; 0: measured */
  const char *peer_file;          /* NULL: the module beside the program */
  const char *rendezvous;         /* gloo, env: a directory of all ranks */
  const struct replay_peer *peer; /* NULL: the engine is this library's */
} replay_options;

static inline bool df_replay_is_peer(const replay_options *options) {
  return options->engine == REPLAY_MPI || options->engine == REPLAY_GLOO;
}

/* argv[0] is the word "replay". Ends the program on wrong usage, --help and --version. */
replay_options df_replay_parse(int argc, char **argv);

/* The part of the tool's help text that describes replay. */
void df_replay_print_options(void);

#endif
