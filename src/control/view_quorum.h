/* The rules by which some members of a view may make the next one. Two parts of a view that cannot
 * reach each other must never both go on. */
#ifndef DF_CONTROL_VIEW_QUORUM_H
#define DF_CONTROL_VIEW_QUORUM_H

#include <stdint.h>

typedef enum {
  DF_QUORUM_DEFAULT, /* more than half; half with the lowest rank; or a proof, on one host */
  DF_QUORUM_STRICT,  /* never by a proof */
  DF_QUORUM_NONE     /* always: parts that cannot reach each other all go on */
} df_quorum;

typedef struct df_view_parts {
  uint32_t members;  /* all members of the view */
  uint32_t present;  /* members that would go on */
  uint32_t unproved; /* others whose process may still exist */
  int has_lowest;    /* the lowest rank of the view is present */
} df_view_parts;

/* Returns 1 if the present members may go on. on_one_host: all ranks of the job are on one host,
 * also those that may join: only there a kernel's word proves that a process is gone, and that it
 * had not gone on alone before its death. Deaths are never subtracted from the members. Pure. */
int df_view_has_quorum(df_quorum quorum, int on_one_host, const df_view_parts *parts);

#endif
