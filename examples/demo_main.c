/* dfccl-demo: see for yourself that collectives in any order do not deadlock, and that a job goes
 * on when ranks are lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/env.h"
#include "demo_baseline.h"
#include "demo_report.h"
#include "demo_survive.h"

/* Nothing in the demo waits this long; a run that does is reported instead of hanging. */
enum { RUN_TIMEOUT_MS = 120000 };

static void print_help(void) {
  fputs("usage: dfccl-demo disorder [options]\n"
        "       dfccl-demo survive [options]\n"
        "\n"
        "disorder: every rank runs the same all-reduces (256 B to 1 MB) in a random\n"
        "order of its own, and checks every element of every result. Without options:\n"
        "8 ranks, 8 all-reduces, 200 iterations.\n"
        "\n"
        "survive: processes run all-reduces (256 B to 256 KB) in random orders of their\n"
        "own. One is killed every second until two are left. The others go on. Then\n"
        "each is started again and joins. Each line is one loss or one newcomer: the\n"
        "view, the rank and the reason, milliseconds from the kill or the start until\n"
        "the last rank was notified and until a run had ended well on each rank after\n"
        "that, and numbers of runs of the ranks that are left:\n"
        "- kept: ended between kill and view, with the contribution of the lost rank\n"
        "- again: under way at the view, and executed without that rank (again, if they\n"
        "  had begun)\n"
        "- failed\n"
        "Every element of every result is checked, and outcomes of ranks are compared.\n"
        "\n"
        "  -n, --ranks RANKS              ranks on this machine (8)\n"
        "  -c, --collectives COLLECTIVES  all-reduces in each iteration (8)\n"
        "  -i, --iterations ITERATIONS    iterations (200)\n"
        "      --sync                     add device synchronisations at random places\n"
        "      --processes                one process for each rank instead of a thread\n"
        "      --env                      this process is one rank of a job that\n"
        "                                 torchrun, mpirun or Slurm has started, or a\n"
        "                                 shell with RANK, WORLD_SIZE, MASTER_ADDR and\n"
        "                                 MASTER_PORT; rank 0 prints\n"
        "      --seed S                   seed of the orders and the data (1)\n"
        "      --backend cpu|cuda         device that executes the collectives (cpu)\n"
        "      --in-order-baseline        run the same program on a blocking first-come\n"
        "                                 engine without preemption: it deadlocks, and\n"
        "                                 prints the circle\n"
        "      --survive 1|2              survive: runs under way at a loss are executed\n"
        "                                 again (1) or fail (2) (1)\n"
        "      --interval MS              survive: milliseconds between kills, and\n"
        "                                 between starts (1000)\n"
        "      --json                     print one JSON object: ranks, collectives,\n"
        "                                 iterations, completed (runs of all ranks),\n"
        "                                 wrong (elements), preemptions_per_block,\n"
        "                                 preemptions (of all blocks),\n"
        "                                 voluntary_quits_per_rank, seconds; for the\n"
        "                                 baseline deadlock and cycle (rank, waits_for,\n"
        "                                 held_by), too; survive: ranks, views, lost,\n"
        "                                 joined, runs, repeated, failed (of all\n"
        "                                 ranks), wrong, ms_to_view_max and\n"
        "                                 ms_to_run_max (losses), ms_to_join_max\n"
        "      --help, --version\n"
        "\n"
        "Exit status:\n"
        "  0  success\n"
        "  1  the run failed, or an element was wrong\n"
        "  2  wrong usage\n"
        "  3  the baseline deadlocked\n",
        stdout);
}

enum {
  OPTION_SYNC = 256,
  OPTION_PROCESSES,
  OPTION_ENV,
  OPTION_SEED,
  OPTION_BACKEND,
  OPTION_BASELINE,
  OPTION_SURVIVE,
  OPTION_INTERVAL,
  OPTION_JSON,
  OPTION_HELP,
  OPTION_VERSION
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"collectives", required_argument, NULL, 'c'},
    {"iterations", required_argument, NULL, 'i'},
    {"sync", no_argument, NULL, OPTION_SYNC},
    {"processes", no_argument, NULL, OPTION_PROCESSES},
    {"env", no_argument, NULL, OPTION_ENV},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"backend", required_argument, NULL, OPTION_BACKEND},
    {"in-order-baseline", no_argument, NULL, OPTION_BASELINE},
    {"survive", required_argument, NULL, OPTION_SURVIVE},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* The command line: the options of both demos. */
typedef struct {
  demo_options disorder;
  survive_options survive;
  bool is_survive;
  const char *of_disorder, *of_survive; /* options that were given and belong to one demo only */
} command_line;

static void apply(command_line *line, int option, char **argv) {
  demo_options *options = &line->disorder;
  switch (option) {
  case 'n':
    options->n_ranks = (int)df_tool_parse_integer("-n", optarg, 1, DF_TOOL_MAX_RANKS);
    line->survive.n_ranks = options->n_ranks;
    break;
  case 'c':
    options->collectives = (int)df_tool_parse_integer("-c", optarg, 1, DEMO_MAX_COLLECTIVES);
    line->of_disorder = "-c";
    break;
  case 'i':
    options->iterations = df_tool_parse_integer("-i", optarg, 1, 1000000000);
    line->of_disorder = "-i";
    break;
  case OPTION_SYNC:
    options->sync = true;
    line->of_disorder = "--sync";
    break;
  case OPTION_PROCESSES:
    options->processes = true; /* the ranks of survive are processes */
    break;
  case OPTION_ENV:
    options->env = options->processes = true;
    line->of_disorder = "--env";
    break;
  case OPTION_SEED:
    options->seed = (uint64_t)df_tool_parse_integer("--seed", optarg, 0, INT64_MAX);
    line->survive.seed = options->seed;
    break;
  case OPTION_BACKEND:
    options->backend = df_tool_parse_backend(optarg);
    if (options->backend != dfcclBackendCpu) line->of_disorder = "--backend cuda";
    break;
  case OPTION_BASELINE:
    options->in_order_baseline = true;
    line->of_disorder = "--in-order-baseline";
    break;
  case OPTION_SURVIVE:
    line->survive.survive = (int)df_tool_parse_integer("--survive", optarg, 1, 2);
    line->of_survive = "--survive";
    break;
  case OPTION_INTERVAL:
    line->survive.interval_ms = (int)df_tool_parse_integer("--interval", optarg, 0, 3600000);
    line->of_survive = "--interval";
    break;
  case OPTION_JSON:
    options->json = line->survive.json = true;
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

static void check_words(command_line *line, int argc, char **argv) {
  if (optind >= argc)
    df_tool_usage_error("say what to show: dfccl-demo disorder, or survive (try --help)");
  line->is_survive = strcmp(argv[optind], "survive") == 0;
  if (!line->is_survive && strcmp(argv[optind], "disorder") != 0)
    df_tool_usage_error("there is no demo '%s', only 'disorder' and 'survive' (try --help)",
                        argv[optind]);
  if (optind + 1 < argc)
    df_tool_usage_error("superfluous word '%s' (try --help)", argv[optind + 1]);
  const char *foreign = line->is_survive ? line->of_disorder : line->of_survive;
  if (foreign != NULL)
    df_tool_usage_error("option %s is for %s only (try --help)", foreign,
                        line->is_survive ? "disorder" : "survive");
}

static command_line parse(int argc, char **argv) {
  command_line line = {.disorder = {.collectives = 8,
                                    .iterations = 200,
                                    .seed = 1,
                                    .backend = dfcclBackendCpu,
                                    .progress = df_tool_progress_wanted()},
                       .survive = {.survive = 1, .interval_ms = 1000, .seed = 1}};
  int option;
  while ((option = getopt_long(argc, argv, ":n:c:i:", long_options, NULL)) != -1)
    apply(&line, option, argv);
  check_words(&line, argc, argv);
  demo_options *disorder = &line.disorder;
  if (disorder->env && disorder->n_ranks != 0)
    df_tool_usage_error("the launcher says how many ranks there are: -n does not go with --env");
  if (disorder->env && disorder->in_order_baseline)
    df_tool_usage_error("option --in-order-baseline is for ranks on this machine, not for --env");
  if (disorder->n_ranks == 0) disorder->n_ranks = line.survive.n_ranks = 8;
  if (line.is_survive &&
      (disorder->n_ranks < SURVIVE_MIN_RANKS || disorder->n_ranks > SURVIVE_MAX_RANKS))
    df_tool_usage_error("option -n of survive wants %d to %d ranks, not %d", SURVIVE_MIN_RANKS,
                        SURVIVE_MAX_RANKS, disorder->n_ranks);
  return line;
}

static void give_up(void *argument) {
  const demo_job *job = argument;
  if (job->baseline != NULL) demo_baseline_give_up(job->baseline);
}

/* Prints what the run showed; returns the exit status. */
static int conclude(const demo_job *job, const demo_report *reports, bool fine) {
  demo_totals totals = demo_add_up(reports, job->options.n_ranks);
  bool deadlock = job->baseline != NULL && demo_baseline_deadlocked(job->baseline);
  if (job->options.json) {
    if (!demo_print_json(&job->options, &totals, job->baseline)) return DF_TOOL_FAILED;
  } else if (fine) {
    demo_print_summary(&job->options, &totals);
  }
  if (fine && deadlock) {
    FILE *stream = job->options.json ? stderr : stdout;
    fprintf(stream, "Deadlock: no rank can move any more. The circular wait:\n");
    demo_baseline_print_circle(job->baseline, stream);
    return DF_TOOL_DEADLOCK;
  }
  if (totals.sum.wrong != 0)
    df_tool_error("%llu result elements were wrong", (unsigned long long)totals.sum.wrong);
  return fine && totals.sum.wrong == 0 ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}

static dfcclConfig_t config_of(const demo_options *options) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = options->in_order_baseline ? dfcclBackendCpu : options->backend;
  config.timeoutMs = RUN_TIMEOUT_MS;
  return config;
}

static int run(demo_job *job, const df_tool_env *env) {
  demo_report *reports = calloc((size_t)job->options.n_ranks, sizeof *reports);
  bool ready = reports != NULL && demo_layout_init(&job->layout, job->options.collectives);
  if (ready && job->options.in_order_baseline) {
    job->baseline = demo_baseline_create(job->options.n_ranks, &job->layout);
    ready = job->baseline != NULL;
  }
  int status = DF_TOOL_FAILED;
  if (!ready) {
    df_tool_error("out of memory");
  } else {
    df_tool_job launch = {.n_ranks = job->options.n_ranks,
                          .processes = job->options.processes,
                          .without_library = job->options.in_order_baseline,
                          .config = DFCCL_CONFIG_INITIALIZER,
                          .rank_main = job->options.in_order_baseline ? demo_baseline_rank_main
                                                                      : demo_library_rank_main,
                          .argument = job,
                          .on_failure = give_up,
                          .report_bytes = sizeof(demo_report),
                          .reports = reports};
    launch.config = config_of(&job->options);
    bool fine = env ? df_tool_env_launch(&launch, env) : df_tool_launch(&launch);
    if (env == NULL || env->rank == 0)
      status = conclude(job, reports, fine);
    else if (fine && demo_add_up(reports, job->options.n_ranks).sum.wrong == 0)
      status = DF_TOOL_SUCCESS;
  }
  demo_baseline_destroy(job->baseline);
  demo_layout_destroy(&job->layout);
  free(reports);
  return status;
}

int main(int argc, char **argv) {
  df_tool_set_name("dfccl-demo");
  const command_line line = parse(argc, argv);
  if (line.is_survive) return df_tool_end_output(demo_survive(&line.survive));
  demo_job job = {.options = line.disorder};
  df_tool_env env;
  if (!job.options.env) return df_tool_end_output(run(&job, NULL));
  const dfcclConfig_t config = config_of(&job.options);
  if (!df_tool_env_join(&env, &config)) return DF_TOOL_FAILED;
  job.options.n_ranks = env.n_ranks;
  return df_tool_end_output(run(&job, &env));
}
