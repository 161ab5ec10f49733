/* dfccl-sim: the risk of a job's deadlock, the deadlock of a schedule, what would change it; and
 * the time of a collective on a network. */
#include <stdio.h>
#include <string.h>

#include "base/result.h"
#include "commands.h"

static const char help[] =
    "dfccl-sim: the deadlock simulator of DFCCL\n"
    "\n"
    "  dfccl-sim run CONFIG.json [--rounds N] [--seed S] [--threads T] [--order "
    "concat|roundrobin]\n"
    "                [--check exact|reference] [--engine sparse|dense|oracle] [--json]\n"
    "      how often does a job deadlock under a blocking collective library?\n"
    "  dfccl-sim table1 [--rounds N] [--seed S] [--threads T] [--reference] [--json]\n"
    "      the 18 rows of the paper's Table 1 beside the paper's numbers\n"
    "  dfccl-sim check FILE... [--model single|sync] [--json]\n"
    "      will this schedule deadlock, and where is the circle? (exit status 3 if so)\n"
    "      FILE: a schedule, a recording (DFCCL_RECORD), or one rank's trace as JSON: a PyTorch\n"
    "      Flight Recorder dump, a PyTorch Execution Trace, or PARAM's list of calls\n"
    "  dfccl-sim sweep CONFIG.json --disorder A:B:N [--sync A:B:N] [--csv FILE | --svg FILE]\n"
    "                [--rounds N] [--seed S] [--threads T] [--order concat|roundrobin]\n"
    "      the risk over both probabilities, as a table or a picture\n"
    "  dfccl-sim explain CONFIG.json [--seed S] [--round R] [--order concat|roundrobin]\n"
    "      one round's story: its disorders, its barriers and the circle\n"
    "  dfccl-sim time OPERATION -n RANKS [-b SIZE[..SIZE]] [--algorithm NAME] [--network "
    "FILE.json]\n"
    "                [--slots N] [--slot SIZE] [--split N] [--lanes N] [--trace FILE.json]\n"
    "                [--json]\n"
    "      how long would a collective take on this network, and how near is that to the bound?\n"
    "  dfccl-sim --help | --version\n"
    "\n"
    "Exit status: 0 success (check: no deadlock), 3 a deadlock (check), 2 wrong usage or input,\n"
    "1 a run that failed. Errors are one sentence on standard error.\n";

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
