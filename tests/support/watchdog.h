/* The watchdog's interface for the harness: how a process of a test ends early. */
#ifndef DF_TESTS_SUPPORT_WATCHDOG_H
#define DF_TESTS_SUPPORT_WATCHDOG_H

/* Kills the children that are being watched and ends the process at once, without exit handlers. */
void df_print_repetition(void); /* calls the function given to df_on_failure, if there is one */
_Noreturn void df_watchdog_end_process(int status);

#endif
