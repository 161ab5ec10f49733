#ifndef DF_BOOTSTRAP_NET_MESH_TYPES_H
#define DF_BOOTSTRAP_NET_MESH_TYPES_H

#include "base/limits.h"
#include "base/result.h"
#include "bootstrap/net/listeners.h"
#include "bootstrap/net/routes.h"

enum { DF_PEER_INFO_BYTES = 256 };

typedef struct {
  unsigned char bytes[DF_PEER_INFO_BYTES];
} df_peer_info;

/* What other ranks of this process expect of a rank whose join failed. */
typedef enum {
  DF_ABSENCE_UNNOTICED, /* they know of no job */
  DF_ABSENCE_COUNTED,   /* they may have counted it in, but do not wait */
  DF_ABSENCE_AWAITED    /* they may have a mesh, and wait for it */
} df_absence;

/* A rank of another host. */
typedef struct df_remote_rank {
  int is_remote;
  int has_channel;                      /* its socket is a TCP connection; 0: relays reach it */
  int calls;                            /* this end has called, and calls again when it is lost */
  df_address address;                   /* where it listens, as this rank reaches it */
  uint32_t scope;                       /* of a link-local address */
  df_address offered[DF_ADDRESSES_MAX]; /* all that it says it has; that one too */
  int n_offered;
  unsigned char key[DF_KEY_BYTES]; /* of the line's connection, of these two ranks alone */
} df_remote_rank;

/* df_mesh_close frees all of it. */
typedef struct df_mesh {
  int n_ranks, rank;
  uint32_t n_local; /* with the own rank */
  df_absence absence;
  df_peer_info *peer_info; /* [n_ranks], with the own one */
  int *sockets;            /* [n_ranks]: non-blocking SOCK_SEQPACKET or TCP; -1: of this process, or
                            reached by relays */
  df_remote_rank *remote;  /* [n_ranks]; NULL: all ranks are of this host */
  df_listeners *listeners; /* where others reach this rank; NULL: all ranks are of this host */
  unsigned char *local;    /* [n_ranks]: 1: of this process */
  df_routes *routes;       /* NULL: there are no relays */
  unsigned char job[16];   /* public; a hash of the secret and a number drawn for the join */
} df_mesh;

#endif
