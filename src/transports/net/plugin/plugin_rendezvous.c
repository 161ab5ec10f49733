#include "transports/net/plugin/plugin_rendezvous.h"

#include <string.h>

enum { MAGIC = 0x0fe9dfcc };

void df_plugin_rendezvous_flush(df_plugin_rendezvous *rendezvous) {
  while (rendezvous->out_at != rendezvous->out_end) {
    const df_stream_part part = {rendezvous->out + rendezvous->out_at,
                                 rendezvous->out_end - rendezvous->out_at};
    const int64_t taken = rendezvous->stream->write(rendezvous->stream, &part, 1);
    if (taken <= 0) return; /* reading finds the end */
    rendezvous->out_at += (uint32_t)taken;
  }
  rendezvous->out_at = rendezvous->out_end = 0;
}

int df_plugin_rendezvous_send(df_plugin_rendezvous *rendezvous, df_plugin_message_kind kind,
                              uint32_t count, const void *bytes, uint32_t n_bytes) {
  const df_plugin_message message = {
      .kind = (uint32_t)kind, .count = count, .bytes = n_bytes, .magic = MAGIC};
  if (rendezvous->out_at)
    memmove(rendezvous->out, rendezvous->out + rendezvous->out_at,
            rendezvous->out_end - rendezvous->out_at);
  rendezvous->out_end -= rendezvous->out_at;
  rendezvous->out_at = 0;
  if (rendezvous->out_end + sizeof message + n_bytes > sizeof rendezvous->out) return 0;
  memcpy(rendezvous->out + rendezvous->out_end, &message, sizeof message);
  if (n_bytes) memcpy(rendezvous->out + rendezvous->out_end + sizeof message, bytes, n_bytes);
  rendezvous->out_end += (uint32_t)sizeof message + n_bytes;
  df_plugin_rendezvous_flush(rendezvous);
  return 1;
}

/* Returns 1 when `most` bytes of the message have arrived. */
static int receive_bytes(df_plugin_rendezvous *rendezvous, uint32_t most) {
  while (rendezvous->received < most) {
    const uint32_t head = sizeof rendezvous->message;
    const df_stream_room room =
        rendezvous->received < head
            ? (df_stream_room){(uint8_t *)&rendezvous->message + rendezvous->received,
                               head - rendezvous->received}
            : (df_stream_room){rendezvous->in + rendezvous->received - head,
                               most - rendezvous->received};
    const int64_t came = rendezvous->stream->read(rendezvous->stream, &room, 1);
    if (came <= 0) return came < 0 ? DF_STREAM_ENDED : 0;
    rendezvous->received += (uint32_t)came;
  }
  return 1;
}

static int is_sound(const df_plugin_message *message) {
  if (message->magic != MAGIC || message->kind < 1 || message->kind >= DF_PLUGIN_MESSAGE_END)
    return 0;
  if (message->kind == DF_PLUGIN_MESSAGE_HANDLE) return message->bytes == sizeof(df_plugin_offer);
  return message->bytes <= (message->kind == DF_PLUGIN_MESSAGE_FAILED ? DF_PLUGIN_TEXT_MOST : 0);
}

int df_plugin_rendezvous_receive(df_plugin_rendezvous *rendezvous) {
  int came = receive_bytes(rendezvous, sizeof rendezvous->message);
  if (came != 1) return came;
  if (!is_sound(&rendezvous->message)) return DF_STREAM_REFUSED;
  came =
      receive_bytes(rendezvous, (uint32_t)sizeof rendezvous->message + rendezvous->message.bytes);
  if (came != 1) return came;
  rendezvous->in[rendezvous->message.bytes] = '\0';
  rendezvous->received = 0;
  return 1;
}
