/* dfccl-trace: the traces of all ranks of a job (DFCCL_TRACE), as a table and for Perfetto. */
#include <stdio.h>

#include "common/cli.h"
#include "trace/job.h"

static void print_help(void) {
  fputs("usage: dfccl-trace DIR [-o FILE] [--json]\n"
        "\n"
        "Reads the traces that the ranks of a job wrote (DFCCL_TRACE=DIR). For each\n"
        "collective it prints the time of its runs, the time that ranks waited for\n"
        "others, the rank that came last most often, and the algorithm and device of\n"
        "its runs with the reason for the choice.\n"
        "\n"
        "  -o, --output FILE  write one file of all ranks for ui.perfetto.dev or\n"
        "                     chrome://tracing\n"
        "      --json         print one JSON object\n"
        "      --help, --version\n"
        "\n"
        "The clocks of hosts are shifted by the smallest amounts with which no run ends\n"
        "before all its members have submitted it.\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  the command failed\n"
        "  2  wrong usage\n",
        stdout);
}

enum { OPTION_JSON = 256, OPTION_HELP, OPTION_VERSION };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

int main(int argc, char **argv) {
  const char *output = NULL;
  bool json = false;
  int option;
  df_tool_set_name("dfccl-trace");
  while ((option = getopt_long(argc, argv, ":o:", long_options, NULL)) != -1) {
    switch (option) {
    case 'o':
      output = optarg;
      break;
    case OPTION_JSON:
      json = true;
      break;
    case OPTION_HELP:
      print_help();
      return df_tool_end_output(DF_TOOL_SUCCESS);
    case OPTION_VERSION:
      df_tool_print_version();
      return df_tool_end_output(DF_TOOL_SUCCESS);
    default:
      df_tool_bad_option(option, argv);
    }
  }
  if (optind >= argc) df_tool_usage_error("say which directory has the traces (try --help)");
  if (optind + 1 < argc)
    df_tool_usage_error("superfluous word '%s' (try --help)", argv[optind + 1]);
  df_job_trace job;
  bool fine = df_job_read(argv[optind], &job);
  if (fine) df_job_align(&job);
  fine = fine && (output == NULL || df_job_write(&job, output)) && df_job_print(&job, json);
  df_job_free(&job);
  return df_tool_end_output(fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED);
}
