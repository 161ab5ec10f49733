/* Roots of unused ids. One thread watches all of them, so an id costs its listeners alone: one at
 * the loopback address, and one for each address in the id (DF_ID_ADDRESSES_MAX at most). */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_IDLE_ROOTS_H
#define DF_BOOTSTRAP_RENDEZVOUS_IDLE_ROOTS_H

#include "bootstrap/rendezvous/root_loop.h"

/* Takes over the root, also on failure. The first caller of the root starts it; without a caller it
 * is freed after idle_ms. A forked child has no roots. */
dfcclResult_t df_idle_root_add(df_root *root);

#endif
