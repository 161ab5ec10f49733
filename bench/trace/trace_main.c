/* dfccl-trace: the traces of all ranks of a job (DFCCL_TRACE), as a table and for Perfetto. */
#include <stdio.h>
#include <string.h>

#include "common/cli.h"
#include "trace/report.h"

static void print_help(void) {
  fputs("usage: dfccl-trace DIR [-o FILE] [--figure11 FILE] [--sort KEY] [--each]\n"
        "                   [--json]\n"
        "\n"
        "Reads the traces that the ranks of a job wrote (DFCCL_TRACE=DIR) and prints:\n"
        "\n"
        "- for all collectives of one signature (operation, type, size and members) the\n"
        "  time of their runs, the time that ranks waited for others, and the rank that\n"
        "  came last most often\n"
        "- sums for each rank\n"
        "- how the runs were executed, and the reason for the choice\n"
        "- turns of the daemon, and its longest waits with both ranks and the link, if\n"
        "  the job ran with DFCCL_TRACE_TURNS=1\n"
        "- the runs that failed, and those that a rank never submitted, with the rank\n"
        "\n"
        "  -o, --output FILE  write one file of all ranks for ui.perfetto.dev or\n"
        "                     chrome://tracing\n"
        "      --figure11 FILE\n"
        "                     write a picture (SVG): preemptions and length of the task\n"
        "                     queue, by collective\n"
        "      --sort KEY     order of the collectives, which is also the order of the\n"
        "                     tracks in the file: id (the default), name, operation,\n"
        "                     bytes, runs, failed, partial, time, wait or total\n"
        "      --each         one line for each collective instead of each signature\n"
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

enum { OPTION_JSON = 256, OPTION_FIGURE11, OPTION_SORT, OPTION_EACH, OPTION_HELP, OPTION_VERSION };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"figure11", required_argument, NULL, OPTION_FIGURE11},
    {"sort", required_argument, NULL, OPTION_SORT},
    {"each", no_argument, NULL, OPTION_EACH},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static df_sort parse_sort(const char *text) {
  for (int sort = 0; sort < DF_SORTS; sort++)
    if (strcmp(text, df_sort_names[sort]) == 0) return (df_sort)sort;
  char names[128] = "";
  for (int sort = 0; sort < DF_SORTS; sort++) {
    const size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", sort ? ", " : "", df_sort_names[sort]);
  }
  df_tool_usage_error("option --sort wants one of %s, not '%s'", names, text);
}

typedef struct df_trace_options {
  const char *output, *figure11;
  df_sort sort;
  bool each, json;
} df_trace_options;

static bool report(const df_trace_options *options, const df_job_trace *job) {
  df_job_summary summary;
  if (!df_job_summarise(job, options->sort, &summary)) return false;
  const df_signatures *lines = options->each ? &summary.collectives : &summary.signatures;
  bool fine = options->output == NULL || df_job_write(&summary, lines, options->output);
  if (fine && options->figure11) fine = df_job_draw_figure11(&summary, options->figure11);
  if (fine) fine = options->json ? df_job_print_json(&summary) : df_job_print(&summary, lines);
  df_job_summary_free(&summary);
  return fine;
}

int main(int argc, char **argv) {
  df_trace_options options = {.output = NULL};
  int option;
  df_tool_set_name("dfccl-trace");
  while ((option = getopt_long(argc, argv, ":o:", long_options, NULL)) != -1) {
    switch (option) {
    case 'o':
      options.output = optarg;
      break;
    case OPTION_FIGURE11:
      options.figure11 = optarg;
      break;
    case OPTION_SORT:
      options.sort = parse_sort(optarg);
      break;
    case OPTION_EACH:
      options.each = true;
      break;
    case OPTION_JSON:
      options.json = true;
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
  if (optind >= argc) df_tool_usage_error("say which directory has the traces (try --help)");
  if (optind + 1 < argc)
    df_tool_usage_error("superfluous word '%s' (try --help)", argv[optind + 1]);
  df_job_trace job;
  bool fine = df_job_read(argv[optind], &job);
  if (fine) {
    df_job_align(&job);
    fine = report(&options, &job);
  }
  df_job_free(&job);
  return df_tool_end_output(fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED);
}
