/*
 * When other threads and processes have done all they can do by themselves: each of them sleeps, at
 * many looks in a row. A thread that is only starved of a processor is runnable, not asleep: so
 * this holds on a loaded machine, where sleeping for "long enough" does not.
 */
#ifndef DF_TESTS_SUPPORT_REST_H
#define DF_TESTS_SUPPORT_REST_H

#include <stdbool.h>
#include <sys/types.h>

/* All threads of these processes (the calling one excepted) sleep now; processes that have ended
 * count as asleep. */
bool df_asleep(const pid_t *pids, int count);

/* Waits until they slept at so many looks in a row, a hundredth of a second apart. */
void df_await_rest(const pid_t *pids, int count, int looks);

/* Before a fork under a sanitizer: its allocator does not survive one while another thread is
 * inside it. Returns when all other threads of this process sleep, outside the allocator therefore.
 */
void df_quiet_before_fork(void);

#endif
