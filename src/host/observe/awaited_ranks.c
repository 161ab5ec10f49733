#include "host/observe/awaited_ranks.h"

#include <inttypes.h>

#include "base/mutex.h"
#include "host/state/registry.h"
#include "primitives/step.h"

/* Names the ranks that are missing. Returns their number. */
static uint32_t say_ranks(df_text *text, const df_coll *coll,
                          int (*missing)(const df_coll *, uint32_t position)) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < coll->n; i++)
    if (i != coll->position && missing(coll, i)) n++;
  if (n == 0) return 0;
  df_say(text, n == 1 ? "rank" : "ranks");
  for (uint32_t i = 0, said = 0; i < coll->n; i++)
    if (i != coll->position && missing(coll, i))
      df_say(text, "%s%u", said++ ? ", " : " ", coll->ranks[i]);
  return n;
}

static int has_not_registered(const df_coll *coll, uint32_t position) {
  return coll->members.remotes[position] == NULL;
}

static int has_not_run(const df_coll *coll, uint32_t position) {
  for (uint32_t i = 0; i < coll->exec.plan->n_links; i++)
    if (coll->exec.plan->links[i].sends && coll->exec.plan->links[i].peer == position) {
      const df_remote_ends *ends =
          df_ends_of(coll->members.remotes[position], coll->exec.plan->links[i].channel);
      return ends == NULL || !ends->has_offer;
    }
  return 0;
}

int df_has_not_come(const df_coll *coll, uint32_t position) {
  return has_not_registered(coll, position) || has_not_run(coll, position);
}

/* Whether the primitive waits for its link. Reads shared words, never the executor's caches. */
static int recv_is_missing(const df_link *link, uint64_t sequence) {
  int direct;
  return !df_link_has_message(link, sequence, &direct);
}
static int credit_is_missing(const df_link *link, uint64_t sequence) {
  return ((sequence - df_observe_u64(link->credit)) & DF_SEQUENCE_MASK) >
         (uint64_t)link->slot_mask + 1;
}

/* Reads the position of the block in the oldest run. Returns 0 if the block has finished that run.
 */
static int read_cursor(const df_coll *coll, uint32_t block, df_cursor *cursor) {
  const uint64_t progress = df_load_relaxed_u64(&coll->exec.device.descriptor->progress[block]);
  const uint64_t run = df_device_run(coll, coll->runs.retired); /* the number in the device */
  *cursor = (df_cursor){.run = run,
                        .loop = (uint32_t)(progress >> 20 & 0xffffff),
                        .primitive = (uint32_t)(progress >> 4 & 0xffff),
                        .phase = (uint32_t)(progress & 0xf)};
  return progress >> 44 == (run & 0xfffff);
}

/* As df_step_undrained, for one rank. */
static int is_undrained(const df_coll *coll, uint32_t block, uint32_t rank) {
  const df_descriptor *d = coll->exec.device.descriptor;
  for (uint32_t i = 0; i < d->n_links; i++) {
    const df_link *link = &coll->exec.device.links[block * d->n_links + i];
    const df_part *part = &coll->exec.configuration.shape.parts[block];
    if (!link->sends || link->peer != rank || link->messages == 0 || link->release_mask) continue;
    if ((uint64_t)part->chunk * d->element_bytes < link->lend_min) continue;
    const uint64_t last =
        (df_device_run(coll, coll->runs.retired) + 1) * part->loops * link->messages;
    if (((df_observe_u64(link->credit) - last) & DF_SEQUENCE_MASK) >= DF_SEQUENCE_MASK / 2)
      return 1;
  }
  return 0;
}

static int block_waits_for(const df_coll *coll, uint32_t block, uint32_t rank) {
  const df_descriptor *d = coll->exec.device.descriptor;
  df_cursor cursor;
  if (!read_cursor(coll, block, &cursor)) return 0;
  if (cursor.phase == DF_PHASE_DRAIN) return is_undrained(coll, block, rank);
  if (cursor.phase != DF_PHASE_MOVE || cursor.primitive >= d->n_primitives) return 0;
  const df_primitive *prim = &coll->exec.plan->primitives[cursor.primitive];
  const df_link *links = &coll->exec.device.links[block * d->n_links];
  const uint32_t loops = coll->exec.configuration.shape.parts[block].loops;
  if (prim->flags & DF_PRIM_RECV) {
    const df_link *link = &links[prim->recv_link];
    if (link->peer == rank &&
        recv_is_missing(link, df_sequence(&cursor, loops, link, prim->recv_ordinal)))
      return 1;
  }
  if (prim->flags & DF_PRIM_SEND) {
    const df_link *link = &links[prim->send_link];
    if (link->peer == rank &&
        credit_is_missing(link, df_sequence(&cursor, loops, link, prim->send_ordinal)))
      return 1;
  }
  return 0;
}

int df_waits_for_member(dfcclContext_t context, const df_coll *coll, uint32_t position) {
  if (df_has_not_come(coll, position)) return 1;
  if (df_runs_in_device(coll) == 0) return 0;
  if (!context->device.memory->host_sees_links) return 1; /* unknown, so possible */
  for (uint32_t block = 0; block < coll->exec.configuration.shape.n_blocks; block++)
    if (block_waits_for(coll, block, coll->ranks[position])) return 1;
  return 0;
}

static void say_block(const dfcclContext_t context, df_text *text, const df_coll *coll,
                      uint32_t block) {
  const df_descriptor *d = coll->exec.device.descriptor;
  df_cursor cursor;
  if (!read_cursor(coll, block, &cursor)) {
    df_say(text, "block %u has finished run %" PRIu64, block, coll->runs.retired);
    return;
  }
  df_say(text, "block %u: run %" PRIu64 ", loop %u of %u, primitive %u of %u", block,
         coll->runs.retired, cursor.loop, coll->exec.configuration.shape.parts[block].loops,
         cursor.primitive, d->n_primitives);
  if (cursor.phase == DF_PHASE_DRAIN) df_say(text, ", waits until its peers have read its buffers");
  if (cursor.phase != DF_PHASE_MOVE || cursor.primitive >= d->n_primitives) return;
  const df_primitive *prim = &coll->exec.plan->primitives[cursor.primitive];
  const df_link *links = &coll->exec.device.links[block * d->n_links];
  uint32_t loops = coll->exec.configuration.shape.parts[block].loops;
  /* For links in a device's memory, the host can read only the ranks. */
  if (!context->device.memory->host_sees_links) {
    if (prim->flags & DF_PRIM_RECV)
      df_say(text, ", receives from rank %u", links[prim->recv_link].peer);
    if (prim->flags & DF_PRIM_SEND) df_say(text, ", sends to rank %u", links[prim->send_link].peer);
    return;
  }
  if (prim->flags & DF_PRIM_RECV) {
    const df_link *link = &links[prim->recv_link];
    if (recv_is_missing(link, df_sequence(&cursor, loops, link, prim->recv_ordinal)))
      df_say(text, ", waits for a message from rank %u", link->peer);
  }
  if (prim->flags & DF_PRIM_SEND) {
    const df_link *link = &links[prim->send_link];
    if (credit_is_missing(link, df_sequence(&cursor, loops, link, prim->send_ordinal)))
      df_say(text, ", waits until rank %u takes a message", link->peer);
  }
}

void df_say_wait(const dfcclContext_t context, const df_coll *coll, df_text *text) {
  if (coll->failure.failed != dfcclSuccess) {
    df_say(text, "it has failed: %s", coll->failure.sentence);
  } else if (coll->runs.is_recalled) {
    df_say(text, "a member is lost: it waits until the others have agreed, and have run it");
  } else if (coll->members.n_bound + 1 < coll->n) {
    df_say(text, "it waits until it is registered by ");
    say_ranks(text, coll, has_not_registered);
  } else if (!coll->exec.ready) {
    df_say(text, "it waits until it is run by ");
    if (say_ranks(text, coll, has_not_run) == 0)
      df_say(text, "no member (its links are being set up)");
  } else if (df_runs_in_device(coll) == 0) {
    df_say(text, context->runs.held ? "it waits for the end of a device synchronisation"
                                    : "it waits on the host for room in the submission queue");
  } else {
    for (uint32_t block = 0; block < coll->exec.configuration.shape.n_blocks; block++) {
      if (block) df_say(text, "; ");
      say_block(context, text, coll, block);
    }
  }
}

void df_describe_wait(dfcclContext_t context, const df_coll *coll, char *text, size_t bytes) {
  df_text out = {.at = text, .left = bytes};
  df_say_wait(context, coll, &out);
}

/* ---- as a list ---- */

typedef struct df_rank_list {
  uint32_t *ranks;
  uint32_t n, most;
  int more;
} df_rank_list;

static void add_rank(df_rank_list *list, uint32_t rank) {
  for (uint32_t i = 0; i < list->n; i++)
    if (list->ranks[i] == rank) return;
  if (list->n < list->most)
    list->ranks[list->n++] = rank;
  else
    list->more = 1;
}

static void add_unregistered(df_rank_list *list, const df_coll *coll) {
  for (uint32_t i = 0; i < coll->n && !list->more; i++)
    if (i != coll->position && has_not_registered(coll, i)) add_rank(list, coll->ranks[i]);
}

/* Visits each link once; has_not_run would visit each link for each member. */
static void add_without_offers(df_rank_list *list, const df_coll *coll) {
  const df_plan *plan = coll->exec.plan;
  for (uint32_t i = 0; i < plan->n_links && !list->more; i++) {
    if (!plan->links[i].sends) continue;
    const df_remote_ends *ends =
        df_ends_of(coll->members.remotes[plan->links[i].peer], plan->links[i].channel);
    if (ends == NULL || !ends->has_offer) add_rank(list, coll->ranks[plan->links[i].peer]);
  }
}

static void add_awaited_by_block(df_rank_list *list, dfcclContext_t context, const df_coll *coll,
                                 uint32_t block) {
  const df_descriptor *d = coll->exec.device.descriptor;
  const df_link *links = &coll->exec.device.links[block * d->n_links];
  const uint32_t loops = coll->exec.configuration.shape.parts[block].loops;
  const int is_seen = context->device.memory->host_sees_links;
  df_cursor cursor;
  if (!read_cursor(coll, block, &cursor)) return;
  if (cursor.phase == DF_PHASE_DRAIN && is_seen)
    for (uint32_t i = 0; i < d->n_links; i++)
      if (links[i].sends && is_undrained(coll, block, links[i].peer)) add_rank(list, links[i].peer);
  if (cursor.phase != DF_PHASE_MOVE || cursor.primitive >= d->n_primitives) return;
  const df_primitive *prim = &coll->exec.plan->primitives[cursor.primitive];
  if (prim->flags & DF_PRIM_RECV) {
    const df_link *link = &links[prim->recv_link];
    if (!is_seen || recv_is_missing(link, df_sequence(&cursor, loops, link, prim->recv_ordinal)))
      add_rank(list, link->peer);
  }
  if (prim->flags & DF_PRIM_SEND) {
    const df_link *link = &links[prim->send_link];
    if (!is_seen || credit_is_missing(link, df_sequence(&cursor, loops, link, prim->send_ordinal)))
      add_rank(list, link->peer);
  }
}

static df_wait_cause add_awaited(df_rank_list *list, dfcclContext_t context,
                                 const df_coll *coll) DF_RANK_LOCKED {
  if (coll->failure.failed != dfcclSuccess) return DF_WAIT_FAILED;
  if (coll->runs.taken == coll->runs.submitted) return DF_WAIT_NONE;
  if (coll->members.n_bound + 1 < coll->n) {
    add_unregistered(list, coll);
    return DF_WAIT_REGISTRATION;
  }
  if (!coll->exec.ready) {
    add_without_offers(list, coll);
    return list->n ? DF_WAIT_RUN : DF_WAIT_LINKS;
  }
  if (df_runs_in_device(coll) == 0)
    return context->runs.held ? DF_WAIT_SYNCHRONISATION : DF_WAIT_ROOM;
  for (uint32_t block = 0; block < coll->exec.configuration.shape.n_blocks; block++)
    add_awaited_by_block(list, context, coll, block);
  if (list->n == 0) return DF_WAIT_PROGRESS;
  return context->device.memory->host_sees_links ? DF_WAIT_MESSAGES : DF_WAIT_UNKNOWN;
}

uint32_t df_list_awaited(dfcclContext_t context, const df_coll *coll, df_wait_cause *cause,
                         uint32_t *ranks, uint32_t most, int *more) {
  df_rank_list list = {.ranks = ranks, .most = most};
  *cause = add_awaited(&list, context, coll);
  *more = list.more;
  return list.n;
}
