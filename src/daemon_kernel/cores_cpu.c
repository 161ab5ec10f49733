#include "daemon_kernel/cores_cpu.h"

#include "base/cpu.h"

void df_cores_give_way(df_cores *cores, uint64_t waits_on) {
  uint32_t cpu = df_cpu_current();
  if (df_load_relaxed_u32(&cores->own->cpu) != cpu + 1)
    df_store_relaxed_u32(&cores->own->cpu, cpu + 1);
  if (++cores->looks < cores->patience && !(waits_on >> cpu % 64 & 1)) {
    df_pause();
    return;
  }
  cores->looks = 0;
  df_cpu_yield();
}
