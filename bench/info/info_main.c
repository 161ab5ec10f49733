/* dfccl-info: what the library sees of this machine, and of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "info/net.h"

static void print_help(void) {
  puts("usage: dfccl-info net [options]\n"
       "\n"
       "net: this host's network interfaces, which of them jobs of several hosts use\n"
       "(DFCCL_NET_INTERFACES), and what protects such jobs. With --env, of all ranks of a job: "
       "how\n"
       "each pair reaches each other, at which address, the time of a small message between them,\n"
       "and the bandwidth.\n"
       "\n"
       "      --env      this process is one rank of a job that torchrun, mpirun or Slurm has "
       "started,\n"
       "                 or a shell with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; rank 0 "
       "prints\n"
       "      --json     print one JSON object\n"
       "      --help, --version\n"
       "\n"
       "Exit status: 0 all right, 1 failed, 2 wrong usage.");
}

enum { OPTION_ENV = 256, OPTION_JSON, OPTION_HELP, OPTION_VERSION };

static const struct option long_options[] = {
    {"env", no_argument, NULL, OPTION_ENV},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

int main(int argc, char **argv) {
  bool env = false, json = false;
  int option;
  df_tool_set_name("dfccl-info");
  while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
    switch (option) {
    case OPTION_ENV:
      env = true;
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
  if (optind >= argc) df_tool_usage_error("say what to show: dfccl-info net (try --help)");
  if (strcmp(argv[optind], "net") != 0)
    df_tool_usage_error("there is nothing to show of '%s', only of 'net' (try --help)",
                        argv[optind]);
  if (optind + 1 < argc)
    df_tool_usage_error("superfluous word '%s' (try --help)", argv[optind + 1]);
  const bool fine = env ? df_info_job(json) : df_info_host(json);
  return df_tool_end_output(fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED);
}
