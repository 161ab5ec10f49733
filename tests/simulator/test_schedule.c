/*
 * Promises of traces/schedule.h and wait_graph.h:
 *   - A schedule's verdict follows the definition in both models. If some members never run a
 *     collective, the others wait.
 *   - The circle is a shortest one: it is compared with all circles on random standstills.
 *   - Files are merged. Every error gives one sentence with the key's path.
 */
#include <stdlib.h>
#include <string.h>

#include "schedule.h"
#include "sim_support.h"
#include "support/harness.h"
#include "wait_graph.h"

static bool deadlocks(const char *text, bool single, df_circle *circle) {
  df_schedule schedule;
  df_dense dense;
  OK(df_schedule_parse(&schedule, "text", text, strlen(text), false));
  schedule.sequences.single_queue = single;
  OK(df_dense_create(&dense, schedule.sequences.gpu_count, schedule.sequences.coll_count));
  bool deadlock = df_dense_deadlocks(&dense, &schedule.sequences);
  OK(df_wait_graph_circle(&schedule.sequences, &dense, circle));
  df_dense_destroy(&dense);
  df_schedule_destroy(&schedule);
  return deadlock;
}

#define OPPOSITE(between)                                                                          \
  "{\"groups\":{\"g\":[0,1],\"h\":[1,0]},\"gpus\":{"                                               \
  "\"0\":[{\"coll\":\"a\",\"group\":\"g\"}," between "{\"coll\":\"b\",\"group\":\"h\"}],"          \
  "\"1\":[{\"coll\":\"b\",\"group\":\"h\"}," between "{\"coll\":\"a\",\"group\":\"g\"}]}}"

DF_TEST(schedule, opposite_orders, 10) {
  df_circle circle;
  CHECK(deadlocks(OPPOSITE(""), true, &circle), "a single queue must deadlock");
  CHECK(circle.count == 2 && circle.wait[0].gpu == 0 && circle.wait[0].held_by == 1,
        "%u in the circle", circle.count);
  free(circle.wait);
  CHECK(!deadlocks(OPPOSITE(""), false, &circle) && circle.count == 0, "without syncs it must not");
  free(circle.wait);
  CHECK(deadlocks(OPPOSITE("{\"sync\":true},"), false, &circle) && circle.count == 2,
        "with syncs it must");
  free(circle.wait);
}

DF_TEST(schedule, a_sync_with_nothing_executing_has_no_effect, 10) {
  df_circle circle;
  CHECK(!deadlocks("{\"groups\":{\"g\":[0,1]},\"gpus\":{"
                   "\"0\":[{\"sync\":true},{\"sync\":true},{\"coll\":\"a\",\"group\":\"g\"},{"
                   "\"sync\":true}],"
                   "\"1\":[{\"coll\":\"a\",\"group\":\"g\"}]}}",
                   false, &circle),
        "it must complete");
  free(circle.wait);
}

DF_TEST(schedule, a_member_that_never_runs, 10) {
  df_circle circle;
  const char *text =
      "{\"groups\":{\"g\":[0,1,5]},\"gpus\":{\"0\":[{\"coll\":\"a\",\"group\":\"g\"}],"
      "\"1\":[{\"coll\":\"a\",\"group\":\"g\"}]}}";
  CHECK(deadlocks(text, true, &circle) && circle.count == 0, "no circle, but nobody finishes");
  free(circle.wait);
}

/* ---- the shortest circle */

enum { GPUS = 7, COLLS = 9 };

/* From the definition: waits[g] has bit h if GPU g waits for a collective that GPU h delays. */
static void find_waits(const df_sequences *sequences, const df_dense *dense, unsigned *waits) {
  bool begun[GPUS][COLLS] = {{false}};
  for (uint32_t gpu = 0; gpu < GPUS; gpu++)
    for (uint64_t i = sequences->first[gpu]; i < dense->next[gpu]; i++)
      begun[gpu][sequences->event[i]] = true;
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
    waits[gpu] = 0;
    for (uint32_t c = 0; c < COLLS; c++)
      for (uint32_t i = sequences->member_first[c];
           begun[gpu][c] && i < sequences->member_first[c + 1]; i++)
        if (!begun[sequences->member[i]][c]) waits[gpu] |= 1u << sequences->member[i];
  }
}

static unsigned shortest_circle(const unsigned *waits) {
  unsigned best = 0;
  for (unsigned start = 0; start < GPUS; start++) {
    unsigned reached = 1u << start;
    for (unsigned length = 1; length <= GPUS; length++) {
      unsigned next = 0;
      for (unsigned gpu = 0; gpu < GPUS; gpu++)
        if (reached & 1u << gpu) next |= waits[gpu];
      if (next & 1u << start && (best == 0 || length < best)) best = length;
      reached = next;
    }
  }
  return best;
}

/* Every collective is a group of its own; every GPU runs its collectives in random order. */
static void draw_schedule(uint64_t *state, uint32_t *member_first, uint32_t *member,
                          uint64_t *first, uint32_t *event) {
  bool runs[COLLS][GPUS];
  member_first[0] = 0;
  for (uint32_t c = 0; c < COLLS; c++) {
    uint32_t count = member_first[c];
    for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
      runs[c][gpu] = sim_random(state) % 3 == 0;
      if (runs[c][gpu]) member[count++] = gpu;
    }
    member_first[c + 1] = count;
  }
  uint64_t used = 0;
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
    first[gpu] = used;
    for (uint32_t c = 0; c < COLLS; c++)
      if (runs[c][gpu]) event[used++] = c;
    for (uint64_t i = used; i > first[gpu] + 1; i--) {
      uint64_t other = first[gpu] + sim_random(state) % (i - first[gpu]);
      uint32_t kept = event[i - 1];
      event[i - 1] = event[other];
      event[other] = kept;
    }
  }
  first[GPUS] = used;
}

DF_TEST(wait_graph, finds_a_shortest_circle, 30) {
  static const uint32_t group_of[COLLS] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t state = 3, first[GPUS + 1];
  uint32_t member_first[COLLS + 1], member[COLLS * GPUS], event[COLLS * GPUS];
  unsigned seen[GPUS + 1] = {0};
  df_dense dense;
  OK(df_dense_create(&dense, GPUS, COLLS));
  for (int repeat = 0; repeat < 20000; repeat++) {
    draw_schedule(&state, member_first, member, first, event);
    df_sequences sequences = {.gpu_count = GPUS,
                              .group_count = COLLS,
                              .coll_count = COLLS,
                              .single_queue = true,
                              .member_first = member_first,
                              .member = member,
                              .group_of = group_of,
                              .first = first,
                              .event = event};
    bool deadlock = df_dense_deadlocks(&dense, &sequences);
    unsigned waits[GPUS];
    df_circle circle;
    find_waits(&sequences, &dense, waits);
    OK(df_wait_graph_circle(&sequences, &dense, &circle));
    unsigned expected = shortest_circle(waits);
    CHECK(circle.count == expected && circle.shortest && deadlock == (expected > 0),
          "repeat %d: %u in the circle, not %u", repeat, circle.count, expected);
    for (uint32_t i = 0; i < circle.count; i++) {
      const df_wait *wait = &circle.wait[i], *next = &circle.wait[(i + 1) % circle.count];
      CHECK(wait->held_by == next->gpu && waits[wait->gpu] & 1u << wait->held_by,
            "repeat %d: GPU %u does not wait for GPU %u", repeat, wait->gpu, wait->held_by);
    }
    seen[circle.count]++;
    free(circle.wait);
  }
  CHECK(seen[0] > 100 && seen[2] > 100 && seen[3] > 100 && seen[4] > 10, "not telling: %u %u %u %u",
        seen[0], seen[2], seen[3], seen[4]);
  df_dense_destroy(&dense);
}

/* ---- errors */

DF_TEST(schedule, errors_name_the_key, 30) {
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {"", "text: line 1, column 1: the file is empty"},
      {"[]", "text: expected an object, not a list"},
      {"{\"groups\":{}}", "text: gpus is missing"},
      {"{\"gpus\":{}}", "text: groups is missing"},
      {"{\"groups\":{},\"gpus\":{},\"x\":1}",
       "text: x: unknown key; expected groups, gpus and perhaps recorded"},
      {"{\"groups\":{},\"gpus\":{},\"gpus\":{}}", "text: gpus appears twice"},
      {"{\"groups\":{\"g\":[0],\"g\":[0]},\"gpus\":{}}", "text: groups.g appears twice"},
      {"{\"groups\":[],\"gpus\":{}}", "text: groups: expected an object, not a list"},
      {"{\"groups\":{\"g\":[]},\"gpus\":{}}",
       "text: groups.g: expected a list of GPUs, not an empty one"},
      {"{\"groups\":{\"g\":[0,1.5]},\"gpus\":{}}",
       "text: groups.g[1]: expected a whole number from 0 to 1048575, not 1.5"},
      {"{\"groups\":{\"g\":[1e300]},\"gpus\":{}}",
       "text: groups.g[0]: expected a whole number from 0 to 1048575, not 1e+300"},
      {"{\"groups\":{\"g\":[3,3]},\"gpus\":{}}", "text: groups.g: GPU 3 is in the group twice"},
      {"{\"groups\":{},\"gpus\":{\"01\":[]}}",
       "text: gpus.01: a GPU is a whole number from 0 to 1048575"},
      {"{\"groups\":{},\"gpus\":{\"-1\":[]}}",
       "text: gpus.-1: a GPU is a whole number from 0 to 1048575"},
      {"{\"groups\":{},\"gpus\":{\"0\":{}}}",
       "text: gpus.0: expected a list of events, not an object"},
      {"{\"groups\":{},\"gpus\":{\"0\":[7]}}", "text: gpus.0[0]: expected an event object, not 7"},
      {"{\"groups\":{},\"gpus\":{\"0\":[{}]}}", "text: gpus.0[0].coll: is missing"},
      {"{\"groups\":{},\"gpus\":{\"0\":[{\"sync\":false}]}}",
       "text: gpus.0[0].sync: expected true, not false"},
      {"{\"groups\":{},\"gpus\":{\"0\":[{\"sync\":true,\"sync\":true}]}}",
       "text: gpus.0[0].sync: appears twice"},
      {"{\"groups\":{},\"gpus\":{\"0\":[{\"sync\":true,\"coll\":\"a\"}]}}",
       "text: gpus.0[0].sync: an event is a sync or a collective"},
      {"{\"groups\":{},\"gpus\":{\"0\":[{\"coll\":\"a\",\"group\":\"g\"}]}}",
       "text: gpus.0[0].group: no such group under groups: \"g\""},
      {"{\"groups\":{\"g\":[1]},\"gpus\":{\"0\":[{\"coll\":\"a\",\"group\":\"g\"}]}}",
       "text: gpus.0[0].group: the GPU is not a member of \"g\""},
      {"{\"groups\":{\"g\":[0]},\"gpus\":{\"0\":[{\"coll\":\"a\",\"group\":\"g\"},"
       "{\"coll\":\"a\",\"group\":\"g\"}]}}",
       "text: gpus.0[1].coll: the GPU runs it twice; give each run a name of its own: \"a\""},
      {"{\"groups\":{\"g\":[0]},\"gpus\":{\"0\":[{\"coll\":\"\",\"group\":\"g\"}]}}",
       "text: gpus.0[0].coll: a name has 1 to 1048576 bytes, \"\" has 0"},
      {"{\"groups\":{\"g\":[0]},\"gpus\":{\"0\":[",
       "text: line 1, column 33: not JSON, cut short, or nested too deeply"},
      {"{\"groups\":{},\"gpus\":{}} x",
       "text: line 1, column 25: text after the end of the JSON value"},
      {"{\"groups\":{\"\xff\":[0]},\"gpus\":{}}", "text: line 1, column 13: not UTF-8"},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    df_schedule schedule;
    dfcclResult_t result =
        df_schedule_parse(&schedule, "text", cases[i].text, strlen(cases[i].text), false);
    CHECK(result == dfcclInvalidArgument, "case %u is accepted", i);
    CHECK(strcmp(df_last_sentence(), cases[i].sentence) == 0, "case %u: \"%s\", expected \"%s\"", i,
          df_last_sentence(), cases[i].sentence);
  }
}

DF_TEST(schedule, deep_nesting_ends_at_once, 10) {
  enum { DEPTH = 1 << 20 };
  char *text = malloc(DEPTH);
  df_schedule schedule;
  memset(text, '[', DEPTH);
  RESULT(df_schedule_parse(&schedule, "text", text, DEPTH, false), dfcclInvalidArgument);
  memset(text, 0, DEPTH);
  RESULT(df_schedule_parse(&schedule, "text", text, DEPTH, false), dfcclInvalidArgument);
  memset(text, '0', DEPTH);
  RESULT(df_schedule_parse(&schedule, "text", text, DEPTH, false), dfcclInvalidArgument);
  free(text);
}
