/* One rank of one library in the disorder demonstration: dfccl-bench/disorder.c is the same for
 * all of them, the library is behind these functions. Those that return false have printed a
 * sentence. */
#ifndef DF_PEERS_DISORDER_H
#define DF_PEERS_DISORDER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *directory; /* directory of this job alone */
  int rank, n_ranks;     /* rank -1: the library says */
  int collectives;
  bool same_communicator; /* for all collectives; else each has one of its own */
  int seconds;            /* a library that can limit its waiting takes this limit */
} disorder_job;

/* An all-reduce of float32, sum. */
typedef struct {
  int number;
  size_t count;
  float *send, *recv;
} disorder_collective;

bool disorder_open(disorder_job *job);
bool disorder_register(const disorder_collective *one); /* on all ranks in the same order */
bool disorder_can_start(void);                          /* whether it has non-blocking calls */
bool disorder_start(const disorder_collective *one);    /* the non-blocking call */
bool disorder_wait(const disorder_collective *one);     /* until what was started is complete */
bool disorder_call(const disorder_collective *one);     /* the blocking call */
void disorder_close(void);

#ifdef __cplusplus
}
#endif

#endif
