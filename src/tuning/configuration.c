#include "tuning/configuration.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "tuning/model.h"

enum {
  /* A payload of a few lines costs its crossing, not its bytes. */
  DF_DEEP_RING_STRIDE = 1024 + DF_CACHE_LINE,
  DF_PAGE_RING_STRIDE = DF_PAGE + DF_CACHE_LINE,
  DF_LENT_STRIDE = 128 * 1024 + DF_CACHE_LINE,
  DF_AHEAD_RING_BYTES = 8192,   /* a rank that waits for nobody runs ahead */
  DF_FAR_RING_BYTES = 64 << 10, /* the same, to another host: a credit takes long */
  DF_QUARTERED_SLOTS = 8,       /* Rings with fewer slots give back each slot at once. */
  DF_BORROWED_STEPS = 32,       /* most primitives of a run that its submitter may execute */
  DF_LENDS_RATHER = 8,   /* times lend_min: oversubscribed ranks lend results from this size on */
  DF_STREAMS_TO_ONE = 4, /* times stream_min: one reader's result is not lent from here */
  /* Ranks that are alone on their hosts: */
  DF_FAR_SLOT = 2,              /* times slot_bytes, for slots */
  DF_FAR_RINGS = 4,             /* part of ring_bytes for all rings in which a rank receives */
  DF_LENDS_FAR = 32,            /* times net_lend_min: results are lent from this size on */
  DF_FILE_RING_BYTES = 8 << 20, /* bytes of all rings in which a rank receives by a file */
  DF_FILE_LEAST_SLOT = 4096
};

/* Between hosts. With its header such a part of a message is one packet for the system, with usual
 * Ethernet frames and with large ones. One of 64 KB is a full packet and a tiny one. */
static uint64_t in_packets(uint64_t slot_bytes) {
  enum { PART = 64 << 10, PACKET = 61 << 10 };
  return slot_bytes < PART ? slot_bytes : slot_bytes / PART * PACKET;
}

/* Every link leads to another host. So slots are written and read on one processor, by a block and
 * a pump, and a message costs credits and system calls. */
static int has_hosts_only(const df_configuration_question *q) {
  return q->choice.hosts > 1 && q->choice.hosts == q->choice.n;
}

/* A file may have many links to each peer: their rings together have a limit. */
static uint32_t file_slot_bytes(const df_configuration *m) {
  const df_plan_file_facts facts = df_plan_file_facts_of(m->choice.file);
  const uint64_t rings =
      DF_MAX(facts.links / 2u, 1u) * (uint64_t)DF_MAX(m->policy->slots, (long long)facts.slots);
  const uint64_t each = DF_FILE_RING_BYTES / rings / DF_CACHE_LINE * DF_CACHE_LINE;
  const uint64_t most = (uint64_t)m->policy->slot_bytes;
  return (uint32_t)DF_MIN(DF_MAX(each, (uint64_t)DF_FILE_LEAST_SLOT), most);
}

/* In the reverse order of df_choose: the last to decide is the reason. */
static df_reason source_of(const df_choice *choice) {
  if (choice->is_named) return DF_REASON_SOURCE_NAME;
  if (choice->is_by_hosts) return DF_REASON_SOURCE_HOSTS;
  if (choice->is_ordered) return DF_REASON_SOURCE_ORDER;
  if (choice->advice.kind == DF_ADVICE_TAKEN) return DF_REASON_SOURCE_PLUGIN;
  return choice->rule ? DF_REASON_SOURCE_RULE : DF_REASON_SOURCE_ONLY;
}

/* A GPU's messages have one piece. */
static df_cuts cuts_of(const df_configuration *m, const df_configuration_question *q,
                       uint64_t slot_bytes) {
  const df_policy *p = m->policy;
  const int is_far = q->choice.hosts > 1;
  const df_shape_limits limits =
      df_choice_limits(&m->choice, (df_shape_limits){.block_min = (uint64_t)p->block_min,
                                                     .max_blocks = q->max_blocks,
                                                     .varying = q->varying});
  const long long lend_min = is_far ? DF_MAX(p->lend_min, p->net_lend_min) : p->lend_min;
  if (q->on_gpu) return (df_cuts){1, 1};
  return df_plan_cuts(
      &(df_cut_question){.operation = q->choice.operation,
                         .algorithm = m->choice.algorithm,
                         .n = q->choice.n,
                         .bytes = q->choice.bytes,
                         .n_blocks = df_shape_blocks(q->count, q->element_bytes, &limits),
                         .slot_bytes = is_far ? in_packets(slot_bytes) : slot_bytes,
                         .lend_min = p->lend && !m->choice.copies ? (uint64_t)lend_min : UINT64_MAX,
                         .is_far = is_far});
}

int df_configuration_choose(df_configuration *configuration,
                            const df_configuration_question *question) {
  memset(configuration, 0, sizeof *configuration);
  configuration->policy = &question->tuning->policy;
  configuration->memory = question->choice.memory;
  if (!df_choose(question->tuning, &question->choice, &configuration->choice)) return 0;
  if (configuration->choice.file && configuration->choice.slot_bytes == 0)
    configuration->choice.slot_bytes = file_slot_bytes(configuration);
  if (has_hosts_only(question) && configuration->choice.slot_bytes == 0)
    configuration->choice.slot_bytes = (uint32_t)DF_MIN(
        DF_FAR_SLOT * configuration->policy->slot_bytes, (long long)DF_MAX_SLOT_BYTES);
  if (df_operation_has_piece_table(question->choice.operation) && question->choice.hosts > 1)
    configuration->choice.slot_bytes = (uint32_t)in_packets(configuration->choice.slot_bytes);
  configuration->reasons.source = source_of(&configuration->choice);
  const uint64_t slot = configuration->choice.slot_bytes
                            ? configuration->choice.slot_bytes
                            : (uint64_t)configuration->policy->slot_bytes;
  configuration->cuts = cuts_of(configuration, question, slot);
  /* The cost of short messages is their number. That of long ones is the work of the ranks that
   * exchange messages with other hosts. */
  if (configuration->choice.algorithm == DF_HIERARCHICAL && configuration->choice.lanes == 0)
    configuration->choice.lanes =
        configuration->cuts.row == DF_ROW_WHOLE ? 1 : DF_MAX(question->choice.smallest_host, 1u);
  return 1;
}

static uint64_t result_bytes(const df_configuration_question *q) {
  int gathers = df_operation_is_wide(q->choice.operation, 1);
  return q->count * q->element_bytes * (gathers ? q->choice.n : 1);
}

static uint64_t longest_message(const df_configuration *m, const df_configuration_question *q) {
  uint64_t elements = 0;
  for (uint32_t block = 0; block < m->shape.n_blocks; block++)
    elements = DF_MAX(elements, (uint64_t)m->shape.parts[block].chunk);
  return elements * q->element_bytes;
}

/* Ranks on one core share its caches. */
static uint64_t stream_min(const df_configuration *m) {
  uint64_t least = (uint64_t)m->policy->stream_min;
  return m->oversubscribed ? least / m->ranks_on_a_core : least;
}

/* ---- the shape ---- */

/* A buffer that is read and rewritten changes a CPU's caches with every chunk. Slots are faster
 * until it exceeds the caches anyway. */
static int lends_in_place(const df_configuration *m, const df_configuration_question *q,
                          const df_plan *plan) {
  return plan->direct_in_place && (q->on_gpu || q->choice.operation != DF_OP_ALL_REDUCE ||
                                   result_bytes(q) >= (uint64_t)m->policy->lend_in_place_min);
}

/* All messages of lend_min bytes or more are lent, for any buffers of a run. Then slots are for
 * short messages only. */
static int lends_for_certain(const df_configuration *m, const df_configuration_question *q,
                             const df_plan *plan) {
  return q->on_one_gpu && m->policy->lend && plan->lends_all && lends_in_place(m, q, plan);
}

static df_shape_limits limits_of(const df_configuration *m, const df_configuration_question *q,
                                 const df_plan *plan) {
  const df_policy *p = m->policy;
  df_shape_limits limits = {.slot_bytes = (uint64_t)p->slot_bytes,
                            .slots = (uint32_t)p->slots,
                            .flagged_max = (uint32_t)p->flagged_max,
                            .packed_max = q->on_gpu       ? 0
                                          : m->runs_ahead ? DF_PACKED_MAX
                                                          : DF_PACKED_WHOLE_MAX,
                            .words_max = q->on_gpu ? (uint32_t)p->words_max : 0,
                            .block_min = (uint64_t)p->block_min,
                            .max_blocks = q->max_blocks,
                            .varying = q->varying};
  if (lends_for_certain(m, q, plan)) {
    limits.lent_bytes = (uint64_t)p->cuda_lent_bytes;
    limits.lent_min = (uint64_t)p->lend_min;
  }
  limits = df_choice_limits(&m->choice, limits);
  if (q->choice.hosts > 1 &&
      !df_operation_has_piece_table(q->choice.operation)) /* otherwise they were */
    limits.slot_bytes = in_packets(limits.slot_bytes);
  return limits;
}

/* The plugin's choice is made by the limits (df_choice_limits). */
static df_reason reason_of_form(const df_configuration *m) {
  switch (m->shape.form) {
  case DF_FORM_BY_COUNT:
    return DF_REASON_FORM_COUNT;
  case DF_FORM_BY_WORDS:
    return DF_REASON_FORM_WORDS;
  case DF_FORM_BY_FLAGGED:
    return m->choice.form == DF_FORM_FLAGGED ? DF_REASON_FORM_LL : DF_REASON_FORM_FLAGGED;
  default:
    return m->choice.form == DF_FORM_STAGED ? DF_REASON_FORM_SIMPLE : DF_REASON_FORM_STAGED;
  }
}

/* A loop puts few messages on a link. If all ranks wait for each other, the next run begins when
 * the peers have received, and then more slots would be of no use. */
static int fills_few_slots(const df_configuration *m, const df_configuration_question *q) {
  uint32_t loops = 0;
  for (uint32_t block = 0; block < m->shape.n_blocks; block++)
    loops = DF_MAX(loops, m->shape.parts[block].loops);
  return has_hosts_only(q) && !m->runs_ahead && loops <= 1;
}

static void decide_shape(df_configuration *m, const df_configuration_question *q,
                         const df_plan *plan) {
  const df_shape_limits limits = limits_of(m, q, plan);
  df_shape_make(&m->shape, plan, q->count, q->element_bytes, &limits);
  m->reasons.form = reason_of_form(m);
  m->slot_limit = (uint32_t)limits.slot_bytes;
  m->lends_for_certain = limits.lent_bytes != 0;
  m->longest_message = longest_message(m, q);
  /* Many rings of large slots may exceed a rank's part of the caches. If they do not, receivers
   * take more (df_configuration_ring). */
  if (m->shape.stride > DF_PAGE_RING_STRIDE && (m->oversubscribed || fills_few_slots(m, q)))
    m->shape.n_slots = DF_MAX(m->shape.n_slots / 2, (uint32_t)DF_MIN_LINK_SLOTS);
  /* Messages are mostly lent; then more slots would be unused memory. */
  if (q->on_gpu && m->shape.stride > DF_LENT_STRIDE)
    m->shape.n_slots = DF_MIN(m->shape.n_slots, (uint32_t)DF_MIN_LINK_SLOTS);
  m->shape.n_slots = DF_MAX(m->shape.n_slots, plan->least_slots);
}

/* ---- lending, and stores past the caches ---- */

/* If reader and writer each have a processor, a result far larger than the caches is faster through
 * slots. With more readers, lending saves copies. */
static int lends_streamed(const df_configuration *m, const df_configuration_question *q) {
  return q->on_gpu || q->choice.n != 2 || q->topology->n_cores < 2 ||
         result_bytes(q) / DF_STREAMS_TO_ONE < (uint64_t)m->policy->stream_min;
}

/* A lent buffer is in use until its last reader has had a turn. Ranks that share a core gain
 * more by running ahead, until the result is so large that copies cost more than turns. */
static int runs_ahead_rather(const df_configuration *m, const df_configuration_question *q) {
  return m->runs_ahead && m->oversubscribed && !q->on_gpu &&
         result_bytes(q) / DF_LENDS_RATHER < (uint64_t)m->policy->lend_min;
}

/* A run that lends a buffer to another host ends when its last credit has come. Only long runs save
 * more by lending than this round trip takes. */
static int ends_sooner_by_copies(const df_configuration *m, const df_configuration_question *q) {
  return has_hosts_only(q) && result_bytes(q) / DF_LENDS_FAR < (uint64_t)m->policy->net_lend_min;
}

/* A word orders only itself, but what a reader of lent memory sends must follow its reading. */
static df_reason whether_to_lend(const df_configuration *m, const df_configuration_question *q,
                                 const df_plan *plan) {
  if (!m->policy->lend) return DF_REASON_LEND_OFF;
  if (m->choice.copies) return DF_REASON_LEND_COPIES;
  if (m->choice.form == DF_FORM_FLAGGED) return DF_REASON_LEND_LL;
  if (plan->lends_nothing) return DF_REASON_LEND_FILE;
  if (m->shape.payload_offset == DF_LINK_LL) return DF_REASON_LEND_WORDS;
  if (runs_ahead_rather(m, q)) return DF_REASON_LEND_AHEAD;
  if (m->longest_message < (uint64_t)m->policy->lend_min) return DF_REASON_LEND_SHORT;
  return ends_sooner_by_copies(m, q) ? DF_REASON_LEND_ROUND_TRIP : DF_REASON_LEND_LONG;
}

static void decide_lending(df_configuration *m, const df_configuration_question *q,
                           const df_plan *plan) {
  m->reasons.lend = whether_to_lend(m, q, plan);
  m->lend_min = m->reasons.lend == DF_REASON_LEND_SHORT || m->reasons.lend == DF_REASON_LEND_LONG
                    ? (uint64_t)m->policy->lend_min
                    : UINT64_MAX;
  m->lends = (uint8_t)((lends_in_place(m, q, plan) ? DF_LENDS_IN_PLACE : 0) |
                       (lends_streamed(m, q) ? DF_LENDS_STREAMED : 0));
  int only_overwrites = df_operation_only_overwrites(q->choice.operation);
  m->result_bytes = result_bytes(q);
  m->stream_min = stream_min(m);
  m->reasons.stores = m->result_bytes < m->stream_min ? DF_REASON_STORES_SMALL
                      : only_overwrites               ? DF_REASON_STORES_OVERWRITES
                                                      : DF_REASON_STORES_OUT_OF_PLACE;
  m->stream = m->reasons.stores == DF_REASON_STORES_SMALL        ? DF_STREAM_NEVER
              : m->reasons.stores == DF_REASON_STORES_OVERWRITES ? DF_STREAM_ALWAYS
                                                                 : DF_STREAM_OUT_OF_PLACE;
}

/* ---- borrowed turns ---- */

static df_reason who_executes_first(const df_configuration *m, const df_configuration_question *q,
                                    const df_plan *plan) {
  uint64_t most = (uint64_t)m->policy->borrowed_turn_max;
  uint64_t pieces = plan->geometry == DF_GEOMETRY_PIECES ? plan->pieces : 1;
  if (!q->has_borrowed_turns) return DF_REASON_TURNS_DEVICE;
  if (most == 0) return DF_REASON_TURNS_OFF;
  if (m->shape.n_blocks != 1) return DF_REASON_TURNS_BLOCKS;
  if (pieces > DF_BORROWED_STEPS ||
      (uint64_t)m->shape.parts[0].loops * plan->n_primitives > DF_BORROWED_STEPS)
    return DF_REASON_TURNS_STEPS;
  if (q->count > most || q->count * pieces * q->element_bytes > most) return DF_REASON_TURNS_BYTES;
  return DF_REASON_TURNS_SHORT;
}

void df_configuration_decide(df_configuration *m, const df_configuration_question *q,
                             const df_plan *plan) {
  m->runs_ahead = !q->varying && df_operation_runs_ahead(q->choice.operation);
  m->ranks_on_a_core = df_topology_ranks_on_a_core(q->topology, q->choice.n);
  m->oversubscribed = (uint32_t)df_topology_is_oversubscribed(q->topology, q->choice.n);
  decide_shape(m, q, plan);
  decide_lending(m, q, plan);
  m->reasons.turns = who_executes_first(m, q, plan);
  m->borrowed_turn = m->reasons.turns == DF_REASON_TURNS_SHORT;
}

double df_configuration_predict(const df_configuration_question *q, int algorithm, uint32_t split,
                                uint64_t slot_bytes) {
  const df_model_question question = {
      .operation = q->choice.operation,
      .n = q->choice.n,
      .bytes = q->choice.bytes,
      .slot_bytes = slot_bytes,
      .split = split,
      .hosts = q->choice.hosts,
      .ranks_on_a_core = df_topology_ranks_on_a_core(q->topology, q->choice.n),
      .distance = q->choice.hosts > 1                     ? DF_FAR
                  : q->on_gpu                             ? DF_NEAR_GPU
                  : q->choice.memory == DF_MEMORY_PROCESS ? DF_NEAR_PROCESS
                                                          : DF_NEAR_HOST};
  return df_model_us(&question, algorithm);
}

/* ---- rings ---- */

static uint32_t count_incoming(const df_plan *plan) {
  uint32_t n = 0;
  for (uint32_t which = 0; which < plan->n_links; which++) n += !plan->links[which].sends;
  return n;
}

/*
 * Bytes for each ring. Members agreed on the least slots; the receiver may take more.
 *   - Large messages: so many slots that the sender finds a slot's lines in the shared cache. From
 *     the receiver's own cache they come several times slower.
 *   - The same to other hosts: so few that they stay in the cache of the one processor that writes
 *     and reads them.
 *   - Messages up to a page, if all wait for all: few slots when ranks share cores.
 *   - Small messages that are not lent: many slots if the sender may run ahead. Ranks that share a
 *     core then take turns less often.
 */
static uint64_t ring_target(const df_configuration *m, const df_configuration_question *q,
                            const df_plan *plan) {
  const uint64_t stride = m->shape.stride;
  const uint64_t ahead = q->choice.hosts > 1 ? DF_FAR_RING_BYTES : DF_AHEAD_RING_BYTES;
  uint64_t each =
      DF_MAX(count_incoming(plan), 1u) * (uint64_t)m->shape.n_blocks * m->ranks_on_a_core;
  uint64_t target = (uint64_t)m->policy->ring_bytes / each;
  if (stride <= DF_DEEP_RING_STRIDE)
    return m->runs_ahead && m->lend_min > stride ? DF_MIN(target, ahead) : 0;
  if (stride <= DF_PAGE_RING_STRIDE && !m->runs_ahead && m->ranks_on_a_core > 1) return 0;
  if (stride <= DF_PAGE_RING_STRIDE || !has_hosts_only(q)) return target;
  /* A rank of an exchange also has the rings in which it sends. */
  return target / (m->runs_ahead ? DF_FAR_RINGS / 2 : DF_FAR_RINGS);
}

/* The power of two nearest to the target, by ratio. */
static uint32_t nearest_slots(uint32_t least, uint64_t stride, uint64_t target) {
  uint32_t n = least;
  while (n < DF_MAX_LINK_SLOTS && 4ull * n * stride <= 3 * target) n *= 2;
  return n;
}

/* Slots of uneven pieces have room for the largest that there may be, whatever comes through them.
 * So bytes say little of the caches, and a sender that waits for nobody runs ahead by so many. To
 * another host a credit travels when half of a ring is due: of few slots it is a frame for each
 * message. */
static uint32_t least_slots(const df_configuration *m, const df_configuration_question *q,
                            const df_plan *plan, df_reason *reason) {
  enum { AHEAD = 16, BETWEEN_HOSTS = 8 };
  uint32_t least = m->shape.n_slots;
  if (plan->extents == NULL) return least;
  const int is_ahead = m->runs_ahead && m->oversubscribed;
  if (is_ahead)
    least = DF_MAX(least, (uint32_t)AHEAD);
  else if (q->choice.hosts > 1)
    least = DF_MAX(least, (uint32_t)BETWEEN_HOSTS);
  if (least > m->shape.n_slots)
    *reason = is_ahead ? DF_REASON_RINGS_AHEAD : DF_REASON_RINGS_CREDITS;
  return least;
}

static uint32_t ring_slots(const df_configuration *m, const df_configuration_question *q,
                           const df_plan *plan, uint64_t used_bytes, df_reason *reason) {
  *reason = DF_REASON_RINGS_AGREED;
  if (!q->host_sees_links || m->policy->slots == DF_MIN_LINK_SLOTS ||
      used_bytes >= (uint64_t)m->policy->ring_budget)
    return m->shape.n_slots;
  const uint32_t least = least_slots(m, q, plan, reason);
  const uint32_t n = nearest_slots(least, m->shape.stride, ring_target(m, q, plan));
  if (n > least)
    *reason =
        m->shape.stride <= DF_DEEP_RING_STRIDE ? DF_REASON_RINGS_AHEAD : DF_REASON_RINGS_CACHES;
  return n;
}

/* Two kinds of ring return a quarter of their slots at a time. Deep rings let the sender run
 * ahead. In rings of words only returning costs a fence. */
static uint16_t release_mask(const df_shape *shape, uint32_t n_slots) {
  int is_ahead = shape->payload_offset == DF_LINK_LL
                     ? n_slots >= DF_QUARTERED_SLOTS
                     : shape->stride <= DF_DEEP_RING_STRIDE && n_slots > shape->n_slots;
  return is_ahead ? (uint16_t)(n_slots / 4 - 1) : 0;
}

/* On some machines reading the clock is a system call, and slower than fetching a line. */
static int clock_is_cheap(void) {
  enum { UNKNOWN, DEAR, CHEAP, TRIES = 64, MOST_NS = 60 };
  static uint32_t known;
  uint32_t clock = df_load_relaxed_u32(&known);
  if (clock == UNKNOWN) {
    uint64_t least = UINT64_MAX, before = df_clock_ns();
    for (int i = 0; i < TRIES; i++) {
      uint64_t now = df_clock_ns();
      least = DF_MIN(least, now - before);
      before = now;
    }
    clock = least <= MOST_NS ? CHEAP : DEAR;
    df_store_relaxed_u32(&known, clock);
  }
  return clock == CHEAP;
}

static uint16_t kind_of_rings(const df_configuration *m, const df_configuration_question *q) {
  const uint64_t bytes = m->result_bytes;
  const uint32_t size = bytes < 2 ? 0 : 64 - (uint32_t)__builtin_clzll(bytes - 1);
  const uint32_t last = DF_RING_SIZES - 1;
  return (uint16_t)((uint32_t)q->choice.operation * DF_RING_SIZES + DF_MIN(size, last));
}

static uint64_t call_min(const df_configuration *m) {
  if (m->policy->call_min == 0 || m->lend_min == UINT64_MAX) return UINT64_MAX;
  return DF_MAX((uint64_t)m->policy->call_min, m->lend_min);
}

df_ring df_configuration_ring(const df_configuration *m, const df_configuration_question *q,
                              const df_plan *plan, uint64_t used_bytes) {
  df_reason reason;
  const uint32_t n_slots = ring_slots(m, q, plan, used_bytes, &reason);
  const int has_slots = q->host_sees_links && m->shape.stride >= DF_WAY_LEAST + DF_CACHE_LINE;
  const uint8_t forced = (uint8_t)m->policy->way;
  return (df_ring){.stride = m->shape.stride,
                   .n_slots = n_slots,
                   .release_mask = release_mask(&m->shape, n_slots),
                   .has_ways = has_slots && (forced != DF_WAY_BY_TIMES || clock_is_cheap()),
                   .ways = {.forced = forced, .one_way = (uint8_t)m->runs_ahead},
                   .call_min = call_min(m),
                   .kind = kind_of_rings(m, q),
                   .reason = (uint16_t)reason};
}

uint64_t df_configuration_peers_lend_min(const df_configuration *m) {
  return m->reasons.lend == DF_REASON_LEND_ROUND_TRIP ? UINT64_MAX : 0; /* all have its facts */
}

/* ---- common slots ---- */

/* A common slot's messages are either all lent or none. */
static int has_link_that_lends_nothing(const df_plan *plan, const df_link *links) {
  for (uint32_t i = 0; i < plan->n_primitives; i++)
    if (plan->primitives[i].common != DF_COMMON_NONE &&
        links[plan->primitives[i].send_link].release_mask)
      return 1;
  return 0;
}

/* If a run's messages fit the caches in slots of their own, those are as fast, and a root need not
 * wait for its readers after each run. */
static int common_gains(const df_configuration *m, const df_configuration_question *q,
                        const df_plan *plan, uint32_t readers) {
  uint32_t pieces = plan->geometry == DF_GEOMETRY_PARTITION ? plan->pieces : 1;
  uint64_t to_each = q->count * q->element_bytes / pieces;
  uint64_t copies = (uint64_t)readers * (m->runs_ahead ? 1 : q->choice.n);
  return m->oversubscribed && to_each > (uint64_t)m->policy->ring_bytes / copies;
}

uint32_t df_configuration_common_slots(const df_configuration *m,
                                       const df_configuration_question *q, const df_plan *plan,
                                       const df_link *links, uint32_t readers,
                                       uint64_t used_bytes) {
  enum { NEVER, IF_IT_GAINS };
  if (m->policy->common == NEVER || !q->host_sees_links || q->varying || readers < 2 ||
      m->longest_message < m->lend_min || used_bytes >= (uint64_t)m->policy->ring_budget ||
      has_link_that_lends_nothing(plan, links) ||
      (m->policy->common == IF_IT_GAINS && !common_gains(m, q, plan, readers)))
    return 0;
  if (m->policy->slots == DF_MIN_LINK_SLOTS) return 1; /* the smallest */
  /* As many as the readers' own rings would have. */
  uint64_t ring =
      (uint64_t)m->policy->ring_bytes / m->ranks_on_a_core / (m->runs_ahead ? 1 : q->choice.n - 1);
  return nearest_slots(DF_MIN_LINK_SLOTS, m->shape.stride, ring * readers / m->shape.n_blocks);
}

/* ---- queries of a decision ---- */

const char *df_configuration_form(const df_configuration *m, const df_plan *plan, uint64_t count) {
  if (plan->n_links == 0 || count == 0) return "none";
  if (m->shape.payload_offset == DF_LINK_LL) return "words";
  return m->shape.payload_offset == DF_LINK_FLAGGED_OFFSET ? "flagged" : "staged";
}

int df_configuration_lends(const df_configuration *m, uint32_t element_bytes) {
  return (uint64_t)m->shape.parts[0].chunk * element_bytes >= m->lend_min;
}
