#ifndef DF_BOOTSTRAP_MESH_TYPES_H
#define DF_BOOTSTRAP_MESH_TYPES_H

#include "base/limits.h"
#include "base/result.h"

enum { DF_CARD_BYTES = 256 };

/* What one rank tells all others. */
typedef struct {
  unsigned char bytes[DF_CARD_BYTES];
} df_card;

/* What other ranks of this process expect of a rank whose join failed. */
typedef enum {
  DF_ABSENCE_UNNOTICED, /* they know of no job */
  DF_ABSENCE_COUNTED,   /* they may have counted it in, but do not wait */
  DF_ABSENCE_AWAITED    /* they may have a mesh, and wait for it */
} df_absence;

/* The caller calls df_mesh_close. */
typedef struct df_mesh {
  int n_ranks, rank;
  uint32_t n_local;      /* of this process, with the own one */
  df_absence absence;    /* after a join that failed */
  df_card *cards;        /* [n_ranks], with the own one */
  int *sockets;          /* [n_ranks]: non-blocking SOCK_SEQPACKET; -1: of this process */
  unsigned char *local;  /* [n_ranks]: 1: of this process */
  unsigned char job[16]; /* public; a hash of the secret and of the join's number */
} df_mesh;

#endif
