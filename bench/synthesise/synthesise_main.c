/* dfccl-synthesise: computes the plan of a collective for a given network. */
#include <stdio.h>
#include <string.h>

#include "common/cli.h"
#include "synthesise/synthesise.h"

static void print_help(void) {
  fputs("usage: dfccl-synthesise NETWORK.json OPERATION -n RANKS [options]\n"
        "\n"
        "Computes trees for a collective on a network, proves their plan, and prints its\n"
        "bound, its predicted time, and the load of the ports.\n"
        "\n"
        "NETWORK.json is a file as for dfccl-sim time (docs/SIMULATOR.md). OPERATION is\n"
        "allreduce, reduce, broadcast, allgather or reducescatter.\n"
        "\n"
        "  -n RANKS           number of ranks, 2 to 64\n"
        "  -b, --bytes SIZE   bytes of a rank's larger buffer (default 16M)\n"
        "      --root RANK    root of a reduce and a broadcast (default 0)\n"
        "      --engine NAME  auto (the default): the fastest of the others by the\n"
        "                     prediction\n"
        "                     weighted: closed forms for hosts below one switch\n"
        "                     forest: packed spanning trees, for any network\n"
        "                     balanced: shallow trees of an all-reduce, for any network\n"
        "                     milp: not in this build\n"
        "      --xml FILE     write the plan in MSCCL's XML, for DFCCL_ALGORITHMS\n"
        "  -o, --output FILE  write the trees as JSON\n"
        "      --explain      print the load of each port, and the trees\n"
        "      --json         print one JSON object\n"
        "      --help, --version\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  there is no plan, or a file cannot be written\n"
        "  2  wrong usage, or a wrong network file\n",
        stdout);
}

enum {
  OPTION_ROOT = 256,
  OPTION_ENGINE,
  OPTION_XML,
  OPTION_EXPLAIN,
  OPTION_JSON,
  OPTION_HELP,
  OPTION_VERSION
};

static const struct option long_options[] = {
    {"bytes", required_argument, NULL, 'b'},
    {"root", required_argument, NULL, OPTION_ROOT},
    {"engine", required_argument, NULL, OPTION_ENGINE},
    {"xml", required_argument, NULL, OPTION_XML},
    {"output", required_argument, NULL, 'o'},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

typedef struct options {
  df_synthesis_question question;
  const char *xml, *output;
  bool explain, json;
} options;

static df_engine parse_engine(const char *text) {
  static const char *const names[] = {"auto", "weighted", "forest", "balanced", "milp"};
  for (int i = 0; i < 5; i++)
    if (strcmp(text, names[i]) == 0) return (df_engine)i;
  df_tool_usage_error("option --engine wants auto, weighted, forest, balanced or milp, not '%s'",
                      text);
}

/* Returns false if the option ends the program, after what it asked for. */
static bool take_option(options *o, int option, char **argv) {
  switch (option) {
  case 'n':
    o->question.ranks = (uint32_t)df_tool_parse_integer("-n", optarg, 2, DF_TREES_RANKS_MOST);
    return true;
  case 'b':
    o->question.bytes = df_tool_parse_size("--bytes", optarg);
    return true;
  case 'o':
    o->output = optarg;
    return true;
  case OPTION_ROOT:
    o->question.root =
        (uint32_t)df_tool_parse_integer("--root", optarg, 0, DF_TREES_RANKS_MOST - 1);
    return true;
  case OPTION_ENGINE:
    o->question.engine = parse_engine(optarg);
    return true;
  case OPTION_XML:
    o->xml = optarg;
    return true;
  case OPTION_EXPLAIN:
    return o->explain = true;
  case OPTION_JSON:
    return o->json = true;
  case OPTION_HELP:
    print_help();
    return false;
  case OPTION_VERSION:
    df_tool_print_version();
    return false;
  default:
    df_tool_bad_option(option, argv, long_options);
  }
}

static void check(options *o, char **words, int n) {
  df_synthesis_question *q = &o->question;
  if (n < 2) df_tool_usage_error("give a network file and an operation (try --help)");
  if (n > 2) df_tool_usage_error("superfluous word '%s' (try --help)", words[2]);
  q->network_file = words[0];
  const int operation = df_operation_by_word(words[1]);
  if (operation < 0 || !df_trees_has((df_operation)operation))
    df_tool_usage_error("the operation must be allreduce, reduce, broadcast, allgather or "
                        "reducescatter, not '%s'",
                        words[1]);
  q->operation = (df_operation)operation;
  if (q->ranks == 0) df_tool_usage_error("give the number of ranks, such as -n 4");
  if (q->root >= q->ranks)
    df_tool_usage_error("option --root is %u, and there are %u ranks", q->root, q->ranks);
  if (q->root > 0 && !df_operation_has_root(q->operation))
    df_tool_usage_error("%s has no root", words[1]);
  if (q->bytes == 0) df_tool_usage_error("option --bytes must be at least 1");
  if (q->engine == DF_ENGINE_MILP)
    df_tool_usage_error("the engine milp, which would use the solver CBC, is not in this build; "
                        "use auto, weighted, forest or balanced");
}

static bool run(const options *o) {
  df_synthesis_answer answer;
  bool fine = df_synthesise(&o->question, &answer);
  if (fine && o->xml) fine = df_synthesis_write_xml(&o->question, &answer, o->xml);
  if (fine && o->output) fine = df_synthesis_write_trees(&o->question, &answer, o->output);
  if (fine)
    fine = o->json ? df_synthesis_print_json(&o->question, &answer)
                   : df_synthesis_print(&o->question, &answer, o->explain);
  df_synthesis_free(&answer);
  return fine;
}

int main(int argc, char **argv) {
  options o = {.question = {.bytes = 16 << 20}};
  int option;
  df_tool_set_name("dfccl-synthesise");
  while ((option = getopt_long(argc, argv, ":n:b:o:", long_options, NULL)) != -1)
    if (!take_option(&o, option, argv)) return df_tool_end_output(DF_TOOL_SUCCESS);
  check(&o, argv + optind, argc - optind);
  return df_tool_end_output(run(&o) ? DF_TOOL_SUCCESS : DF_TOOL_FAILED);
}
