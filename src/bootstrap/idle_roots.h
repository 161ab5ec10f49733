/*
 * Roots of unique ids that nobody has used yet. One thread of the process watches all of them, so
 * an id costs a listening socket and no thread; it ends when there is none left.
 */
#ifndef DF_BOOTSTRAP_IDLE_ROOTS_H
#define DF_BOOTSTRAP_IDLE_ROOTS_H

#include "bootstrap/rendezvous_root.h"

/* Takes the root, also on failure. The first caller of its listener starts it (df_root_run); it is
 * freed when nobody calls for idle_ms. A forked child has none of its parent's roots.
 * Errors: dfcclOutOfMemory, dfcclSystemError. */
dfcclResult_t df_idle_root_add(df_root *root);

#endif
