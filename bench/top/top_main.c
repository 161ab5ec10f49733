/* dfccl-top: a live view of all ranks of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/cli.h"
#include "top/top.h"

static void print_help(void) {
  fputs("usage: dfccl-top [JOB|PID] [--once] [--json] [--svg FILE] [--flight DIR]\n"
        "\n"
        "Shows what the ranks of a job are doing, and which rank the others wait for.\n"
        "The job may run in another terminal; it needs no preparation. JOB is the name\n"
        "of its program or its digest, PID one of its processes. Without a word the only\n"
        "job of this user on this host is shown; several jobs are listed.\n"
        "\n"
        "Columns:\n"
        "  state       running, waiting, idle, callback (a callback has not returned),\n"
        "              broken (the context has failed), silent (the process does not\n"
        "              answer), closed (DFCCL_VIEW=0), gone\n"
        "  collective  the oldest one under way, or the one with the most runs\n"
        "  since       the time since its run was submitted; >: it may be longer\n"
        "  runs/s, MB/s, preempt/s, quits/s\n"
        "              since the snapshot before; MB/s: bytes sent\n"
        "  queue       collectives in the task queue, and runs that wait on the host\n"
        "  late ms     how much later than the first rank this one submits its runs\n"
        "  waits for   the ranks whose registration, run or message is missing\n"
        "\n"
        "The last line has the circle of waits, the missing rank or registration, the\n"
        "stopped or slow rank, or \"no rank waits for another\".\n"
        "\n"
        "      --once      print the table once, half a second after the first look\n"
        "      --json      print one JSON object, once; docs/TOP.md has its members\n"
        "      --svg FILE  write a picture, once\n"
        "      --flight DIR\n"
        "                  write the latest runs of each rank of this host to\n"
        "                  DIR/rank-R.flight.json (docs/FLIGHT.md)\n"
        "      --help, --version\n"
        "\n"
        "Keys: q ends, the arrows and the page keys scroll.\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  the command failed: there is no such job, or it ended meanwhile\n"
        "  2  wrong usage\n",
        stdout);
}

enum { OPTION_ONCE = 256, OPTION_JSON, OPTION_SVG, OPTION_FLIGHT, OPTION_HELP, OPTION_VERSION };

static const struct option long_options[] = {
    {"once", no_argument, NULL, OPTION_ONCE},
    {"json", no_argument, NULL, OPTION_JSON},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"flight", required_argument, NULL, OPTION_FLIGHT},
    {NULL, 0, NULL, 0},
};

typedef struct df_top_options {
  bool once, json;
  const char *svg, *flight, *word;
} df_top_options;

static uint64_t after_ms(uint64_t begin_ns, uint64_t ms) { return begin_ns + ms * 1000000; }

/* Two looks, so that rates and waits are known. A rank that has not answered the first question by
 * the end of the second look is silent. */
static bool look_twice(df_top_session *session) {
  const uint64_t begin = df_clock_ns();
  if (!df_top_ask(session) || !df_top_receive(session, after_ms(begin, DF_TOP_INTERVAL_MS), -1))
    return false;
  const uint64_t next = after_ms(begin, df_top_interval_ms(session));
  if (!df_top_receive(session, next, -1)) return false;
  df_top_choose_asked(session);
  const uint64_t now = df_clock_ns();
  if (now < next) usleep((useconds_t)((next - now) / 1000));
  return df_top_ask(session) &&
         df_top_receive(
             session,
             after_ms(next, df_top_interval_ms(session) - DF_TOP_INTERVAL_MS + DF_TOP_SILENCE_MS),
             -1);
}

static bool show_once(df_top_session *session, const df_top_options *options) {
  const df_top_table whole = {.n_rows = UINT32_MAX / 2};
  df_top_view view;
  if (!look_twice(session)) return false;
  if (session->has_ended) {
    snprintf(session->error, sizeof session->error, "job %016llx has ended",
             (unsigned long long)session->job);
    return false;
  }
  if (!df_top_view_make(&view, session)) {
    snprintf(session->error, sizeof session->error, "no memory for %u ranks", session->n_ranks);
    return false;
  }
  bool fine = options->svg == NULL || df_top_write_svg(&view, options->svg);
  if (fine && options->json) fine = df_top_print_json(&view);
  if (fine && !options->json && (options->once || options->svg == NULL))
    df_top_print(&view, &whole, stdout);
  df_top_view_free(&view);
  return fine;
}

static int show(const df_top_options *options) {
  df_found found;
  df_top_session session = {0};
  int status = DF_TOOL_FAILED;
  if (!df_top_find(&found)) return DF_TOOL_FAILED;
  const df_found_job *job = df_top_choose(&found, options->word, options->json);
  if (job && options->flight) {
    status = df_top_flight(&found, job, options->flight);
  } else if (job && df_top_session_open(&session, &found, job)) {
    if (options->once || options->json || options->svg)
      status = show_once(&session, options) ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
    else
      status = df_top_screen(&session);
  }
  if (session.error[0]) df_tool_error("%s", session.error);
  df_top_session_close(&session);
  df_top_found_free(&found);
  return status;
}

int main(int argc, char **argv) {
  df_top_options options = {0};
  int option;
  df_tool_set_name("dfccl-top");
  while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
    switch (option) {
    case OPTION_ONCE:
      options.once = true;
      break;
    case OPTION_JSON:
      options.json = true;
      break;
    case OPTION_SVG:
      options.svg = optarg;
      break;
    case OPTION_FLIGHT:
      options.flight = optarg;
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
  if (optind + 1 < argc)
    df_tool_usage_error("superfluous word '%s' (try --help)", argv[optind + 1]);
  if (optind < argc) options.word = argv[optind];
  if (options.word && options.word[0] == '\0') df_tool_usage_error("the name of the job is empty");
  if (options.flight && (options.once || options.json || options.svg))
    df_tool_usage_error("--flight goes alone");
  if (!options.once && !options.json && !options.svg && !options.flight && !isatty(STDOUT_FILENO))
    df_tool_usage_error("standard output is no terminal; use --once or --json");
  return df_tool_end_output(show(&options));
}
