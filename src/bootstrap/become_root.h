/* Rank 0 of a job that a launcher has started becomes the root of the job: its listeners, and the
 * check whether other hosts will find it. */
#ifndef DF_BOOTSTRAP_BECOME_ROOT_H
#define DF_BOOTSTRAP_BECOME_ROOT_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/rendezvous/rendezvous.h"

/* Fails with the error of a listening socket; whose: "rank 0". */
dfcclResult_t df_no_listener(const char *whose, int error);

/* Returns whether the name is localhost or the name of this host. */
bool df_is_own_name(const char *host);

/* Adds the places of rank 0 to the rendezvous' probe, except those of this host. */
void df_add_places(df_rendezvous *rendezvous, const df_root_place *place, const df_address *found,
                   int n, const df_interfaces *interfaces);

/* dfcclInProgress: another process holds the address. */
dfcclResult_t df_become_root(df_rendezvous *rendezvous, const df_root_place *place, df_root **root);

#endif
