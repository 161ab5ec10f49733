#include "call_content.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/attributes.h"
#include "plans/operation.h"

/* Words without "_" and in lower case. */
typedef struct {
  const char *word;
  int operation;
  bool pieces_differ;
} operation_word;

static const operation_word operation_words[] = {
    {"allreduce", DF_OP_ALL_REDUCE, false},
    {"allreducecoalesced", DF_OP_ALL_REDUCE, false},
    {"reduce", DF_OP_REDUCE, false},
    {"broadcast", DF_OP_BROADCAST, false},
    {"allgather", DF_OP_ALL_GATHER, false},
    {"allgatherbase", DF_OP_ALL_GATHER, false},
    {"allgathercoalesced", DF_OP_ALL_GATHER, false},
    {"allgatherintotensor", DF_OP_ALL_GATHER, false},
    {"allgatherintotensorcoalesced", DF_OP_ALL_GATHER, false},
    {"allgatherv", DF_OP_ALL_GATHER, true},
    {"reducescatter", DF_OP_REDUCE_SCATTER, false},
    {"reducescatterbase", DF_OP_REDUCE_SCATTER, false},
    {"reducescattertensor", DF_OP_REDUCE_SCATTER, false},
    {"reducescattertensorcoalesced", DF_OP_REDUCE_SCATTER, false},
    {"reducescatterv", DF_OP_REDUCE_SCATTER, true},
    {"alltoall", DF_OP_ALL_TO_ALL, true},
    {"alltoallbase", DF_OP_ALL_TO_ALL, true},
    {"alltoallsingle", DF_OP_ALL_TO_ALL, true},
    {"alltoallv", DF_OP_ALL_TO_ALL, true},
    {"alltoallvsingle", DF_OP_ALL_TO_ALL, true},
    {"gather", DF_OP_GATHER, true},
    {"scatter", DF_OP_SCATTER, true},
    {"message", DF_OP_SEND_RECV, false},
    {"sendrecv", DF_OP_SEND_RECV, false},
    {"barrier", DF_OP_BARRIER, false},
};

static const struct {
  const char *word;
  dfcclDataType_t type;
} type_words[] = {
    {"float", dfcclFloat32},
    {"float32", dfcclFloat32},
    {"half", dfcclFloat16},
    {"float16", dfcclFloat16},
    {"bfloat16", dfcclBfloat16},
    {"double", dfcclFloat64},
    {"float64", dfcclFloat64},
    {"int", dfcclInt32},
    {"int32", dfcclInt32},
    {"long", dfcclInt64},
    {"longint", dfcclInt64},
    {"int64", dfcclInt64},
    {"short", dfcclInt16},
    {"int16", dfcclInt16},
    {"char", dfcclInt8},
    {"signedchar", dfcclInt8},
    {"int8", dfcclInt8},
    {"byte", dfcclUint8},
    {"unsignedchar", dfcclUint8},
    {"uint8", dfcclUint8},
    {"bool", dfcclUint8},
    {"uint16", dfcclUint16},
    {"uint32", dfcclUint32},
    {"uint64", dfcclUint64},
    {"float8e4m3", dfcclFloat8e4m3},
    {"float8e4m3fn", dfcclFloat8e4m3},
    {"f8e4m3", dfcclFloat8e4m3},
    {"float8e5m2", dfcclFloat8e5m2},
    {"f8e5m2", dfcclFloat8e5m2},
};

enum { WORD_BYTES = 40 };
static const double MOST_ELEMENTS = 1e15;

/* Lower case without "_" and blanks, and without "c10::" before it. */
static void normalise(const char *word, char out[WORD_BYTES]) {
  const char *colon = strrchr(word, ':');
  size_t used = 0;
  for (const char *at = colon ? colon + 1 : word; *at && used + 1 < WORD_BYTES; at++)
    if (*at != '_' && *at != ' ') out[used++] = (char)tolower((unsigned char)*at);
  out[used] = 0;
}

df_call_content df_content_of(const char *operation) {
  df_call_content content = {.operation = -1,
                             .type = -1,
                             .reduction = dfcclSum,
                             .send_count = DF_NO_COUNT,
                             .recv_count = DF_NO_COUNT};
  char word[WORD_BYTES];
  normalise(operation, word);
  for (size_t i = 0; i < DF_COUNT_OF(operation_words); i++)
    if (strcmp(word, operation_words[i].word) == 0) {
      content.operation = operation_words[i].operation;
      content.pieces_differ = operation_words[i].pieces_differ;
    }
  return content;
}

int df_content_type(const char *word) {
  char normal[WORD_BYTES];
  normalise(word, normal);
  for (size_t i = 0; i < DF_COUNT_OF(type_words); i++)
    if (strcmp(normal, type_words[i].word) == 0) return (int)type_words[i].type;
  return -1;
}

bool df_content_add_shape(const cJSON *shape, uint64_t *count) {
  double elements = 1;
  if (!cJSON_IsArray(shape)) return true;
  if (cJSON_IsArray(shape->child)) {
    for (const cJSON *inner = shape->child; inner; inner = inner->next)
      if (!df_content_add_shape(inner, count)) return false;
    return true;
  }
  for (const cJSON *extent = shape->child; extent; extent = extent->next) {
    if (!cJSON_IsNumber(extent) || !(extent->valuedouble >= 0)) return false;
    elements *= extent->valuedouble;
  }
  if (*count == DF_NO_COUNT) *count = 0;
  if (!(elements < MOST_ELEMENTS) || *count >= (uint64_t)MOST_ELEMENTS) return false;
  *count += (uint64_t)elements;
  return true;
}

static uint64_t divided(uint64_t count, uint32_t members) {
  return count == DF_NO_COUNT ? count : (count + members - 1) / members;
}

uint64_t df_content_count(const df_call_content *content, uint32_t members) {
  const uint64_t send = content->send_count, recv = content->recv_count;
  switch (content->operation) {
  case DF_OP_BARRIER:
    return 0;
  case DF_OP_ALL_GATHER:
  case DF_OP_GATHER:
    return send != DF_NO_COUNT ? send : divided(recv, members);
  case DF_OP_REDUCE_SCATTER:
  case DF_OP_SCATTER:
    return recv != DF_NO_COUNT ? recv : divided(send, members);
  case DF_OP_ALL_TO_ALL:
    if (send == DF_NO_COUNT || recv == DF_NO_COUNT)
      return divided(send == DF_NO_COUNT ? recv : send, members);
    return divided(DF_MAX(send, recv), members);
  default:
    if (send == DF_NO_COUNT || recv == DF_NO_COUNT) return send == DF_NO_COUNT ? recv : send;
    return DF_MAX(send, recv);
  }
}
