/* Roots of unused ids: one thread watches all, so an id costs its doors alone: one at the loopback
 * address, and one for each address in the id (DF_ID_ADDRESSES_MAX at most). */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_IDLE_ROOTS_H
#define DF_BOOTSTRAP_RENDEZVOUS_IDLE_ROOTS_H

#include "bootstrap/rendezvous/root_loop.h"

/* Takes the root, also on failure. The first caller starts it; without one it is freed after
 * idle_ms. A forked child has no roots. */
dfcclResult_t df_idle_root_add(df_root *root);

#endif
