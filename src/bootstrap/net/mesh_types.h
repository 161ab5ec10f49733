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

/* The expectations of other ranks of this process about a rank whose join failed. */
typedef enum {
  DF_ABSENCE_UNNOTICED, /* they have no such job */
  DF_ABSENCE_COUNTED,   /* they may have counted the rank in, but do not wait for it */
  DF_ABSENCE_AWAITED    /* they may have a mesh, and wait for the rank */
} df_absence;

/* A rank as seen from this rank; most members are for ranks of other hosts. */
typedef struct df_remote_rank {
  int is_remote;
  int has_channel;    /* its socket is a TCP connection; 0: relays reach it */
  int calls;          /* this end called, and calls again when the connection is lost */
  df_address address; /* address of its listener, as this rank reaches it */
  uint32_t scope;     /* scope of a link-local address */
  /* All addresses that it has reported, including `address`. */
  df_address offered[DF_ADDRESSES_MAX];
  int n_offered;
  unsigned char key[DF_KEY_BYTES]; /* key of the connection, of these two ranks alone */
} df_remote_rank;

/* df_mesh_close frees all members. */
typedef struct df_mesh {
  int n_ranks, rank;
  uint32_t n_local; /* ranks in this process, including this one */
  df_absence absence;
  df_peer_info *peer_info; /* [n_ranks], including the own entry */
  /* [n_ranks]: non-blocking SOCK_SEQPACKET or TCP; -1: in this process, or reached by relays. */
  int *sockets;
  df_remote_rank *remote;  /* [n_ranks]; NULL: all ranks are on this host */
  df_listeners *listeners; /* listeners of this rank; NULL: all ranks are on this host */
  unsigned char *local;    /* [n_ranks]: 1 for ranks of this process */
  df_routes *routes;       /* NULL: there are no relays */
  /* [n_ranks] 1: a member, when this rank entered a running job; NULL: the job began with it */
  unsigned char *members;
  uint32_t incarnation;  /* this rank's; 0 unless it has entered a running job */
  unsigned char job[16]; /* public: a hash of the secret and of a random number of the join */
} df_mesh;

#endif
