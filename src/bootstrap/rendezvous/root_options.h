/* Options of a root, for its start. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_OPTIONS_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_OPTIONS_H

#include "bootstrap/net/listeners.h"
#include "bootstrap/rendezvous/handshake.h"

typedef struct df_root df_root;

enum { DF_REMARK_BYTES = 192 };

typedef struct {
  int listener;                    /* taken over, also on failure; -1: none */
  df_listeners *listeners;         /* the same; NULL: none */
  unsigned char tag[DF_TAG_BYTES]; /* the tag in HELLO of the callers */
  unsigned char key[DF_KEY_BYTES];
  bool same_user_only; /* the listener closes connections of other users at once */
  bool lacks_secret;   /* there are no TCP listeners, because there is no secret */
  /* A listener that is taken over too; -1: none. Ranks that do not find the root look here whether
   * another user of this host has it. */
  int users_listener;
  char remark[DF_REMARK_BYTES]; /* why other hosts may not find the root; "": they can */
  int n_ranks;                  /* 0: the number that the first rank sends */
  uint64_t idle_ms;             /* the root ends after this time without a rank */
  /* Late ranks receive the failure for this time; if not detached: within idle_ms. */
  uint64_t linger_ms;
} df_root_options;

#endif
