#include "control/message.h"

#include <string.h>

#include "bootstrap/entry.h"

uint32_t df_group_step(const uint32_t *ranks, uint32_t n) {
  if (n < 2 || ranks[1] <= ranks[0]) return 0;
  uint32_t step = ranks[1] - ranks[0];
  for (uint32_t i = 2; i < n; i++)
    if (ranks[i] != ranks[0] + i * step) return 0;
  return step;
}

uint32_t df_announcement_write(const df_announcement *announcement, const uint32_t *ranks,
                               void *payload) {
  uint32_t rank_bytes = df_announced_ranks(announcement) * (uint32_t)sizeof *ranks;
  memcpy(payload, announcement, sizeof *announcement);
  memcpy((uint8_t *)payload + sizeof *announcement, ranks, rank_bytes);
  return (uint32_t)sizeof *announcement + rank_bytes;
}

/* With a step, the last rank must be a rank of the largest job. */
static int announcement_fits(const uint8_t *payload, uint32_t bytes) {
  df_announcement announced;
  uint32_t first;
  if (bytes < sizeof announced + sizeof first) return 0;
  memcpy(&announced, payload, sizeof announced);
  memcpy(&first, payload + sizeof announced, sizeof first);
  if (announced.group_size < 1 || announced.group_size > DF_MAX_RANKS) return 0;
  if (bytes != sizeof announced + df_announced_ranks(&announced) * sizeof first) return 0;
  if (announced.group_step == 0) return 1;
  return announced.group_step < DF_MAX_RANKS && first < DF_MAX_RANKS &&
         first + (announced.group_size - 1) * announced.group_step < DF_MAX_RANKS;
}

static int envelope_fits(const uint8_t *payload, uint32_t bytes) {
  df_relayed head;
  if (bytes < sizeof head) return 0;
  memcpy(&head, payload, sizeof head);
  if (head.n < 1 || head.n > DF_MAX_RANKS || head.source >= DF_MAX_RANKS) return 0;
  const uint32_t before = df_relayed_head_bytes(head.n);
  if (bytes < before + sizeof(df_message)) return 0;
  const df_message *inner = (const df_message *)(const void *)(payload + before);
  return inner->kind != DF_MESSAGE_RELAYED && df_message_is_valid(inner, bytes - before);
}

static int payload_fits(const df_message *message) {
  const uint8_t *payload = df_message_payload(message);
  switch ((df_message_kind)message->kind) {
  case DF_MESSAGE_ANNOUNCE:
    return announcement_fits(payload, message->payload_bytes);
  case DF_MESSAGE_FAIL:
  case DF_MESSAGE_ABORT:
  case DF_MESSAGE_FAILURE_REASON:
  case DF_MESSAGE_LOST:
    return message->payload_bytes >= 1 && message->payload_bytes <= DF_SENTENCE_BYTES &&
           payload[message->payload_bytes - 1] == 0;
  case DF_MESSAGE_LINKS:
    return message->payload_bytes == DF_OFFER_BYTES && message->a < DF_MAX_CHANNELS;
  case DF_MESSAGE_PROPOSE:
    return message->payload_bytes == sizeof(df_variant_spec) && message->a < DF_PURPOSES;
  case DF_MESSAGE_PURPOSE:
    return message->payload_bytes == 0 && message->a < DF_PURPOSES;
  case DF_MESSAGE_TIMES:
    return message->payload_bytes % sizeof(uint32_t) == 0 && message->payload_bytes > 0 &&
           message->payload_bytes <= DF_MOST_TIMES * sizeof(uint32_t);
  case DF_MESSAGE_VIEW: /* view_message.h reads it */
    return 1;
  case DF_MESSAGE_QUESTION:
    return message->payload_bytes % sizeof(uint64_t) == 0 &&
           message->payload_bytes <= DF_MOST_ASKED * sizeof(uint64_t);
  case DF_MESSAGE_SNAPSHOT: /* the receiver checks the content */
    return message->payload_bytes > 0;
  case DF_MESSAGE_ENTRY:
    return message->payload_bytes == sizeof(df_entry_request);
  case DF_MESSAGE_NEWCOMER:
    return message->payload_bytes == 0 || message->payload_bytes == sizeof(df_newcomer);
  case DF_MESSAGE_ADMIT_COUNTS:
    return message->payload_bytes % sizeof(df_run_count) == 0 && message->b <= 1;
  case DF_MESSAGE_ADMIT_DIFFERS:
    return message->payload_bytes == sizeof(df_count_difference);
  case DF_MESSAGE_RELAYED:
    return envelope_fits(payload, message->payload_bytes);
  case DF_MESSAGE_SEGMENT: /* device memory has a handle in place of a descriptor */
    return message->payload_bytes == 0 || message->payload_bytes == DF_SEGMENT_HANDLE_BYTES;
  default:
    return message->payload_bytes == 0;
  }
}

int df_message_is_valid(const void *bytes, size_t length) {
  df_message header;
  if (length < sizeof header || length > DF_MAX_MESSAGE_BYTES) return 0;
  memcpy(&header, bytes, sizeof header);
  if (header.magic != DF_MESSAGE_MAGIC || header.kind < DF_MESSAGE_SEGMENT ||
      header.kind >= DF_MESSAGE_KINDS)
    return 0;
  if (header.payload_bytes != length - sizeof header) return 0;
  return payload_fits(bytes);
}

typedef struct df_purpose_text {
  const char *name, *words;
} df_purpose_text;
static const df_purpose_text purposes[DF_PURPOSES] = {
    [DF_PURPOSE_ASKED] = {"asked", "as dfcclSetAlgorithm says"},
    [DF_PURPOSE_CANDIDATE] = {"candidate", "as the tuner says: a candidate under trial"},
    [DF_PURPOSE_DRIFT] = {"drift", "as the tuner says: tried, since times have changed"},
    [DF_PURPOSE_CHECK] = {"check", "as the tuner says: the winner and the registered one are "
                                   "compared in turn"},
    [DF_PURPOSE_ADOPTED] = {"adopted", "as the tuner says: adopted, since it won"},
    [DF_PURPOSE_BACK] = {"back", "as the tuner says: back to the registered one"},
};

const char *df_purpose_name(df_purpose purpose) { return purposes[purpose].name; }
const char *df_purpose_words(df_purpose purpose) { return purposes[purpose].words; }
