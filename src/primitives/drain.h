/* Lent buffers come back: at the end of a run, and of a run that is given up. */
#ifndef DF_PRIMITIVES_DRAIN_H
#define DF_PRIMITIVES_DRAIN_H

#include "context/cursor.h"
#include "context/descriptor.h"
#include "primitives/link.h"

/* NULL: all lent buffers are back. */
DF_CORE_APART df_link *df_step_undrained(const df_descriptor *desc, uint32_t block,
                                         const df_cursor *cursor) {
  if (!(cursor->flags & DF_CURSOR_DIRECT_SENT)) return NULL;
  for (uint32_t i = 0; i < desc->n_links; i++) {
    df_link *link = &desc->links[block * desc->n_links + i];
    if (!link->sends || link->messages == 0 || link->release_mask) continue;
    /* A connection tells at once only the credits of messages that it may have lent. */
    if ((uint64_t)desc->parts[block].chunk * desc->element_bytes < link->lend_min) continue;
    uint64_t last = (cursor->run + 1) * desc->parts[block].loops * link->messages;
    if (!df_link_is_drained(link, last)) return link;
  }
  return NULL;
}

/* Peers of this process must stop reading, since the buffers may be unmapped. Returns 0 while one
 * reads. Others read mappings that stay, and learn to forget. */
DF_CORE_APART int df_step_take_back(const df_descriptor *desc, uint32_t block,
                                    const df_cursor *cursor) {
  if (cursor->phase == DF_PHASE_BEGIN || !(cursor->flags & DF_CURSOR_DIRECT_SENT)) return 1;
  for (uint32_t i = 0; i < desc->n_links; i++) {
    const df_link *link = &desc->links[block * desc->n_links + i];
    if (!link->sends || df_link_revoke(link)) continue;
    if (link->same_process || !df_link_seize(link)) return 0;
  }
  return 1;
}

#endif
