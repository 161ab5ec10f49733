/* What the ranks of a job know of each other after the rendezvous. */
#ifndef DF_BOOTSTRAP_MESH_TYPES_H
#define DF_BOOTSTRAP_MESH_TYPES_H

#include "base/limits.h"
#include "base/result.h"

enum { DF_CARD_BYTES = 256 };

/* What one rank tells all others at start; opaque here. */
typedef struct {
  unsigned char bytes[DF_CARD_BYTES];
} df_card;

/* What the other ranks of this process expect of a rank whose join failed. */
typedef enum {
  DF_ABSENCE_UNNOTICED, /* nothing: they know of no job */
  DF_ABSENCE_COUNTED,   /* they may have counted it in, and do not wait for it */
  DF_ABSENCE_AWAITED    /* they may have a mesh, and wait for it */
} df_absence;

/* What a rank has after the join. Belongs to the caller, who hands it to df_mesh_close. */
typedef struct df_mesh {
  int n_ranks, rank;
  uint32_t n_local;   /* ranks of the job in this process, the own one included */
  df_absence absence; /* after a join that failed */
  df_card *cards;     /* [n_ranks]: every rank's card, the own one included */
  int *sockets; /* [n_ranks]: a connected, non-blocking, close-on-exec AF_UNIX SOCK_SEQPACKET socket
                   to that rank; -1 for itself and for ranks of this process */
  unsigned char *local; /* [n_ranks]: 1 where that rank lives in this very process (own rank too) */
  unsigned char job[16]; /* public identity of the job, equal on all its ranks and on no other
                            job's: a hash of the secret and of a number drawn for this join */
} df_mesh;

#endif
