#include "host/api/describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "host/switching/plan_switch.h"
#include "host/state/registry.h"
#include "host/registration/check_arguments.h"
#include "host/switching/online_tuner.h"
#include "tuning/model.h"

static void describe_tuner(const df_coll *coll, dfcclConfiguration_t *c) DF_RANK_LOCKED {
  df_tuner_summary tuner;
  if (!df_tuner_summarise(coll, &tuner)) return;
  c->measuredUs = tuner.tuned_us;
  const size_t used = strlen(c->why);
  df_text out = {.at = c->why + used, .left = sizeof c->why - used};
  df_say(&out, "tuner: it %s; %u variants were measured in search %u",
         df_search_state_name(tuner.state), tuner.measured, tuner.begun);
  if (tuner.spent_us > 0) df_say(&out, "; exploring has cost at most %.3g us", tuner.spent_us);
  if (tuner.tuned_us > 0)
    df_say(&out, "; %.2f us, and %.2f us as registered", tuner.tuned_us, tuner.registered_us);
  df_say(&out, "\n");
}

static void say_times(dfcclConfiguration_t *c) {
  const size_t used = strlen(c->why);
  df_text out = {.at = c->why + used, .left = sizeof c->why - used};
  if (c->predictedUs > 0) df_say(&out, "time: %.3g us predicted by the model", c->predictedUs);
  if (c->boundUs > 0)
    df_say(&out, "%s%.3g us at least, the time to copy the received data",
           c->predictedUs > 0 ? "; " : "time: ", c->boundUs);
  if (c->predictedUs > 0 || c->boundUs > 0) df_say(&out, "\n");
}

/* Rate of copies in a near cache. No memory of the machine exceeds it, so a bound on time that
 * follows from it holds everywhere. */
static double copied_bytes_per_us(void) {
  enum { BYTES = 16 << 10, TRIES = 16 };
  static uint32_t known; /* bytes in a us; 0: not measured yet */
  uint8_t from[BYTES], to[BYTES];
  uint32_t rate = df_load_relaxed_u32(&known);
  if (rate) return rate;
  memset(from, 1, sizeof from);
  for (int i = 0; i < TRIES; i++) {
    const uint64_t begin = df_clock_ns();
    memcpy(to, from, BYTES);
    __asm__ volatile("" : : "r"(to) : "memory");
    const uint64_t ns = df_clock_ns() - begin;
    rate = DF_MAX(rate, (uint32_t)(BYTES * 1000ull / DF_MAX(ns, 1ull)));
  }
  df_store_relaxed_u32(&known, rate);
  return rate;
}

/* Whether the receiver reads memory that it has not mapped. */
static const char *say_calls(const df_link *link, const df_ring *ring) {
  const df_link_calls *calls = &link->ways->calls;
  if (link->same_process || ring->call_min == UINT64_MAX) return "";
  if (calls->refusal == NULL) return "; it may not read other memory by calls";
  if (df_load_relaxed_u32(calls->refusal)) return "; reading other memory by calls has failed";
  return "; it may read other memory by calls";
}

/* The ways of the first block's messages to each peer of the host. */
static void say_ways(const df_coll *coll, dfcclConfiguration_t *c) DF_RANK_LOCKED {
  const size_t used = strlen(c->why);
  df_text out = {.at = c->why + used, .left = sizeof c->why - used};
  for (uint32_t i = 0; i < coll->exec.plan->n_links; i++) {
    const df_link *link = &coll->exec.device.links[i];
    if (!coll->exec.plan->links[i].sends || link->ways == NULL) continue;
    const uint64_t word = df_load_relaxed_u64(&link->ways->summary);
    df_say(&out, "way to rank %u: ", link->peer);
    if (word == 0) {
      df_say(&out, "%s%s\n", link->ways->forced ? "forced by the number way" : "not measured yet",
             say_calls(link, &coll->exec.ring));
      continue;
    }
    df_say(&out, "slots %s, a line takes %u ns, 64 KB take %.3g us at both ends",
           df_way_word_name(word), df_way_word_line(word), df_way_word_usual(word) * 1e-3);
    df_say(&out, "%s%s\n", df_way_word_lends(word) ? "; lent where that is possible" : "",
           say_calls(link, &coll->exec.ring));
  }
}

static void describe_times(const df_coll *coll, const df_configuration_question *q,
                           uint32_t n_cores, dfcclConfiguration_t *c) DF_RANK_LOCKED {
  const df_choice *choice = &coll->exec.configuration.choice;
  const uint64_t slot = choice->slot_bytes ? choice->slot_bytes
                                           : (uint64_t)coll->exec.configuration.policy->slot_bytes;
  if (df_operation_has_piece_table(coll->operation) || coll->operation >= DF_OP_COUNT) return;
  c->predictedUs = DF_MAX(df_configuration_predict(q, choice->algorithm, choice->split, slot), 0.0);
  if (q->on_gpu) return;
  c->boundUs =
      df_model_bound_us(coll->operation, coll->n, q->choice.bytes, n_cores, copied_bytes_per_us());
}

static void describe_configuration(dfcclContext_t context, const df_coll *coll,
                                   dfcclConfiguration_t *c) DF_RANK_LOCKED {
  const df_shape *shape = &coll->exec.configuration.shape;
  const df_part *part = &shape->parts[0];
  df_registration registration = {.operation = coll->operation,
                                  .id = coll->id,
                                  .count = coll->count,
                                  .type = coll->type,
                                  .op = coll->op,
                                  .root = (int)coll->root};
  df_configuration_question question = df_configuration_question_of(context, &registration);
  question.choice.n = coll->n;
  question.varying = coll->varying;
  question.choice.memory = coll->exec.configuration.memory;
  question.choice.bytes =
      df_larger_buffer(coll->operation, coll->n, coll->count, (uint32_t)df_type_size(coll->type));
  question.choice.hosts = coll->n_hosts;
  df_ring ring = coll->exec.ring;
  if (ring.n_slots == 0)
    ring = df_configuration_ring(&coll->exec.configuration, &question, coll->exec.plan, 0);
  uint64_t longest = (uint64_t)part->chunk * question.element_bytes;
  const df_plan_file *file = coll->exec.configuration.choice.file;
  snprintf(c->algorithm, sizeof c->algorithm, "%s%s%.18s",
           df_algorithm_name(coll->exec.configuration.choice.algorithm), file ? ":" : "",
           file ? df_plan_file_facts_of(file).name : "");
  snprintf(c->form, sizeof c->form, "%s",
           df_configuration_form(&coll->exec.configuration, coll->exec.plan, coll->count));
  c->blocks = shape->n_blocks;
  c->loops = part->loops;
  c->primitives = coll->exec.plan->n_primitives;
  c->subgroup = coll->exec.configuration.choice.algorithm == DF_TWO_LEVEL
                    ? coll->exec.configuration.choice.split
                    : 0;
  c->chunkBytes = DF_MIN(longest, coll->count * question.element_bytes);
  c->slotBytes = ring.stride;
  c->slots = ring.n_slots;
  c->lendsBuffers =
      (uint32_t)df_configuration_lends(&coll->exec.configuration, question.element_bytes);
  c->pastCaches = coll->exec.configuration.stream != DF_STREAM_NEVER;
  c->switches = coll->plan_switch ? coll->plan_switch->switches : 0;
  c->borrowedTurn = (uint32_t)coll->exec.configuration.borrowed_turn;
  df_configuration_explain(&coll->exec.configuration, &question, coll->exec.plan, &ring, c->why,
                           sizeof c->why);
  if (coll->plan_switch && coll->plan_switch->switches) {
    const size_t used = strlen(c->why);
    df_text out = {.at = c->why + used, .left = sizeof c->why - used};
    df_say(&out, "variant: %s, %s\n",
           coll->plan_switch->current ? "not as registered" : "as registered",
           df_switch_state_of(coll).words);
  }
  describe_times(coll, &question, context->topology.n_cores, c);
  say_times(c);
  say_ways(coll, c);
  describe_tuner(coll, c);
}

dfcclResult_t df_get_configuration(dfcclContext_t context, dfcclCollId_t id,
                                   dfcclConfiguration_t *configuration) {
  dfcclConfiguration_t whole = DFCCL_CONFIGURATION_INITIALIZER;
  df_rank_lock(&context->lock);
  const df_coll *coll = df_find(context, id);
  if (coll) describe_configuration(context, coll, &whole);
  df_rank_unlock(&context->lock);
  if (coll == NULL)
    return df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u", id,
                   context->rank);
  whole.size = configuration->size; /* the caller's struct may be shorter or longer */
  whole.version = configuration->version;
  memcpy(configuration, &whole, DF_MIN(whole.size, sizeof whole));
  return dfcclSuccess;
}
