/*
 * A peer of dfccl-bench replay: another library that executes the calls of a trace. It is a module
 * that dfccl-bench loads at run time, so that the program itself needs no other library. The module
 * exports one object, `replay_peer_module`. All functions are called by one thread at a time.
 * Functions that return false have written a sentence to standard error.
 */
#ifndef DF_BENCH_REPLAY_PEERS_PEER_H
#define DF_BENCH_REPLAY_PEERS_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "dfccl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REPLAY_PEER_VERSION = 1 };

typedef enum {
  REPLAY_PEER_ALL_REDUCE,
  REPLAY_PEER_ALL_GATHER,
  REPLAY_PEER_REDUCE_SCATTER,
  REPLAY_PEER_BROADCAST,
  REPLAY_PEER_REDUCE,
  REPLAY_PEER_ALL_TO_ALL,
  REPLAY_PEER_GATHER,
  REPLAY_PEER_SCATTER,
  REPLAY_PEER_SEND_RECV, /* from the group's first rank to its second */
  REPLAY_PEER_BARRIER
} replay_peer_operation;

typedef struct {
  replay_peer_operation operation;
  dfcclDataType_t type;
  dfcclRedOp_t reduction;
  size_t element_bytes;
  size_t count;         /* elements of one piece, as for dfcclRegister* */
  int number;           /* calls of one collective have the same number */
  int group;            /* from add_group */
  int n_members, place; /* the group's size; this rank's place in it */
  int root;             /* a place */
  const void *send;     /* NULL: the operation reads nothing of this rank */
  void *recv;           /* NULL: it writes nothing to this rank */
} replay_peer_call;

typedef struct {
  int rank, n_ranks;
  const char *directory; /* Gloo: files by which the ranks find each other; NULL: a launcher does */
  const char *address;   /* Gloo: this host's, as the other ranks reach it */
} replay_peer_world;

typedef struct replay_peer {
  int version;         /* REPLAY_PEER_VERSION */
  const char *library; /* "Open MPI" */
  /* The words before "-n RANKS PROGRAM ..." that start the ranks on this host, up to NULL; sets
   * variables of the environment if the library has them instead. NULL: the ranks find each other
   * by world->directory. */
  const char *const *(*launcher)(bool has_more_ranks_than_cores);
  bool (*has)(replay_peer_operation operation, dfcclDataType_t type, dfcclRedOp_t reduction);
  bool (*open)(replay_peer_world *world); /* with a launcher it also sets rank and n_ranks */
  /* By the members alone, for all groups in the same order. Returns a number, or -1. */
  int (*add_group)(const int *members, int n_members);
  bool (*run)(const replay_peer_call *call); /* blocks until this rank's part is done */
  bool (*barrier)(bool sleeps);              /* for all ranks; sleeps: waits without a core */
  bool (*gather)(const void *report, void *reports, size_t bytes); /* to rank 0, in rank order */
  void (*name)(char *text, size_t bytes);                          /* "Open MPI v4.1.4" */
  void (*abort)(void); /* ends the job as far as the library can */
  void (*close)(void);
} replay_peer;

extern __attribute__((visibility("default"))) const replay_peer replay_peer_module;

#ifdef __cplusplus
}
#endif

#endif
