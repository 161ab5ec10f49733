/* Open MPI and MPICH: compiled once with the compiler wrapper of each. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peer.h"

enum { MOST_GROUPS = 4096 };
static MPI_Comm groups[MOST_GROUPS];
static int group_count;

static bool check(int result, const char *what) {
  if (result == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  fprintf(stderr, "MPI: %s: %s\n", what, text);
  return false;
}

/* ---- start ---- */

#ifdef OPEN_MPI
/* A rank has a second thread, so it is not bound to one core. */
static const char *const *launcher(bool has_more_ranks_than_cores) {
  static const char *words[] = {REPLAY_LAUNCHER, "--oversubscribe",     "--bind-to", "none",
                                "--mca",         "mpi_yield_when_idle", "0",         NULL};
  if (has_more_ranks_than_cores) words[6] = "1";
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  return words;
}
#else
static const char *const *launcher(bool has_more_ranks_than_cores) {
  static const char *const words[] = {REPLAY_LAUNCHER, NULL};
  if (has_more_ranks_than_cores) setenv("MPIR_CVAR_POLLS_BEFORE_YIELD", "1", 0);
  return words;
}
#endif

static bool open_world(replay_peer_world *world) {
  int level = 0;
  if (!check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread"))
    return false;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world->n_ranks);
  if (level >= MPI_THREAD_SERIALIZED) return true;
  fprintf(stderr,
          "MPI: this library has thread level %d, and a replay needs MPI_THREAD_SERIALIZED (%d)\n",
          level, MPI_THREAD_SERIALIZED);
  return false;
}

static int add_group(const int *members, int n_members) {
  MPI_Group world, group;
  if (group_count == MOST_GROUPS) {
    fprintf(stderr, "MPI: more than %d groups\n", MOST_GROUPS);
    return -1;
  }
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, n_members, members, &group);
  const int result = MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &groups[group_count]);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  char what[64];
  snprintf(what, sizeof what, "a communicator of %d ranks from rank %d on", n_members, members[0]);
  if (!check(result, what)) return -1;
  MPI_Comm_set_errhandler(groups[group_count], MPI_ERRORS_RETURN);
  return group_count++;
}

/* ---- calls ---- */

static MPI_Datatype type_of(dfcclDataType_t type) {
  switch (type) {
  case dfcclInt8:
    return MPI_INT8_T;
  case dfcclUint8:
    return MPI_UINT8_T;
  case dfcclInt16:
    return MPI_INT16_T;
  case dfcclUint16:
    return MPI_UINT16_T;
  case dfcclInt32:
    return MPI_INT32_T;
  case dfcclUint32:
    return MPI_UINT32_T;
  case dfcclInt64:
    return MPI_INT64_T;
  case dfcclUint64:
    return MPI_UINT64_T;
  case dfcclFloat32:
    return MPI_FLOAT;
  case dfcclFloat64:
    return MPI_DOUBLE;
  default:
    return MPI_DATATYPE_NULL;
  }
}

static MPI_Op operator_of(dfcclRedOp_t reduction) {
  switch (reduction) {
  case dfcclSum:
    return MPI_SUM;
  case dfcclProd:
    return MPI_PROD;
  case dfcclMax:
    return MPI_MAX;
  case dfcclMin:
    return MPI_MIN;
  default:
    return MPI_OP_NULL;
  }
}

static bool reduces(replay_peer_operation operation) {
  return operation == REPLAY_PEER_ALL_REDUCE || operation == REPLAY_PEER_REDUCE_SCATTER ||
         operation == REPLAY_PEER_REDUCE;
}

/* It has no reductions of 16-bit and 8-bit floats, and none to a mean. */
static bool has(replay_peer_operation operation, dfcclDataType_t type, dfcclRedOp_t reduction) {
  return !reduces(operation) ||
         (type_of(type) != MPI_DATATYPE_NULL && operator_of(reduction) != MPI_OP_NULL);
}

static int broadcast(const replay_peer_call *call, int count, MPI_Datatype type, MPI_Comm group) {
  if (call->place != call->root) return MPI_Bcast(call->recv, count, type, call->root, group);
  const int result = MPI_Bcast((void *)(size_t)call->send, count, type, call->root, group);
  if (call->recv && call->recv != call->send)
    memcpy(call->recv, call->send, call->count * call->element_bytes);
  return result;
}

static int run_counted(const replay_peer_call *call, int count, MPI_Datatype type) {
  const MPI_Comm group = groups[call->group];
  const MPI_Op sum = operator_of(call->reduction);
  switch (call->operation) {
  case REPLAY_PEER_ALL_REDUCE:
    return MPI_Allreduce(call->send, call->recv, count, type, sum, group);
  case REPLAY_PEER_ALL_GATHER:
    return MPI_Allgather(call->send, count, type, call->recv, count, type, group);
  case REPLAY_PEER_REDUCE_SCATTER:
    return MPI_Reduce_scatter_block(call->send, call->recv, count, type, sum, group);
  case REPLAY_PEER_BROADCAST:
    return broadcast(call, count, type, group);
  case REPLAY_PEER_REDUCE:
    return MPI_Reduce(call->send, call->recv, count, type, sum, call->root, group);
  case REPLAY_PEER_ALL_TO_ALL:
    return MPI_Alltoall(call->send, count, type, call->recv, count, type, group);
  case REPLAY_PEER_GATHER:
    return MPI_Gather(call->send, count, type, call->recv, count, type, call->root, group);
  case REPLAY_PEER_SCATTER:
    return MPI_Scatter(call->send, count, type, call->recv, count, type, call->root, group);
  case REPLAY_PEER_SEND_RECV:
    return call->place == 0 ? MPI_Send(call->send, count, type, 1, 0, group)
                            : MPI_Recv(call->recv, count, type, 0, 0, group, MPI_STATUS_IGNORE);
  case REPLAY_PEER_BARRIER:
    return MPI_Barrier(group);
  }
  return MPI_ERR_OTHER;
}

static const char *const operation_names[] = {[REPLAY_PEER_ALL_REDUCE] = "all-reduce",
                                              [REPLAY_PEER_ALL_GATHER] = "all-gather",
                                              [REPLAY_PEER_REDUCE_SCATTER] = "reduce-scatter",
                                              [REPLAY_PEER_BROADCAST] = "broadcast",
                                              [REPLAY_PEER_REDUCE] = "reduce",
                                              [REPLAY_PEER_ALL_TO_ALL] = "all-to-all",
                                              [REPLAY_PEER_GATHER] = "gather",
                                              [REPLAY_PEER_SCATTER] = "scatter",
                                              [REPLAY_PEER_SEND_RECV] = "send-recv",
                                              [REPLAY_PEER_BARRIER] = "barrier"};

static bool run(const replay_peer_call *call) {
  const bool is_typed = reduces(call->operation);
  const size_t count = is_typed ? call->count : call->count * call->element_bytes;
  if (count > INT_MAX) {
    fprintf(stderr, "MPI: %zu elements are more than an int counts; use --scale\n", count);
    return false;
  }
  const int result = run_counted(call, (int)count, is_typed ? type_of(call->type) : MPI_BYTE);
  if (result == MPI_SUCCESS) return true;
  char what[96];
  snprintf(what, sizeof what, "%s of %zu bytes among %d ranks", operation_names[call->operation],
           call->count * call->element_bytes, call->n_members);
  return check(result, what);
}

/* ---- the rest ---- */

static bool barrier(bool sleeps) {
  MPI_Request request;
  int done = 0;
  if (!sleeps) return check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  if (!check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier")) return false;
  while (!done) {
    if (!check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test")) return false;
    if (!done) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  return true;
}

static bool gather(const void *report, void *reports, size_t bytes) {
  return check(
      MPI_Gather(report, (int)bytes, MPI_BYTE, reports, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD),
      "the reports");
}

/* The first line, and of that the first part: "Open MPI v4.1.4", "MPICH Version: 4.0.2". */
static void name(char *text, size_t bytes) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(whole, &length);
  whole[strcspn(whole, ",\n")] = '\0';
  for (char *at = whole; *at != '\0'; at++)
    if (*at == '\t') *at = ' ';
  snprintf(text, bytes, "%s", whole);
}

static void abort_job(void) { MPI_Abort(MPI_COMM_WORLD, 1); }

static void close_world(void) {
  for (int i = 0; i < group_count; i++) MPI_Comm_free(&groups[i]);
  MPI_Finalize();
}

const replay_peer replay_peer_module = {.version = REPLAY_PEER_VERSION,
#ifdef OPEN_MPI
                                        .library = "Open MPI",
#else
                                        .library = "MPICH",
#endif
                                        .launcher = launcher,
                                        .has = has,
                                        .open = open_world,
                                        .add_group = add_group,
                                        .run = run,
                                        .barrier = barrier,
                                        .gather = gather,
                                        .name = name,
                                        .abort = abort_job,
                                        .close = close_world};
