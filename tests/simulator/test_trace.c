/*
 * Promises of simulator/trace.h:
 *   - Calls in one order on every rank are free of deadlock, whatever the format. An exchanged pair
 *     is a circle, with the numbers of the calls and the program's lines.
 *   - Messages that are launched together do not wait for each other. If a ring has lost its first
 *     calls, the comparison starts where all rings have them. Every assumption is reported.
 *   - Every error gives one sentence with file, place and reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_dense.h"
#include "schedule.h"
#include "support/harness.h"
#include "wait_graph.h"

enum { MOST = 3 };

typedef struct {
  df_schedule schedule;
  df_circle circle;
  bool deadlock;
} verdict;

/* Judges texts[r] as rank r's trace. */
static verdict judge(const char *const *texts, int count, bool waits_only) {
  char folder[] = "/tmp/dfccl-trace-XXXXXX", paths[MOST][64];
  const char *files[MOST];
  CHECK(mkdtemp(folder) != NULL, "no folder");
  for (int r = 0; r < count; r++) {
    snprintf(paths[r], sizeof paths[r], "%s/rank_%d.json", folder, r);
    FILE *stream = fopen(files[r] = paths[r], "w");
    CHECK(stream && fputs(texts[r], stream) >= 0 && fclose(stream) == 0, "cannot write");
  }
  verdict judged = {.deadlock = false};
  dfcclResult_t result = df_schedule_load(&judged.schedule, files, count, waits_only);
  for (int r = 0; r < count; r++) unlink(paths[r]);
  rmdir(folder);
  CHECK(result == dfcclSuccess, "%s", df_last_sentence());
  df_dense dense;
  df_sequences *sequences = &judged.schedule.sequences;
  OK(df_dense_create(&dense, sequences->gpu_count, sequences->coll_count));
  judged.deadlock = df_dense_deadlocks(&dense, sequences);
  OK(df_wait_graph_circle(sequences, &dense, &judged.circle));
  df_dense_destroy(&dense);
  return judged;
}

static void forget(verdict *judged) {
  free(judged->circle.wait);
  df_schedule_destroy(&judged->schedule);
}

static const char *awaited(const verdict *judged, int place) {
  return df_names_text(&judged->schedule.collectives, judged->circle.wait[place].collective);
}

static bool is_noted(const verdict *judged, const char *text) {
  for (int i = 0; i < judged->schedule.note_count; i++)
    if (strstr(judged->schedule.note[i], text)) return true;
  return false;
}

static void expect(const char *const *texts, int count, bool waits_only, uint32_t circle) {
  verdict judged = judge(texts, count, waits_only);
  CHECK(judged.circle.count == circle && judged.deadlock == (circle > 0),
        "%u in the circle, deadlock %d", judged.circle.count, judged.deadlock);
  forget(&judged);
}

/* ---- Flight Recorder ---- */

#define CONFIG "\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}}"
#define DUMP(entries) "{\"version\":\"2.10\"," CONFIG ",\"entries\":[" entries "]}"
#define ENTRY(record, group, sequence, name, size)                                                 \
  "{\"record_id\":" #record ",\"process_group\":[\"" group "\",\"default_pg\"],"                   \
  "\"collective_seq_id\":" #sequence                                                               \
  ",\"p2p_seq_id\":0,\"is_p2p\":false,\"profiling_name\":\"" name "\",\"input_sizes\":[[" #size    \
  "]],\"input_dtypes\":[\"Float\"],"                                                               \
  "\"frames\":[{\"name\":\"all_reduce\",\"filename\":\"/x/torch/distributed.py\",\"line\":1},"     \
  "{\"name\":\"step\",\"filename\":\"/home/torch/dfccl/train.py\",\"line\":3" #record "}]}"
#define A(record, sequence) ENTRY(record, "0", sequence, "nccl:all_reduce", 5)
#define B(record, sequence) ENTRY(record, "0", sequence, "nccl:all_reduce", 7)
#define MESSAGE(record, sequence, name)                                                            \
  "{\"record_id\":" #record ",\"process_group\":[\"0\",\"default_pg\"],\"p2p_seq_id\":" #sequence  \
  ",\"is_p2p\":true,\"profiling_name\":\"" name "\"}"

DF_TEST(trace, flight_dumps, 20) {
  const char *same[] = {DUMP(A(0, 1) "," B(1, 2) "," A(2, 3)),
                        DUMP(A(0, 1) "," B(1, 2) "," A(2, 3))};
  const char *exchanged[] = {DUMP(A(0, 1) "," A(1, 2) "," B(2, 3)),
                             DUMP(A(0, 1) "," B(1, 2) "," A(2, 3))};
  expect(same, 2, false, 0);
  expect(exchanged, 2, true, 0);
  verdict judged = judge(exchanged, 2, false);
  CHECK(judged.circle.count == 2 && strcmp(awaited(&judged, 0), "all_reduce Float[5] #2") == 0 &&
            strcmp(awaited(&judged, 1), "all_reduce Float[7] #1") == 0,
        "%u in the circle", judged.circle.count);
  const df_sequences *sequences = &judged.schedule.sequences;
  const df_call *call = &judged.schedule.call[sequences->first[0] + 2]; /* behind a sync */
  CHECK(call->number == 2, "call %u", call->number);
  CHECK(strcmp(df_names_text(&judged.schedule.stacks, call->stack),
               "/home/torch/dfccl/train.py:31 in step") == 0,
        "\"%s\"", df_names_text(&judged.schedule.stacks, call->stack));
  CHECK(judged.schedule.note_count == 0, "\"%s\"", judged.schedule.note[0]);
  forget(&judged);
}

DF_TEST(trace, messages_launched_together_do_not_wait_for_each_other, 20) {
  const char *together[] = {
      DUMP(MESSAGE(0, 1, "nccl:send 0->1") "," MESSAGE(1, 1, "nccl:recv 0<-1") "," MESSAGE(
          2, 1, "nccl:coalesced")),
      DUMP(MESSAGE(0, 1, "nccl:send 1->0") "," MESSAGE(1, 1, "nccl:recv 1<-0"))};
  const char *alone[] = {DUMP(MESSAGE(0, 1, "nccl:send 0->1") "," MESSAGE(1, 2, "nccl:recv 0<-1")),
                         DUMP(MESSAGE(0, 1, "nccl:send 1->0") "," MESSAGE(1, 2, "nccl:recv 1<-0"))};
  expect(together, 2, false, 0);
  expect(alone, 2, false, 2);
  expect(alone, 2, true, 0);
}

DF_TEST(trace, rings_that_have_lost_calls, 20) {
  const char *late[] = {DUMP(B(1, 2) "," A(2, 3) "," B(3, 4)),
                        DUMP(A(0, 1) "," B(1, 2) "," A(2, 3) "," B(3, 4))};
  verdict judged = judge(late, 2, false);
  CHECK(!judged.deadlock && is_noted(&judged, "the ring of rank 0 begins with its call 2"),
        "deadlock %d", judged.deadlock);
  forget(&judged);
}

DF_TEST(trace, members_that_no_file_names, 20) {
  /* Gloo does not describe groups by their names. */
#define GLOO(entries) "{\"pg_config\":{\"\":{\"ranks\":\"[0, 1]\"}},\"entries\":[" entries "]}"
#define SUB(record)                                                                                \
  "{\"record_id\":" #record ",\"process_group\":[\"1\",\"undefined\"],\"collective_seq_id\":1,"    \
  "\"profiling_name\":\"gloo:barrier\"}"
  const char *dumps[] = {GLOO(A(0, 1) "," SUB(1)), GLOO(A(0, 1)), GLOO(A(0, 1) "," SUB(1))};
  verdict judged = judge(dumps, 3, false);
  CHECK(!judged.deadlock &&
            is_noted(&judged, "members of group 1: assumed to be the ranks that use it") &&
            is_noted(&judged, "group 0 (default_pg): assumed to be all ranks with a file"),
        "deadlock %d", judged.deadlock);
  forget(&judged);
}

/* ---- Execution Traces ---- */

#define TRACE(nodes) "{\"schema\":\"1.1.1-chakra.0.0.4\",\"nodes\":[" nodes "]}"
#define OPERATOR(id, name, size, async)                                                            \
  "{\"id\":" #id ",\"name\":\"" name "\",\"inputs\":{\"values\":[[[1]],\"<Object>\"," async        \
  ",-1],\"shapes\":[[[" #size "]],[],[],[]],\"types\":[\"GenericList[Tensor(float)]\","            \
  "\"Object\",\"Bool\",\"Int\"]}}"
#define COMMS(id, group, name, size)                                                               \
  "{\"id\":" #id ",\"name\":\"record_param_comms\",\"inputs\":{\"values\":[[[1]],9,[\"" group      \
  "\",\"\"],0,\"" name "\",[],[]],\"shapes\":[[[" #size "]]],\"types\":["                          \
  "\"GenericList[Tensor(float)]\"]}}"
#define INIT                                                                                       \
  "{\"id\":1,\"name\":\"## process_group:init ##\",\"inputs\":{\"values\":[\"[{\\\"pg_name\\\":"   \
  "\\\"7\\\",\\\"ranks\\\":[0,1]}]\"]}},"

DF_TEST(trace, execution_traces, 20) {
  /* Nodes are written when they end; ids give the order in which they began. */
  const char *same[] = {
      TRACE(OPERATOR(9, "c10d::broadcast_", 5, "true") "," OPERATOR(4, "c10d::allreduce_", 5,
                                                                    "false")),
      TRACE(OPERATOR(4, "c10d::allreduce_", 5, "false") "," OPERATOR(
          9, "c10d::broadcast_", 5, "true") "," OPERATOR(10, "gloo:broadcast", 5, "true"))};
  const char *exchanged[] = {TRACE(OPERATOR(9, "c10d::broadcast_", 5, "true") "," OPERATOR(
                                 4, "c10d::allreduce_", 5, "false")),
                             TRACE(OPERATOR(4, "c10d::broadcast_", 5, "true") "," OPERATOR(
                                 9, "c10d::allreduce_", 5, "false"))};
  const char *gloo[] = {TRACE(OPERATOR(1, "gloo:all_reduce", 5, "true")),
                        TRACE(OPERATOR(1, "gloo:all_reduce", 6, "true"))};
  expect(same, 2, false, 0);
  expect(exchanged, 2, false, 2);
  expect(exchanged, 2, true, 0); /* rank 1 waits for nothing before both have begun */
  expect(gloo, 2, false, 2);
  verdict judged = judge(same, 2, false);
  CHECK(is_noted(&judged, "do not name process groups"), "%d notes", judged.schedule.note_count);
  forget(&judged);
  const char *message[] = {TRACE(OPERATOR(1, "gloo:send", 5, "true"))};
  judged = judge(message, 1, false);
  CHECK(!judged.deadlock && is_noted(&judged, "messages are left out"), "%d notes",
        judged.schedule.note_count);
  forget(&judged);
}

DF_TEST(trace, execution_traces_of_nccl, 20) {
  const char *groups[] = {
      TRACE(INIT COMMS(2, "7", "allreduce", 5) "," COMMS(3, "8", "allreduce",
                                                         5) "," COMMS(4, "7", "wait", 5)),
      TRACE(INIT COMMS(2, "8", "allreduce", 5) "," COMMS(3, "7", "allreduce", 5))};
  verdict judged = judge(groups, 2, false);
  CHECK(judged.circle.count == 2, "%u in the circle", judged.circle.count);
  CHECK(is_noted(&judged, "members of group 8"), "%d notes", judged.schedule.note_count);
  forget(&judged);
}

/* ---- PARAM ---- */

#define REDUCE(group, size)                                                                        \
  "{\"comms\":\"all_reduce\",\"in_msg_size\":" #size ",\"dtype\":\"float\",\"pg_id\":" #group "}"
#define WAIT "{\"comms\":\"wait\",\"req\":1}"
#define MAKE "{\"comms\":\"init\",\"pg_id\":1,\"global_ranks\":[1,0]},{\"compute\":\"gemm\"}"

DF_TEST(trace, param_lists, 20) {
  const char *same[] = {"[" MAKE "," REDUCE(0, 4) "," REDUCE(1, 4) "," WAIT "]",
                        "[" MAKE "," REDUCE(0, 4) "," WAIT "," REDUCE(1, 4) "]"};
  const char *exchanged[] = {"[" MAKE "," REDUCE(1, 4) "," WAIT "," REDUCE(0, 4) "]",
                             "[" MAKE "," REDUCE(0, 4) "," WAIT "," REDUCE(1, 4) "]"};
  const char *one_waits[] = {"[" MAKE "," REDUCE(1, 4) "," REDUCE(0, 4) "]", exchanged[1]};
  expect(same, 2, false, 0);
  expect(exchanged, 2, false, 2);
  expect(exchanged, 2, true, 2);
  expect(one_waits, 2, true, 0);
}

/* ---- errors */

#define NAMED "\"profiling_name\":\"nccl:x\",\"process_group\":[\"0\",\"\"]"

DF_TEST(trace, errors_name_file_place_and_reason, 20) {
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {"{\"entries\":7}", "rank-0: entries: expected a list, not 7"},
      {"{\"entries\":[7]}", "rank-0: entries[0]: expected an object, not 7"},
      {"{\"entries\":[{}]}", "rank-0: entries[0].profiling_name: expected a text"},
      {"{\"entries\":[{\"profiling_name\":\"nccl:x\",\"process_group\":[\"0\"]}]}",
       "rank-0: entries[0].process_group: expected a name and a description"},
      {"{\"pg_config\":{\"0\":{\"ranks\":\"[0, x]\"}},\"entries\":[" A(0, 1) "]}",
       "rank-0: entries[0]: expected a list of ranks, not \"[0, x]\""},
      {"{\"pg_config\":{\"0\":{\"ranks\":\"[0, 99999999]\"}},\"entries\":[" A(0, 1) "]}",
       "rank-0: entries[0]: expected a list of ranks, not \"[0, 99999999]\""},
      {"{\"pg_config\":{\"0\":{\"ranks\":[0,0]}},\"entries\":[" A(0, 1) "]}",
       "rank-0: 0 (default_pg): GPU 0 is in the group twice"},
      {"{\"pg_config\":{\"0\":{\"ranks\":[1,2]}},\"entries\":[" A(0, 1) "]}",
       "rank-0: call 1: rank 0 is not a member of its group \"0 (default_pg)\""},
      {"{\"entries\":[{\"record_id\":-1," NAMED "}]}",
       "rank-0: entries[0].record_id: expected a whole number, not -1"},
      {"{\"entries\":[{\"record_id\":1e300," NAMED "}]}",
       "rank-0: entries[0].record_id: expected a whole number, not 1e+300"},
      {DUMP(MESSAGE(0, 1, "nccl:send 0->5")), "rank-0: call 1: place 5 of a group of 2"},
      {DUMP(MESSAGE(0, 1, "nccl:send 0->0")), "rank-0: call 1: a message of rank 0 to itself"},
      {DUMP(MESSAGE(0, 1, "nccl:send over")),
       "rank-0: entries[0].profiling_name: expected \"send 0->1\" or \"recv 1<-0\""},
      {DUMP(MESSAGE(0, 1, "nccl:recv 0<-?")),
       "rank-0: entries[0].profiling_name: a receive from any rank: what it meets depends on the "
       "timing"},
      {"{\"rank\":-1,\"entries\":[]}",
       "rank-0: rank: expected a whole number from 0 to 1048575, not -1"},
      {TRACE("{\"name\":\"record_param_comms\",\"inputs\":[]}"),
       "rank-0: nodes[0].inputs: expected a group's name and an operation"},
      {TRACE("{\"name\":\"c10d::send\"}"), "rank-0: nodes[0]: a message without a peer"},
      {"[{\"comms\":7}]", "rank-0: [0].comms: expected a text, not 7"},
      {"[{},7]", "rank-0: [1]: expected an object, not 7"},
      {"[{\"comms\":\"init\",\"global_ranks\":{}}]",
       "rank-0: [0]: expected a list of ranks, not an object"},
      {"[{\"comms\":\"send\",\"src_rank\":0}]", "rank-0: [0].dst_rank: expected a rank"},
      {"[{\"comms\":\"send\",\"src_rank\":0,\"dst_rank\":1e9}]",
       "rank-0: [0].dst_rank: expected a rank"},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    df_schedule schedule;
    dfcclResult_t result =
        df_schedule_parse(&schedule, "rank-0", cases[i].text, strlen(cases[i].text), false);
    CHECK(result == dfcclInvalidArgument, "case %u is accepted", i);
    CHECK(strcmp(df_last_sentence(), cases[i].sentence) == 0, "case %u: \"%s\", expected \"%s\"", i,
          df_last_sentence(), cases[i].sentence);
  }
  df_schedule schedule;
  const char *text = "{\"entries\":[]}";
  RESULT(df_schedule_parse(&schedule, "dump", text, strlen(text), false), dfcclInvalidArgument);
  CHECK(strstr(df_last_sentence(), "dump: which rank is it?"), "\"%s\"", df_last_sentence());
}
