/*
 * The turns of the daemon for Perfetto. Each block of a rank has a track above the tracks of the
 * runs, with its turns in sequence, and a track with the length of its task queue. The turns of
 * block 0 are also under the bars of their runs; those of other blocks would cross them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/perfetto.h"

enum { ORDER_OF_BLOCKS = -4096 };

static double us(const df_perfetto *w, int64_t ns) { return (double)(ns - w->zero) / 1e3; }

static uint64_t thread_of_block(const df_perfetto *w, uint32_t block) {
  return 1 + (uint64_t)w->lines->n * MOST_LANES + block;
}

static const char *collective_of(const df_perfetto *w, const df_traced_turn *turn) {
  if (turn->of == DF_NO_COLLECTIVE) return "(deregistered)";
  return w->job->rows[w->job->collectives[turn->of].row].first->name;
}

/* "preempted: no message from rank 3" */
static void describe(const df_traced_turn *turn, char *text, size_t bytes) {
  static const char *const ends[DF_TURN_KINDS] = {
      [DF_TURN_DONE] = "done", [DF_TURN_PREEMPTED] = "preempted", [DF_TURN_KEPT] = "kept"};
  if (turn->kind == DF_TURN_DONE || turn->polls == 0)
    snprintf(text, bytes, "%s", ends[turn->kind]);
  else
    snprintf(text, bytes, "%s: no %s rank %u", ends[turn->kind],
             turn->sends ? "free slot of" : "message from", turn->peer);
}

static void write_turn(df_perfetto *w, const df_traced_turn *turn, uint64_t thread,
                       bool has_collective) {
  char end[64], name[400];
  describe(turn, end, sizeof end);
  snprintf(name, sizeof name, "%.300s%s%s", has_collective ? collective_of(w, turn) : "",
           has_collective ? ", " : "", end);
  df_perfetto_next(w);
  fputs("{\"name\":", w->file);
  df_perfetto_string(w, name);
  fprintf(w->file,
          ",\"cat\":\"turn\",\"ph\":\"X\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"block\":%u,\"task_queue\":%u,"
          "\"pending_runs\":%u,\"steps\":%" PRIu64,
          turn->rank, thread, us(w, turn->from), (double)(turn->to - turn->from) / 1e3, turn->block,
          turn->queue, turn->pending, turn->steps);
  if (turn->polls > 0)
    fprintf(w->file,
            ",\"polls\":%" PRIu64 ",\"waited_us\":%.3f,\"longest_wait_us\":%.3f,"
            "\"longest_wait_for_rank\":%u,\"longest_wait_for\":\"%s\"",
            turn->polls, (double)turn->waited / 1e3, (double)turn->longest / 1e3, turn->peer,
            turn->sends ? "a free slot" : "a message");
  fputc('}', w->file);
  if (turn->kind == DF_TURN_PREEMPTED) fputs(",\"cname\":\"bad\"", w->file);
  fputc('}', w->file);
}

static void write_mark(df_perfetto *w, const df_traced_turn *turn) {
  char name[400];
  const char *collective = turn->of == DF_NO_COLLECTIVE ? "" : collective_of(w, turn);
  static const char *const words[DF_TURN_KINDS] = {[DF_TURN_TAKEN] = "taken: ",
                                                   [DF_TURN_LOADED] = "context loaded: ",
                                                   [DF_TURN_SAVED] = "context saved: ",
                                                   [DF_TURN_STARTED] = "the daemon starts",
                                                   [DF_TURN_QUIT] = "the daemon quits"};
  if (turn->kind == DF_TURN_LOST)
    snprintf(name, sizeof name, "%" PRIu64 " records are lost", turn->polls);
  else
    snprintf(name, sizeof name, "%s%.300s", words[turn->kind], collective);
  df_perfetto_next(w);
  fputs("{\"name\":", w->file);
  df_perfetto_string(w, name);
  fprintf(w->file,
          ",\"cat\":\"daemon\",\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%" PRIu64
          ",\"ts\":%.3f}",
          turn->rank, thread_of_block(w, turn->block), us(w, turn->to));
}

static void write_queue(df_perfetto *w, const df_traced_turn *turn) {
  df_perfetto_next(w);
  fprintf(w->file,
          "{\"name\":\"task queue of block %u\",\"ph\":\"C\",\"pid\":%u,\"ts\":%.3f,"
          "\"args\":{\"collectives\":%u}}",
          turn->block, turn->rank, us(w, turn->to), turn->queue);
}

static bool has_queue(const df_traced_turn *turn) {
  return turn->kind != DF_TURN_LOADED && turn->kind != DF_TURN_SAVED && turn->kind != DF_TURN_LOST;
}

/* The runs of each collective of a rank, in order; `next` of a collective is its first run that has
 * not ended before the turns that were written last. */
typedef struct runs {
  size_t *spans, *first, *next, *end;
} runs;

static const df_job_trace *being_sorted;

static int by_collective(const void *a, const void *b) {
  const df_span *left = &being_sorted->spans[*(const size_t *)a],
                *right = &being_sorted->spans[*(const size_t *)b];
  if (left->of != right->of) return left->of < right->of ? -1 : 1;
  return left->run < right->run ? -1 : left->run > right->run;
}

static bool find_runs(const df_job_trace *job, runs *r) {
  size_t n = 0;
  *r = (runs){.spans = calloc(job->n_spans + 1, sizeof *r->spans),
              .first = calloc(job->n_collectives + 1, sizeof *r->first),
              .next = calloc(job->n_collectives + 1, sizeof *r->next),
              .end = calloc(job->n_collectives + 1, sizeof *r->end)};
  if (!r->spans || !r->first || !r->next || !r->end) return false;
  for (size_t i = 0; i < job->n_spans; i++)
    if (job->spans[i].kind == DF_SPAN_RUN) r->spans[n++] = i;
  being_sorted = job;
  if (n > 0) qsort(r->spans, n, sizeof *r->spans, by_collective);
  for (size_t i = 0; i < n; i++) {
    const size_t of = job->spans[r->spans[i]].of;
    if (i == 0 || job->spans[r->spans[i - 1]].of != of) r->first[of] = r->next[of] = i;
    r->end[of] = i + 1;
  }
  return true;
}

static void write_under_run(df_perfetto *w, runs *r, const df_traced_turn *turn) {
  const df_job_trace *job = w->job;
  size_t *next = &r->next[turn->of];
  while (*next < r->end[turn->of] && job->spans[r->spans[*next]].to < turn->to) ++*next;
  if (*next == r->end[turn->of]) return;
  const df_span *run = &job->spans[r->spans[*next]];
  if (run->from <= turn->from)
    write_turn(w, turn, df_perfetto_lane(w, run, w->lanes[r->spans[*next]]), false);
}

static void write_block(df_perfetto *w, runs *r, const df_traced_turn *turns, size_t n) {
  char name[64];
  uint32_t queue = UINT32_MAX;
  snprintf(name, sizeof name, "daemon, block %u", turns[0].block);
  df_perfetto_thread(w, turns[0].rank, thread_of_block(w, turns[0].block),
                     ORDER_OF_BLOCKS + (int64_t)turns[0].block, name, "");
  for (size_t i = 0; i < n; i++) {
    const df_traced_turn *turn = &turns[i];
    if (df_is_turn(turn))
      write_turn(w, turn, thread_of_block(w, turn->block), true);
    else
      write_mark(w, turn);
    if (df_is_turn(turn) && turn->block == 0 && turn->of != DF_NO_COLLECTIVE)
      write_under_run(w, r, turn);
    if (!has_queue(turn) || turn->queue == queue) continue;
    queue = turn->queue;
    write_queue(w, turn);
  }
}

void df_perfetto_turns(df_perfetto *w) {
  const df_job_trace *job = w->job;
  runs r;
  const bool has_memory = find_runs(job, &r);
  for (size_t i = 0; has_memory && i < job->n_turns;) {
    size_t n = 1;
    while (i + n < job->n_turns && job->turns[i + n].rank == job->turns[i].rank &&
           job->turns[i + n].block == job->turns[i].block)
      n++;
    write_block(w, &r, &job->turns[i], n);
    i += n;
  }
  w->has_failed |= !has_memory;
  free(r.spans);
  free(r.first);
  free(r.next);
  free(r.end);
}
