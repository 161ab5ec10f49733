/* The decisions of the root: which ranks are counted in, when the job is connected, and why it
 * fails. root_loop.c has the connections, the thread and poll. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_STATE_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_STATE_H

#include "bootstrap/rendezvous/root.h"

static inline bool df_caller_is_unproven(const df_caller *caller) {
  return caller->stage == DF_CALLER_NEW || caller->stage == DF_CALLER_PROVEN;
}

/* Starts a thread for the root, which frees the root. Returns 0 or the error. */
int df_root_run(df_root *root);

void df_job_serve(df_root *root, df_caller *caller);
/* Closes the caller. The job fails if the caller was counted in. */
void df_job_close_caller(df_root *root, df_caller *caller);
/* Closes all listeners. */
void df_job_stop_listening(df_root *root);
/* Returns false if the root has nothing more to do. */
bool df_job_check_time(df_root *root);
uint64_t df_job_next_deadline(const df_root *root);

#endif
