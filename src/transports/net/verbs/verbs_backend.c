/* Verbs as a fabric. The ends tell each other over the line where their queue pairs are, and then
 * that the queue pair takes what is sent: earlier packets would be lost, and sent again late. */
#include <stdlib.h>
#include <string.h>

#include "transports/net/verbs/verbs.h"

enum { MEETING_MAGIC = 0x0feddfcc, READY_MAGIC = 0x0fefdfcc };

typedef struct verbs_fabric {
  df_fabric base;
  df_verbs *verbs;
} verbs_fabric;

static df_verbs *verbs_of(df_fabric *base) { return ((verbs_fabric *)base)->verbs; }
static df_verbs_stream *stream_of(df_fabric_stream *base) { return (df_verbs_stream *)base; }

static dfcclResult_t fabric_open(df_fabric **out, const df_fabric_owner *owner, const char *name) {
  (void)owner;
  if (*name)
    return df_fail(
        dfcclInvalidUsage,
        "environment variable DFCCL_NET names \"verbs:%.64s\"; nothing may follow verbs: "
        "DFCCL_NET_INTERFACES chooses the device",
        name);
  verbs_fabric *fabric = calloc(1, sizeof *fabric);
  if (fabric == NULL) return df_fail(dfcclOutOfMemory, "no memory for the record of devices");
  dfcclResult_t result = df_verbs_open(&fabric->verbs);
  if (result != dfcclSuccess) {
    free(fabric);
    return result;
  }
  fabric->base = (df_fabric){.ops = &df_fabric_verbs, .fd = df_verbs_fd(fabric->verbs)};
  *out = &fabric->base;
  return dfcclSuccess;
}

static void fabric_close(df_fabric *base) {
  df_verbs_close(verbs_of(base));
  free(base);
}

static void fabric_close_in_child(df_fabric *base) { df_verbs_close_in_child(verbs_of(base)); }

static dfcclResult_t fabric_begin(df_fabric *base, const df_fabric_line *line,
                                  df_fabric_stream **out) {
  df_verbs_stream *stream;
  df_verbs_end mine;
  dfcclResult_t result = df_verbs_stream_make(verbs_of(base), &line->here, &stream, &mine);
  if (result != dfcclSuccess) return result;
  df_verbs_meeting *meeting = df_verbs_stream_meeting(stream);
  meeting->line = line->stream;
  meeting->silence_ms = line->silence_ms;
  meeting->out = (df_verbs_telling){.magic = MEETING_MAGIC, .end = mine};
  *out = df_verbs_stream_of(stream);
  return dfcclSuccess;
}

/* Returns 1 when all of what is told has gone, -1 when the line has ended. */
static int tell(df_verbs_meeting *meeting) {
  while (meeting->told < sizeof meeting->out) {
    const df_stream_part part = {(const uint8_t *)&meeting->out + meeting->told,
                                 sizeof meeting->out - meeting->told};
    const int64_t taken = meeting->line->write(meeting->line, &part, 1);
    if (taken <= 0) return taken < 0 ? -1 : 0;
    meeting->told += (uint32_t)taken;
  }
  return 1;
}

static int listen_to(df_verbs_meeting *meeting) {
  while (meeting->heard < sizeof meeting->in) {
    const df_stream_room room = {(uint8_t *)&meeting->in + meeting->heard,
                                 sizeof meeting->in - meeting->heard};
    const int64_t came = meeting->line->read(meeting->line, &room, 1);
    if (came <= 0) return came < 0 ? -1 : 0;
    meeting->heard += (uint32_t)came;
  }
  return 1;
}

static df_meeting_state refuse(df_verbs_stream *stream, const char *reason) {
  df_verbs_stream_hang_up(stream, reason);
  return DF_MEETING_REFUSED;
}

static df_meeting_state join(df_verbs_stream *stream, df_verbs_meeting *meeting) {
  if (meeting->in.magic != MEETING_MAGIC)
    return refuse(stream, "the other end sent what is no queue pair");
  if (df_verbs_stream_join(stream, &meeting->in.end, meeting->silence_ms) != dfcclSuccess)
    return refuse(stream, df_last_sentence());
  meeting->has_joined = 1;
  meeting->out = (df_verbs_telling){.magic = READY_MAGIC};
  meeting->told = meeting->heard = 0;
  return DF_MEETING_GOES_ON;
}

static df_meeting_state fabric_meet(df_fabric_stream *base) {
  df_verbs_stream *stream = stream_of(base);
  df_verbs_meeting *meeting = df_verbs_stream_meeting(stream);
  for (;;) {
    const int told = tell(meeting);
    const int heard = told < 0 ? -1 : listen_to(meeting);
    if (heard < 0) return refuse(stream, meeting->line->reason(meeting->line));
    if (told == 0 || heard == 0) return DF_MEETING_GOES_ON;
    if (meeting->has_joined)
      return meeting->in.magic == READY_MAGIC
                 ? DF_MEETING_STANDS
                 : refuse(stream, "the other end sent what is no queue pair");
    const df_meeting_state state = join(stream, meeting);
    if (state != DF_MEETING_GOES_ON) return state;
  }
}

/* Nothing more is told over it. */
static void fabric_hear(df_fabric_stream *base) {
  df_stream *line = df_verbs_stream_meeting(stream_of(base))->line;
  uint8_t bytes[64];
  const df_stream_room room = {bytes, sizeof bytes};
  int64_t came;
  do came = line->read(line, &room, 1);
  while (came > 0);
  if (came == DF_STREAM_ENDED) df_verbs_stream_hang_up(stream_of(base), line->reason(line));
}

static void fabric_end(df_fabric_stream *base) { df_verbs_stream_end(stream_of(base)); }

static void fabric_look(df_fabric *base, int spins) {
  if (spins)
    df_verbs_poll(verbs_of(base));
  else
    df_verbs_look(verbs_of(base));
}

static int fabric_has_unsent(df_fabric_stream *base) {
  return df_verbs_stream_has_unsent(stream_of(base));
}

static void fabric_describe(const df_fabric_stream *base, char text[DF_FABRIC_ENDS_BYTES]) {
  df_verbs_stream_describe((const df_verbs_stream *)base, text);
}

const df_fabric_ops df_fabric_verbs = {.name = "verbs",
                                       .open = fabric_open,
                                       .close = fabric_close,
                                       .close_in_child = fabric_close_in_child,
                                       .begin = fabric_begin,
                                       .meet = fabric_meet,
                                       .hear = fabric_hear,
                                       .end = fabric_end,
                                       .look = fabric_look,
                                       .has_unsent = fabric_has_unsent,
                                       .describe = fabric_describe};
