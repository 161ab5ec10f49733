/* A rank's side of the rendezvous, in the order of calls; each blocks until deadline_ns at most. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_RENDEZVOUS_H
#define DF_BOOTSTRAP_RENDEZVOUS_RENDEZVOUS_H

#include "bootstrap/net/listeners.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/rendezvous/probe.h"
#include "bootstrap/net/fork_guard.h"

typedef struct {
  int n_ranks, rank;
  int timeout_ms;
  uint64_t deadline_ns;
  const df_network *network;
  bool by_key;  /* the root is rank 0, at the abstract address name */
  bool is_near; /* the root may be on this host: at name, or at the loopback address */
  unsigned char name[DF_NAME_BYTES];
  uint16_t port;  /* Without by_key: the root's port. */
  df_probe probe; /* where the root may be on other hosts */
  unsigned char key[DF_KEY_BYTES], tag[DF_TAG_BYTES];
  df_record own;

  int fd; /* rank 0, as its job's root, enters with a connection that stands */
  unsigned char connection_key[DF_KEY_BYTES];
  union {
    df_header header;
    df_challenge challenge;
    df_signal signal;
    df_table table;
    df_place place;
    df_refusal refusal;
    unsigned char bytes[DF_MESSAGE_BYTES_MAX];
  } in;
  size_t in_used;
  bool others_may_go; /* finish failed, but the root has not called the job off */

  char news[DF_REASON_BYTES]; /* the root's latest */
  df_listener listener;
  df_listeners *listeners; /* NULL: all ranks are of this host */
  df_mesh made;

  unsigned char session[DF_SESSION_BYTES];
  df_record *records; /* [n_ranks] */
} df_rendezvous;

/* One attempt. dfcclInProgress: nobody is there yet, or left without a word; try again later.
 * Errors: dfcclRemoteError (not this job's root, or the job failed), dfcclInvalidArgument (this
 * rank contradicts others), dfcclInvalidUsage (another version). */
dfcclResult_t df_rendezvous_enter(df_rendezvous *rendezvous);

/* Waits for all ranks and allocates records. dfcclInProgress: the root vanished. Else as above. */
dfcclResult_t df_rendezvous_table(df_rendezvous *rendezvous);

/* Does not block. dfcclInProgress: no news. */
dfcclResult_t df_rendezvous_news(df_rendezvous *rendezvous);

/* This rank's connections stand; waits until everybody's do. */
dfcclResult_t df_rendezvous_finish(df_rendezvous *rendezvous);

/* Tells everybody the code and this thread's last sentence. */
void df_rendezvous_leave(df_rendezvous *rendezvous, dfcclResult_t code);

/* The failure when a root vanished that was needed. */
dfcclResult_t df_rendezvous_orphaned(const df_rendezvous *rendezvous);

#endif
