/*
 * Promises of simulator/config.h:
 *   - The authors' keys are accepted as they are; this project's keys are optional.
 *   - A wrong key, type, range or GPU gives one sentence with the key's path and the value.
 */
#include <string.h>

#include "config.h"
#include "support/harness.h"

#define SINGLE "\"model\":\"Single\",\"disorder_prob\":0.1,"
#define FREE "\"grouping_policy\":\"Arbitrary\","
#define GROUPS                                                                                     \
  "\"gpu_num\":3,\"group_num\":2,\"gpu_per_group\":[[0,1],[2,1]],\"coll_cnt_per_group\":[4,5]"
#define THREE_D                                                                                    \
  "\"grouping_policy\":\"Megatron\",\"tp_group_size\":2,\"dp_group_size\":2,\"pp_group_size\":2,"  \
  "\"coll_cnt_per_tp_group\":10,\"coll_cnt_per_dp_group\":10"

DF_TEST(config, the_authors_keys, 10) {
  static const char text[] =
      "{\"total_rounds\":100,\"fix_seed\":1,\"disorder_prob\":0.1,\"sync_prob\":0.2,"
      "\"model\":\"StreamWithSync\",\"resource_limit\":50," THREE_D ",\"num_process\":2}";
  df_config config;
  OK(df_config_parse(&config, "text", text, sizeof text - 1));
  CHECK(config.rounds == 200 && config.seed == 2023 && config.resource_limit == 50 &&
            config.model == DF_MODEL_SYNC && config.grouping == DF_GROUPING_3D &&
            config.order == DF_ORDER_CONCAT && config.check == DF_CHECK_EXACT &&
            config.disorder_probability == 0.1 && config.sync_probability == 0.2 &&
            config.gpu_count == 8 && config.group_count == 8,
        "%llu rounds, seed %llu", (unsigned long long)config.rounds,
        (unsigned long long)config.seed);
  df_config_destroy(&config);
}

DF_TEST(config, our_keys, 10) {
  static const char text[] =
      "{\"rounds\":7,\"seed\":9,\"order\":\"roundrobin\",\"check\":\"reference\"," SINGLE FREE
          GROUPS "}";
  df_config config;
  OK(df_config_parse(&config, "text", text, sizeof text - 1));
  CHECK(config.rounds == 7 && config.seed == 9 && config.order == DF_ORDER_ROUNDROBIN &&
            config.check == DF_CHECK_REFERENCE && config.gpu_count == 3 && config.group_count == 2,
        "%llu rounds, seed %llu", (unsigned long long)config.rounds,
        (unsigned long long)config.seed);
  df_config_destroy(&config);
}

DF_TEST(config, errors_name_the_key, 30) {
  static const struct {
    const char *text, *sentence;
  } cases[] = {
      {"{}", "c: model is missing: \"Single\" or \"StreamWithSync\""},
      {"{\"modle\":1}", "c: modle: unknown key (its value is 1)"},
      {"{\"model\":\"Single\",\"model\":\"Single\"}", "c: model appears twice"},
      {"{\"model\":\"single\",\"grouping_policy\":\"Megatron\"}",
       "c: model: expected \"Single\" or \"StreamWithSync\", not \"single\""},
      {"{\"rounds\":1," SINGLE "\"grouping_policy\":3}",
       "c: grouping_policy: expected \"Megatron\" or \"Arbitrary\", not 3"},
      {"{\"rounds\":1,\"model\":\"Single\",\"disorder_prob\":1.5," THREE_D "}",
       "c: disorder_prob: expected a probability from 0 to 1, not 1.5"},
      {"{\"rounds\":1,\"model\":\"Single\",\"disorder_prob\":\"0.1\"," THREE_D "}",
       "c: disorder_prob: expected a probability from 0 to 1, not \"0.1\""},
      {"{\"rounds\":1,\"model\":\"StreamWithSync\",\"disorder_prob\":0," THREE_D "}",
       "c: sync_prob is missing (the model needs it)"},
      {"{\"rounds\":1,\"model\":\"StreamWithSync\",\"disorder_prob\":0,\"sync_prob\":1," THREE_D
       "}",
       "c: sync_prob: expected a probability from 0 up to, but less than, 1, not 1"},
      {"{" SINGLE THREE_D "}", "c: total_rounds is missing (or rounds)"},
      {"{\"rounds\":0," SINGLE THREE_D "}",
       "c: rounds: expected a whole number from 1 to 1125899906842624, not 0"},
      {"{\"rounds\":1e999," SINGLE THREE_D "}",
       "c: rounds: expected a whole number from 1 to 1125899906842624, not inf"},
      {"{\"rounds\":1," SINGLE FREE "\"gpu_num\":3,\"group_num\":2,\"gpu_per_group\":[[0,1],[3]],"
       "\"coll_cnt_per_group\":[4,5]}",
       "c: gpu_per_group[1][0]: there is no GPU 3 (gpu_num is 3)"},
      {"{\"rounds\":1," SINGLE FREE "\"gpu_num\":3,\"group_num\":2,\"gpu_per_group\":[[0,0],[1]],"
       "\"coll_cnt_per_group\":[4,5]}",
       "c: gpu_per_group[0][1]: GPU 0 is in the group twice"},
      {"{\"rounds\":1," SINGLE FREE "\"gpu_num\":3,\"group_num\":2,\"gpu_per_group\":[[0,1],[]],"
       "\"coll_cnt_per_group\":[4,5]}",
       "c: gpu_per_group[1]: expected a list of GPUs, not an empty one"},
      {"{\"rounds\":1," SINGLE FREE "\"gpu_num\":3,\"group_num\":1,\"gpu_per_group\":[[0,1],[2]],"
       "\"coll_cnt_per_group\":[4,5]}",
       "c: gpu_per_group: has 2 entries, but group_num is 1"},
      {"{\"rounds\":1," SINGLE FREE "\"gpu_num\":3,\"group_num\":2,\"gpu_per_group\":[[0,1],[2]],"
       "\"coll_cnt_per_group\":[4,-1]}",
       "c: coll_cnt_per_group[1]: expected a whole number from 0 to 16777216, not -1"},
      {"{\"rounds\":1," SINGLE "\"grouping_policy\":\"Megatron\",\"tp_group_size\":1024,"
       "\"dp_group_size\":1024,\"pp_group_size\":2,\"coll_cnt_per_tp_group\":1,"
       "\"coll_cnt_per_dp_group\":1}",
       "c: tp_group_size: 1024 x 1024 x 2 GPUs are more than the 1048576 allowed"},
      {"{\"rounds\":1," SINGLE "\"grouping_policy\":\"Megatron\",\"tp_group_size\":1048576,"
       "\"dp_group_size\":1048576,\"pp_group_size\":1048576,\"coll_cnt_per_tp_group\":1,"
       "\"coll_cnt_per_dp_group\":1}",
       "c: tp_group_size: 1048576 x 1048576 x 1048576 GPUs are more than the 1048576 allowed"},
      {"{\"rounds\":1," SINGLE "\"grouping_policy\":\"Megatron\",\"tp_group_size\":64,"
       "\"dp_group_size\":64,\"pp_group_size\":64,\"coll_cnt_per_tp_group\":16777216,"
       "\"coll_cnt_per_dp_group\":1}",
       "c: coll_cnt_per_tp_group: 68719480832 collectives are more than the 1073741824 allowed"},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    df_config config;
    dfcclResult_t result = df_config_parse(&config, "c", cases[i].text, strlen(cases[i].text));
    CHECK(result == dfcclInvalidArgument, "case %u is accepted", i);
    CHECK(strcmp(df_last_sentence(), cases[i].sentence) == 0, "case %u: \"%s\", expected \"%s\"", i,
          df_last_sentence(), cases[i].sentence);
  }
}
