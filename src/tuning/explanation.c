/* A configuration in words: the recorded decisions and reasons. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "tuning/configuration.h"

static const char *sentence_of(df_reason reason) {
  static const char *const sentences[] = {
#define X(code, sentence) sentence,
      DF_REASON_MAP(X)
#undef X
  };
  return sentences[reason];
}

const char *df_reason_name(df_reason reason) {
  static const char *const names[] = {
#define X(code, sentence) #code,
      DF_REASON_MAP(X)
#undef X
  };
  return names[reason];
}

/* With the value of the number that the sentence names. */
static void say_reason(const df_configuration *m, df_reason reason, df_text *out) {
  const char *sentence = sentence_of(reason), *value = strstr(sentence, "%lld");
  const long long number = reason == DF_REASON_FORM_WORDS    ? m->policy->words_max
                           : reason < DF_REASON_RINGS_AGREED ? m->policy->flagged_max
                                                             : m->policy->lend_min;
  if (value == NULL)
    df_say(out, "%s", sentence);
  else
    df_say(out, "%.*s%lld%s", (int)(value - sentence), sentence, number, value + strlen("%lld"));
}

void df_configuration_say_source(const df_configuration *m, df_text *out) {
  const df_rule *rule = m->choice.rule;
  char line[240] = "";
  df_say(out, "since ");
  if (m->reasons.source == DF_REASON_SOURCE_PLUGIN) {
    df_advice_say(&m->choice.advice, out);
    return;
  }
  say_reason(m, m->reasons.source, out);
  if (m->choice.has_limits) df_say(out, ", with limits in options.algorithm");
  if (rule == NULL) return;
  df_rule_print(rule, line, sizeof line);
  if (m->reasons.source != DF_REASON_SOURCE_RULE) df_say(out, "; limits from a rule of ");
  if (m->choice.line)
    df_say(out, "%s, line %u: %s",
           m->choice.is_calibrated ? "the machine's calibration (DFCCL_CALIBRATION)"
                                   : "DFCCL_TUNING",
           m->choice.line, line);
  else
    df_say(out, "the built-in table: %s", line);
}

static void say_algorithm(const df_configuration *m, df_text *out) {
  const char *file = m->choice.file ? df_plan_file_facts_of(m->choice.file).name : "";
  df_say(out, "algorithm: %s%s%s, ", df_algorithm_name(m->choice.algorithm), *file ? ":" : "",
         file);
  df_configuration_say_source(m, out);
  if (m->reasons.source == DF_REASON_SOURCE_PLUGIN) return;
  if (m->choice.split) df_say(out, "; subgroups of %u", m->choice.split);
  if (m->choice.algorithm == DF_HIERARCHICAL)
    df_say(out, "; %u ranks of each host at most exchange messages with other hosts (lanes)",
           m->choice.lanes);
  if (m->choice.advice.kind == DF_ADVICE_NONE) return;
  df_say(out, "\nadvice: ");
  df_advice_say(&m->choice.advice, out);
}

static void say_form(const df_configuration *m, df_text *out) {
  const df_shape *s = &m->shape;
  const char *form = s->payload_offset == DF_LINK_LL ? "words that carry a flag each"
                     : s->payload_offset == DF_LINK_STAGED_OFFSET
                         ? "staged, the payload begins at a line of its own"
                     : s->stride < DF_CACHE_LINE
                         ? "flagged, commit word and payload in one slot that shares its line"
                         : "flagged, commit word and payload in one slot";
  df_say(out, "form: %s, since ", form);
  say_reason(m, m->reasons.form, out);
  df_say(out, "\n");
}

static void say_lending(const df_configuration *m, int reads_by_calls, df_text *out) {
  const int lends = m->reasons.lend == DF_REASON_LEND_LONG;
  df_say(out, "lend: %s, since ", lends ? "buffers within reach" : "nothing");
  say_reason(m, m->reasons.lend, out);
  if (lends)
    df_say(out, "%s%s", m->lends & DF_LENDS_IN_PLACE ? "" : "; not of runs in place",
           m->lends & DF_LENDS_STREAMED ? "" : "; no results, which have one reader");
  if (lends && reads_by_calls)
    df_say(out, "; other memory by system calls (call_min %lld bytes), where trials gain",
           m->policy->call_min);
  df_say(out, "\nstores: %s, since ",
         m->stream == DF_STREAM_NEVER    ? "into the caches"
         : m->stream == DF_STREAM_ALWAYS ? "past the caches"
                                         : "past the caches, but of runs in place");
  say_reason(m, m->reasons.stores, out);
  df_say(out, " (%" PRIu64 " bytes, stream_min %" PRIu64 "%s)\n", m->result_bytes, m->stream_min,
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
         plan->n_primitives, part->chunk, m->slot_limit, m->policy->block_min);
  if (m->lends_for_certain && m->longest_message > s->stride)
    df_say(&out,
           "long: messages exceed their slots, since all of lend_min %lld bytes or more are lent "
           "(cuda_lent_bytes %lld)\n",
           m->policy->lend_min, m->policy->cuda_lent_bytes);
  say_form(m, &out);
  df_say(&out, "rings: %u slots of %u bytes%s, since ", ring->n_slots, ring->stride,
         ring->release_mask ? ", given back a quarter at a time" : "");
  say_reason(m, (df_reason)ring->reason, &out);
  df_say(&out, "\n");
  say_lending(m,
              q->host_sees_links && q->choice.memory != DF_MEMORY_PROCESS && ring->has_ways &&
                  m->policy->call_min,
              &out);
  df_say(&out, "turns: %s, since ",
         m->borrowed_turn ? "the submitter executes the first turn" : "the daemon's");
  say_reason(m, m->reasons.turns, &out);
  df_say(&out, "\n");
}
