/* Lent buffers are returned before a run ends, also a run that is given up. */
#ifndef DF_PRIMITIVES_DRAIN_H
#define DF_PRIMITIVES_DRAIN_H

#include "context/cursor.h"
#include "context/descriptor.h"
#include "primitives/link.h"

/* Returns a link whose peer has not returned a lent buffer. NULL: all lent buffers have been
 * returned. */
DF_CORE_APART df_link *df_step_undrained(const df_descriptor *desc, uint32_t block,
                                         const df_cursor *cursor) {
  if (!(cursor->flags & DF_CURSOR_DIRECT_SENT)) return NULL;
  for (uint32_t i = 0; i < desc->n_links; i++) {
    df_link *link = &desc->links[block * desc->n_links + i];
    if (!link->sends || link->messages == 0 || link->release_mask) continue;
    /* A network connection reports at once only the credits of messages that it may have lent. */
    if ((uint64_t)desc->parts[block].chunk * desc->element_bytes < link->lend_min) continue;
    uint64_t last = (cursor->run + 1) * desc->parts[block].loops * link->messages;
    if (!df_link_is_drained(link, last)) return link;
  }
  return NULL;
}

/* Revokes the lent buffers of a run that is given up. Peers in this process must stop reading
 * first, because the buffers may be unmapped afterwards; the function returns 0 while one of them
 * reads. Other peers read their own mappings, which stay valid. Their hold word is seized, so that
 * they discard the data that they have read. */
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
