/*
 * Ranks of bench-tuner-grid: one commands, by a broadcast of its own, and all obey, so it runs in
 * threads or over hosts. Collectives have numbers; 1 is the broadcast's.
 */
#ifndef DF_BENCH_TUNER_PLAYER_H
#define DF_BENCH_TUNER_PLAYER_H

#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"

enum { PLAYER_COLLECTIVES = 164 };
typedef enum { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, REDUCE, ALLTOALL, OPERATIONS } kind;
extern const char *const player_names[OPERATIONS];

typedef struct player {
  dfcclContext_t ctx;
  int rank, ranks;
  float *send, *recv;
  int kinds[PLAYER_COLLECTIVES];
} player;

typedef enum { END, ENROLL, RUN, LEAVE } player_command;

double player_now_us(void);
/* Ends the process unless the call has succeeded. */
void player_check(const player *p, dfcclResult_t result);
/* room: bytes of each buffer. */
void player_open(player *p, size_t room);
void player_close(player *p);
/* Rank 0, which does it too. ENROLL: collective a, kind b, c bytes, tuned d (as options.tune); RUN:
 * collective a, b times, which the caller adds; LEAVE: collective a. END: the others return. */
void player_send(player *p, player_command what, int a, int b, int c, int d);
/* Other ranks. */
void player_execute(player *p);
/* Rank 0: microseconds of a run. The first one waits for the others. */
double player_timed(player *p, int id, int n);

#endif
