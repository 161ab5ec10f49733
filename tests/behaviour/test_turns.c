/*
 * Promise: with DFCCL_TRACE_TURNS=1 the trace of a rank has every turn of every block of its
 * daemon. The lines are as many as dfcclGetStats counts: preemptions, quits, starts, runs that were
 * taken, contexts that were saved and loaded. Records that the ring has lost are counted in the
 * trace. Turns of collectives that share an index one after the other keep their names. A full disk
 * ends the trace, never the job. Without the variable the trace has no turns. dfcclGetEvents
 * returns the same records, without DFCCL_TRACE, too: at most the latest 8,192 of a block, in
 * order.
 */
#include "support/buffers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANKS = 3, COLLECTIVES = 6 };

static char directory[64], *text;

static void begin(const char *turns) {
  snprintf(directory, sizeof directory, "/tmp/dfccl-turns-XXXXXX");
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  setenv("DFCCL_TRACE", directory, 1);
  setenv("DFCCL_TRACE_TURNS", turns, 1);
}

/* Reads the rank's trace into text, and removes the file. */
static void read_trace(int rank) {
  char path[128];
  snprintf(path, sizeof path, "%s/rank-%d.trace", directory, rank);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const off_t length = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
  CHECK(length >= 0, "%s cannot be read", path);
  free(text);
  text = malloc((size_t)length + 1);
  CHECK(text != NULL && pread(fd, text, (size_t)length, 0) == length, "reading %s", path);
  text[length] = '\0';
  close(fd);
  unlink(path);
}

static void end(void) {
  CHECK(rmdir(directory) == 0, "other files are in %s", directory);
  unsetenv("DFCCL_TRACE");
  unsetenv("DFCCL_TRACE_TURNS");
}

static uint64_t count(const char *what) {
  uint64_t n = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) n++;
  return n;
}

/* The sum of the numbers behind the words. */
static uint64_t sum(const char *what) {
  uint64_t total = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL;)
    total += strtoull(at + strlen(what), (char **)&at, 10);
  return total;
}

static void expect(const char *words, uint64_t counted, const char *what) {
  CHECK(count(words) == counted, "the trace has %llu lines with %s, dfcclGetStats counts %llu %s",
        (unsigned long long)count(words), words, (unsigned long long)counted, what);
}

/* The daemon has left before the counters are read, and does not start again. */
static void compare(int rank, const dfcclStats_t *s) {
  read_trace(rank);
  expect("\"end\":\"preempted\"", s->preemptions, "preemptions");
  expect("{\"daemon\":\"quit\"", s->voluntaryQuits, "quits");
  expect("{\"daemon\":\"start\"", s->daemonStarts, "starts");
  expect("{\"taken\":", s->sqesFetched, "runs that were fetched");
  expect("{\"load\":", s->contextLoads, "contexts that were loaded");
  expect("{\"save\":", s->contextSaves, "contexts that were saved");
  expect("\"end\":\"done\"", s->sqesFetched, "runs that were fetched");
  expect("{\"lost_turns\":", 0, "lost records");
  expect("{\"end\":\"whole\"}\n", 1, "end");
}

typedef struct {
  dfcclContext_t ctxs[RANKS];
  df_collective colls[COLLECTIVES];
  dfcclStats_t stats[RANKS];
  uint64_t rounds;
} disorder;

static void be_rank(int rank, void *arg) {
  disorder *d = arg;
  df_random random = {(uint64_t)rank + 1};
  df_take_part_in_disorder(d->ctxs[rank], d->colls, COLLECTIVES, rank, d->rounds, &random, NULL);
  OK(dfcclDeviceSynchronize(d->ctxs[rank]));
  d->stats[rank] = df_stats(d->ctxs[rank]);
}

static void play(int max_blocks, size_t elements, uint64_t rounds) {
  static disorder d;
  dfcclConfig_t config = df_config();
  config.maxBlocks = max_blocks;
  d = (disorder){.rounds = rounds};
  begin("1");
  df_make_contexts(d.ctxs, RANKS, &config);
  for (int c = 0; c < COLLECTIVES; c++) {
    d.colls[c] = df_simple(elements + (size_t)c, RANKS);
    d.colls[c].seed = (uint64_t)c;
    df_register_all(d.ctxs, (dfcclCollId_t)c, &d.colls[c]);
  }
  df_in_threads(RANKS, be_rank, &d);
  df_free_contexts(d.ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) compare(r, &d.stats[r]);
  end();
}

DF_TEST(turns, as_many_as_the_counters, 60) { play(1, 2000, 40); }

DF_TEST(turns, several_blocks_and_long_runs, 60) { play(4, 200000, 4); }

/* Contexts share one slot, so that each turn saves and loads one. */
DF_TEST(turns, one_context_slot, 60) {
  setenv("DFCCL_CONTEXT_SLOTS", "1", 1);
  play(2, 3000, 20);
  unsetenv("DFCCL_CONTEXT_SLOTS");
}

DF_TEST(turns, forced_preemption, 60) {
  df_tune("preempt_every", "1");
  play(1, 500, 20);
  df_tune("preempt_every", NULL);
}

/* Rank 0 polls two collectives that its peer submits late, each for one poll and in turn, and no
 * run ends meanwhile: its ring comes round before it is read. */
DF_TEST(turns, lost_records_are_counted, 60) {
  dfcclContext_t ctxs[2];
  float data[2][4] = {{1}};
  begin("1");
  df_tune("spin_front", "1");
  df_tune("spin_min", "1");
  df_tune("quit_polls", "100000000");
  df_make_contexts(ctxs, 2, NULL);
  for (int r = 0; r < 2; r++)
    for (dfcclCollId_t id = 0; id < 2; id++)
      OK(dfcclRegisterAllReduce(ctxs[r], id, 4, dfcclFloat32, dfcclSum, NULL));
  for (dfcclCollId_t id = 0; id < 2; id++) /* makes the links */
    for (int r = 0; r < 2; r++) OK(dfcclRunAllReduce(ctxs[r], id, data[r], data[r], NULL, NULL));
  for (int r = 0; r < 2; r++) OK(dfcclWaitAll(ctxs[r]));
  for (dfcclCollId_t id = 0; id < 2; id++)
    OK(dfcclRunAllReduce(ctxs[0], id, data[0], data[0], NULL, NULL));
  EVENTUALLY(df_stats(ctxs[0]).preemptions > 40000);
  for (dfcclCollId_t id = 0; id < 2; id++)
    OK(dfcclRunAllReduce(ctxs[1], id, data[1], data[1], NULL, NULL));
  for (int r = 0; r < 2; r++) OK(dfcclWaitAll(ctxs[r]));
  for (int r = 0; r < 2; r++) OK(dfcclDeviceSynchronize(ctxs[r]));
  const dfcclStats_t stats = df_stats(ctxs[0]);
  df_free_contexts(ctxs, 2);
  read_trace(1);
  read_trace(0);
  const uint64_t lost = sum("{\"lost_turns\":"), traced = count("\"end\":\"preempted\"");
  CHECK(count("{\"lost_turns\":") > 0 && traced > 0, "%llu lost, %llu traced",
        (unsigned long long)lost, (unsigned long long)traced);
  /* Records of other kinds may be among the lost ones. */
  CHECK(traced + lost >= stats.preemptions && traced + lost <= stats.preemptions + 100,
        "%llu preemptions, %llu traced, %llu records lost", (unsigned long long)stats.preemptions,
        (unsigned long long)traced, (unsigned long long)lost);
  end();
  for (int i = 0; i < 3; i++)
    df_tune((const char *[]){"spin_front", "spin_min", "quit_polls"}[i], NULL);
}

DF_TEST(turns, collectives_of_one_index, 60) {
  enum { REGISTRATIONS = 5, RUNS = 7 };
  dfcclContext_t ctxs[RANKS];
  begin("1");
  df_make_contexts(ctxs, RANKS, NULL);
  for (int i = 0; i < REGISTRATIONS; i++) {
    df_collective coll = df_simple(100, RANKS);
    df_register_all(ctxs, 1, &coll);
    for (uint64_t run = 0; run < RUNS; run++) df_exchange(ctxs, 1, &coll, run, 0);
    df_deregister_all(ctxs, 1, &coll);
  }
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    read_trace(r);
    for (int i = 1; i <= REGISTRATIONS; i++) {
      char words[40];
      snprintf(words, sizeof words, "{\"taken\":%d,", i);
      CHECK(count(words) == RUNS, "rank %d: %llu runs of registration %d", r,
            (unsigned long long)count(words), i);
    }
    CHECK(count("{\"turn\":0,") == 0, "a turn of no collective: %s", text);
  }
  end();
}

/* ---- dfcclGetEvents */

static dfcclEvent_t *get_events(dfcclContext_t ctx, size_t *n) {
  *n = 0;
  OK(dfcclGetEvents(ctx, NULL, n));
  dfcclEvent_t *events = calloc(*n + 1, sizeof *events);
  const size_t room = *n;
  CHECK(events != NULL, "no memory for %zu events", room);
  OK(dfcclGetEvents(ctx, events, n));
  CHECK(*n == room, "%zu events, then %zu", room, *n);
  return events;
}

static void compare_events(int rank, dfcclContext_t ctx, const dfcclStats_t *s) {
  size_t n;
  uint64_t counts[dfcclEventKept + 1] = {0};
  dfcclEvent_t *events = get_events(ctx, &n);
  for (size_t i = 0; i < n; i++) {
    const dfcclEvent_t *e = &events[i], *before = i ? &events[i - 1] : NULL;
    const int has_none = e->kind == dfcclEventLaunched || e->kind == dfcclEventLeft;
    CHECK((unsigned)e->kind <= dfcclEventKept && e->block < s->blocks, "kind %d of block %u",
          (int)e->kind, e->block);
    CHECK(has_none ? e->collective == UINT64_MAX : e->collective < COLLECTIVES,
          "rank %d, event %zu: kind %d of collective %llu", rank, i, (int)e->kind,
          (unsigned long long)e->collective);
    CHECK(before == NULL || e->block > before->block ||
              (e->block == before->block && e->moment >= before->moment),
          "rank %d: event %zu precedes the one before", rank, i);
    CHECK(e->kind != dfcclEventFetched || (e->queueLength > 0 && e->pendingRuns > 0),
          "a run was fetched, and the queue has %u collectives, %u runs", e->queueLength,
          e->pendingRuns);
    counts[e->kind]++;
  }
  free(events);
  CHECK(
      counts[dfcclEventFetched] == s->sqesFetched && counts[dfcclEventDone] == s->sqesFetched &&
          counts[dfcclEventBegun] == s->sqesFetched &&
          counts[dfcclEventLeft] == s->voluntaryQuits &&
          counts[dfcclEventLaunched] == s->daemonStarts &&
          counts[dfcclEventLoaded] == s->contextLoads &&
          counts[dfcclEventSaved] == s->contextSaves &&
          counts[dfcclEventSetAside] == s->preemptions,
      "rank %d: %llu fetched, %llu begun, %llu done, %llu left, %llu set aside; dfcclGetStats has "
      "%llu fetched, %llu quits, %llu preemptions",
      rank, (unsigned long long)counts[dfcclEventFetched],
      (unsigned long long)counts[dfcclEventBegun], (unsigned long long)counts[dfcclEventDone],
      (unsigned long long)counts[dfcclEventLeft], (unsigned long long)counts[dfcclEventSetAside],
      (unsigned long long)s->sqesFetched, (unsigned long long)s->voluntaryQuits,
      (unsigned long long)s->preemptions);
}

/* Ranks take turns, so that few turns are preempted, and the rings have all events. */
DF_TEST(turns, events_agree_with_the_counters, 60) {
  dfcclContext_t ctxs[RANKS];
  setenv("DFCCL_TRACE_TURNS", "1", 1);
  df_make_contexts(ctxs, RANKS, NULL);
  for (dfcclCollId_t c = 0; c < COLLECTIVES; c++) {
    df_collective coll = df_simple(700 + (size_t)c, RANKS);
    df_register_all(ctxs, c, &coll);
    for (uint64_t run = 0; run < 9; run++) df_exchange(ctxs, c, &coll, run, 0);
  }
  for (int r = 0; r < RANKS; r++) OK(dfcclDeviceSynchronize(ctxs[r]));
  for (int r = 0; r < RANKS; r++) {
    const dfcclStats_t stats = df_stats(ctxs[r]);
    if (stats.preemptions < 4000) compare_events(r, ctxs[r], &stats);
  }
  df_free_contexts(ctxs, RANKS);
  unsetenv("DFCCL_TRACE_TURNS");
}

DF_TEST(turns, the_latest_events_are_kept, 60) {
  enum { RUNS = 5000, MOST = 8192 };
  dfcclContext_t ctxs[RANKS];
  dfcclEvent_t few[3];
  size_t n, room = 3;
  setenv("DFCCL_TRACE_TURNS", "1", 1);
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(40, RANKS);
  df_register_all(ctxs, 1, &coll);
  for (uint64_t run = 0; run < RUNS; run++) df_exchange(ctxs, 1, &coll, run, 0);
  const uint64_t last = df_now_ns();
  for (int r = 0; r < RANKS; r++) OK(dfcclDeviceSynchronize(ctxs[r]));
  dfcclEvent_t *events = get_events(ctxs[0], &n);
  CHECK(n <= MOST && n >= MOST - 1, "%zu events", n);
  CHECK(events[n - 1].kind == dfcclEventLeft && events[n - 1].moment >= last,
        "the last one is kind %d", (int)events[n - 1].kind);
  OK(dfcclGetEvents(ctxs[0], few, &room));
  CHECK(room == n && memcmp(few, events, sizeof few) == 0, "%zu events exist, not %zu", n, room);
  free(events);
  df_deregister_all(ctxs, 1, &coll);
  events = get_events(ctxs[0], &n);
  for (size_t i = 0; i < n; i++)
    CHECK(events[i].collective == UINT64_MAX, "an event names a deregistered collective");
  free(events);
  df_free_contexts(ctxs, RANKS);
  unsetenv("DFCCL_TRACE_TURNS");
}

DF_TEST(turns, none_without_the_variable, 30) {
  dfcclContext_t ctxs[RANKS];
  begin("0");
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(100, RANKS);
  df_once(ctxs, 1, &coll, 0);
  size_t events = 0;
  RESULT(dfcclGetEvents(ctxs[0], NULL, &events), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "DFCCL_TRACE_TURNS=1"), "%s",
        dfcclGetLastError(ctxs[0]));
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    read_trace(r);
    CHECK(count("{\"run\":") == 1 && count("{\"turn\":") == 0 && count("{\"daemon\":") == 0, "%s",
          text);
  }
  end();
}

DF_TEST(turns, a_full_disk_never_ends_the_job, 60) {
  struct rlimit before, little;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0, "getrlimit");
  for (rlim_t room = 0; room < 4000; room += 999) {
    dfcclContext_t ctxs[RANKS];
    begin("1");
    df_make_contexts(ctxs, RANKS, NULL);
    df_collective coll = df_simple(40, RANKS);
    df_register_all(ctxs, 1, &coll);
    df_exchange(ctxs, 1, &coll, 0, 0); /* before the limit, because shared memory is a file, too */
    little = (struct rlimit){room, before.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0, "setrlimit");
    for (uint64_t run = 1; run < 2000; run++) df_exchange(ctxs, 1, &coll, run, 0);
    df_free_contexts(ctxs, RANKS);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0, "setrlimit");
    for (int r = 0; r < RANKS; r++) {
      read_trace(r);
      CHECK(count("{\"end\":\"whole\"}") == 0, "%zu bytes, and no end", strlen(text));
    }
    end();
  }
}
