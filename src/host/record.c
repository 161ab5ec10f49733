/*
 * Recording (DFCCL_RECORD=DIR): the order in which this rank invoked its collectives and
 * synchronisations, as a schedule for the simulator, in DIR/rank-<R>.json. After every flush the
 * file is a complete JSON object.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/context.h"

typedef struct df_buffer_text {
  char *bytes;
  size_t length, capacity;
  int failed;
} df_buffer_text;

/* Runs of an id so far, over all its registrations: instances need names of their own. */
typedef struct df_recorded_id {
  dfcclCollId_t id;
  uint64_t runs;
} df_recorded_id;

typedef struct df_recorder {
  int fd;
  off_t end; /* of the events in the file */
  int any_event, any_group;
  df_buffer_text events, groups;
  df_recorded_id *ids; /* open addressing, capacity a power of two */
  uint8_t *taken;
  uint32_t n_ids, capacity;
} df_recorder;

static void append(df_buffer_text *text, const char *bytes, size_t length) {
  if (text->length + length > text->capacity) {
    size_t capacity = DF_MAX(text->capacity * 2, text->length + length + 4096);
    char *larger = realloc(text->bytes, capacity);
    if (larger == NULL) {
      text->failed = 1;
      return;
    }
    text->bytes = larger;
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
}

static void append_text(df_buffer_text *text, const char *string) {
  append(text, string, strlen(string));
}

/* A JSON string's inside: names are the application's and may hold anything. */
static void append_escaped(df_buffer_text *text, const char *string) {
  char escape[8];
  for (; *string; string++) {
    unsigned char c = (unsigned char)*string;
    if (c == '"' || c == '\\')
      snprintf(escape, sizeof escape, "\\%c", c);
    else if (c < 0x20 || c >= 0x7f)
      snprintf(escape, sizeof escape, "\\u%04x", c);
    else
      snprintf(escape, sizeof escape, "%c", c);
    append_text(text, escape);
  }
}

static void append_group_name(df_buffer_text *text, const dfcclContext_t context,
                              const df_coll *coll) {
  char number[16];
  int all = coll->n == context->n_ranks;
  for (uint32_t i = 0; i < coll->n && all; i++) all = coll->ranks[i] == i;
  append_text(text, all ? "all" : "ranks");
  for (uint32_t i = 0; i < coll->n && !all; i++) {
    snprintf(number, sizeof number, "%c%u", i ? ',' : ' ', coll->ranks[i]);
    append_text(text, number);
  }
}

/* Adds "NAME":[ranks] to the groups unless it is there. */
static void note_group(df_recorder *recorder, const dfcclContext_t context, const df_coll *coll) {
  df_buffer_text entry = {0};
  char number[16];
  append_text(&entry, "\"");
  append_group_name(&entry, context, coll);
  append_text(&entry, "\":[");
  for (uint32_t i = 0; i < coll->n; i++) {
    snprintf(number, sizeof number, "%s%u", i ? "," : "", coll->ranks[i]);
    append_text(&entry, number);
  }
  append_text(&entry, "]");
  const char *known = recorder->groups.bytes ? recorder->groups.bytes : "";
  if (entry.bytes && !memmem(known, recorder->groups.length, entry.bytes, entry.length)) {
    if (recorder->any_group) append_text(&recorder->groups, ",");
    recorder->any_group = 1;
    append(&recorder->groups, entry.bytes, entry.length);
  }
  free(entry.bytes);
}

static df_recorded_id *find_id(df_recorder *recorder, dfcclCollId_t id) {
  uint32_t i = (uint32_t)(id * 0x9e3779b97f4a7c15ull >> 32) & (recorder->capacity - 1);
  while (recorder->taken[i] && recorder->ids[i].id != id) i = (i + 1) & (recorder->capacity - 1);
  if (!recorder->taken[i]) {
    recorder->taken[i] = 1;
    recorder->ids[i] = (df_recorded_id){.id = id};
    recorder->n_ids++;
  }
  return &recorder->ids[i];
}

static int grow_ids(df_recorder *recorder) {
  df_recorder old = *recorder;
  recorder->capacity = old.capacity ? old.capacity * 2 : 256;
  recorder->ids = calloc(recorder->capacity, sizeof *recorder->ids);
  recorder->taken = calloc(recorder->capacity, 1);
  if (recorder->ids == NULL || recorder->taken == NULL) {
    free(recorder->ids);
    free(recorder->taken);
    *recorder = old;
    return 0;
  }
  recorder->n_ids = 0;
  for (uint32_t i = 0; i < old.capacity; i++)
    if (old.taken[i]) *find_id(recorder, old.ids[i].id) = old.ids[i];
  free(old.ids);
  free(old.taken);
  return 1;
}

dfcclResult_t df_recorder_open(dfcclContext_t context) {
  char path[sizeof context->settings.record + 32];
  snprintf(path, sizeof path, "%s/rank-%u.json", context->settings.record, context->rank);
  df_recorder *recorder = calloc(1, sizeof *recorder);
  if (recorder == NULL || !grow_ids(recorder)) {
    free(recorder);
    return df_fail(dfcclOutOfMemory, "no memory for the recorder");
  }
  recorder->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (recorder->fd < 0) {
    dfcclResult_t result =
        df_fail(dfcclInvalidUsage, "DFCCL_RECORD: cannot write %s: %s", path, strerror(errno));
    free(recorder->ids);
    free(recorder->taken);
    free(recorder);
    return result;
  }
  char head[64];
  snprintf(head, sizeof head, "{\"gpus\":{\"%u\":[", context->rank);
  append_text(&recorder->events, head);
  context->recorder = recorder;
  return dfcclSuccess;
}

static void begin_event(df_recorder *recorder) {
  append_text(&recorder->events, recorder->any_event ? ",\n" : "\n");
  recorder->any_event = 1;
}

void df_record_run(dfcclContext_t context, const df_coll *coll, uint64_t run) {
  df_recorder *recorder = context->recorder;
  char text[64];
  if (recorder->n_ids * 2 >= recorder->capacity && !grow_ids(recorder)) return;
  df_recorded_id *known = find_id(recorder, coll->id);
  if (run == 0) note_group(recorder, context, coll);
  begin_event(recorder);
  append_text(&recorder->events, "{\"coll\":\"");
  append_escaped(&recorder->events, coll->name);
  snprintf(text, sizeof text, "%" PRIu64, coll->id);
  int named = strcmp(text, coll->name) != 0; /* two collectives may share a name, not an id */
  snprintf(text, sizeof text, named ? "[%" PRIu64 "]#%" PRIu64 : "%.0" PRIu64 "#%" PRIu64,
           named ? coll->id : 0, known->runs++);
  append_text(&recorder->events, text);
  append_text(&recorder->events, "\",\"group\":\"");
  append_group_name(&recorder->events, context, coll);
  append_text(&recorder->events, "\"}");
  if (recorder->events.length > 1 << 20) df_record_flush(context);
}

void df_record_sync(dfcclContext_t context) {
  begin_event(context->recorder);
  append_text(&context->recorder->events, "{\"sync\":true}");
}

void df_record_flush(dfcclContext_t context) {
  df_recorder *recorder = context->recorder;
  df_buffer_text *events = &recorder->events;
  if (events->length == 0) return;
  size_t body = events->length;
  append_text(events, "\n]},\"groups\":{");
  append(events, recorder->groups.bytes ? recorder->groups.bytes : "", recorder->groups.length);
  append_text(events, "}}\n");
  ssize_t written = pwrite(recorder->fd, events->bytes, events->length, recorder->end);
  /* A disk that is full costs the recording, never the job. */
  if (written == (ssize_t)events->length && !events->failed) recorder->end += (off_t)body;
  events->length = 0;
}

void df_recorder_close(dfcclContext_t context) {
  df_recorder *recorder = context->recorder;
  if (recorder == NULL) return;
  df_record_flush(context);
  close(recorder->fd);
  free(recorder->events.bytes);
  free(recorder->groups.bytes);
  free(recorder->ids);
  free(recorder->taken);
  free(recorder);
  context->recorder = NULL;
}
