#include "replay_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/element.h"

const char *const replay_engine_names[] = {"dfccl",      "ordered", "coordinator",
                                           "first-step", "mpi",     "gloo"};
const char *const replay_order_names[] = {"given", "shuffle", "priority"};
const char *const replay_compute_names[] = {"spin", "sleep", "memory"};

static const char usage_text[] =
    "usage: dfccl-bench replay FILE... [options]\n"
    "\n"
    "Replays the calls and the computing of a training job, as recorded in FILE:\n"
    "one file for each rank, or one for all. Formats: lines of JSON, PyTorch\n"
    "Execution Traces, Flight Recorder dumps, PARAM's basic lists, and recordings\n"
    "of this library (DFCCL_RECORD). Every element of every run of one iteration is\n"
    "checked; the other iterations are timed.\n"
    "\n";

static const char options_text[] =
    "  -n, --ranks RANKS         ranks on this machine; a single trace of one rank is\n"
    "                            then the trace of each of them (as in the files)\n"
    "      --processes           one process for each rank instead of one thread\n"
    "                            (always, with the engines mpi and gloo)\n"
    "      --env                 this process is one rank of a job that torchrun,\n"
    "                            mpirun or Slurm has started, or a shell with RANK,\n"
    "                            WORLD_SIZE, MASTER_ADDR and MASTER_PORT; rank 0\n"
    "                            prints. Engine mpi: mpirun; engine gloo: the same,\n"
    "                            and --rendezvous\n"
    "      --engine ENGINE       who decides the order of the collectives (dfccl):\n"
    "                              dfccl        nobody: each rank submits at once\n"
    "                              ordered      the file: its order on all ranks\n"
    "                              coordinator  rank 0 names what all ranks are\n"
    "                                           ready for, round by round (Horovod)\n"
    "                              first-step   the first iteration of the first\n"
    "                                           member: later calls wait (KungFu)\n"
    "                              mpi, gloo    the file, and the calls are executed\n"
    "                                           by Open MPI or MPICH, or by Gloo\n"
    "      --order ORDER         order in which the program makes its calls (given):\n"
    "                              given        that of the file\n"
    "                              shuffle      a random one on each rank and in each\n"
    "                                           iteration, between two waits\n"
    "                              priority     that of the file; later calls have\n"
    "                                           the higher priority, unless the file\n"
    "                                           has priorities\n"
    "      --scale BYTES:COUNTS:COMPUTE\n"
    "                            factors of sizes, of numbers of calls (at most 1)\n"
    "                            and of computing times (1:1:1)\n"
    "      --compute KIND        computing is a spin, a sleep, or a stream through\n"
    "                            memory (spin)\n"
    "      --float TYPE          numbers of all floating-point types are played as\n"
    "                            TYPE, with the same bytes (float, for libraries\n"
    "                            without bfloat16)\n"
    "      --rate UNITS          units of computing in a microsecond, as in the\n"
    "                            output of --json (measured)\n"
    "      --peer FILE           module of the engine mpi or gloo (the one that was\n"
    "                            built with this program)\n"
    "      --rendezvous DIR      engine gloo with --env: an empty directory of this\n"
    "                            job, which all ranks share\n"
    "      --iterations N        timed iterations (5)\n"
    "      --seed SEED           seed of the random orders (1)\n"
    "      --json                print one JSON object\n";

static const char end_text[] =
    "      --help, --version\n"
    "\n"
    "Times are medians of the iterations, in seconds. exposed: time in which a rank\n"
    "neither computes nor has finished; hidden: what the same calls take without\n"
    "computing, less exposed.\n"
    "\n"
    "Exit status:\n"
    "  0  success\n"
    "  1  the run failed, or elements were wrong\n"
    "  2  wrong usage, or a file that cannot be replayed\n";

void df_replay_print_options(void) { fputs(options_text, stdout); }

enum {
  OPTION_PROCESSES = 256,
  OPTION_ENV,
  OPTION_ENGINE,
  OPTION_ORDER,
  OPTION_SCALE,
  OPTION_COMPUTE,
  OPTION_FLOAT,
  OPTION_RATE,
  OPTION_PEER,
  OPTION_RENDEZVOUS,
  OPTION_ITERATIONS,
  OPTION_SEED,
  OPTION_JSON,
  OPTION_HELP,
  OPTION_VERSION
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"processes", no_argument, NULL, OPTION_PROCESSES},
    {"env", no_argument, NULL, OPTION_ENV},
    {"engine", required_argument, NULL, OPTION_ENGINE},
    {"order", required_argument, NULL, OPTION_ORDER},
    {"scale", required_argument, NULL, OPTION_SCALE},
    {"compute", required_argument, NULL, OPTION_COMPUTE},
    {"float", required_argument, NULL, OPTION_FLOAT},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"peer", required_argument, NULL, OPTION_PEER},
    {"rendezvous", required_argument, NULL, OPTION_RENDEZVOUS},
    {"iterations", required_argument, NULL, OPTION_ITERATIONS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static int parse_word(const char *option, const char *text, const char *const *words, int count) {
  char near[96];
  for (int i = 0; i < count; i++)
    if (strcmp(text, words[i]) == 0) return i;
  df_tool_usage_error("option %s: unknown word '%s'%s (try replay --help)", option, text,
                      df_tool_suggest(text, words, (size_t)count, near));
}

/* BYTES, BYTES:COUNTS or BYTES:COUNTS:COMPUTE. */
static void parse_scale(replay_options *options, const char *text) {
  static const df_tool_range ranges[] = {{1e-12, 1e6}, {1e-12, 1}, {0, 1e6}};
  double factors[] = {1, 1, 1};
  df_tool_parse_numbers("--scale",
                        "BYTES:COUNTS:COMPUTE, factors such as 0.01:0.5:1 (BYTES and COUNTS above "
                        "0, COUNTS at most 1)",
                        text, 3, ranges, factors);
  options->scale_bytes = factors[0];
  options->scale_counts = factors[1];
  options->scale_compute = factors[2];
}

static void parse_float(replay_options *options, const char *text) {
  if (!df_tool_type_parse(text, &options->float_type) ||
      !df_tool_type_of(options->float_type)->is_float)
    df_tool_usage_error("option --float wants a type such as float, double or bfloat16, not '%s'",
                        text);
  options->has_float = true;
}

static void apply(replay_options *options, int option, char **argv) {
  switch (option) {
  case 'n':
    options->n_ranks = (int)df_tool_parse_integer("-n", optarg, 1, DF_TOOL_MAX_RANKS);
    break;
  case OPTION_PROCESSES:
    options->processes = true;
    break;
  case OPTION_ENV:
    options->env = true;
    break;
  case OPTION_ENGINE:
    options->engine =
        (replay_engine)parse_word("--engine", optarg, replay_engine_names, REPLAY_ENGINES);
    break;
  case OPTION_ORDER:
    options->order = (replay_order)parse_word("--order", optarg, replay_order_names, REPLAY_ORDERS);
    break;
  case OPTION_SCALE:
    parse_scale(options, optarg);
    break;
  case OPTION_COMPUTE:
    options->compute =
        (replay_compute_kind)parse_word("--compute", optarg, replay_compute_names, REPLAY_COMPUTES);
    break;
  case OPTION_FLOAT:
    parse_float(options, optarg);
    break;
  case OPTION_RATE:
    df_tool_parse_numbers("--rate", "a number above 0", optarg, 1, &(df_tool_range){1e-9, 1e9},
                          &options->rate);
    break;
  case OPTION_PEER:
    options->peer_file = optarg;
    break;
  case OPTION_RENDEZVOUS:
    options->rendezvous = optarg;
    break;
  case OPTION_ITERATIONS:
    options->iterations =
        (int)df_tool_parse_integer("--iterations", optarg, 1, REPLAY_MAX_ITERATIONS);
    break;
  case OPTION_SEED:
    options->seed = (uint64_t)df_tool_parse_integer("--seed", optarg, 1, UINT32_MAX);
    break;
  case OPTION_JSON:
    options->json = true;
    break;
  case OPTION_HELP:
    fputs(usage_text, stdout);
    fputs(options_text, stdout);
    fputs(end_text, stdout);
    exit(df_tool_end_output(DF_TOOL_SUCCESS));
  case OPTION_VERSION:
    df_tool_print_version();
    exit(df_tool_end_output(DF_TOOL_SUCCESS));
  default:
    df_tool_bad_option(option, argv, long_options);
  }
}

static void check_engine(const replay_options *options) {
  const bool is_peer = df_replay_is_peer(options);
  const char *name = replay_engine_names[options->engine];
  if ((options->engine == REPLAY_ORDERED || is_peer) && options->order == REPLAY_SHUFFLE)
    df_tool_usage_error("engine %s has the order of the file: --order shuffle is for the other "
                        "engines",
                        name);
  if (is_peer && options->order == REPLAY_PRIORITY)
    df_tool_usage_error("engine %s has no priorities: --order priority is for the other engines",
                        name);
  if (options->peer_file && !is_peer)
    df_tool_usage_error("option --peer is for the engines mpi and gloo");
  if (options->env && options->engine == REPLAY_GLOO && !options->rendezvous)
    df_tool_usage_error("engine gloo with --env wants --rendezvous: a directory of all ranks");
  if (options->rendezvous && !(options->env && options->engine == REPLAY_GLOO))
    df_tool_usage_error("option --rendezvous is for engine gloo with --env");
}

replay_options df_replay_parse(int argc, char **argv) {
  replay_options options = {.scale_bytes = 1,
                            .scale_counts = 1,
                            .scale_compute = 1,
                            .iterations = 5,
                            .seed = 1,
                            .progress = df_tool_progress_wanted()};
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, ":n:", long_options, NULL)) != -1)
    apply(&options, option, argv);
  options.files = (const char *const *)argv + optind;
  options.file_count = argc - optind;
  if (options.file_count == 0) df_tool_usage_error("replay wants a file (try replay --help)");
  check_engine(&options);
  return options;
}
