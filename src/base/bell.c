#include "base/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint32_t df_bell_prepare(df_bell *bell) {
  uint32_t sequence = df_observe_u32(&bell->sequence);
  df_system_add_u32(&bell->sleepers, 1);
  df_wake_fence();
  return sequence;
}

void df_bell_cancel(df_bell *bell) { df_system_sub_u32(&bell->sleepers, 1); }

void df_bell_sleep(df_bell *bell, uint32_t sequence, uint64_t timeout_ns) {
  struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                             .tv_nsec = (long)(timeout_ns % 1000000000u)};
  /* The futex is not FUTEX_PRIVATE, because processes may share the bell. The call returns at once
   * if the sequence has changed. */
  syscall(SYS_futex, &bell->sequence, FUTEX_WAIT, sequence,
          timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
  df_system_sub_u32(&bell->sleepers, 1);
}

void df_bell_wake(df_bell *bell) {
  df_system_add_u32(&bell->sequence, 1);
  syscall(SYS_futex, &bell->sequence, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void df_carrier_wake(const df_carrier *carrier, df_bell *bell) {
  if (carrier && carrier->bell == bell)
    carrier->carry(carrier->who, DF_CARRY_PUBLISHED);
  else
    df_bell_wake(bell);
}
