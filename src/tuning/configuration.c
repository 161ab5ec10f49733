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
  DF_LENDS_RATHER = 8,          /* times lend_min: results that crowded ranks lend from here */
  DF_STREAMS_TO_ONE = 4,        /* times stream_min: one reader's result is not lent from here */
  DF_FILE_RING_BYTES = 8 << 20, /* of all rings in which a rank receives by a file */
  DF_FILE_LEAST_SLOT = 4096
};

/* Between hosts. With its header such a part of a message is one packet for the system, with usual
 * Ethernet frames and with large ones. One of 64 KB is a full packet and a tiny one. */
static uint64_t in_packets(uint64_t slot_bytes) {
  enum { PART = 64 << 10, PACKET = 61 << 10 };
  return slot_bytes < PART ? slot_bytes : slot_bytes / PART * PACKET;
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

int df_configuration_choose(df_configuration *configuration,
                            const df_configuration_question *question) {
  memset(configuration, 0, sizeof *configuration);
  configuration->policy = &question->tuning->policy;
  configuration->memory = question->choice.memory;
  if (!df_choose(question->tuning, &question->choice, &configuration->choice)) return 0;
  if (configuration->choice.file && configuration->choice.slot_bytes == 0)
    configuration->choice.slot_bytes = file_slot_bytes(configuration);
  if (df_operation_has_piece_table(question->choice.operation) && question->choice.hosts > 1)
    configuration->choice.slot_bytes = (uint32_t)in_packets(configuration->choice.slot_bytes);
  const uint64_t slot = configuration->choice.slot_bytes
                            ? configuration->choice.slot_bytes
                            : (uint64_t)configuration->policy->slot_bytes;
  configuration->several = !question->on_gpu && df_plan_is_short(question->choice.bytes, slot);
  /* Short messages cost their number, and long ones the work of who speaks for the host. */
  if (configuration->choice.algorithm == DF_HIERARCHICAL && configuration->choice.lanes == 0)
    configuration->choice.lanes =
        configuration->several ? 1 : DF_MAX(question->choice.smallest_host, 1u);
  return 1;
}

static uint64_t result_bytes(const df_configuration_question *q) {
  int gathers = df_operation_is_wide(q->choice.operation, 1);
  return q->count * q->element_bytes * (gathers ? q->choice.n : 1);
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

/* Whatever the buffers of a run are. Then slots are for short messages only. */
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
      !df_operation_has_piece_table(q->choice.operation)) /* else they were */
    limits.slot_bytes = in_packets(limits.slot_bytes);
  return limits;
}

static void decide_shape(df_configuration *m, const df_configuration_question *q,
                         const df_plan *plan) {
  const df_shape_limits limits = limits_of(m, q, plan);
  df_shape_make(&m->shape, plan, q->count, q->element_bytes, &limits);
  /* Many rings of large slots may exceed a crowded rank's part of the caches. If they do not,
   * receivers take more (df_configuration_ring). */
  if (m->shape.stride > DF_PAGE_RING_STRIDE && m->oversubscribed)
    m->shape.n_slots = DF_MAX(m->shape.n_slots / 2, (uint32_t)DF_MIN_LINK_SLOTS);
  /* Mostly lent: then slots are memory that nothing goes through. */
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

static void decide_lending(df_configuration *m, const df_configuration_question *q,
                           const df_plan *plan) {
  /* A word orders only itself, but what a reader of lent memory sends must follow its reading. */
  int in_words = m->shape.payload_offset == DF_LINK_LL;
  int lends = m->policy->lend && !in_words && !m->choice.copies &&
              m->choice.form != DF_FORM_FLAGGED && !runs_ahead_rather(m, q) && !plan->lends_nothing;
  m->lend_min = lends ? (uint64_t)m->policy->lend_min : UINT64_MAX;
  m->lends = (uint8_t)((lends_in_place(m, q, plan) ? DF_LENDS_IN_PLACE : 0) |
                       (lends_streamed(m, q) ? DF_LENDS_STREAMED : 0));
  int only_overwrites = df_operation_only_overwrites(q->choice.operation);
  m->stream = result_bytes(q) < stream_min(m) ? DF_STREAM_NEVER
              : only_overwrites               ? DF_STREAM_ALWAYS
                                              : DF_STREAM_OUT_OF_PLACE;
}

/* ---- borrowed turns ---- */

static int is_short(const df_configuration *m, const df_configuration_question *q,
                    const df_plan *plan) {
  uint64_t most = (uint64_t)m->policy->borrowed_turn_max;
  uint64_t pieces = plan->geometry == DF_GEOMETRY_PIECES ? plan->pieces : 1;
  return most != 0 && q->has_borrowed_turns && m->shape.n_blocks == 1 && q->count <= most &&
         pieces <= DF_BORROWED_STEPS && q->count * pieces * q->element_bytes <= most &&
         (uint64_t)m->shape.parts[0].loops * plan->n_primitives <= DF_BORROWED_STEPS;
}

void df_configuration_decide(df_configuration *m, const df_configuration_question *q,
                             const df_plan *plan) {
  m->runs_ahead = !q->varying && df_operation_runs_ahead(q->choice.operation);
  m->ranks_on_a_core = df_topology_ranks_on_a_core(q->topology, q->choice.n);
  m->oversubscribed = (uint32_t)df_topology_is_oversubscribed(q->topology, q->choice.n);
  decide_shape(m, q, plan);
  decide_lending(m, q, plan);
  m->borrowed_turn = is_short(m, q, plan);
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
  return target;
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
                            const df_plan *plan) {
  enum { AHEAD = 16, BETWEEN_HOSTS = 8 };
  const uint32_t least = m->shape.n_slots;
  if (plan->extents == NULL) return least;
  if (m->runs_ahead && m->oversubscribed) return DF_MAX(least, (uint32_t)AHEAD);
  return q->choice.hosts > 1 ? DF_MAX(least, (uint32_t)BETWEEN_HOSTS) : least;
}

static uint32_t ring_slots(const df_configuration *m, const df_configuration_question *q,
                           const df_plan *plan, uint64_t used_bytes) {
  if (!q->host_sees_links || m->policy->slots == DF_MIN_LINK_SLOTS ||
      used_bytes >= (uint64_t)m->policy->ring_budget)
    return m->shape.n_slots;
  return nearest_slots(least_slots(m, q, plan), m->shape.stride, ring_target(m, q, plan));
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

df_ring df_configuration_ring(const df_configuration *m, const df_configuration_question *q,
                              const df_plan *plan, uint64_t used_bytes) {
  const uint32_t n_slots = ring_slots(m, q, plan, used_bytes);
  int looks_far = q->host_sees_links && m->shape.stride > DF_DEEP_RING_STRIDE && clock_is_cheap();
  return (df_ring){.stride = m->shape.stride,
                   .n_slots = n_slots,
                   .release_mask = release_mask(&m->shape, n_slots),
                   .far_ns = looks_far ? (uint16_t)m->policy->far_ns : 0};
}

/* ---- common slots ---- */

static uint64_t longest_message(const df_configuration *m, const df_configuration_question *q) {
  uint64_t elements = 0;
  for (uint32_t block = 0; block < m->shape.n_blocks; block++)
    elements = DF_MAX(elements, (uint64_t)m->shape.parts[block].chunk);
  return elements * q->element_bytes;
}

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
      longest_message(m, q) < m->lend_min || used_bytes >= (uint64_t)m->policy->ring_budget ||
      has_link_that_lends_nothing(plan, links) ||
      (m->policy->common == IF_IT_GAINS && !common_gains(m, q, plan, readers)))
    return 0;
  if (m->policy->slots == DF_MIN_LINK_SLOTS) return 1; /* the smallest */
  /* As many as the readers' own rings would have. */
  uint64_t ring =
      (uint64_t)m->policy->ring_bytes / m->ranks_on_a_core / (m->runs_ahead ? 1 : q->choice.n - 1);
  return nearest_slots(DF_MIN_LINK_SLOTS, m->shape.stride, ring * readers / m->shape.n_blocks);
}

/* ---- in words ---- */

const char *df_configuration_form(const df_configuration *m, const df_plan *plan, uint64_t count) {
  if (plan->n_links == 0 || count == 0) return "none";
  if (m->shape.payload_offset == DF_LINK_LL) return "words";
  return m->shape.payload_offset == DF_LINK_FLAGGED_OFFSET ? "flagged" : "staged";
}

int df_configuration_lends(const df_configuration *m, uint32_t element_bytes) {
  return (uint64_t)m->shape.parts[0].chunk * element_bytes >= m->lend_min;
}

void df_configuration_say_source(const df_configuration *m, df_text *out) {
  const df_rule *rule = m->choice.rule;
  const int is_exception = m->choice.is_named || m->choice.is_by_hosts || m->choice.is_ordered;
  char line[240] = "";
  if (m->choice.advice.kind == DF_ADVICE_TAKEN) {
    df_say(out, "since ");
    df_advice_say(&m->choice.advice, out);
    return;
  }
  df_say(out, "since %s",
         m->choice.is_named      ? "it is named"
         : m->choice.is_by_hosts ? "ranks share hosts"
         : m->choice.is_ordered  ? "the operator does not commute"
         : rule == NULL          ? "uneven pieces have no other"
                                 : "this is the first rule that fits, of ");
  if (rule == NULL) return;
  df_rule_print(rule, line, sizeof line);
  if (is_exception) df_say(out, "; limits from a rule of ");
  if (m->choice.line)
    df_say(out, "DFCCL_TUNING, line %u: %s", m->choice.line, line);
  else
    df_say(out, "the built-in table: %s", line);
}

static void say_algorithm(const df_configuration *m, df_text *out) {
  const char *file = m->choice.file ? df_plan_file_facts_of(m->choice.file).name : "";
  df_say(out, "algorithm: %s%s%s, ", df_algorithm_name(m->choice.algorithm), *file ? ":" : "",
         file);
  df_configuration_say_source(m, out);
  if (m->choice.advice.kind == DF_ADVICE_TAKEN) return;
  if (m->choice.split) df_say(out, "; subgroups of %u", m->choice.split);
  if (m->choice.algorithm == DF_HIERARCHICAL)
    df_say(out, "; %u ranks of each host speak to other hosts at most (lanes)", m->choice.lanes);
  if (m->choice.advice.kind == DF_ADVICE_NONE) return;
  df_say(out, "\nadvice: ");
  df_advice_say(&m->choice.advice, out);
}

static void say_form(const df_configuration *m, const df_configuration_question *q, df_text *out) {
  const df_shape *s = &m->shape;
  if (q->varying)
    df_say(out, "form: staged, since a count goes before the payload\n");
  else if (m->choice.form == DF_FORM_STAGED)
    df_say(out, "form: staged, since the tuner plugin says simple\n");
  else if (m->choice.form == DF_FORM_FLAGGED && s->payload_offset == DF_LINK_FLAGGED_OFFSET)
    df_say(out, "form: flagged, since the tuner plugin says ll\n");
  else if (s->payload_offset == DF_LINK_LL)
    df_say(out,
           "form: words that carry a flag each, since messages have at most words_max %lld bytes\n",
           m->policy->words_max);
  else if (s->payload_offset == DF_LINK_FLAGGED_OFFSET)
    df_say(out,
           "form: flagged, commit word and payload in one slot%s, since messages have at most "
           "flagged_max %lld bytes\n",
           s->stride < DF_CACHE_LINE ? " that shares its line" : "", m->policy->flagged_max);
  else
    df_say(out,
           "form: staged, the payload begins at a line of its own, since messages have more than "
           "flagged_max %lld bytes\n",
           m->policy->flagged_max);
}

static void say_lending(const df_configuration *m, const df_configuration_question *q,
                        const df_plan *plan, df_text *out) {
  if (m->lend_min == UINT64_MAX)
    df_say(out, "lend: nothing, since %s\n",
           !m->policy->lend                    ? "lend is 0"
           : m->choice.copies                  ? "the rule says copies=1"
           : m->choice.form == DF_FORM_FLAGGED ? "the tuner plugin says ll"
           : plan->lends_nothing               ? "the file's steps might overwrite what is lent"
           : m->shape.payload_offset == DF_LINK_LL
               ? "words travel"
               : "ranks share cores, and who waits for nobody runs ahead");
  else if (longest_message(m, q) < m->lend_min)
    df_say(out, "lend: nothing, since messages have fewer than lend_min %lld bytes\n",
           m->policy->lend_min);
  else
    df_say(out, "lend: buffers within reach, since messages have lend_min %lld bytes or more%s%s\n",
           m->policy->lend_min, m->lends & DF_LENDS_IN_PLACE ? "" : "; not of runs in place",
           m->lends & DF_LENDS_STREAMED ? "" : "; no results, which have one reader");
  df_say(out,
         "stores: %s, since the result has %" PRIu64 " bytes and stream_min is %" PRIu64 "%s\n",
         m->stream == DF_STREAM_NEVER    ? "into the caches"
         : m->stream == DF_STREAM_ALWAYS ? "past the caches"
                                         : "past the caches, but of runs in place",
         result_bytes(q), stream_min(m),
         m->oversubscribed ? " for each of the ranks that share a core" : "");
}

void df_configuration_explain(const df_configuration *m, const df_configuration_question *q,
                              const df_plan *plan, const df_ring *ring, char *text, size_t bytes) {
  df_text out = {.at = text, .left = bytes};
  const df_shape *s = &m->shape;
  const df_part *part = &s->parts[0];
  df_say(&out,
         "question: %s of %" PRIu64 " elements of %u bytes, %u ranks on %u cores (%u for each "
         "core%s), %s\n",
         df_operation_name(q->choice.operation), q->count, q->element_bytes, q->choice.n,
         q->topology->n_cores, m->ranks_on_a_core, m->oversubscribed ? ", crowded" : "",
         q->choice.memory == DF_MEMORY_PROCESS ? "all in one process" : "in several processes");
  say_algorithm(m, &out);
  df_say(&out,
         "\ncut: %u block%s, %u loop%s of %u primitives, chunks of %u elements, since a slot "
         "holds %u bytes at most and a block is worth block_min %lld bytes\n",
         s->n_blocks, s->n_blocks == 1 ? "" : "s", part->loops, part->loops == 1 ? "" : "s",
         plan->n_primitives, part->chunk, (uint32_t)limits_of(m, q, plan).slot_bytes,
         m->policy->block_min);
  if (lends_for_certain(m, q, plan) && longest_message(m, q) > s->stride)
    df_say(&out,
           "long: messages exceed their slots, since all of lend_min %lld bytes or more are lent "
           "(cuda_lent_bytes %lld)\n",
           m->policy->lend_min, m->policy->cuda_lent_bytes);
  say_form(m, q, &out);
  df_say(&out, "rings: %u slots of %u bytes%s, since %s\n", ring->n_slots, ring->stride,
         ring->release_mask ? ", given back a quarter at a time" : "",
         ring->n_slots == s->n_slots ? "members agreed on so many"
         : plan->extents && q->choice.hosts > 1 && !m->runs_ahead
             ? "a credit to another host travels when half of a ring is due"
         : s->stride <= DF_DEEP_RING_STRIDE || ring->n_slots == least_slots(m, q, plan)
             ? "some ranks wait for nobody, and may run ahead"
             : "slots that were read long ago are written faster (ring_bytes)");
  say_lending(m, q, plan, &out);
  df_say(&out, "turns: %s\n",
         m->borrowed_turn
             ? "the submitter executes the first turn, since the run is short "
               "(borrowed_turn_max)"
             : "the daemon's, since the run is not short (borrowed_turn_max, one block, "
               "few primitives)");
}
