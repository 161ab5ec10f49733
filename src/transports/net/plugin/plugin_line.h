/* What the ends of a connection over a plugin tell each other over its line. */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_LINE_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_LINE_H

#include "transports/net/plugin/plugin_stream.h"

typedef enum {
  DF_PLUGIN_SAYS_HANDLE = 1, /* followed by df_plugin_telling */
  DF_PLUGIN_SAYS_CONNECTED,  /* its connect was called: accept will not wait */
  DF_PLUGIN_SAYS_FAILED,     /* followed by a reason */
  DF_PLUGIN_SAYS_SLEEPS,     /* after count messages: wake it when there are more */
  DF_PLUGIN_SAYS_WAKE,
  DF_PLUGIN_SAYS_ASK,    /* tell when count messages have arrived */
  DF_PLUGIN_SAYS_ANSWER, /* count have arrived */
  DF_PLUGIN_SAYS_END
} df_plugin_saying;

typedef struct df_plugin_word {
  uint32_t kind, count;
  uint32_t bytes; /* what follows */
  uint32_t magic;
} df_plugin_word;

typedef struct df_plugin_telling {
  char plugin[DF_PLUGIN_NAME_BYTES];
  uint8_t handle[DF_PLUGIN_HANDLE_BYTES];
  uint32_t message_most, cells;
} df_plugin_telling;
DF_STATIC_ASSERT(sizeof(df_plugin_word) == 16 && sizeof(df_plugin_telling) == 200,
                 "part of the protocol between hosts");

enum { DF_PLUGIN_TEXT_MOST = 255, DF_PLUGIN_OUT_BYTES = 2048 };

typedef struct df_plugin_line {
  df_stream *line;
  uint8_t out[DF_PLUGIN_OUT_BYTES];
  uint32_t out_at, out_end;
  df_plugin_word word; /* that comes */
  uint8_t in[DF_PLUGIN_TEXT_MOST + 1];
  uint32_t heard; /* bytes of word and in */
} df_plugin_line;

/* Also sends what the line takes. Returns 0 if there is no room: the far end does not read. */
int df_plugin_say(df_plugin_line *line, df_plugin_saying kind, uint32_t count, const void *bytes,
                  uint32_t n_bytes);
void df_plugin_flush(df_plugin_line *line);
/* The next word. 1: it is in word and in; 0: none now; DF_STREAM_ENDED; DF_STREAM_REFUSED: no such
 * thing is said. */
int df_plugin_on_readable(df_plugin_line *line);

#endif
