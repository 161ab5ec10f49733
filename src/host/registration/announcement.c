#include "host/registration/announcement.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "host/registration/user_operators.h"
#include "host/state/registry.h"
#include "host/state/survival.h"
#include "plans/msccl/file.h"

static uint32_t operator_of(const df_coll *coll) {
  if (!df_operation_reduces(coll->operation)) return 0;
  return coll->has_user_operator
             ? (uint32_t)df_user_operator_kind_of(df_user_operators[coll->user_operator])
             : (uint32_t)coll->op;
}

/* For plans from files, the file's hash is compared too. */
static uint64_t compared_form(const df_plan *plan) {
  const df_cuts cuts = plan->key.cuts;
  if (plan->key.file == NULL) return (uint64_t)cuts.share << 32 | cuts.row;
  return df_plan_file_facts_of(plan->key.file).hash << 1 | (uint64_t)(cuts.row == DF_ROW_WHOLE);
}

df_announcement df_coll_announcement(const df_coll *coll) {
  return (df_announcement){.operation = coll->operation,
                           .type = (uint32_t)coll->type,
                           .op = operator_of(coll),
                           .root = coll->root,
                           .count = coll->pairs ? 0 : coll->count,
                           .group_size = coll->n,
                           .algorithm = (uint32_t)coll->exec.plan->key.algorithm,
                           .n_blocks = coll->exec.configuration.shape.n_blocks,
                           .n_slots = coll->exec.configuration.shape.n_slots,
                           .stride = coll->exec.configuration.shape.stride,
                           .payload_offset =
                               (uint16_t)coll->exec.configuration.shape.payload_offset,
                           .varying = (uint16_t)coll->varying,
                           .split = coll->exec.plan->key.split,
                           .chunk = coll->exec.configuration.shape.parts[0].chunk,
                           .loops = coll->exec.configuration.shape.parts[0].loops,
                           .group_step = coll->group_step,
                           .form = compared_form(coll->exec.plan)};
}

void df_coll_announce(dfcclContext_t context, df_coll *coll, uint32_t from) {
  uint8_t payload[sizeof(df_announcement) + DF_MAX_RANKS * sizeof(uint32_t)];
  df_announcement announcement = df_coll_announcement(coll);
  df_message message = {.kind = DF_MESSAGE_ANNOUNCE, .id = coll->id, .variant = coll->home};
  message.payload_bytes = df_announcement_write(&announcement, coll->ranks, payload);
  if (coll->pairs == NULL && from == 0) {
    df_coll_send(context, coll, &message, payload);
    return;
  }
  for (uint32_t i = from; i < coll->members.n_paired; i++) {
    if (i == coll->position || df_coll_has_lost(context, coll, coll->ranks[i])) continue;
    if (coll->pairs && i < coll->n) {
      announcement.sends = coll->pairs[i].sends;
      announcement.receives = coll->pairs[i].receives;
      df_announcement_write(&announcement, coll->ranks, payload);
    }
    df_messenger_send(&context->control, coll->ranks[i], &message, payload, -1);
  }
}

uint32_t df_announced_rank(const df_remote *remote, uint32_t i) {
  return remote->ranks ? remote->ranks[i]
                       : remote->first_rank + i * remote->announcement.group_step;
}

static const char *operator_name(uint32_t op) {
  if (op == DF_KIND_USER_OPERATOR) return "user-defined";
  if (op == DF_KIND_USER_OPERATOR_ORDERED) return "user-defined, not commutative";
  if (op == DF_KIND_SCALED) return "premulsum";
  return df_redop_name((dfcclRedOp_t)op);
}

static const char *algorithm_name(uint32_t algorithm) {
  return algorithm <= DF_FROM_FILE ? df_algorithm_name((int)algorithm) : "unknown";
}

/* Index of the first rank that differs in two groups of one size; the size: there is no difference.
 */
static uint32_t first_difference(const df_coll *coll, const df_remote *remote) {
  uint32_t i = 0;
  if (coll->group_step && coll->group_step == remote->announcement.group_step &&
      coll->ranks[0] == remote->first_rank)
    return coll->n;
  while (i < coll->n && coll->ranks[i] == df_announced_rank(remote, i)) i++;
  return i;
}

static int describe_pair(uint32_t rank, const df_remote *remote, const df_pair *pair, char *text,
                         size_t bytes) {
  const df_announcement *there = &remote->announcement;
  if (pair->sends != there->receives)
    return snprintf(text, bytes,
                    "rank %u sends %" PRIu64 " elements to rank %u, which receives %" PRIu64, rank,
                    pair->sends, remote->peer, there->receives);
  return snprintf(text, bytes,
                  "rank %u sends %" PRIu64 " elements to rank %u, which receives %" PRIu64,
                  remote->peer, there->sends, rank, pair->receives);
}

/* Two registrations, that of the lower rank first, so that all members report the same text. */
typedef struct sides {
  const df_announcement *of[2];
  uint32_t rank[2];
  df_text text;
} sides;

/* Writes "rank 0 registered VALUE, rank 1 registered VALUE". */
DF_PRINTF(2, 3) static int say_values(sides *s, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  df_say_list(&s->text, format, arguments);
  va_end(arguments);
  return 1;
}

static int say_words(sides *s, const char *what, const char *a, const char *b) {
  return say_values(s, "rank %u registered %s %s, rank %u registered %s", s->rank[0], what, a,
                    s->rank[1], b);
}

static int say_numbers(sides *s, const char *before, const char *after, uint64_t a, uint64_t b) {
  return say_values(s, "rank %u registered %s%" PRIu64 "%s, rank %u registered %" PRIu64,
                    s->rank[0], before, a, after, s->rank[1], b);
}

static const char *operation_name(uint32_t operation) {
  return operation < DF_OP_ALL ? df_operation_name((df_operation)operation) : "unknown";
}

static int differ_in_signature(sides *s) {
  const df_announcement *a = s->of[0], *b = s->of[1];
  if (a->operation != b->operation)
    return say_words(s, "operation", operation_name(a->operation), operation_name(b->operation));
  if (a->type != b->type)
    return say_words(s, "data type", df_type_name((dfcclDataType_t)a->type),
                     df_type_name((dfcclDataType_t)b->type));
  if (a->op != b->op)
    return say_words(s, "reduction operator", operator_name(a->op), operator_name(b->op));
  if (a->count != b->count) return say_numbers(s, "", " elements", a->count, b->count);
  if (a->varying != b->varying)
    return say_numbers(s, "options.varying ", "", a->varying, b->varying);
  if (a->root != b->root) return say_numbers(s, "root ", "", a->root, b->root);
  if (a->group_size != b->group_size)
    return say_numbers(s, "a group of ", " ranks", a->group_size, b->group_size);
  return 0;
}

/* The cuts of messages, as df_coll_announcement packs them. A file's form has only the lowest bit.
 */
static int differ_in_form(sides *s) {
  char names[2][24];
  if (s->of[0]->algorithm != DF_FROM_FILE && s->of[0]->form >> 32 != s->of[1]->form >> 32)
    return say_numbers(
        s,
        "pieces of a share (slot_bytes or slot of DFCCL_TUNING, slot of options.algorithm): ", "",
        s->of[0]->form >> 32, s->of[1]->form >> 32);
  for (int side = 0; side < 2; side++) {
    const uint64_t row = s->of[side]->form & 0xffffffff;
    if (row == DF_ROW_WHOLE || (s->of[side]->algorithm == DF_FROM_FILE && row & 1))
      snprintf(names[side], sizeof names[side], "all");
    else
      snprintf(names[side], sizeof names[side], "at most %u",
               s->of[side]->algorithm == DF_FROM_FILE ? 1u : (unsigned)row);
  }
  return say_words(
      s, "pieces of a message (slot_bytes or slot of DFCCL_TUNING, slot of options.algorithm):",
      names[0], names[1]);
}

static int differ_in_shape(sides *s) {
  const df_announcement *a = s->of[0], *b = s->of[1];
  if (a->algorithm != b->algorithm)
    return say_words(s, "algorithm (options.algorithm, DFCCL_TUNING or DFCCL_TUNER_PLUGIN)",
                     algorithm_name(a->algorithm), algorithm_name(b->algorithm));
  if (a->algorithm == DF_FROM_FILE && a->form >> 1 != b->form >> 1)
    return say_values(s,
                      "the algorithm's file (DFCCL_ALGORITHMS) has the hash %016" PRIx64
                      " on rank %u and %016" PRIx64 " on rank %u",
                      a->form >> 1, s->rank[0], b->form >> 1, s->rank[1]);
  if (a->form != b->form) return differ_in_form(s);
  const struct {
    const char *what;
    uint32_t a, b;
  } shapes[] = {
      {"number of blocks (block_min, net_blocks or blocks of DFCCL_TUNING, blocks of "
       "options.algorithm, channels of "
       "DFCCL_TUNER_PLUGIN) ",
       a->n_blocks, b->n_blocks},
      {"number of link slots (slots of DFCCL_TUNING or options.algorithm) ", a->n_slots,
       b->n_slots},
      {"slot size (slot_bytes, words_max or slot of DFCCL_TUNING, slot of options.algorithm) ",
       a->stride, b->stride},
      {"payload offset (flagged_max or words_max of DFCCL_TUNING, protocol of "
       "DFCCL_TUNER_PLUGIN) ",
       a->payload_offset, b->payload_offset},
      {"chunk (slot_bytes or slot of DFCCL_TUNING, slot of options.algorithm) ", a->chunk,
       b->chunk},
      {"number of loops (slot_bytes or slot of DFCCL_TUNING, slot of options.algorithm) ", a->loops,
       b->loops},
      {"levels of the group (split or lanes of DFCCL_TUNING, split of options.algorithm) ",
       a->split, b->split}};
  for (size_t i = 0; i < DF_COUNT_OF(shapes); i++)
    if (shapes[i].a != shapes[i].b)
      return say_numbers(s, shapes[i].what, "", shapes[i].a, shapes[i].b);
  return 0;
}

static int differ_in_pair(uint32_t rank, const df_coll *coll, const df_remote *remote, char *text,
                          size_t bytes) {
  if (coll->pairs == NULL) return 0;
  const df_pair *pair = &coll->pairs[df_coll_place_of(coll, remote->peer, coll->members.n_paired)];
  if (pair->sends == remote->announcement.receives && pair->receives == remote->announcement.sends)
    return 0;
  return describe_pair(rank, remote, pair, text, bytes);
}

int df_announcement_describe_difference(const df_coll *coll, const df_remote *remote, char *text,
                                        size_t bytes) {
  const uint32_t rank = coll->ranks[coll->position];
  const df_announcement here = df_coll_announcement(coll), *there = &remote->announcement;
  const int swap = remote->peer < rank;
  sides s = {.of = {swap ? there : &here, swap ? &here : there},
             .rank = {swap ? remote->peer : rank, swap ? rank : remote->peer},
             .text = {.at = text, .left = bytes}};
  if (differ_in_signature(&s)) return 1;
  const uint32_t position = first_difference(coll, remote);
  if (position < coll->n) {
    const uint32_t mine = coll->ranks[position], theirs = df_announced_rank(remote, position);
    return say_values(&s,
                      "rank %u registered rank %u at position %u of the group, rank %u registered "
                      "rank %u",
                      s.rank[0], swap ? theirs : mine, position, s.rank[1], swap ? mine : theirs);
  }
  if (differ_in_pair(rank, coll, remote, text, bytes)) return 1;
  return differ_in_shape(&s);
}
