/* The simple reference; see reference.h. */
#include "support/reference.h"

#include <stdio.h>
#include <string.h>

#include "plans/operation.h"

enum { PIECE = 1024 /* elements handled at a time */ };

/* The rows of operations.def, because the shared library does not export the functions that read
 * them. tests/unit/test_definitions.c compares both with literals. */
static const struct {
  const char *name;
  df_operation_members inputs, outputs;
  int input, output;
  df_operation_combines combines;
} kinds[DF_ALL_KINDS] = {
#define DF_OPERATION(id, name, word, family, inputs, outputs, input, output, combines, ...)        \
  [DF_##id] = {#name,                                                                              \
               DF_MEMBERS_##inputs,                                                                \
               DF_MEMBERS_##outputs,                                                               \
               DF_PIECES_##input,                                                                  \
               DF_PIECES_##output,                                                                 \
               DF_COMBINES_##combines},
#include "plans/operations.def"
};

const char *const df_algorithm_names[] = {
    "auto",    "ring",         "allpairs",      "pairwise",          "doubling", "rabenseifner",
    "halving", "binomial",     "doubletree",    "scatter-allgather", "bruck",    "direct",
    "flat",    "twolevel",     "dissemination", "ordered",           "pat",      "hierarchical",
    "bcube",   "binaryblocks", "trees"};
const int df_algorithm_names_count = sizeof df_algorithm_names / sizeof df_algorithm_names[0];

const char *df_kind_name(df_kind kind) { return kinds[kind].name; }

bool df_kind_reduces(df_kind kind) { return kinds[kind].combines != DF_COMBINES_NONE; }

bool df_kind_has_root(df_kind kind) {
  return kinds[kind].inputs == DF_MEMBERS_ROOT || kinds[kind].outputs == DF_MEMBERS_ROOT;
}

dfcclRedOp_t df_kind_operator(df_kind kind, dfcclDataType_t type, dfcclRedOp_t op) {
  if (kinds[kind].combines >= DF_COMBINES_UP_TO && op == dfcclAvg) return dfcclMax;
  return df_operator_for(type, op);
}

int df_member(const df_collective *coll, int position) {
  return coll->group == NULL ? position : coll->group[position];
}

int df_position(const df_collective *coll, int rank) {
  for (int position = 0; position < coll->members; position++)
    if (df_member(coll, position) == rank) return position;
  return -1;
}

size_t df_send_elements(const df_collective *coll) {
  if (coll->kind == DF_BARRIER) return 0;
  return kinds[coll->kind].input == DF_PIECES_EACH ? coll->count * (size_t)coll->members
                                                   : coll->count;
}

size_t df_recv_elements(const df_collective *coll) {
  if (coll->kind == DF_BARRIER) return 0;
  return kinds[coll->kind].output == DF_PIECES_EACH ? coll->count * (size_t)coll->members
                                                    : coll->count;
}

static bool is_one_of(df_operation_members which, const df_collective *coll, int position) {
  switch (which) {
  case DF_MEMBERS_NONE:
    return false;
  case DF_MEMBERS_ALL:
    return true;
  case DF_MEMBERS_ROOT:
    return position == coll->root;
  case DF_MEMBERS_SENDER:
    return position == 0;
  case DF_MEMBERS_RECEIVER:
    return position == 1 || coll->members == 1;
  case DF_MEMBERS_LATER:
    return position > 0;
  }
  return false;
}

bool df_sends(const df_collective *coll, int position) {
  return is_one_of(kinds[coll->kind].inputs, coll, position);
}

bool df_receives(const df_collective *coll, int position) {
  return is_one_of(kinds[coll->kind].outputs, coll, position);
}

static uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93u;
  value ^= value >> 29;
  return value;
}

static uint64_t stream_of(const df_collective *coll, int position, uint64_t run) {
  return mix(mix(coll->seed * 0x9E3779B97F4A7C15u + run + 1) +
             (uint64_t)position * 0xA24BAED4963EE407u);
}

static uint64_t draw(uint64_t stream, size_t index) {
  return mix(stream + (uint64_t)index * 0x9E3779B97F4A7C15u);
}

/* A float's contribution, as a small integer; the head of reference.h states its conditions. */
static int64_t small_integer(const df_collective *coll, int position, size_t index,
                             uint64_t random) {
  const int64_t exact = df_type_exact_integers(coll->type);
  const int64_t capped = exact > 4096 ? 4096 : exact;
  if (coll->op == dfcclMax || coll->op == dfcclMin)
    return (int64_t)(random % (uint64_t)(2 * capped + 1)) - capped;
  if (coll->op == dfcclProd) { /* at most two factors of two, which is exact in every type */
    bool two = (index + (size_t)position) % (size_t)coll->members < 2;
    int64_t sign = random & 1 ? -1 : 1;
    return two ? 2 * sign : sign;
  }
  /* For Sum and Avg: the sum of the absolute values is at most `capped`. */
  const int64_t share = capped / coll->members;
  if (share >= 1) return (int64_t)(random % (uint64_t)(2 * share + 1)) - share;
  const size_t stride = (size_t)((coll->members + capped - 1) / capped);
  if ((index + (size_t)position) % stride != 0) return 0;
  return random & 1 ? 1 : -1;
}

/* One member's contribution to a reduction, as integers. */
static void contributed_integers(const df_collective *coll, int position, uint64_t run,
                                 size_t first, size_t count, int64_t *out) {
  const uint64_t stream = stream_of(coll, position, run);
  if (df_type_is_float(coll->type)) {
    for (size_t i = 0; i < count; i++)
      out[i] = small_integer(coll, position, first + i, draw(stream, first + i));
  } else {
    for (size_t i = 0; i < count; i++)
      out[i] = df_integer_wrap(coll->type, draw(stream, first + i));
  }
}

static int64_t combine(const df_collective *coll, int64_t left, int64_t right) {
  const bool right_is_larger =
      coll->type == dfcclUint64 ? (uint64_t)right > (uint64_t)left : right > left;
  switch (coll->op) {
  case dfcclMax:
    return right_is_larger ? right : left;
  case dfcclMin:
    return right_is_larger ? left : right;
  case dfcclBand:
    return left & right;
  case dfcclBor:
    return left | right;
  case dfcclBxor:
    return left ^ right;
  case dfcclProd:
    left = (int64_t)((uint64_t)left * (uint64_t)right);
    break;
  default:
    left = (int64_t)((uint64_t)left + (uint64_t)right);
    break;
  }
  return df_type_is_float(coll->type) ? left : df_integer_wrap(coll->type, (uint64_t)left);
}

static uint64_t finish(const df_collective *coll, int64_t total) {
  const int64_t members = coll->members;
  if (df_type_is_float(coll->type)) {
    double value = (double)total;
    if (coll->op == dfcclAvg)
      value = coll->type == dfcclFloat64 ? value / (double)members
                                         : (double)((float)value / (float)members);
    return df_float_encode(coll->type, value);
  }
  if (coll->op != dfcclAvg) return (uint64_t)total;
  if (coll->type == dfcclUint64) return (uint64_t)total / (uint64_t)members;
  return (uint64_t)(total / members);
}

/* The combination of the contributions of the first `members` members. */
static void reduced(const df_collective *coll, int members, uint64_t run, size_t first,
                    size_t count, void *out) {
  int64_t total[PIECE], other[PIECE];
  for (size_t done = 0; done < count; done += PIECE) {
    const size_t piece = count - done < PIECE ? count - done : PIECE;
    contributed_integers(coll, 0, run, first + done, piece, total);
    for (int position = 1; position < members; position++) {
      contributed_integers(coll, position, run, first + done, piece, other);
      for (size_t i = 0; i < piece; i++) total[i] = combine(coll, total[i], other[i]);
    }
    uint64_t bits[PIECE];
    for (size_t i = 0; i < piece; i++) bits[i] = finish(coll, total[i]);
    df_elements_store(coll->type, out, done, bits, piece);
  }
}

/* Bit patterns of one member's contribution; at most PIECE of them. */
static void contributed_bits(const df_collective *coll, int position, uint64_t run, size_t first,
                             size_t count, uint64_t *bits) {
  if (!df_kind_reduces(coll->kind)) {
    const uint64_t stream = stream_of(coll, position, run);
    for (size_t i = 0; i < count; i++) bits[i] = draw(stream, first + i);
    return;
  }
  int64_t values[PIECE];
  contributed_integers(coll, position, run, first, count, values);
  const bool is_float = df_type_is_float(coll->type);
  for (size_t i = 0; i < count; i++)
    bits[i] = is_float ? df_float_encode(coll->type, (double)values[i]) : (uint64_t)values[i];
}

void df_contribution(const df_collective *coll, int position, uint64_t run, size_t first,
                     size_t count, void *out) {
  uint64_t bits[PIECE];
  for (size_t done = 0; done < count; done += PIECE) {
    const size_t piece = count - done < PIECE ? count - done : PIECE;
    contributed_bits(coll, position, run, first + done, piece, bits);
    df_elements_store(coll->type, out, done, bits, piece);
  }
}

/* The receive buffer has one block of coll->count elements for each member. skipped: elements of a
 * member's contribution before its block. */
static void gathered(const df_collective *coll, uint64_t run, size_t skipped, size_t first,
                     size_t count, void *out) {
  for (size_t done = 0; done < count;) {
    const size_t source = (first + done) / coll->count, inside = (first + done) % coll->count;
    size_t piece = coll->count - inside;
    if (piece > count - done) piece = count - done;
    df_contribution(coll, (int)source, run, skipped + inside, piece,
                    (char *)out + done * df_type_bytes(coll->type));
    done += piece;
  }
}

void df_expected(const df_collective *coll, int position, uint64_t run, size_t first, size_t count,
                 void *out) {
  const df_kind kind = coll->kind;
  const size_t skipped = kinds[kind].input == DF_PIECES_EACH ? (size_t)position * coll->count : 0;
  switch (kinds[kind].combines) {
  case DF_COMBINES_ALL:
    reduced(coll, coll->members, run, skipped + first, count, out);
    return;
  case DF_COMBINES_UP_TO:
    reduced(coll, position + 1, run, skipped + first, count, out);
    return;
  case DF_COMBINES_BEFORE:
    reduced(coll, position, run, skipped + first, count, out);
    return;
  case DF_COMBINES_NONE:
    break;
  }
  if (kinds[kind].output == DF_PIECES_EACH)
    gathered(coll, run, skipped, first, count, out);
  else if (kind != DF_BARRIER)
    df_contribution(coll, kinds[kind].inputs == DF_MEMBERS_SENDER ? 0 : coll->root, run,
                    skipped + first, count, out);
}

static void describe_difference(const df_collective *coll, int position, uint64_t run, size_t index,
                                uint64_t got, uint64_t expected, char *sentence, size_t bytes) {
  char what[256], values[128] = "";
  df_describe(coll, what, sizeof what);
  if (df_type_is_float(coll->type))
    snprintf(values, sizeof values, " (%g, expected %g)", df_float_decode(coll->type, got),
             df_float_decode(coll->type, expected));
  snprintf(sentence, bytes,
           "%s, run %llu, position %d (rank %d): element %zu is 0x%llx, expected 0x%llx%s", what,
           (unsigned long long)run, position, df_member(coll, position), index,
           (unsigned long long)got, (unsigned long long)expected, values);
}

bool df_matches(const df_collective *coll, int position, uint64_t run, const void *received,
                char *sentence, size_t sentence_bytes) {
  uint64_t expected[PIECE];
  const size_t total = df_recv_elements(coll), bytes = df_type_bytes(coll->type);
  size_t wrong = 0;
  for (size_t first = 0; first < total; first += PIECE) {
    const size_t piece = total - first < PIECE ? total - first : PIECE;
    const char *got = (const char *)received + first * bytes;
    df_expected(coll, position, run, first, piece, expected);
    if (memcmp(got, expected, piece * bytes) == 0) continue;
    for (size_t i = 0; i < piece; i++) {
      uint64_t is = df_element_load(coll->type, got, i);
      uint64_t should_be = df_element_load(coll->type, expected, i);
      if (is == should_be) continue;
      if (wrong++ == 0)
        describe_difference(coll, position, run, first + i, is, should_be, sentence,
                            sentence_bytes);
    }
  }
  if (wrong > 0) {
    size_t length = strlen(sentence);
    snprintf(sentence + length, sentence_bytes - length, "; %zu of %zu elements are wrong", wrong,
             total);
  }
  return wrong == 0;
}

void df_describe(const df_collective *coll, char *text, size_t bytes) {
  int length = snprintf(text, bytes, "%s of %zu %s%s%s%s", df_kind_name(coll->kind), coll->count,
                        df_type_name(coll->type), df_kind_reduces(coll->kind) ? " (" : "",
                        df_kind_reduces(coll->kind) ? df_redop_name(coll->op) : "",
                        df_kind_reduces(coll->kind) ? ")" : "");
  size_t used = (size_t)length;
  if (df_kind_has_root(coll->kind) && used < bytes)
    used += (size_t)snprintf(text + used, bytes - used, " root %d", coll->root);
  if (used < bytes) used += (size_t)snprintf(text + used, bytes - used, " among %d", coll->members);
  if (coll->group == NULL) return;
  for (int position = 0; position < coll->members && used + 8 < bytes; position++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%d%s", position == 0 ? " [" : " ",
                             coll->group[position], position == coll->members - 1 ? "]" : "");
}
