#include "transports/net/stream/write_buffer.h"

#include <string.h>

#include "base/attributes.h"

int df_outbox_flush(df_outbox *outbox, df_stream *below) {
  while (outbox->at < outbox->end) {
    const df_stream_part part = {outbox->bytes + outbox->at, outbox->end - outbox->at};
    const int64_t taken = below->write(below, &part, 1);
    if (taken == DF_STREAM_ENDED) return DF_STREAM_ENDED;
    outbox->at += (uint32_t)taken;
    if ((size_t)taken < part.length) return 0;
  }
  outbox->at = outbox->end = 0;
  return 1;
}

void df_parts_skip(df_parts *parts, size_t bytes) {
  while (parts->n) {
    const size_t left = parts->parts[0].length - parts->offset;
    if (bytes < left) {
      parts->offset += bytes;
      return;
    }
    bytes -= left;
    parts->parts++;
    parts->n--;
    parts->offset = 0;
  }
}

const uint8_t *df_parts_next(df_parts *parts, uint8_t *scratch, size_t most, int must_fit,
                             uint32_t *bytes) {
  uint32_t gathered = 0;
  df_parts_skip(parts, 0);
  for (; parts->n; df_parts_skip(parts, 0)) {
    const uint8_t *here = (const uint8_t *)parts->parts[0].bytes + parts->offset;
    const size_t left = parts->parts[0].length - parts->offset;
    const int is_small = left < DF_OUTBOX_SMALL && (gathered || parts->n > 1);
    if (!is_small && gathered) break;
    if (!is_small) {
      if (must_fit && left > most) return NULL;
      *bytes = (uint32_t)DF_MIN(left, most);
      df_parts_skip(parts, *bytes);
      return here;
    }
    if (gathered + left > DF_MIN((size_t)DF_OUTBOX_GATHERED, most)) break;
    memcpy(scratch + gathered, here, left);
    gathered += (uint32_t)left;
    df_parts_skip(parts, left);
  }
  *bytes = gathered;
  return gathered ? scratch : NULL;
}
