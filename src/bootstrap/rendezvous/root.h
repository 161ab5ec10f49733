/* The data of a root: its callers, and the ranks of its job. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_H

#include <poll.h>
#include <pthread.h>

#include "bootstrap/net/fork_guard.h"
#include "bootstrap/rendezvous/root_client.h"
#include "bootstrap/rendezvous/root_options.h"

enum {
  /* Callers that have not joined; the oldest one is dropped for a new one. */
  DF_UNPROVEN_MAX = 512,
  DF_CALLERS_MAX = DF_MAX_RANKS + DF_UNPROVEN_MAX
};

typedef enum { DF_ROOT_COLLECTING, DF_ROOT_MESHING, DF_ROOT_STARTED, DF_ROOT_FAILED } df_root_phase;

struct df_root {
  df_root *next;                   /* list of the roots that wait for their first caller */
  df_root *next_alive, **at_alive; /* list of all roots */
  df_root_options options;
  df_listener listener; /* Unix listener for this host; TCP listeners: options.listeners */
  df_listener users;    /* see options.users_listener */
  uint64_t accept_from_ns;
  int accept_error; /* why callers wait to be accepted; 0: none is known to wait */
  int stop;         /* eventfd; -1: detached */
  bool stopping;
  pthread_t thread;

  df_root_phase phase;
  uint64_t deadline_ns;
  uint64_t end_ns;      /* STARTED, FAILED: latest end */
  uint64_t patience_ns; /* earliest time at which a rank gives up */
  uint32_t limit_ms;
  int n_ranks;
  int n_joined, n_placed, n_meshed, n_notified, n_dead;
  bool is_spread;   /* the job is multi-node */
  uint64_t news_ns; /* time of the next NEWS about missing ranks */
  uint64_t news_ms; /* time between the latest NEWS and the next one */
  uint64_t idle_end_ns;
  df_caller **members; /* [n_ranks]; NULL: the rank has not joined, or has gone */
  df_record *records;  /* [n_ranks] */
  df_table table;
  dfcclResult_t failure;
  char reason[DF_REASON_BYTES];
  char note[DF_REMARK_BYTES]; /* why the latest caller of this job was refused; "": none was */

  df_caller *callers[DF_CALLERS_MAX]; /* in order of arrival */
  int n_callers;
  struct pollfd polled[DF_CALLERS_MAX + 3 + DF_LISTENERS_MAX];
};

#endif
