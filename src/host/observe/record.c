/*
 * Recording (DFCCL_RECORD): the order of this rank's collectives and synchronisations, as a
 * schedule for the simulator, in DIR/rank-<R>.json. Each flush leaves a complete JSON object. Its
 * "recorded" is "so far" while the program runs, "whole" after the context was destroyed, and "cut
 * short" if memory or disk ran out, because a schedule with gaps would be another program's.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/quiet_signals.h"
#include "base/growing_text.h"
#include "base/log.h"
#include "host/state/context.h"
#include "host/observe/record.h"
#include "primitives/elements/types.h"

/* Counts the runs over all registrations of the id, because instances need unique names. */
typedef struct df_recorded_id {
  dfcclCollId_t id;
  uint64_t runs;
} df_recorded_id;

typedef struct df_recorder {
  int fd;
  off_t end;             /* offset in the file where the events end */
  size_t head;           /* bytes before the first event */
  size_t groups_in_file; /* length of `groups` when the file was written */
  int any_event;
  int ended;  /* writing has failed: nothing more is added */
  int sealed; /* the file is never written again */
  df_growing_text events, groups;
  df_recorded_id *ids; /* open addressing, capacity a power of two */
  uint8_t *taken;
  uint32_t n_ids, capacity;
} df_recorder;

static void append_group_name(df_growing_text *text, const dfcclContext_t context,
                              const df_coll *coll) {
  char number[16];
  int all = coll->n == context->n_ranks;
  for (uint32_t i = 0; i < coll->n && all; i++) all = coll->ranks[i] == i;
  df_grow_text(text, all ? "all" : "ranks");
  for (uint32_t i = 0; i < coll->n && !all; i++) {
    snprintf(number, sizeof number, "%c%u", i ? ',' : ' ', coll->ranks[i]);
    df_grow_text(text, number);
  }
}

/* Adds "NAME":[ranks] once. Returns 0 if there is no memory. */
static int note_group(df_recorder *recorder, const dfcclContext_t context, const df_coll *coll) {
  df_growing_text entry = {0};
  char number[16];
  df_grow_text(&entry, "\"");
  append_group_name(&entry, context, coll);
  df_grow_text(&entry, "\":[");
  for (uint32_t i = 0; i < coll->n; i++) {
    snprintf(number, sizeof number, "%s%u", i ? "," : "", coll->ranks[i]);
    df_grow_text(&entry, number);
  }
  df_grow_text(&entry, "]");
  df_growing_text *groups = &recorder->groups;
  size_t before = groups->length;
  if (!entry.failed && (before == 0 || !memmem(groups->bytes, before, entry.bytes, entry.length))) {
    if (before > 0) df_grow_text(groups, ",");
    df_grow(groups, entry.bytes, entry.length);
  }
  free(entry.bytes);
  if (!entry.failed && !groups->failed) return 1;
  groups->length = before;
  return 0;
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
  df_grow_text(&recorder->events, head);
  recorder->head = recorder->events.length;
  context->recorder = recorder;
  if (recorder->events.failed) {
    df_recorder_close(context);
    return df_fail(dfcclOutOfMemory, "no memory for the recorder");
  }
  /* A submission with a time wakes the service thread, which writes the file. */
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing + 1);
  return dfcclSuccess;
}

static void end_early(df_recorder *recorder, const dfcclContext_t context, const char *why) {
  recorder->ended = 1;
  df_log(DF_LOG_WARN, "rank %u: the recording in %s ends here: %s", context->rank,
         context->settings.record, why);
}

static void add_event(df_recorder *recorder, const char *text) {
  df_grow_text(&recorder->events, recorder->any_event ? ",\n" : "\n");
  df_grow_text(&recorder->events, text);
}

/* Keeps a whole event, or no part of it. */
static void conclude_event(dfcclContext_t context, size_t before) {
  df_recorder *recorder = context->recorder;
  if (recorder->events.failed) {
    recorder->events.length = before;
    end_early(recorder, context, "no memory");
  } else {
    recorder->any_event = 1;
  }
}

/* The content of a run, for replays: `count` is that of the registration, or the largest piece of a
 * vector collective. */
static void append_content(df_growing_text *events, const df_coll *coll) {
  char text[128];
  uint64_t count = coll->count;
  for (uint32_t i = 0; coll->pairs && i < coll->n; i++)
    count = DF_MAX(count, DF_MAX(coll->pairs[i].sends, coll->pairs[i].receives));
  snprintf(text, sizeof text, ",\"op\":\"%s\",\"type\":\"%s\",\"count\":%" PRIu64,
           df_operation_word(coll->operation), df_type_name(coll->type), count);
  df_grow_text(events, text);
  if (!df_operation_has_root(coll->operation) || coll->operation == DF_OP_SEND_RECV) return;
  snprintf(text, sizeof text, ",\"root\":%u", coll->root);
  df_grow_text(events, text);
}

void df_record_run(dfcclContext_t context, const df_coll *coll, uint64_t run) {
  df_recorder *recorder = context->recorder;
  df_growing_text *events = &recorder->events;
  size_t before = events->length;
  char text[64];
  if (recorder->ended) return;
  if ((recorder->n_ids * 2 >= recorder->capacity && !grow_ids(recorder)) ||
      (run == 0 && !note_group(recorder, context, coll))) {
    end_early(recorder, context, "no memory");
    return;
  }
  df_recorded_id *known = find_id(recorder, coll->id);
  add_event(recorder, "{\"coll\":\"");
  df_grow_escaped(events, coll->name);
  snprintf(text, sizeof text, "%" PRIu64, coll->id);
  int named = strcmp(text, coll->name) != 0; /* two collectives may share a name, but never an id */
  snprintf(text, sizeof text, named ? "[%" PRIu64 "]#%" PRIu64 : "%.0" PRIu64 "#%" PRIu64,
           named ? coll->id : 0, known->runs++);
  df_grow_text(events, text);
  df_grow_text(events, "\",\"group\":\"");
  append_group_name(events, context, coll);
  df_grow_text(events, "\"");
  append_content(events, coll);
  df_grow_text(events, "}");
  conclude_event(context, before);
  if (events->length > 1 << 20) df_record_flush(context);
}

void df_record_sync(dfcclContext_t context) {
  df_recorder *recorder = context->recorder;
  size_t before = recorder->events.length;
  if (recorder->ended) return;
  add_event(recorder, "{\"sync\":true}");
  conclude_event(context, before);
}

/* The marks have one length, so one replaces another in place, even on a full disk. */
#define RECORDED "},\"recorded\":"
static const char so_far[] = RECORDED "\"so far\"   }\n", whole[] = RECORDED "\"whole\"    }\n",
                  cut_short[] = RECORDED "\"cut short\"}\n";
DF_STATIC_ASSERT(sizeof so_far == sizeof whole && sizeof so_far == sizeof cut_short,
                 "a mark takes another one's place");

/* Writes the events, and the end that makes the file complete. NULL: success; else the reason of
 * the failure. */
static const char *write_end(const df_recorder *recorder, size_t events, size_t groups,
                             const char *mark) {
  static const char between[] = "\n]},\"groups\":{";
  const struct iovec parts[] = {{recorder->events.bytes, events},
                                {(void *)between, sizeof between - 1},
                                {recorder->groups.bytes, groups},
                                {(void *)mark, sizeof so_far - 1}};
  ssize_t wanted = 0, written;
  for (size_t i = 0; i < DF_COUNT_OF(parts); i++) wanted += (ssize_t)parts[i].iov_len;
  do written = pwritev(recorder->fd, parts, DF_COUNT_OF(parts), recorder->end);
  while (written < 0 && errno == EINTR);
  if (written >= 0 && written < wanted) return "its file cannot grow";
  return written == wanted && ftruncate(recorder->fd, recorder->end + wanted) == 0
             ? NULL
             : strerror(errno);
}

static void write_recording(dfcclContext_t context, const char *mark) {
  df_recorder *recorder = context->recorder;
  df_growing_text *events = &recorder->events;
  df_quiet_signals quiet;
  df_quiet_signals_begin(&quiet);
  const char *why = write_end(recorder, events->length, recorder->groups.length, mark);
  if (why == NULL) {
    recorder->end += (off_t)events->length;
    recorder->groups_in_file = recorder->groups.length;
  } else {
    /* A full disk costs the end of the recording, but never the job: the place of the former end is
     * reused. */
    size_t head = recorder->end == 0 ? recorder->head : 0;
    if (write_end(recorder, head, recorder->groups_in_file, cut_short) != NULL &&
        ftruncate(recorder->fd, 0) != 0)
      df_log(DF_LOG_WARN, "rank %u: the recording is not complete JSON", context->rank);
    recorder->sealed = 1;
    end_early(recorder, context, why);
  }
  events->length = 0;
  df_quiet_signals_end(&quiet);
}

int df_record_is_behind(dfcclContext_t context) {
  return context->recorder != NULL && context->recorder->events.length > 0;
}

void df_record_flush(dfcclContext_t context) {
  df_recorder *recorder = context->recorder;
  if (recorder->events.length > 0) write_recording(context, recorder->ended ? cut_short : so_far);
}

void df_recorder_close(dfcclContext_t context) {
  df_recorder *recorder = context->recorder;
  if (recorder == NULL) return;
  if (recorder->head > 0 && !recorder->sealed)
    write_recording(context, recorder->ended ? cut_short : whole);
  close(recorder->fd);
  free(recorder->events.bytes);
  free(recorder->groups.bytes);
  free(recorder->ids);
  free(recorder->taken);
  free(recorder);
  context->recorder = NULL;
}

void df_recorder_close_in_child(dfcclContext_t context) { close(context->recorder->fd); }
