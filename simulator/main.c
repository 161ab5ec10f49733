/* dfccl-sim: the risk of a job's deadlock, the deadlock of a schedule, what would change it; and
 * the time of a collective on a network. */
#include <stdio.h>
#include <string.h>

#include "base/result.h"
#include "commands.h"

static const char help[] =
    "dfccl-sim: the deadlock simulator of DFCCL\n"
    "\n"
    "  dfccl-sim run CONFIG.json [--rounds N] [--seed S] [--threads T]\n"
    "                [--order concat|roundrobin] [--check exact|reference]\n"
    "                [--engine sparse|dense|oracle] [--json]\n"
    "      prints how often a job deadlocks under a blocking collective library\n"
    "  dfccl-sim table1 [--rounds N] [--seed S] [--threads T] [--reference]\n"
    "                [--json]\n"
    "      prints the 18 rows of Table 1 of the paper beside the paper's numbers\n"
    "  dfccl-sim check FILE... [--model single|sync] [--json]\n"
    "      prints whether this schedule deadlocks, and the circle (exit status 3)\n"
    "      FILE: a schedule, a recording (DFCCL_RECORD), or the trace of one rank as\n"
    "      JSON: a PyTorch Flight Recorder dump, a PyTorch Execution Trace, or\n"
    "      PARAM's list of calls\n"
    "  dfccl-sim sweep CONFIG.json --disorder A:B:N [--sync A:B:N]\n"
    "                [--csv FILE | --svg FILE] [--rounds N] [--seed S]\n"
    "                [--threads T] [--order concat|roundrobin]\n"
    "      prints the risk over both probabilities, as a table or a picture\n"
    "  dfccl-sim explain CONFIG.json [--seed S] [--round R]\n"
    "                [--order concat|roundrobin]\n"
    "      prints the events of one round: its disorders, barriers and the circle\n"
    "  dfccl-sim time OPERATION -n RANKS [-b SIZE[..SIZE]] [--algorithm NAME]\n"
    "                [--network FILE.json] [--slots N] [--slot SIZE] [--split N]\n"
    "                [--lanes N] [--blocks N] [--trace FILE.json] [--json]\n"
    "      prints the time of a collective on this network, and its lower bound\n"
    "  dfccl-sim --help | --version\n"
    "\n"
    "Options:\n"
    "      --rounds N         number of rounds (run, sweep: that of CONFIG.json;\n"
    "                         table1: 32000)\n"
    "      --seed S           seed of all rounds (run, sweep, explain: that of\n"
    "                         CONFIG.json; table1: 2023)\n"
    "      --round R          explain: number of the round, from 0\n"
    "      --threads T        threads (one for each core); results do not depend on\n"
    "                         their number\n"
    "      --order ORDER      the order of a GPU's collectives: concat (group after\n"
    "                         group) or roundrobin (index by index)\n"
    "      --check CHECK      exact, or reference: the verdicts of the program that\n"
    "                         was published with the paper\n"
    "      --engine ENGINE    sparse (the fastest), dense or oracle (the definition,\n"
    "                         word for word); all have the same results\n"
    "      --reference        table1: the reference check, too\n"
    "      --model MODEL      check: single (in order) or sync (barriers only)\n"
    "      --disorder A:B:N   sweep: N probabilities from A to B of a disorder\n"
    "      --sync A:B:N       sweep: the same of a synchronisation\n"
    "      --csv FILE         sweep: comma-separated values (- is standard output)\n"
    "      --svg FILE         sweep: a picture\n"
    "  -n RANKS               time: ranks\n"
    "  -b SIZE[..SIZE]        time: bytes, doubled from the first to the second, with\n"
    "                         suffix K, M or G (1M)\n"
    "      --algorithm NAME   time: one algorithm instead of all; file:PATH for a\n"
    "                         file in MSCCL's XML\n"
    "      --network FILE     time: rates and latencies (docs/SIMULATOR.md)\n"
    "      --slots N          time: slots of each connection (4)\n"
    "      --slot SIZE        time: bytes of a slot (128K)\n"
    "      --split N          time: subgroup size of twolevel and hierarchical\n"
    "      --lanes N          time: lanes of hierarchical\n"
    "      --blocks N         time: blocks of the collective (1)\n"
    "      --trace FILE       time: a picture for ui.perfetto.dev\n"
    "      --json             print one JSON object\n"
    "      --help, --version\n"
    "\n"
    "Exit status:\n"
    "  0  success (check: no deadlock)\n"
    "  1  the run failed\n"
    "  2  wrong usage or input\n"
    "  3  check: a deadlock\n"
    "An error is one sentence on standard error.\n";

int df_command_failed(int result) {
  fprintf(stderr, "dfccl-sim: %s\n", df_last_sentence());
  return result == dfcclInvalidArgument ? DF_EXIT_BAD_INPUT : DF_EXIT_FAILED;
}

/* A command has succeeded only if its output went somewhere. */
static int written(int status) {
  if (status == DF_EXIT_BAD_INPUT || status == DF_EXIT_FAILED) return status;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  return df_command_failed(df_fail(dfcclSystemError, "standard output cannot be written"));
}

int main(int argument_count, char **arguments) {
  static const struct {
    const char *name;
    int (*run)(int argument_count, char **arguments);
  } commands[] = {{"run", df_command_run},         {"table1", df_command_table1},
                  {"check", df_command_check},     {"sweep", df_command_sweep},
                  {"explain", df_command_explain}, {"time", df_command_time}};
  for (int i = 1; i < argument_count && strcmp(arguments[i], "--") != 0; i++) {
    if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
      fputs(help, stdout);
      return written(DF_EXIT_SUCCESS);
    }
    if (strcmp(arguments[i], "--version") == 0) {
      printf("dfccl-sim %d.%d.%d\n", DFCCL_MAJOR, DFCCL_MINOR, DFCCL_PATCH);
      return written(DF_EXIT_SUCCESS);
    }
  }
  if (argument_count < 2)
    return df_command_failed(df_fail(
        dfcclInvalidArgument, "expected a command: run, table1, check, sweep, explain or time "
                              "(--help tells more)"));
  for (unsigned i = 0; i < DF_COUNT_OF(commands); i++)
    if (strcmp(arguments[1], commands[i].name) == 0)
      return written(commands[i].run(argument_count - 2, arguments + 2));
  return df_command_failed(df_fail(dfcclInvalidArgument,
                                   "unknown command \"%.60s\": expected run, table1, check, sweep, "
                                   "explain or time",
                                   arguments[1]));
}
