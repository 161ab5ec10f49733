/* Contents of a call of a trace: operation, type, counts and root, as far as the trace has them.
 * dfccl-bench replays them, and dfccl-sim does not need them. */
#ifndef DF_TRACES_CALL_CONTENT_H
#define DF_TRACES_CALL_CONTENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "dfccl.h"

#define DF_NO_COUNT UINT64_MAX

typedef struct {
  int operation; /* df_operation, an even one; -1: unknown, cannot be replayed */
  int type;      /* dfcclDataType_t; -1: not known */
  int reduction; /* dfcclRedOp_t */
  int priority;
  uint32_t root; /* position in the group; 0 if the trace has none */
  bool has_priority, has_root;
  bool pieces_differ;              /* members may send pieces of different sizes */
  uint64_t send_count, recv_count; /* elements of the two buffers; DF_NO_COUNT: not known */
} df_call_content;

/* A content of that operation, in the spelling of torch, PARAM or this library. */
df_call_content df_content_of(const char *operation);

/* The data type in any of these spellings; -1: there is none. */
int df_content_type(const char *word);

/* Adds the elements of a tensor's shape ([3, 2]), or of all shapes in nested lists, to *count.
 * Values other than lists add nothing. False: an extent is negative, or the product is too large.
 */
bool df_content_add_shape(const cJSON *shape, uint64_t *count);

/* The elements of one piece in a group of so many members. DF_NO_COUNT: the trace does not have
 * them. */
uint64_t df_content_count(const df_call_content *content, uint32_t members);

#endif
