/*
 * Detects that other threads and processes have done all that they can do by themselves: each of
 * them sleeps, in several observations in a row. A thread that merely has no processor is runnable,
 * not asleep. So the condition is right on a loaded machine, where a fixed sleep is not.
 */
#ifndef DF_TESTS_SUPPORT_REST_H
#define DF_TESTS_SUPPORT_REST_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether all threads of these processes (except the calling one) sleep now; processes that have
 * ended count as asleep. */
bool df_asleep(const pid_t *pids, int count);

/* Waits until the threads slept in that many observations in a row, a hundredth of a second
 * apart. */
void df_await_rest(const pid_t *pids, int count, int looks);

/* Call it before a fork under a sanitizer, whose allocator does not survive a fork while another
 * thread is inside it. Returns when all other threads of this process sleep, and are therefore
 * outside the allocator. */
void df_quiet_before_fork(void);

#endif
