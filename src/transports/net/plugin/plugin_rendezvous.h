/* The messages by which the ends of a connection over a plugin coordinate, sent over the TCP stream
 * of the connection. */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_RENDEZVOUS_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_RENDEZVOUS_H

#include "transports/net/plugin/plugin_stream.h"

typedef enum {
  DF_PLUGIN_MESSAGE_HANDLE = 1, /* followed by df_plugin_offer */
  DF_PLUGIN_MESSAGE_CONNECTED,  /* connect was called at the sending end: accept will not wait */
  DF_PLUGIN_MESSAGE_FAILED,     /* followed by a reason */
  /* the sender of this message sleeps after `count` messages: wake it when there are more */
  DF_PLUGIN_MESSAGE_SLEEPS,
  DF_PLUGIN_MESSAGE_WAKE,
  DF_PLUGIN_MESSAGE_ASK,    /* asks for an answer when `count` messages have arrived */
  DF_PLUGIN_MESSAGE_ANSWER, /* `count` messages have arrived */
  DF_PLUGIN_MESSAGE_END
} df_plugin_message_kind;

typedef struct df_plugin_message {
  uint32_t kind, count;
  uint32_t bytes; /* bytes that follow */
  uint32_t magic;
} df_plugin_message;

typedef struct df_plugin_offer {
  char plugin[DF_PLUGIN_NAME_BYTES];
  uint8_t handle[DF_PLUGIN_HANDLE_BYTES];
  uint32_t message_most, cells;
} df_plugin_offer;
DF_STATIC_ASSERT(sizeof(df_plugin_message) == 16 && sizeof(df_plugin_offer) == 200,
                 "part of the protocol between hosts");

enum { DF_PLUGIN_TEXT_MOST = 255, DF_PLUGIN_OUT_BYTES = 2048 };

typedef struct df_plugin_rendezvous {
  df_stream *stream;
  uint8_t out[DF_PLUGIN_OUT_BYTES];
  uint32_t out_at, out_end;
  df_plugin_message message; /* the message that is being received */
  uint8_t in[DF_PLUGIN_TEXT_MOST + 1];
  uint32_t received; /* bytes of message and in that have arrived */
} df_plugin_rendezvous;

/* Sends a message, as far as the stream accepts it, and buffers the rest. Returns 0 if there is no
 * room, because the remote end does not read. */
int df_plugin_rendezvous_send(df_plugin_rendezvous *rendezvous, df_plugin_message_kind kind,
                              uint32_t count, const void *bytes, uint32_t n_bytes);
void df_plugin_rendezvous_flush(df_plugin_rendezvous *rendezvous);
/* Receives the next message. 1: it is in message and in; 0: not complete yet; DF_STREAM_ENDED;
 * DF_STREAM_REFUSED: the message is malformed. */
int df_plugin_rendezvous_receive(df_plugin_rendezvous *rendezvous);

#endif
