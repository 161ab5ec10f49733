/*
 * A rank's side of the rendezvous: it enters (connects to the root, each proves itself to the
 * other, is counted in), gets the table, makes its connections, and finishes together with all
 * others. The order of calls is the order below; every function blocks its caller only, until
 * deadline_ns at most.
 */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_H
#define DF_BOOTSTRAP_RENDEZVOUS_H

#include "bootstrap/handshake.h"
#include "bootstrap/process.h"

typedef struct {
  /* Who and where. */
  int n_ranks, rank;
  int timeout_ms;
  uint64_t deadline_ns;
  bool by_key;                       /* the root is rank 0, at an abstract Unix address */
  unsigned char name[DF_NAME_BYTES]; /* that address */
  uint16_t port;                     /* else the root's port on the loopback address */
  unsigned char key[DF_KEY_BYTES];
  df_record own;

  /* The connection to the root. */
  int fd; /* -1: none */
  unsigned char connection_key[DF_KEY_BYTES];
  union {
    df_header header;
    df_challenge challenge;
    df_signal signal;
    df_table table;
    df_refusal refusal;
    unsigned char bytes[DF_MESSAGE_BYTES_MAX];
  } in;
  size_t in_used;
  bool others_may_go; /* df_rendezvous_finish failed, and the root has not said that the job is off
                       */

  df_listener listener; /* for ranks higher than this one */
  df_fork_guard guard;
  df_mesh made; /* so far */

  /* From the table. */
  unsigned char session[DF_SESSION_BYTES];
  df_record *records; /* [n_ranks] */
} df_rendezvous;

/*
 * One attempt to be counted in. dfcclInProgress: nobody is there yet, or whoever was there left
 * without a word; try again a little later. Errors: dfcclRemoteError (what is there is not this
 * job's root, or the root says that the job failed), dfcclInvalidArgument (this rank contradicts
 * others), dfcclInvalidUsage (another version), dfcclTimeout, dfcclSystemError, dfcclOutOfMemory.
 */
dfcclResult_t df_rendezvous_enter(df_rendezvous *rendezvous);

/* Waits for all ranks and allocates records. dfcclInProgress: the root vanished (its process died,
 * or belonged to an earlier job). Other errors as above. */
dfcclResult_t df_rendezvous_table(df_rendezvous *rendezvous);

/* Whether the root has news; does not block: call it when fd is readable. dfcclInProgress: none. */
dfcclResult_t df_rendezvous_news(df_rendezvous *rendezvous);

/* Says that this rank's connections stand, and waits until everybody's do. */
dfcclResult_t df_rendezvous_finish(df_rendezvous *rendezvous);

/* Tells the root, and so everybody, that this rank gives up with this code and this thread's last
 * sentence. */
void df_rendezvous_leave(df_rendezvous *rendezvous, dfcclResult_t code);

/* The code and sentence for a root that vanished when it was still needed. */
dfcclResult_t df_rendezvous_orphaned(const df_rendezvous *rendezvous);

#endif
