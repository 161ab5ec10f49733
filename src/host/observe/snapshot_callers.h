/* The callers of a rank's socket. The service thread owns all of it. */
#ifndef DF_HOST_OBSERVE_SNAPSHOT_CALLERS_H
#define DF_HOST_OBSERVE_SNAPSHOT_CALLERS_H

#include "bootstrap/net/fork_guard.h"
#include "host/observe/snapshot_server.h"
#include "host/observe/snapshot_socket.h"

enum {
  DF_PEERS_A_STEP = 16, /* 64 ranks a second */
  DF_PEERS_STEP_MS = 250
};

/* Ranks as bits. */
typedef struct df_rank_set {
  uint64_t words[DF_SNAPSHOT_RANK_WORDS];
} df_rank_set;

typedef struct df_caller {
  int fd; /* -1: free */
  uint64_t asked_ns;
  uint64_t number;    /* that of the latest question about other ranks */
  df_rank_set awaits; /* ranks whose snapshots the caller waits for */
  df_rank_set sent;   /* those among them to which the question was sent */
  uint32_t n_awaited;
  uint32_t next; /* the rank at which the next step begins */
} df_caller;

typedef struct df_snapshot_server {
  df_listener listener;
  int epoll_fd; /* contains the listener and the callers; the service thread watches it */
  char path[DF_SNAPSHOT_PATH];
  df_caller callers[DF_SNAPSHOT_CALLERS];
  uint32_t n_callers;
  int is_full;           /* no caller is accepted */
  uint64_t next_pass_ns; /* no pass over the callers begins before */
  int is_paused;         /* the service thread does not watch epoll_fd until then */
  df_snapshot_question question;
  df_snapshot_buffer answer;

  /* other ranks */
  df_rank_set pending; /* ranks that have a question of this rank and have not answered */
  uint64_t asked[DF_SNAPSHOT_ASKED]; /* collectives that the next questions name */
  uint32_t n_asked;
  uint64_t step_ns; /* time of the next step */
} df_snapshot_server;

/* Returns 0 if the caller does not read, and must be hung up. */
int df_caller_send(const df_caller *caller, const void *answer, size_t bytes);
void df_caller_hang_up(df_snapshot_server *server, df_caller *caller);

/* The caller asks for other ranks. */
void df_callers_want(dfcclContext_t context, df_caller *caller,
                     const df_snapshot_question *question);
/* Sends the next questions to peers, if they are due. */
void df_callers_step(dfcclContext_t context);
/* Milliseconds until the next step; -1: no caller waits for other ranks. */
int df_callers_wait_ms(const df_snapshot_server *server);

#endif
