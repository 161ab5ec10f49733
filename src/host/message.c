#include "host/message.h"

#include <string.h>

#include "transports/segment.h"

static int payload_fits(const df_message *message) {
  const uint8_t *payload = df_message_payload(message);
  df_announcement announced;
  switch ((df_message_kind)message->kind) {
  case DF_MESSAGE_ANNOUNCE:
    if (message->payload_bytes < sizeof announced) return 0;
    memcpy(&announced, payload, sizeof announced);
    return announced.group_size >= 1 && announced.group_size <= DF_MAX_RANKS &&
           message->payload_bytes == sizeof announced + announced.group_size * sizeof(uint32_t);
  case DF_MESSAGE_FAIL:
  case DF_MESSAGE_ABORT:
  case DF_MESSAGE_CAUSE:
    return message->payload_bytes >= 1 && message->payload_bytes <= DF_SENTENCE_BYTES &&
           payload[message->payload_bytes - 1] == 0;
  case DF_MESSAGE_SEGMENT: /* a device's memory: its handle in place of a descriptor */
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
