#include "daemon_kernel/cores_cpu.h"

#include <string.h>

#include "base/attributes.h"
#include "base/cpu.h"

uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu) {
  uint32_t best = DF_NO_CPU, fewest = ranks[cpu % DF_CORES_SEEN];
  for (uint32_t i = 1; i < DF_CORES_SEEN;
       i++) { /* beginning behind the own one: neighbours first */
    uint32_t other = (cpu + i) % DF_CORES_SEEN;
    if (!(allowed[other / 64] >> other % 64 & 1) || ranks[other] + 1u >= fewest) continue;
    best = other;
    fewest = ranks[other] + 1u;
  }
  return best;
}

static void spread(df_cores *cores, uint32_t cpu) {
  uint16_t ranks[DF_CORES_SEEN];
  uint64_t allowed[DF_CORES_SEEN / 64];
  cores->together = 0;
  cores->next_look = DF_MIN(cores->next_look * 2, (uint32_t)DF_CORES_LAST_LOOK);
  memset(ranks, 0, sizeof ranks);
  cores->host.count_ranks(cores->host.host, ranks);
  df_cpu_allowed(allowed, DF_CORES_SEEN / 64);
  uint32_t better = df_cores_better(ranks, allowed, cpu);
  /* Told before it is true, so that of two ranks that leave one core at a time not both do. */
  if (better == DF_NO_CPU) return;
  df_store_relaxed_u32(&cores->own->cpu, better + 1);
  df_cpu_move(better);
}

void df_cores_give_way(df_cores *cores, uint64_t waits_on) {
  uint32_t cpu = df_cpu_current();
  if (df_load_relaxed_u32(&cores->own->cpu) != cpu + 1)
    df_store_relaxed_u32(&cores->own->cpu, cpu + 1);
  int together = (int)(waits_on >> cpu % 64 & 1);
  if (++cores->looks < cores->patience && !together) {
    df_pause();
    return;
  }
  cores->looks = 0;
  if (together && cores->next_look != 0 && ++cores->together == cores->next_look)
    spread(cores, cpu);
  df_cpu_yield();
}
