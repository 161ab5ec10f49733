/*
 * Promises of df_csv_parse, for files of NCCL's example tuner plugin as people and spreadsheets
 * write them:
 *   - Column heads, a byte order mark, line ends of all systems, quotation marks, spaces, words in
 *     any case, comments and empty fields do not change what a file says.
 *   - Columns in another order are read by their heads.
 *   - Each other text is refused with one sentence that has the line and the value.
 */
#include <stdio.h>
#include <string.h>

#include "support/harness.h"
#include "tuning/advice.h"

#define HEADS "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"
#define RULE "allreduce,0,65536,ring,simple,2,1,-1"

static df_csv_line only_rule(const char *text) {
  df_csv csv;
  char sentence[300] = "";
  CHECK(df_csv_parse(&csv, text, strlen(text), "file", sentence, sizeof sentence),
        "refused: %s\n%s", sentence, text);
  CHECK(csv.n == 1, "%u rules of\n%s", csv.n, text);
  const df_csv_line line = csv.lines[0];
  df_csv_free(&csv);
  return line;
}

/* The text has the one rule RULE, in this line. */
static void has_the_rule(uint32_t number, const char *text) {
  const df_csv_line line = only_rule(text);
  CHECK(line.line == number, "line %u, not %u, of\n%s", line.line, number, text);
  CHECK(line.function == df_advice_function(DF_OP_ALL_REDUCE) && line.least == 0 &&
            line.most == 65536 && line.algorithm == DF_NCCL_RING &&
            line.protocol == DF_NCCL_SIMPLE && line.channels == 2 && line.n_nodes == 1 &&
            line.n_ranks == -1 && line.n_operations == -1 && line.reg_buff == -1,
        "another rule in\n%s", text);
}

DF_TEST(csv, column_heads, 30) {
  has_the_rule(2, HEADS "\n" RULE "\n");
  has_the_rule(3, "# written by a program\n" HEADS ",numPipeOps,regBuff\n" RULE ",-1,-1\n");
  has_the_rule(2, "Collective,Min Size,Max Size,Algo,Proto,Num Channels,Nodes,Ranks\n" RULE);
  has_the_rule(2, "\"COLLECTIVE TYPE\",\"MIN BYTES\",\"MAX BYTES\",\"ALGORITHM\",\"PROTOCOL\","
                  "\"CHANNELS\",\"NNODES\",\"NRANKS\"\n" RULE);
  /* The heads decide, not the usual order. */
  has_the_rule(2, "nRanks,nNodes,channels,protocol,algorithm,max_bytes,min_bytes,collective_type\n"
                  "-1,1,2,simple,ring,65536,0,allreduce\n");
  has_the_rule(2, "regBuff," HEADS "\n-1," RULE "\n");
}

DF_TEST(csv, line_ends_and_byte_order_marks, 30) {
  has_the_rule(1, RULE "\r\n");
  has_the_rule(2, HEADS "\r\n" RULE "\r\n\r\n");
  has_the_rule(2, HEADS "\r" RULE "\r");
  has_the_rule(1, RULE);
  has_the_rule(1, "\xef\xbb\xbf" RULE "\n");
  has_the_rule(2, "\xef\xbb\xbf" HEADS "\r\n" RULE);
  has_the_rule(2, "\xef\xbb\xbf# comment\n" RULE);
}

DF_TEST(csv, quotation_marks_separators_and_spaces, 30) {
  has_the_rule(1, "\"allreduce\",\"0\",\"65536\",\"ring\",\"simple\",\"2\",\"1\",\"-1\"\r\n");
  has_the_rule(1, "\"allreduce\" , \"0\",65536, \"ring\" ,simple,2,1,\" -1 \"\n");
  has_the_rule(1, "  allreduce ,0,\t65536 , ring,simple ,2 , 1,-1  \n");
  has_the_rule(1, "allreduce;0;65536;ring;simple;2;1;-1\n");
  has_the_rule(1, "allreduce\t0\t65536\t"
                  "ring\tsimple\t2\t1\t-1\n");
  has_the_rule(1, RULE ",,\n");
  has_the_rule(1, RULE ",,,,,,\n");
  has_the_rule(3, ",,,,,,,,,\n\"\",\"\"\n" RULE "\n");
}

DF_TEST(csv, words_in_any_case, 30) {
  has_the_rule(1, "AllReduce,0,65536,RING,Simple,2,1,-1\n");
  has_the_rule(1, "ALL_REDUCE,0,65536,Ring,SIMPLE,2,1,-1\n");
  const df_csv_line line = only_rule("Reduce Scatter,0,1,NVLS-Tree,LL128,-1,-1,-1\n");
  CHECK(line.function == df_advice_function(DF_OP_REDUCE_SCATTER) && line.algorithm == 5 &&
            line.protocol == DF_NCCL_LL128,
        "another rule");
}

DF_TEST(csv, comments, 30) {
  has_the_rule(1, RULE "  # small ones\n");
  has_the_rule(4, "  # indented\n\t# by a tab\n   \n" RULE "#\n");
  has_the_rule(2, "\t \t\n" RULE ",-1 # numPipeOps, but not regBuff\n");
  char text[5000];
  memset(text, '#', sizeof text);
  snprintf(text + 4000, 1000, "\n" RULE "\n");
  has_the_rule(2, text);
}

static void is_refused(const char *text, size_t bytes, const char *place, const char *value) {
  df_csv csv;
  char sentence[300] = "";
  CHECK(!df_csv_parse(&csv, text, bytes, "file", sentence, sizeof sentence), "accepted:\n%s", text);
  CHECK(strncmp(sentence, place, strlen(place)) == 0 && strstr(sentence, value),
        "\"%s\" is not \"%s ... %s\"", sentence, place, value);
  df_csv_free(&csv);
}

DF_TEST(csv, all_else_is_refused_by_line_and_value, 30) {
  static const struct {
    const char *text, *place, *value;
  } all[] = {
      {HEADS ",colour\n", "file:1: ", "unknown column \"colour\""},
      {HEADS ",nNodes\n", "file:1: ", "two columns \"nNodes\""},
      {"collective_type,min_bytes,max_bytes,algorithm,channels,nNodes,nRanks,regBuff\n",
       "file:1: ", "no column \"protocol\""},
      {HEADS "\n" RULE ",-1\n", "file:2: ", "9 fields"},
      {RULE "\n" HEADS "\n", "file:2: ", "\"collective_type\""},
      {"allreduce,min,max,ring,simple,a,b,c\n", "file:1: ", "\"min\""},
      {"allreduce,0,1e9,ring,simple,2,1,-1\n", "file:1: ", "\"1e9\""},
      {"allreduce,0,\"65,536\",ring,simple,2,1,-1\n", "file:1: ", "\"65,536\""},
      {"allreduce,0,64K,ring,simple,2,1,-1\n", "file:1: ", "\"64K\""},
      {"allreduce,0,65536.0,ring,simple,2,1,-1\n", "file:1: ", "\"65536.0\""},
      {"\n\"allreduce,0,1,ring,simple,2,1,-1\n", "file:2: ", "quotation mark"},
      {"\"all\"reduce,0,1,ring,simple,2,1,-1\n", "file:1: ", "\"reduce,0,1"},
      {"allreduce,0,1,ring,,2,1,-1\n", "file:1: ", "protocol \"\""},
      {"allreduce|0|1|ring|simple|2|1|-1\n", "file:1: ", "\"allreduce|0|1"},
      {"allgatherv,0,1,ring,simple,2,1,-1\n", "file:1: ", "\"allgatherv\""},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    is_refused(all[i].text, strlen(all[i].text), all[i].place, all[i].value);
  static const char wide[] = "\xff\xfe"
                             "a\0l\0l\0";
  is_refused(wide, sizeof wide - 1, "file:1: ", "UTF-8");
}
