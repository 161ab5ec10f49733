#include "plans/operation.h"

#include <string.h>

enum {
  REDUCES = 1,
  SCANS = 2,
  ROOT_SENDS = 4,    /* only the root has an input */
  ROOT_RECEIVES = 8, /* only the root has an output */
  WIDE_INPUT = 16,
  WIDE_OUTPUT = 32,
  ONE_WAY = 64, /* not all data comes from all members */
  COPIES = 128
};

static const struct {
  const char *name, *word;
  int properties;
} operations[DF_OP_ALL] = {
    [DF_OP_ALL_REDUCE] = {"AllReduce", "allreduce", REDUCES},
    [DF_OP_REDUCE] = {"Reduce", "reduce", REDUCES | ROOT_RECEIVES | ONE_WAY},
    [DF_OP_BROADCAST] = {"Broadcast", "broadcast", ROOT_SENDS | ONE_WAY | COPIES},
    [DF_OP_ALL_GATHER] = {"AllGather", "allgather", WIDE_OUTPUT | COPIES},
    [DF_OP_REDUCE_SCATTER] = {"ReduceScatter", "reducescatter", REDUCES | WIDE_INPUT},
    [DF_OP_ALL_TO_ALL] = {"AllToAll", "alltoall", WIDE_INPUT | WIDE_OUTPUT},
    [DF_OP_GATHER] = {"Gather", "gather", ROOT_RECEIVES | WIDE_OUTPUT | ONE_WAY | COPIES},
    [DF_OP_SCATTER] = {"Scatter", "scatter", ROOT_SENDS | WIDE_INPUT | ONE_WAY | COPIES},
    [DF_OP_SEND_RECV] = {"SendRecv", "sendrecv", ROOT_SENDS | ONE_WAY | COPIES},
    [DF_OP_BARRIER] = {"Barrier", "barrier", 0},
    [DF_OP_SCAN] = {"Scan", "scan", REDUCES | SCANS | ONE_WAY},
    [DF_OP_EXCLUSIVE_SCAN] = {"ExclusiveScan", "exclusivescan", REDUCES | SCANS | ONE_WAY},
    [DF_OP_ALL_GATHER_V] = {"AllGatherV", "allgatherv", COPIES},
    [DF_OP_REDUCE_SCATTER_V] = {"ReduceScatterV", "reducescatterv", REDUCES},
    [DF_OP_GATHER_V] = {"GatherV", "gatherv", ONE_WAY | COPIES},
    [DF_OP_SCATTER_V] = {"ScatterV", "scatterv", ONE_WAY | COPIES},
    [DF_OP_ALL_TO_ALL_V] = {"AllToAllV", "alltoallv", COPIES},
    [DF_OP_NEIGHBOURS] = {"Neighbours", "neighbours", ONE_WAY | COPIES},
    [DF_OP_ALL_TO_ALL_DYNAMIC] = {"AllToAllDynamic", "alltoalldynamic",
                                  WIDE_INPUT | WIDE_OUTPUT | COPIES},
};

static int has(df_operation operation, int property) {
  return (operations[operation].properties & property) != 0;
}

const char *df_operation_name(df_operation operation) { return operations[operation].name; }
const char *df_operation_word(df_operation operation) { return operations[operation].word; }

int df_operation_by_word(const char *word) {
  for (int i = 0; i < DF_OP_COUNT; i++)
    if (strcmp(operations[i].word, word) == 0) return i;
  return -1;
}

int df_operation_has_piece_table(df_operation operation) {
  return operation >= DF_OP_COUNT && operation != DF_OP_ALL_TO_ALL_DYNAMIC;
}
int df_operation_reduces(df_operation operation) { return has(operation, REDUCES); }
int df_operation_is_scan(df_operation operation) { return has(operation, SCANS); }
int df_operation_needs_agreement(df_operation operation) { return has(operation, ONE_WAY); }
int df_operation_runs_ahead(df_operation operation) { return has(operation, ONE_WAY); }
int df_operation_only_overwrites(df_operation operation) { return has(operation, COPIES); }

int df_operation_has_root(df_operation operation) {
  return operation != DF_OP_SEND_RECV && has(operation, ROOT_SENDS | ROOT_RECEIVES);
}

int df_operation_is_wide(df_operation operation, int output) {
  return has(operation, output ? WIDE_OUTPUT : WIDE_INPUT);
}

int df_operation_uses(df_operation operation, int output, uint32_t position, uint32_t root,
                      uint32_t n) {
  if (operation == DF_OP_BARRIER) return 0;
  if (operation == DF_OP_EXCLUSIVE_SCAN && output) return position > 0;
  if (operation == DF_OP_SEND_RECV && output) return n == 1 || position != root;
  return position == root || !has(operation, output ? ROOT_RECEIVES : ROOT_SENDS);
}
