/*
 * Promises of traces/trace.h:
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

/* Loads texts[i] from a file of the name names[i]. */
static dfcclResult_t load(df_schedule *schedule, const char *const *names, const char *const *texts,
                          int count, bool waits_only) {
  char folder[] = "/tmp/dfccl-trace-XXXXXX", paths[MOST][64];
  const char *files[MOST];
  CHECK(mkdtemp(folder) != NULL, "no folder");
  for (int i = 0; i < count; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
    FILE *stream = fopen(files[i] = paths[i], "w");
    CHECK(stream && fputs(texts[i], stream) >= 0 && fclose(stream) == 0, "cannot write");
  }
  dfcclResult_t result = df_schedule_load(schedule, files, count, waits_only);
  for (int i = 0; i < count; i++) unlink(paths[i]);
  rmdir(folder);
  return result;
}

/* Judges texts[r] as rank r's trace. */
static verdict judge(const char *const *texts, int count, bool waits_only) {
  static const char *const names[MOST] = {"rank_0.json", "rank_1.json", "rank_2.json"};
  verdict judged = {.deadlock = false};
  dfcclResult_t result = load(&judged.schedule, names, texts, count, waits_only);
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

/* Schema 1.0.1: the group is a number, or an address, which is another one on each rank. */
#define OLD_TRACE(nodes) "{\"schema\":\"1.0.1\",\"nodes\":[" nodes "]}"
#define OLD(id, group, peer, name, size)                                                           \
  "{\"id\":" #id ",\"name\":\"record_param_comms\",\"inputs\":[[3,4,0," #size                      \
  ",4,\"cuda:0\"],7," #group "," #peer ",\"" name "\",[],[]],\"input_shapes\":[[" #size            \
  "],[],[],[],[],[],[]],"                                                                          \
  "\"input_types\":[\"Tensor(float)\",\"Int\",\"Int\",\"Int\",\"String\",\"GenericList[]\","       \
  "\"GenericList[]\"]}"
#define OLD_WAIT(id)                                                                               \
  "{\"id\":" #id ",\"name\":\"record_param_comms\",\"inputs\":[7,1234,0,\"wait\",[],[]],"          \
  "\"input_types\":[\"Int\",\"Int\",\"Int\",\"String\",\"GenericList[]\",\"GenericList[]\"]}"

DF_TEST(trace, execution_traces_of_schema_1_0, 20) {
  const char *same[] = {
      OLD_TRACE(OLD(5, 140000, 0, "allreduce", 64) "," OLD_WAIT(6) "," OLD(7, 140000, 0,
                                                                           "_allgather_base", 8)),
      OLD_TRACE(OLD(5, 150000, 1, "allreduce", 64) "," OLD(7, 150000, 1, "_allgather_base", 8))};
  const char *exchanged[] = {OLD_TRACE(OLD(5, 140000, 0, "allreduce", 64) "," OLD_WAIT(6) "," OLD(
                                 7, 140000, 0, "broadcast", 8)),
                             OLD_TRACE(OLD(5, 150000, 0, "broadcast", 8) "," OLD_WAIT(6) "," OLD(
                                 7, 150000, 1, "allreduce", 64))};
  const char *messages[] = {OLD_TRACE(OLD(5, 9, 0, "init", 1) "," OLD(6, 9, 1, "send", 8)),
                            OLD_TRACE(OLD(6, 9, 0, "recv", 8))};
  const char *named[] = {
      OLD_TRACE(OLD(5, "7", 0, "allreduce", 5) "," OLD(6, "8", 0, "allreduce", 5)),
      OLD_TRACE(OLD(5, "8", 0, "allreduce", 5) "," OLD(6, "7", 0, "allreduce", 5))};
  expect(same, 2, false, 0);
  expect(exchanged, 2, true, 2);
  expect(messages, 2, false, 0);
  expect(named, 2, false, 2);
  verdict judged = judge(same, 2, false);
  CHECK(judged.schedule.sequences.coll_count == 2 &&
            is_noted(&judged, "do not name process groups"),
        "%llu collectives", (unsigned long long)judged.schedule.sequences.coll_count);
  forget(&judged);
}

/* ---- ranks of files ---- */

static void ranks_are(const char *first, const char *second, uint32_t a, uint32_t b) {
  const char *names[] = {first, second};
  const char *texts[] = {OLD_TRACE(OLD(5, 1, 0, "allreduce", 4)),
                         OLD_TRACE(OLD(5, 1, 0, "allreduce", 4))};
  df_schedule schedule;
  CHECK(load(&schedule, names, texts, 2, false) == dfcclSuccess, "%s and %s: %s", first, second,
        df_last_sentence());
  const uint32_t gpus = schedule.sequences.gpu_count;
  CHECK(gpus == DF_MAX(a, b) + 1 && schedule.recorded[a] && schedule.recorded[b],
        "%s and %s: %u GPUs", first, second, gpus);
  df_schedule_destroy(&schedule);
}

DF_TEST(trace, ranks_are_named_or_the_only_difference, 20) {
  ranks_are("rank_1.json", "rank0", 1, 0);
  ranks_are("Rank-2_of_8_2023-10-09", "rank.1-2024.json", 2, 1);
  ranks_are("run7_rank=3.pt.json", "run8_rank=5.pt.json", 3, 5);
  ranks_are("et_2.json", "et_12.json", 2, 12);
  ranks_are("3-trace-2023.json", "1-trace-2023.json", 3, 1);
}

DF_TEST(trace, other_numbers_are_no_ranks, 20) {
  static const char *const pairs[][2] = {{"0-trace-20231009.json", "1-trace-20231010.json"},
                                         {"first1.json", "second2.json"},
                                         {"trace-20231009.json", "trace-20231010.json"},
                                         {"a.json", "b.json"}};
  const char *texts[] = {OLD_TRACE(OLD(5, 1, 0, "allreduce", 4)),
                         OLD_TRACE(OLD(5, 1, 0, "allreduce", 4))};
  df_schedule schedule;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    CHECK(load(&schedule, pairs[i], texts, 2, false) == dfcclInvalidArgument, "%s is accepted",
          pairs[i][0]);
    CHECK(strstr(df_last_sentence(), "which rank is it?"), "\"%s\"", df_last_sentence());
  }
  static const char *const alone[] = {"22-old-trace.json", "trace-7.json", "frank.json"};
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
    CHECK(load(&schedule, &alone[i], texts, 1, false) == dfcclSuccess, "%s", df_last_sentence());
    CHECK(schedule.sequences.gpu_count == 1 && schedule.note_count == 2 &&
              strstr(schedule.note[0], "taken to be rank 0"),
          "%s: %u GPUs", alone[i], schedule.sequences.gpu_count);
    df_schedule_destroy(&schedule);
  }
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
       "rank-0: nodes[0].inputs: expected a group and an operation"},
      {OLD_TRACE("{\"name\":\"record_param_comms\",\"inputs\":[7,\"allreduce\"]}"),
       "rank-0: nodes[0].inputs: expected a group and an operation"},
      {"{\"traceEvents\":[]}",
       "rank-0: a profile for a viewer (traceEvents); give Execution Traces, which "
       "torch.profiler.ExecutionTraceObserver writes"},
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
  const char *text = DUMP(A(0, 1)),
             *other = "{\"pg_config\":{\"0\":{\"ranks\":[1,2]}},\"entries\":[" A(0, 1) "]}";
  OK(df_schedule_parse(&schedule, "dump", text, strlen(text), false));
  df_schedule_destroy(&schedule);
  RESULT(df_schedule_parse(&schedule, "dump", other, strlen(other), false), dfcclInvalidArgument);
  CHECK(strstr(df_last_sentence(), "give the file a name with its rank"), "\"%s\"",
        df_last_sentence());
}
