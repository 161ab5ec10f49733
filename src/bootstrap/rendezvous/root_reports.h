/* The sentences of a root: whom it has refused, and which ranks have not come. */
#ifndef DF_BOOTSTRAP_RENDEZVOUS_ROOT_REPORTS_H
#define DF_BOOTSTRAP_RENDEZVOUS_ROOT_REPORTS_H

#include "bootstrap/rendezvous/root.h"

enum { DF_CALLER_PLACE_BYTES = DF_ADDRESS_TEXT + 8 };

/* " at 10.77.0.2", or "" for a process of this host. Returns text. */
const char *df_caller_place(const df_caller *caller, char text[DF_CALLER_PLACE_BYTES]);

/* Keep the reason why a caller of this job was refused, for the ranks that wait, and log it once.
 * The caller has the public tag of the job, so it means this job. */
void df_root_note_version(df_root *root, const df_caller *caller);
void df_root_note_secret(df_root *root, const df_caller *caller);

/* Accepts the callers of options.users_listener, and notes which user they have. */
void df_root_note_users(df_root *root);

/* Writes root->reason: which ranks did not come in time, and what may be wrong with them. */
void df_root_explain_timeout(df_root *root);

/* Writes which ranks have not come yet. */
void df_root_describe_missing(const df_root *root, char text[DF_REASON_BYTES]);

#endif
