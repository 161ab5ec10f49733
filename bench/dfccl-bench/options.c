#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/element.h"
#include "replay/replay_options.h"
#include "tuning/choice.h"

static const char *const operation_names[] = {
#define DF_OPERATION(id, name, word, ...) [DF_BENCH_##id] = word,
#define DF_VECTOR_OPERATION(id, name, word, ...) [DF_BENCH_##id] = word,
#include "plans/operations.def"
    [DF_BENCH_OVERHEAD] = "overhead",
    [DF_BENCH_TUNE] = "tune",
    [DF_BENCH_DISORDER] = "disorder",
    [DF_BENCH_EVENTS] = "events"};

const char *df_bench_operation_name(df_bench_operation operation) {
  return operation_names[operation];
}

bool df_bench_has_in_place(df_bench_operation operation) {
  return operation != DF_BENCH_ALL_TO_ALL_V && operation != DF_BENCH_NEIGHBOURS;
}

/* All collectives, in columns. */
static void print_operations(void) {
  enum { COLUMNS = 4 };
  puts("OP is a collective operation:");
  for (int i = 0; i < DF_BENCH_ALL_TO_ALL_DYNAMIC; i++) {
    const int is_last = i % COLUMNS == COLUMNS - 1 || i + 1 == DF_BENCH_ALL_TO_ALL_DYNAMIC;
    printf("%s%-*s%s", i % COLUMNS ? " " : "  ", is_last ? 0 : 16, operation_names[i],
           is_last ? "\n" : "");
  }
}

static const char operations_help[] =
    "- sendrecv: rank 0 sends to rank 1\n"
    "- neighbours: each rank sends to the next one\n"
    "- the V operations and neighbours have equal pieces here\n"
    "- barrier has no size\n"
    "\n"
    "or a measurement of another kind:\n"
    "  overhead   the cost of the library around an empty collective (one rank)\n"
    "  tune       measures all algorithms with 2, 4, 8 ... RANKS ranks, as threads\n"
    "             and as processes, and writes a table for DFCCL_TUNING\n"
    "  disorder   times batches of eight all-reduces in four modes:\n"
    "               ordered      in the same order on all ranks\n"
    "               disordered   in a random order of each rank\n"
    "               patient      ordered, with thresholds that never expire\n"
    "               blocking     ordered, one collective at a time\n"
    "             and prints ratios of turns of one round, preemptions and quits\n"
    "  events     disordered batches: preemptions, length of the task queue, time to\n"
    "             prepare and to execute, by collective\n"
    "  replay     plays the calls and the computing of a training job, as recorded\n"
    "             in files: dfccl-bench replay FILE... [options of replay]\n";

static const char options_help[] =
    "  -n, --ranks RANKS         ranks on this machine (2; tune: 8)\n"
    "      --processes           one process for each rank instead of one thread\n"
    "      --env                 this process is one rank of a job that torchrun,\n"
    "                            mpirun or Slurm has started, or a shell with RANK,\n"
    "                            WORLD_SIZE, MASTER_ADDR and MASTER_PORT; rank 0\n"
    "                            prints\n"
    "  -b, --minbytes MIN        first size, with suffix K, M or G\n"
    "                            (8; disorder, events: 256)\n"
    "  -e, --maxbytes MAX        last size (128M; tune: 8M; disorder, events: 1M)\n"
    "  -f, --stepfactor FACTOR   ratio of a size to the one before\n"
    "                            (2; tune: 4; disorder: 16)\n"
    "  -i, --iters ITERS         timed iterations (fewer for larger sizes);\n"
    "                            disorder: batches of a turn; events: batches\n"
    "  -w, --warmup_iters WARMUP untimed iterations before (5)\n"
    "  -d, --datatype TYPE       int8 uint8 int16 uint16 int32 uint32 int64 uint64\n"
    "                            half float double bfloat16 f8e4m3 f8e5m2 (float)\n"
    "  -o, --op REDOP            sum prod max min avg; integers: band bor bxor (sum)\n"
    "  -a, --algorithm NAME      name of an algorithm, see docs/TUNING.md\n"
    "                            (the choice of the library)\n"
    "      --rounds ROUNDS       disorder: turns of each mode (21); tune: turns of\n"
    "                            1 ms of each algorithm at each size (7)\n"
    "      --seed SEED           disorder, events: seed of the random orders (1)\n"
    "      --out FILE            tune: file for the table (standard output; with\n"
    "                            --quick: this machine's calibration, which jobs use)\n"
    "      --quick               tune: in 30 s, with fewer sizes and rounds\n"
    "      --alloc user|dfccl    ordinary memory, or memory of dfcclMemAlloc (user)\n"
    "      --in-place            in-place results only (the table otherwise has\n"
    "                            both; JSON has the out-of-place results)\n"
    "      --backend cpu|cuda    device that executes the collectives (cpu)\n"
    "      --survive 0|1|2       config.survive: the behaviour when a rank is lost; 1\n"
    "                            and 2 cost time without any loss, too (0)\n"
    "      --check[=0|1]         check every element of one more, untimed run (1)\n"
    "      --explain             print how the library would execute each size, and\n"
    "                            why, without timing it\n"
    "      --bound               print the lower bound of the operation beside each\n"
    "                            time, and the fraction of its speed that is\n"
    "                            reached, for this machine (by the speed of memcpy)\n"
    "      --network FILE        with --bound: the bound for the network of FILE\n"
    "                            (docs/SIMULATOR.md)\n"
    "      --json                print one JSON object\n"
    "      --help, --version\n"
    "\n"
    "Columns, sizes and bandwidths are those of nccl-tests. An iteration is one run\n"
    "and the wait for it. Its time is that of the slowest rank; the time column is\n"
    "the median over the iterations.\n"
    "\n"
    "Exit status:\n"
    "  0  success\n"
    "  1  the run failed\n"
    "  2  wrong usage\n";

static void print_help(void) {
  puts("usage: dfccl-bench OP [options]\n");
  print_operations();
  printf("\n%s\n%s", operations_help, options_help);
  puts("\nOptions of replay, which are explained by dfccl-bench replay --help:");
  df_replay_print_options();
}

enum {
  OPTION_PROCESSES = 256,
  OPTION_ENV,
  OPTION_ALLOC,
  OPTION_OUT,
  OPTION_QUICK,
  OPTION_ROUNDS,
  OPTION_SEED,
  OPTION_IN_PLACE,
  OPTION_BACKEND,
  OPTION_SURVIVE,
  OPTION_CHECK,
  OPTION_EXPLAIN,
  OPTION_BOUND,
  OPTION_NETWORK,
  OPTION_JSON,
  OPTION_HELP,
  OPTION_VERSION
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"processes", no_argument, NULL, OPTION_PROCESSES},
    {"env", no_argument, NULL, OPTION_ENV},
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"iters", required_argument, NULL, 'i'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"datatype", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"algorithm", required_argument, NULL, 'a'},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"out", required_argument, NULL, OPTION_OUT},
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"alloc", required_argument, NULL, OPTION_ALLOC},
    {"in-place", no_argument, NULL, OPTION_IN_PLACE},
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"survive", required_argument, NULL, OPTION_SURVIVE},
    {"check", optional_argument, NULL, OPTION_CHECK},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"bound", no_argument, NULL, OPTION_BOUND},
    {"network", required_argument, NULL, OPTION_NETWORK},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static bool parse_alloc(const char *text) {
  if (strcmp(text, "user") != 0 && strcmp(text, "dfccl") != 0)
    df_tool_usage_error("option --alloc wants user or dfccl, not '%s'", text);
  return strcmp(text, "dfccl") == 0;
}

static df_bench_operation parse_operation(const char *text) {
  for (size_t i = 0; i < sizeof operation_names / sizeof operation_names[0]; i++)
    if (strcmp(text, operation_names[i]) == 0 && i != DF_BENCH_ALL_TO_ALL_DYNAMIC)
      return (df_bench_operation)i;
  const char *words[sizeof operation_names / sizeof operation_names[0]];
  size_t n = 0;
  for (size_t i = 0; i < sizeof operation_names / sizeof operation_names[0]; i++)
    if (i != DF_BENCH_ALL_TO_ALL_DYNAMIC) words[n++] = operation_names[i];
  if (strcmp(text, "replay") == 0) df_tool_usage_error("replay must be the first word");
  char near[96];
  df_tool_usage_error("there is no operation '%s'%s (try --help)", text,
                      df_tool_suggest(text, words, n, near));
}

static void apply(df_bench_options *options, int option, char **argv) {
  switch (option) {
  case 'n':
    options->n_ranks = (int)df_tool_parse_integer("-n", optarg, 1, DF_TOOL_MAX_RANKS);
    break;
  case 'b':
    options->min_bytes = df_tool_parse_size("-b", optarg);
    if (options->min_bytes == 0) df_tool_usage_error("option -b wants at least 1 byte");
    break;
  case 'e':
    options->max_bytes = df_tool_parse_size("-e", optarg);
    break;
  case 'f':
    options->factor = (size_t)df_tool_parse_integer("-f", optarg, 2, 1 << 20);
    break;
  case 'i':
    options->iterations = (int)df_tool_parse_integer("-i", optarg, 1, DF_BENCH_MAX_ITERATIONS);
    break;
  case 'w':
    options->warmup = (int)df_tool_parse_integer("-w", optarg, 0, DF_BENCH_MAX_ITERATIONS);
    break;
  case 'd':
    if (!df_tool_type_parse(optarg, &options->type))
      df_tool_usage_error("option -d: unknown type '%s' (try --help)", optarg);
    break;
  case 'o':
    if (!df_tool_operator_parse(optarg, &options->op))
      df_tool_usage_error("option -o: unknown operator '%s' (try --help)", optarg);
    break;
  case 'a':
    options->algorithm = optarg;
    break;
  case OPTION_ROUNDS:
    options->rounds = (int)df_tool_parse_integer("--rounds", optarg, 1, DF_BENCH_MAX_ROUNDS);
    break;
  case OPTION_SEED:
    options->seed = (uint64_t)df_tool_parse_integer("--seed", optarg, 1, UINT32_MAX);
    break;
  case OPTION_OUT:
    options->out = optarg;
    break;
  case OPTION_QUICK:
    options->quick = true;
    break;
  case OPTION_PROCESSES:
    options->processes = true;
    break;
  case OPTION_ENV:
    options->env = true;
    break;
  case OPTION_ALLOC:
    options->library_memory = parse_alloc(optarg);
    break;
  case OPTION_IN_PLACE:
    options->in_place = true;
    break;
  case OPTION_BACKEND:
    options->backend = df_tool_parse_backend(optarg);
    break;
  case OPTION_SURVIVE:
    options->survive = (int)df_tool_parse_integer("--survive", optarg, 0, 2);
    break;
  case OPTION_CHECK:
    options->check = optarg == NULL || df_tool_parse_integer("--check", optarg, 0, 1) == 1;
    break;
  case OPTION_EXPLAIN:
    options->explain = true;
    break;
  case OPTION_BOUND:
    options->bound = true;
    break;
  case OPTION_NETWORK:
    options->network = optarg;
    break;
  case OPTION_JSON:
    options->json = true;
    break;
  case OPTION_HELP:
    print_help();
    exit(df_tool_end_output(DF_TOOL_SUCCESS));
  case OPTION_VERSION:
    df_tool_print_version();
    exit(df_tool_end_output(DF_TOOL_SUCCESS));
  default:
    df_tool_bad_option(option, argv, long_options);
  }
}

static void check_survive(const df_bench_options *options) {
  if (options->survive == 0) return;
  if (options->operation >= DF_BENCH_OVERHEAD)
    df_tool_usage_error("option --survive is for collectives only");
  if (options->backend == dfcclBackendCuda)
    df_tool_usage_error("option --survive is for the CPU device only");
}

/* Completes and checks the options that depend on the operation. */
static void complete(df_bench_options *options) {
  bool tune = options->operation == DF_BENCH_TUNE;
  bool disorder = options->operation == DF_BENCH_DISORDER;
  bool events = options->operation == DF_BENCH_EVENTS;
  if (options->min_bytes == 0)
    options->min_bytes = disorder || events ? 256 : options->quick ? 1024 : 8;
  if ((disorder || events) && options->max_bytes == 0) options->max_bytes = 1 << 20;
  if (disorder && options->factor == 0) options->factor = 16;
  if (!disorder && !tune && options->rounds != 0)
    df_tool_usage_error("option --rounds is for disorder and tune only");
  if (!disorder && !events && options->seed != 0)
    df_tool_usage_error("option --seed is for disorder and events only");
  if (events && options->processes) df_tool_usage_error("option --processes is not for events");
  if (disorder && options->in_place)
    df_tool_usage_error("disorder measures out of place: --in-place is for the other operations");
  if (options->operation == DF_BENCH_BARRIER) options->min_bytes = options->max_bytes = 8;
  if (options->operation == DF_BENCH_SEND_RECV && options->n_ranks > 2)
    df_tool_usage_error("sendrecv is between two ranks: -n must be 2");
  if (options->in_place && !df_bench_has_in_place(options->operation))
    df_tool_usage_error("%s has no runs in place", operation_names[options->operation]);
  if (options->seed == 0) options->seed = 1;
  if (options->explain && (tune || disorder || events || options->operation == DF_BENCH_OVERHEAD))
    df_tool_usage_error("option --explain is for collectives only");
  if (options->network != NULL && !options->bound)
    df_tool_usage_error("option --network is for --bound only");
  if (options->bound &&
      (tune || disorder || events || options->explain || options->operation == DF_BENCH_OVERHEAD ||
       options->backend == dfcclBackendCuda))
    df_tool_usage_error("option --bound is for times of collectives on the CPU only");
  if (options->bound && options->env && options->network == NULL)
    df_tool_usage_error(
        "option --bound with --env wants --network: ranks may be on other machines");
  if (options->env &&
      (tune || disorder || events || options->explain || options->operation == DF_BENCH_OVERHEAD))
    df_tool_usage_error("option --env is for collectives only");
  if (options->env && (options->n_ranks != 0 || options->processes))
    df_tool_usage_error("option --env: the launcher says how many ranks there are");
  options->processes |= options->env;
  if (options->n_ranks == 0) options->n_ranks = tune ? 8 : 2;
  if (options->max_bytes == 0)
    options->max_bytes = options->quick ? 4 << 20 : tune ? 8 << 20 : 128 << 20;
  if (options->factor == 0) options->factor = tune ? 4 : 2;
  if (options->quick && !tune) df_tool_usage_error("option --quick is for tune only");
  if (options->out != NULL && !tune) df_tool_usage_error("option --out is for tune only");
  if (tune && options->n_ranks < 2) df_tool_usage_error("tune wants two ranks or more (-n)");
  if (tune && options->algorithm != NULL)
    df_tool_usage_error("tune measures all algorithms: -a is for the other operations");
  if (options->algorithm == NULL || strcmp(options->algorithm, "auto") == 0) return;
  if (strncmp(options->algorithm, "file:", 5) == 0) return; /* the library checks it */
  df_named named;
  int operation =
      df_operation_by_word(operation_names[disorder ? DF_BENCH_ALL_REDUCE : options->operation]);
  char why[DF_ALGORITHM_SENTENCE_BYTES];
  if (!df_named_read(&named, options->algorithm, why, sizeof why))
    df_tool_usage_error("option -a: %s", why);
  if (strcmp(named.word, "auto") == 0) return;
  if (named.algorithm < 0 || operation < 0 ||
      !df_algorithm_has(named.algorithm, (df_operation)operation))
    df_tool_usage_error(
        "option -a: %s",
        df_algorithm_explain(named.word, operation,
                             operation_names[disorder ? DF_BENCH_ALL_REDUCE : options->operation],
                             why));
}

df_bench_options df_bench_parse(int argc, char **argv) {
  df_bench_options options = {.warmup = 5,
                              .type = dfcclFloat32,
                              .op = dfcclSum,
                              .backend = dfcclBackendCpu,
                              .check = true,
                              .progress = df_tool_progress_wanted()};
  int option;
  while ((option = getopt_long(argc, argv, ":n:b:e:f:i:w:d:o:a:", long_options, NULL)) != -1)
    apply(&options, option, argv);
  if (optind >= argc) df_tool_usage_error("say what to measure: dfccl-bench OP (try --help)");
  options.operation = parse_operation(argv[optind]);
  complete(&options);
  check_survive(&options);
  if (optind + 1 < argc)
    df_tool_usage_error("superfluous word '%s' (try --help)", argv[optind + 1]);
  if (options.min_bytes > options.max_bytes)
    df_tool_usage_error("the first size (-b, %zu) is larger than the last (-e, %zu)",
                        options.min_bytes, options.max_bytes);
  return options;
}
