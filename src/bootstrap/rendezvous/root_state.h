/* What the root decides: who is counted in, when the job stands, and why it fails.
 * root_loop.c has the connections, the thread and poll. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_STATE_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_STATE_H

#include <poll.h>
#include <pthread.h>

#include "bootstrap/net/fork_guard.h"
#include "bootstrap/rendezvous/root_client.h"
#include "bootstrap/rendezvous/root_loop.h"

enum {
  DF_STRANGERS_MAX = 512, /* not joined; the oldest gives way */
  DF_CALLERS_MAX = DF_MAX_RANKS + DF_STRANGERS_MAX
};

typedef enum { DF_ROOT_COLLECTING, DF_ROOT_MESHING, DF_ROOT_STARTED, DF_ROOT_FAILED } df_root_phase;

struct df_root {
  df_root *next;                   /* of those that wait for their first caller */
  df_root *next_alive, **at_alive; /* of all */
  df_root_options options;
  df_listener listener; /* of this host; doors: options.doors */
  uint64_t accept_from_ns;
  int accept_error; /* why callers wait; 0: none is known to wait */
  int stop;         /* eventfd; -1: detached */
  bool stopping;
  pthread_t thread;

  df_root_phase phase;
  uint64_t deadline_ns;
  uint64_t end_ns;      /* STARTED, FAILED: at the latest */
  uint64_t patience_ns; /* when the least patient rank gives up */
  uint32_t limit_ms;
  int n_ranks;
  int n_joined, n_placed, n_meshed, n_told, n_dead;
  bool is_spread;   /* over several hosts */
  uint64_t news_ns; /* when ranks are told who is missing */
  uint64_t idle_end_ns;
  df_caller **members; /* [n_ranks]; NULL: has not come, or is gone */
  df_record *records;  /* [n_ranks] */
  df_table table;
  dfcclResult_t failure;
  char reason[DF_REASON_BYTES];

  df_caller *callers[DF_CALLERS_MAX]; /* in order of arrival */
  int n_callers;
  struct pollfd polled[DF_CALLERS_MAX + 2 + DF_LISTENERS_MAX];
};

static inline bool df_caller_is_unproven(const df_caller *caller) {
  return caller->stage == DF_CALLER_NEW || caller->stage == DF_CALLER_PROVEN;
}

/* The thread frees the root. 0, or the error. */
int df_root_run(df_root *root);

void df_job_serve(df_root *root, df_caller *caller);
/* The job fails if the caller was counted in. */
void df_job_close_caller(df_root *root, df_caller *caller);
/* Listener and doors. */
void df_job_stop_listening(df_root *root);
/* False: nothing more to do. */
bool df_job_check_time(df_root *root);
uint64_t df_job_next_deadline(const df_root *root);

#endif
