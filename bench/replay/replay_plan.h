/* The collectives to register and the program of each rank, made from the files, after scaling. All
 * ranks have the same. */
#ifndef DF_BENCH_REPLAY_REPLAY_PLAN_H
#define DF_BENCH_REPLAY_REPLAY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"
#include "replay_options.h"

enum { REPLAY_SLOTS = 4 /* runs of a collective under way, and their buffers */ };

/* All calls of the same group, operation and sizes. */
typedef struct {
  int operation;      /* df_operation, an even one */
  const int *members; /* ranks, in the group's order */
  uint32_t n_members;
  dfcclDataType_t type;
  dfcclRedOp_t reduction;
  uint32_t root;
  int priority;
  uint64_t count; /* elements of one piece */
  uint32_t calls; /* in one iteration */
  uint32_t slots; /* at most REPLAY_SLOTS */
  char name[64];
} replay_collective;

#define REPLAY_WAIT_ALL UINT32_MAX

/* A call, or a wait for all calls before. */
typedef struct {
  uint32_t collective; /* or REPLAY_WAIT_ALL */
  uint32_t ordinal;    /* among the calls of the collective in the iteration, from 0 */
  uint32_t first_step, step_count;
  uint32_t window; /* items of a rank's window may change places */
} replay_item;

/* A wait for one call, or computing. */
typedef struct {
  uint32_t collective, ordinal;
  bool waits;
  double compute_us;
} replay_step;

typedef struct {
  int n_ranks;
  replay_collective *collective;
  uint32_t collective_count;
  replay_item *item;
  uint64_t *first_item; /* by rank; one entry more than ranks */
  replay_step *step;
  uint32_t step_count;
  int *member_ranks;
  uint64_t file_calls; /* calls in the files, before scaling, of all ranks */
  uint64_t calls;      /* calls of one iteration, of all ranks */
  uint64_t left_out;   /* calls of the files without a counterpart on all members */
  uint64_t lacked;     /* calls that the engine's library does not have */
  char left_out_names[4][192], lacked_names[4][192];
  int left_out_shown, lacked_shown;
  char note[8][256];
  int note_count;
} replay_plan;

/* Reads the files. False: one sentence is on standard error. */
bool df_replay_plan_make(replay_plan *plan, const replay_options *options);
void df_replay_plan_free(replay_plan *plan);

/* Fails with a sentence if ranks of the program would wait for each other in a circle, whatever
 * executes the calls. */
bool df_replay_plan_check(const replay_plan *plan, const char *file);

/* Computing of an iteration, mean of the ranks, if nothing slows it down. */
double df_replay_planned_compute_s(const replay_plan *plan);

/* Checks that ranks can execute the calls one by one, each rank in the order of its file, as the
 * engines of other libraries do. False: one sentence is on standard error. */
bool df_replay_plan_check_common_order(const replay_plan *plan, const replay_options *options);

/* The order of a rank's items in an iteration: indices into item[], from first_item[rank] on.
 * order has room for all of the rank's items. */
void df_replay_order(const replay_plan *plan, const replay_options *options, int rank,
                     uint32_t iteration, uint32_t *order);

/* The order in which a rank of the engine first-step submits its items: within each window that in
 * which the first member of each collective made the calls in the first iteration. False: out of
 * memory. */
bool df_replay_first_step_order(const replay_plan *plan, const replay_options *options, int rank,
                                uint32_t *order);

#endif
