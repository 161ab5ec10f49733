#include "host/configuration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "host/epochs.h"
#include "host/registry.h"
#include "host/registry_check.h"
#include "host/tuner.h"

static const char *form_of(const df_coll *coll) {
  if (coll->plan->n_links == 0 || coll->count == 0) return "none";
  if (coll->manner.shape.payload_offset == DF_LINK_WORDS) return "words";
  return coll->manner.shape.payload_offset == DF_LINK_FLAGGED_OFFSET ? "flagged" : "staged";
}

/* [lock] */
static void describe_tuner(const df_coll *coll, dfcclConfiguration_t *c) {
  df_tuner_summary tuner;
  if (!df_tuner_summarise(coll, &tuner)) return;
  c->measuredUs = tuner.tuned_us;
  const size_t used = strlen(c->why);
  df_text out = {.at = c->why + used, .left = sizeof c->why - used};
  df_say(&out, "tuner: it %s; %u variants were measured in search %u",
         df_tuner_state_name(tuner.state), tuner.measured, tuner.begun);
  if (tuner.tuned_us > 0)
    df_say(&out, "; %.2f us, and %.2f us as registered", tuner.tuned_us, tuner.registered_us);
  df_say(&out, "\n");
}

/* [lock] */
static void describe(dfcclContext_t context, const df_coll *coll, dfcclConfiguration_t *c) {
  const df_shape *shape = &coll->manner.shape;
  const df_part *part = &shape->parts[0];
  df_registration registration = {.operation = coll->operation,
                                  .id = coll->id,
                                  .count = coll->count,
                                  .type = coll->type,
                                  .op = coll->op,
                                  .root = (int)coll->root};
  df_manner_question question = df_manner_question_of(context, &registration);
  question.choice.n = coll->n;
  question.varying = coll->varying;
  question.choice.memory = coll->manner.memory;
  df_ring ring = coll->ring;
  if (ring.n_slots == 0) ring = df_manner_ring(&coll->manner, &question, coll->plan, 0);
  uint64_t longest = (uint64_t)part->chunk * question.element_bytes;
  const df_plan_file *file = coll->manner.choice.file;
  snprintf(c->algorithm, sizeof c->algorithm, "%s%s%.18s",
           df_algorithm_name(coll->manner.choice.algorithm), file ? ":" : "",
           file ? df_plan_file_facts_of(file).name : "");
  snprintf(c->form, sizeof c->form, "%s", form_of(coll));
  c->blocks = shape->n_blocks;
  c->loops = part->loops;
  c->primitives = coll->plan->n_primitives;
  c->subgroup = coll->manner.choice.algorithm == DF_TWO_LEVEL ? coll->manner.choice.split : 0;
  c->chunkBytes = DF_MIN(longest, coll->count * question.element_bytes);
  c->slotBytes = ring.stride;
  c->slots = ring.n_slots;
  c->lendsBuffers = longest >= coll->manner.lend_min;
  c->pastCaches = coll->manner.stream != DF_STREAM_NEVER;
  c->switches = coll->epoch ? coll->epoch->switches : 0;
  c->borrowedTurn = (uint32_t)coll->manner.borrowed_turn;
  df_manner_explain(&coll->manner, &question, coll->plan, &ring, c->why, sizeof c->why);
  describe_tuner(coll, c);
}

dfcclResult_t df_get_configuration(dfcclContext_t context, dfcclCollId_t id,
                                   dfcclConfiguration_t *configuration) {
  dfcclConfiguration_t whole = DFCCL_CONFIGURATION_INITIALIZER;
  pthread_mutex_lock(&context->lock);
  const df_coll *coll = df_find(context, id);
  if (coll) describe(context, coll, &whole);
  pthread_mutex_unlock(&context->lock);
  if (coll == NULL)
    return df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u", id,
                   context->rank);
  whole.size = configuration->size; /* the caller's struct may be shorter or longer */
  whole.version = configuration->version;
  memcpy(configuration, &whole, DF_MIN(whole.size, sizeof whole));
  return dfcclSuccess;
}
