/* dfccl-info: what the library sees of this machine, and of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "info/files.h"
#include "info/net.h"

static void print_help(void) {
  fputs("usage: dfccl-info net [options]\n"
        "       dfccl-info files [DIRECTORY] [--json]\n"
        "       dfccl-info plan OPERATION ALGORITHM -n RANKS [--root RANK]\n"
        "                       [--split RANKS] --xml\n"
        "\n"
        "Commands:\n"
        "  net    prints the network interfaces of this host, those that multi-node jobs\n"
        "         use (DFCCL_NET_INTERFACES), and the protection of such jobs. With\n"
        "         --env, it prints for all ranks of a job, at most 64, their interfaces,\n"
        "         and for each pair of ranks the transport, the address, the protection,\n"
        "         the time of a small message, and the bandwidth.\n"
        "  files  prints the algorithms in MSCCL's XML of a directory (the one of\n"
        "         DFCCL_ALGORITHMS), and for each how it was proven correct or why it\n"
        "         was refused. The exit status is 1 if one was refused.\n"
        "  plan   prints a plan of the library as such a file.\n"
        "\n"
        "Options:\n"
        "      --env      this process is one rank of a job that torchrun, mpirun or\n"
        "                 Slurm has started, or a shell with RANK, WORLD_SIZE,\n"
        "                 MASTER_ADDR and MASTER_PORT; rank 0 prints\n"
        "      --json     print one JSON object\n"
        "      --help, --version\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  the command failed\n"
        "  2  wrong usage\n",
        stdout);
}

enum {
  OPTION_ENV = 256,
  OPTION_JSON,
  OPTION_ROOT,
  OPTION_SPLIT,
  OPTION_XML,
  OPTION_HELP,
  OPTION_VERSION,
  OPTION_RANKS /* -n */
};

static const struct option long_options[] = {
    {"env", no_argument, NULL, OPTION_ENV},
    {"json", no_argument, NULL, OPTION_JSON},
    {"root", required_argument, NULL, OPTION_ROOT},
    {"split", required_argument, NULL, OPTION_SPLIT},
    {"xml", no_argument, NULL, OPTION_XML},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* A set of options. */
#define BIT(option) (1u << ((option)-OPTION_ENV))

/* An option that the word does not have is a usage error. */
static void check_options(const char *word, unsigned has, unsigned given) {
  if (given & ~has & BIT(OPTION_RANKS))
    df_tool_usage_error("option -n means nothing to '%s' (try --help)", word);
  for (const struct option *one = long_options; one->name; one++)
    if (given & ~has & BIT(one->val))
      df_tool_usage_error("option --%s means nothing to '%s' (try --help)", one->name, word);
}

/* The words behind the options. given: which options there were. */
static bool show(char **words, int n, unsigned given, const df_info_plan_question *asked) {
  static const struct {
    const char *word;
    int least, most;
    unsigned options;
  } subjects[] = {
      {"net", 1, 1, BIT(OPTION_ENV) | BIT(OPTION_JSON)},
      {"files", 1, 2, BIT(OPTION_JSON)},
      {"plan", 3, 3, BIT(OPTION_RANKS) | BIT(OPTION_ROOT) | BIT(OPTION_SPLIT) | BIT(OPTION_XML)}};
  const bool json = given & BIT(OPTION_JSON);
  int which = 0;
  if (n == 0) df_tool_usage_error("say what to show: dfccl-info net, files or plan (try --help)");
  while (which < 3 && strcmp(words[0], subjects[which].word) != 0) which++;
  if (which == 3)
    df_tool_usage_error("there is nothing to show of '%s', only of 'net', 'files' and 'plan' (try "
                        "--help)",
                        words[0]);
  if (n < subjects[which].least)
    df_tool_usage_error("plan needs an operation and an algorithm, such as allreduce ring");
  if (n > subjects[which].most)
    df_tool_usage_error("superfluous word '%s' (try --help)", words[subjects[which].most]);
  check_options(words[0], subjects[which].options, given);
  if (which == 0) return given & BIT(OPTION_ENV) ? df_info_job(json) : df_info_host(json);
  if (which == 1) return df_info_files(n == 2 ? words[1] : NULL, json);
  df_info_plan_question question = *asked;
  if (!(given & BIT(OPTION_XML))) df_tool_usage_error("plan prints XML; ask for it with --xml");
  if (question.ranks < 2) df_tool_usage_error("plan needs -n, the number of ranks, from 2 on");
  question.operation = words[1];
  question.algorithm = words[2];
  return df_info_plan(&question);
}

int main(int argc, char **argv) {
  unsigned given = 0;
  df_info_plan_question question = {.split = 2};
  int option;
  df_tool_set_name("dfccl-info");
  while ((option = getopt_long(argc, argv, ":n:", long_options, NULL)) != -1) {
    switch (option) {
    case 'n':
      given |= BIT(OPTION_RANKS);
      question.ranks = df_tool_parse_integer("-n", optarg, 2, 64);
      break;
    case OPTION_ROOT:
      given |= BIT(OPTION_ROOT);
      question.root = df_tool_parse_integer("--root", optarg, 0, 63);
      break;
    case OPTION_SPLIT:
      given |= BIT(OPTION_SPLIT);
      question.split = df_tool_parse_integer("--split", optarg, 1, 64);
      break;
    case OPTION_XML:
    case OPTION_ENV:
    case OPTION_JSON:
      given |= BIT(option);
      break;
    case OPTION_HELP:
      print_help();
      return df_tool_end_output(DF_TOOL_SUCCESS);
    case OPTION_VERSION:
      df_tool_print_version();
      return df_tool_end_output(DF_TOOL_SUCCESS);
    default:
      df_tool_bad_option(option, argv, long_options);
    }
  }
  const bool fine = show(argv + optind, argc - optind, given, &question);
  return df_tool_end_output(fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED);
}
