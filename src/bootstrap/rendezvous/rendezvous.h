/* The rank's side of the rendezvous, in the order of calls. Each call blocks until deadline_ns at
 * most. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_RENDEZVOUS_H
#define DF_BOOTSTRAP_RENDEZVOUS_RENDEZVOUS_H

#include "bootstrap/net/listeners.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/rendezvous/probe.h"
#include "bootstrap/rendezvous/root_loop.h"
#include "bootstrap/net/fork_guard.h"

typedef struct {
  int n_ranks, rank;
  int timeout_ms;
  uint64_t deadline_ns;
  const df_network_settings *network;
  bool by_key;  /* the root is rank 0, at the abstract address `name` */
  bool is_near; /* the root may be on this host: at `name`, or at the loopback address */
  unsigned char name[DF_NAME_BYTES];
  /* by_key: the abstract address at which the root of any user listens */
  unsigned char users_name[DF_NAME_BYTES];
  char other_user[DF_REMARK_BYTES]; /* another user has a root for this key; "": none was found */
  uint16_t port;                    /* without by_key: port of the root */
  df_probe probe;                   /* addresses at which the root may be on other hosts */
  unsigned char key[DF_KEY_BYTES], tag[DF_TAG_BYTES];
  df_record own;

  /* Connection to the root; rank 0, which is the root of its job, enters with an established
   * one. */
  int fd;
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
  bool others_may_go; /* finish failed, but the root has not reported a failure of the job */

  char news[DF_REASON_BYTES]; /* the latest NEWS of the root */
  df_listener listener;
  df_listeners *listeners; /* NULL: all ranks are on this host */
  df_mesh made;

  unsigned char session[DF_SESSION_BYTES];
  df_record *records; /* [n_ranks] */
} df_rendezvous;

/* Makes one attempt. dfcclInProgress: there is no root yet, or it closed the connection without an
 * answer; try again later. Errors: dfcclRemoteError (not the root of this job, or the job failed),
 * dfcclInvalidArgument (this rank contradicts others), dfcclInvalidUsage (another version). */
dfcclResult_t df_rendezvous_enter(df_rendezvous *rendezvous);

/* Waits for all ranks and allocates records. dfcclInProgress: the root vanished. The other results
 * are those of df_rendezvous_enter. */
dfcclResult_t df_rendezvous_table(df_rendezvous *rendezvous);

/* Checks whether the root has reported a failure. Does not block. dfcclInProgress: it has not. */
dfcclResult_t df_rendezvous_news(df_rendezvous *rendezvous);

/* Reports that the connections of this rank are established. */
void df_rendezvous_send_done(df_rendezvous *rendezvous);
/* Checks whether the root has reported that the connections of all ranks are established. Does not
 * block. dfcclInProgress: it has not, and the deadline has not passed. */
dfcclResult_t df_rendezvous_go(df_rendezvous *rendezvous);
uint64_t df_rendezvous_go_deadline_ns(const df_rendezvous *rendezvous);

/* Sends the code and the last sentence of this thread to all ranks. */
void df_rendezvous_leave(df_rendezvous *rendezvous, dfcclResult_t code);

/* Reports the failure that a required root vanished. */
dfcclResult_t df_rendezvous_orphaned(const df_rendezvous *rendezvous);

#endif
