/*
 * A record contains a run's arguments and its SQE, for a relay: a GPU then reads both in one
 * crossing of the bus. The loads of a record are unordered, so each word contains the number of its
 * lap, by which the reader recognises a word of an earlier lap.
 */
#ifndef DF_QUEUES_RECORD_H
#define DF_QUEUES_RECORD_H

#include "base/atomic.h"
#include "base/limits.h"

typedef struct df_run_arguments {
  const void *send;
  void *recv;
  uint16_t send_mapping, recv_mapping; /* numbers of mapped ranges; 0: none */
  uint32_t stream_event;               /* df_stream_event_make; 0: no stream owns the buffers */
} df_run_arguments;
DF_STATIC_ASSERT(DF_MAX_MAPPINGS <= UINT16_MAX, "a mapping's number fits a run's arguments");

/* ---- stream events: the stream writes a number to the input word with this index */

enum { DF_STREAM_EVENT_INDEX_BITS = 12, DF_STREAM_EVENT_NUMBER_BITS = 14 };
enum {
  DF_STREAM_EVENT_INDEX_MASK = (1 << DF_STREAM_EVENT_INDEX_BITS) - 1,
  DF_STREAM_EVENT_NUMBER_MASK = (1 << DF_STREAM_EVENT_NUMBER_BITS) - 1
};

DF_CORE uint32_t df_stream_event_make(uint32_t index, uint64_t number) {
  return ((uint32_t)number & DF_STREAM_EVENT_NUMBER_MASK) << DF_STREAM_EVENT_INDEX_BITS | index;
}
DF_CORE uint32_t df_stream_event_index(uint32_t stream_event) {
  return stream_event & DF_STREAM_EVENT_INDEX_MASK;
}
/* An index is reused only when its word has reached the number, so the word is never far behind. */
DF_CORE int df_stream_event_has_come(uint32_t stream_event, uint64_t word) {
  const uint32_t ahead = (uint32_t)word - (stream_event >> DF_STREAM_EVENT_INDEX_BITS);
  return (ahead & DF_STREAM_EVENT_NUMBER_MASK) <= DF_STREAM_EVENT_NUMBER_MASK / 2;
}

/* ---- records */

/* The upper bits of each word are the lap's tag. Below: address of send, run | address of recv,
 * near | mapped ranges, stream event. */
typedef struct DF_ALIGNED(32) df_sq_record {
  uint64_t words[3];
  uint64_t commit; /* as in df_sq_slot */
} df_sq_record;
DF_STATIC_ASSERT(sizeof(df_sq_record) == 32, "a record is one sector, and one read across the bus");

enum { DF_RECORD_TAG_BITS = 14, DF_RECORD_ADDRESS_BITS = 48, DF_RECORD_MAPPING_BITS = 12 };
enum { DF_RECORD_TAG_SHIFT = 64 - DF_RECORD_TAG_BITS };
#define DF_RECORD_ADDRESS_MASK (((uint64_t)1 << DF_RECORD_ADDRESS_BITS) - 1)
DF_STATIC_ASSERT(DF_MAX_MAPPINGS <= 1 << DF_RECORD_MAPPING_BITS &&
                     2 * DF_RECORD_MAPPING_BITS + DF_STREAM_EVENT_INDEX_BITS +
                             DF_STREAM_EVENT_NUMBER_BITS <=
                         DF_RECORD_TAG_SHIFT,
                 "reaches and sequence fit a record");
DF_STATIC_ASSERT(DF_RECORD_ADDRESS_BITS + 2 <= DF_RECORD_TAG_SHIFT && DF_RUNS_AHEAD <= 4,
                 "an address and the run's place fit a record");

/* The contents of a record. If near is 0, the arguments are only in the run's words, because an
 * address is too long for a record. */
typedef struct df_sq_carried {
  df_run_arguments arguments;
  uint32_t run; /* number of the run, modulo DF_RUNS_AHEAD */
  uint32_t near;
} df_sq_carried;

DF_CORE void df_record_encode(const df_sq_carried *carried, uint64_t tag, uint64_t words[3]) {
  const df_run_arguments *a = &carried->arguments;
  const uint64_t send = (uint64_t)(uintptr_t)a->send, recv = (uint64_t)(uintptr_t)a->recv;
  const uint64_t near = carried->near && (send | recv) <= DF_RECORD_ADDRESS_MASK;
  const uint64_t above = tag << DF_RECORD_TAG_SHIFT;
  words[0] =
      above | (uint64_t)carried->run << DF_RECORD_ADDRESS_BITS | (send & DF_RECORD_ADDRESS_MASK);
  words[1] = above | near << DF_RECORD_ADDRESS_BITS | (recv & DF_RECORD_ADDRESS_MASK);
  words[2] = above | (uint64_t)a->send_mapping << (DF_RECORD_TAG_SHIFT - DF_RECORD_MAPPING_BITS) |
             (uint64_t)a->recv_mapping << (DF_RECORD_TAG_SHIFT - 2 * DF_RECORD_MAPPING_BITS) |
             a->stream_event;
}

/* Returns 0 if not all words have the tag. */
DF_CORE int df_record_decode(const uint64_t words[3], uint64_t tag, df_sq_carried *carried) {
  enum { MAPPING_MASK = (1 << DF_RECORD_MAPPING_BITS) - 1 };
  for (int i = 0; i < 3; i++)
    if (words[i] >> DF_RECORD_TAG_SHIFT != tag) return 0;
  df_run_arguments *a = &carried->arguments;
  a->send = (const void *)(uintptr_t)(words[0] & DF_RECORD_ADDRESS_MASK);
  a->recv = (void *)(uintptr_t)(words[1] & DF_RECORD_ADDRESS_MASK);
  a->send_mapping =
      (uint16_t)(words[2] >> (DF_RECORD_TAG_SHIFT - DF_RECORD_MAPPING_BITS) & MAPPING_MASK);
  a->recv_mapping =
      (uint16_t)(words[2] >> (DF_RECORD_TAG_SHIFT - 2 * DF_RECORD_MAPPING_BITS) & MAPPING_MASK);
  a->stream_event =
      (uint32_t)words[2] & ((1u << (DF_STREAM_EVENT_INDEX_BITS + DF_STREAM_EVENT_NUMBER_BITS)) - 1);
  carried->run = (uint32_t)(words[0] >> DF_RECORD_ADDRESS_BITS) & (DF_RUNS_AHEAD - 1);
  carried->near = (uint32_t)(words[1] >> DF_RECORD_ADDRESS_BITS) & 1;
  return 1;
}

#endif
