#include "plans/operation.h"

#include <string.h>

static const struct {
  const char *name, *word;
  df_operation_members inputs, outputs;
  int wide[2];
  df_operation_combines combines;
  int traits;
  df_operation even;
} operations[DF_OP_ALL] = {
#define ROW(id, name, word, inputs, outputs, input, output, combines, traits, even)                \
  [DF_OP_##id] = {#name,                                                                           \
                  word,                                                                            \
                  DF_MEMBERS_##inputs,                                                             \
                  DF_MEMBERS_##outputs,                                                            \
                  {DF_PIECES_##input, DF_PIECES_##output},                                         \
                  DF_COMBINES_##combines,                                                          \
                  traits,                                                                          \
                  DF_OP_##even},
#define DF_OPERATION(id, name, word, family, inputs, outputs, input, output, combines, traits,     \
                     groups)                                                                       \
  ROW(id, name, word, inputs, outputs, input, output, combines, traits, id)
#define DF_VECTOR_OPERATION(id, name, word, family, inputs, outputs, input, output, combines,      \
                            traits, even)                                                          \
  ROW(id, name, word, inputs, outputs, input, output, combines, traits, even)
#include "plans/operations.def"
#undef ROW
};

const char *df_operation_name(df_operation operation) { return operations[operation].name; }
const char *df_operation_word(df_operation operation) { return operations[operation].word; }

int df_operation_by_word(const char *word) {
  for (int i = 0; i < DF_OP_COUNT; i++)
    if (strcmp(operations[i].word, word) == 0) return i;
  return -1;
}

int df_operation_has_piece_table(df_operation operation) {
  return operation >= DF_OP_COUNT && operation != DF_OP_ALL_TO_ALL_DYNAMIC;
}
int df_operation_reduces(df_operation operation) {
  return operations[operation].combines != DF_COMBINES_NONE;
}
int df_operation_is_scan(df_operation operation) {
  return operations[operation].combines >= DF_COMBINES_UP_TO;
}
int df_operation_needs_agreement(df_operation operation) {
  return (operations[operation].traits & DF_ONE_WAY) != 0;
}
int df_operation_runs_ahead(df_operation operation) {
  return (operations[operation].traits & DF_ONE_WAY) != 0;
}
int df_operation_only_overwrites(df_operation operation) {
  return (operations[operation].traits & DF_COPIES) != 0;
}
df_operation df_operation_even(df_operation operation) { return operations[operation].even; }

uint32_t df_operation_operands(df_operation operation, uint32_t position, uint32_t n) {
  switch (operations[operation].combines) {
  case DF_COMBINES_NONE:
    return 1;
  case DF_COMBINES_ALL:
    return n;
  case DF_COMBINES_UP_TO:
    return position + 1;
  case DF_COMBINES_BEFORE:
    return position;
  }
  return 0;
}

int df_operation_has_one_result(df_operation operation) {
  return operations[operation].combines == DF_COMBINES_ALL &&
         operations[operation].outputs == DF_MEMBERS_ALL && !operations[operation].wide[0] &&
         !df_operation_has_piece_table(operation);
}

int df_operation_has_root(df_operation operation) {
  return operations[operation].inputs == DF_MEMBERS_ROOT ||
         operations[operation].outputs == DF_MEMBERS_ROOT;
}

int df_operation_is_wide(df_operation operation, int output) {
  return operations[operation].wide[output != 0] == DF_PIECES_EACH;
}

int df_operation_uses(df_operation operation, int output, uint32_t position, uint32_t root,
                      uint32_t n) {
  switch (output ? operations[operation].outputs : operations[operation].inputs) {
  case DF_MEMBERS_NONE:
    return 0;
  case DF_MEMBERS_ALL:
    return 1;
  case DF_MEMBERS_ROOT:
  case DF_MEMBERS_SENDER:
    return position == root;
  case DF_MEMBERS_RECEIVER:
    return n == 1 || position != root;
  case DF_MEMBERS_LATER:
    return position > 0;
  }
  return 0;
}
