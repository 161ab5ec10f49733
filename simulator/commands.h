/* The commands of dfccl-sim. Each gets the arguments after its name and returns the exit status. */
#ifndef DF_SIM_COMMANDS_H
#define DF_SIM_COMMANDS_H

enum {
  DF_EXIT_SUCCESS = 0,
  DF_EXIT_FAILED = 1, /* out of memory, a file that cannot be written */
  DF_EXIT_BAD_INPUT = 2,
  DF_EXIT_DEADLOCK = 3, /* check only */
};

int df_command_run(int argument_count, char **arguments);
int df_command_table1(int argument_count, char **arguments);
int df_command_check(int argument_count, char **arguments);
int df_command_sweep(int argument_count, char **arguments);
int df_command_explain(int argument_count, char **arguments);
int df_command_time(int argument_count, char **arguments);

/* Prints the latest failure's sentence to standard error and returns the exit status for it. */
int df_command_failed(int result);

#endif
