#include "tuning/advice.h"

#include <math.h>
#include <string.h>

int df_advice_function(df_operation operation) {
  switch (operation) {
  case DF_OP_BROADCAST:
    return 0;
  case DF_OP_REDUCE:
    return 1;
  case DF_OP_ALL_GATHER:
    return 2;
  case DF_OP_REDUCE_SCATTER:
    return 3;
  case DF_OP_ALL_REDUCE:
    return 4;
  default:
    return -1;
  }
}

int df_advice_algorithm(int nccl_algorithm) {
  return nccl_algorithm == DF_NCCL_TREE   ? DF_DOUBLE_TREE
         : nccl_algorithm == DF_NCCL_RING ? DF_RING
         : nccl_algorithm == DF_NCCL_PAT  ? DF_PAT
                                          : -1;
}

const char *df_nccl_algorithm_name(int nccl_algorithm) {
  static const char *const names[DF_NCCL_ALGORITHMS] = {
      "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
  return nccl_algorithm >= 0 && nccl_algorithm < DF_NCCL_ALGORITHMS ? names[nccl_algorithm]
                                                                    : "unknown";
}

const char *df_nccl_protocol_name(int nccl_protocol) {
  static const char *const names[DF_NCCL_PROTOCOLS] = {"ll", "ll128", "simple"};
  return nccl_protocol >= 0 && nccl_protocol < DF_NCCL_PROTOCOLS ? names[nccl_protocol] : "unknown";
}

/* ---- the table */

/* A flagged message saves a fence, and its payload begins beside the commit word. */
void df_advice_fill(df_cost_table *table, const df_advice_question *q) {
  static const double flagged_saves_us = 0.05, flagged_costs = 1.05;
  double us[DF_NCCL_ALGORITHMS] = {0};
  us[DF_NCCL_TREE] = q->tree_us;
  us[DF_NCCL_RING] = q->ring_us;
  us[DF_NCCL_PAT] = q->pat_us;
  for (int a = 0; a < DF_NCCL_ALGORITHMS; a++)
    for (int p = 0; p < DF_NCCL_PROTOCOLS; p++) table->us[a][p] = -1;
  for (int a = 0; a < DF_NCCL_ALGORITHMS; a++) {
    const int algorithm = df_advice_algorithm(a);
    if (algorithm < 0 || us[a] < 0 || !df_algorithm_has(algorithm, q->operation)) continue;
    table->us[a][DF_NCCL_SIMPLE] = (float)us[a];
    table->us[a][DF_NCCL_LL] =
        (float)(us[a] * flagged_costs > flagged_saves_us ? us[a] * flagged_costs - flagged_saves_us
                                                         : 0);
  }
}

static void take(df_advice *advice, int algorithm, int protocol) {
  advice->kind = DF_ADVICE_TAKEN;
  advice->algorithm = df_advice_algorithm(algorithm);
  advice->nccl_algorithm = (uint8_t)algorithm;
  advice->nccl_protocol = (uint8_t)protocol;
  advice->form = protocol == DF_NCCL_LL ? DF_FORM_FLAGGED : DF_FORM_STAGED;
}

static void refuse(df_advice *advice, df_advice_kind kind, long long value) {
  const char *source = advice->source;
  const uint32_t line = advice->line;
  *advice =
      (df_advice){.kind = kind, .source = source, .line = line, .algorithm = -1, .value = value};
}

static int can_be_had(const df_cost_table *given, int algorithm, int protocol) {
  return given->us[algorithm][protocol] >= 0;
}

void df_advice_choose(df_advice *advice, const df_cost_table *given, const df_cost_table *table) {
  int chosen = -1, changed = 0;
  advice->kind = DF_ADVICE_NOT_GIVEN;
  advice->algorithm = -1;
  for (int i = 0; i < DF_NCCL_ALGORITHMS * DF_NCCL_PROTOCOLS; i++) {
    const int a = i / DF_NCCL_PROTOCOLS, p = i % DF_NCCL_PROTOCOLS;
    const float cost = table->us[a][p];
    if (!isfinite(cost)) {
      refuse(advice, DF_ADVICE_NO_COST, i);
      return;
    }
    if (cost >= 0 && !can_be_had(given, a, p)) {
      refuse(advice, DF_ADVICE_ABSENT, i);
      return;
    }
    changed |= cost < given->us[a][p] || cost > given->us[a][p];
    if (cost >= 0 &&
        (chosen < 0 || cost < table->us[chosen / DF_NCCL_PROTOCOLS][chosen % DF_NCCL_PROTOCOLS]))
      chosen = i;
  }
  if (changed && chosen >= 0) take(advice, chosen / DF_NCCL_PROTOCOLS, chosen % DF_NCCL_PROTOCOLS);
}

void df_advice_name(df_advice *advice, const df_cost_table *given, int algorithm, int protocol) {
  advice->kind = DF_ADVICE_NOT_GIVEN;
  advice->algorithm = -1;
  if (algorithm == -1 && protocol == -1) return;
  if (algorithm == -1 || protocol == -1)
    refuse(advice, DF_ADVICE_HALF, algorithm);
  else if (algorithm < 0 || algorithm >= DF_NCCL_ALGORITHMS || protocol < 0 ||
           protocol >= DF_NCCL_PROTOCOLS)
    refuse(advice, DF_ADVICE_NO_CHOICE, algorithm);
  else if (!can_be_had(given, algorithm, protocol))
    refuse(advice, DF_ADVICE_ABSENT, algorithm * DF_NCCL_PROTOCOLS + protocol);
  else
    take(advice, algorithm, protocol);
}

static int is_usable(const df_advice *advice) {
  return advice->kind == DF_ADVICE_TAKEN || advice->kind == DF_ADVICE_NOT_GIVEN;
}

void df_advice_channels(df_advice *advice, int channels) {
  if (!is_usable(advice)) return;
  if (channels < 0 || channels > DF_NCCL_CHANNELS)
    refuse(advice, DF_ADVICE_CHANNELS, channels);
  else
    advice->blocks = DF_MIN((uint32_t)channels, (uint32_t)DF_MAX_BLOCKS);
}

void df_advice_chunk(df_advice *advice, size_t before, size_t after) {
  if (advice->kind != DF_ADVICE_TAKEN || after == before) return;
  if (after < DF_CACHE_LINE || after > (size_t)1 << 40)
    refuse(advice, DF_ADVICE_CHUNK, (long long)after);
  else
    advice->slot_bytes =
        (uint32_t)(DF_MIN(after, (size_t)DF_MAX_SLOT_BYTES) / DF_CACHE_LINE * DF_CACHE_LINE);
}

/* ---- text */

static void say_pair(const df_advice *advice, df_text *text) {
  df_say(text, "%s with %s", df_nccl_algorithm_name((int)(advice->value / DF_NCCL_PROTOCOLS)),
         df_nccl_protocol_name((int)(advice->value % DF_NCCL_PROTOCOLS)));
}

void df_advice_say(const df_advice *advice, df_text *text) {
  if (advice->line)
    df_say(text, "%s:%u", advice->source, advice->line);
  else
    df_say(text, "tuner plugin %s", advice->source);
  switch (advice->kind) {
  case DF_ADVICE_TAKEN:
    df_say(text, " says %s, %s", df_nccl_algorithm_name(advice->nccl_algorithm),
           df_nccl_protocol_name(advice->nccl_protocol));
    if (advice->blocks) df_say(text, ", %u channels", advice->blocks);
    if (advice->slot_bytes) df_say(text, ", chunks of %u bytes", advice->slot_bytes);
    return;
  case DF_ADVICE_NOT_GIVEN:
    df_say(text, " names no algorithm");
    if (advice->blocks) df_say(text, ", and %u channels", advice->blocks);
    return;
  case DF_ADVICE_FAILED:
    df_say(text, " is ignored: its call fails with %lld", advice->value);
    return;
  case DF_ADVICE_ABSENT:
    df_say(text, " is ignored: it chooses ");
    say_pair(advice, text);
    df_say(text, ", whose cost was -1, because it does not exist");
    return;
  case DF_ADVICE_NO_COST:
    df_say(text, " is ignored: its cost of ");
    say_pair(advice, text);
    df_say(text, " is not a number");
    return;
  case DF_ADVICE_NO_CHOICE:
    df_say(text, " is ignored: algorithm %lld does not exist with its protocol", advice->value);
    return;
  case DF_ADVICE_HALF:
    df_say(text, " is ignored: it names only one of algorithm and protocol");
    return;
  case DF_ADVICE_CHANNELS:
    df_say(text, " is ignored: %lld channels; it may be 0 to %d", advice->value, DF_NCCL_CHANNELS);
    return;
  case DF_ADVICE_CHUNK:
    df_say(text, " is ignored: chunks of %lld bytes; they have %d or more", advice->value,
           DF_CACHE_LINE);
    return;
  default:
    return;
  }
}
