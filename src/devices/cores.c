#include "devices/cores.h"

#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/cpu.h"

uint32_t df_cores_better(const uint16_t ranks[DF_CORES_SEEN],
                         const uint64_t allowed[DF_CORES_SEEN / 64], uint32_t cpu) {
  uint32_t best = DF_NO_CPU, fewest = ranks[cpu % DF_CORES_SEEN];
  for (uint32_t i = 1; i < DF_CORES_SEEN; i++) { /* the nearest processors come first */
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
  memset(ranks, 0, sizeof ranks);
  cores->host.count_ranks(cores->host.host, ranks);
  df_cpu_allowed(allowed, DF_CORES_SEEN / 64);
  uint32_t better = df_cores_better(ranks, allowed, cpu);
  /* The new processor is published before the move, so that of two ranks that want to leave only
   * one does. */
  if (better == DF_NO_CPU) return;
  df_store_relaxed_u32(&cores->own->cpu, better + 1);
  df_cpu_move(better);
}

void df_cores_met(df_cores *cores, uint64_t since_ns, uint64_t now_ns, uint32_t cpu) {
  if (now_ns - since_ns < DF_CORES_MEETING_NS) return; /* no other thread ran */
  if (since_ns - cores->together_ns > DF_CORES_APART * cores->loss_ns) {
    cores->lost_ns = 0;
    cores->loss_ns = DF_CORES_FIRST_LOSS_NS;
  }
  cores->together_ns = now_ns;
  cores->lost_ns += DF_CORES_SAMPLE * (now_ns - since_ns);
  if (cores->lost_ns < cores->loss_ns) return;
  cores->lost_ns = 0;
  cores->loss_ns = DF_MIN(2 * cores->loss_ns, DF_CORES_LARGEST_LOSS_NS);
  spread(cores, cpu);
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
  if (cores->carrier) {
    if (cores->carrier->carry(cores->carrier->who, DF_CARRY_STUCK) ||
        (cores->looks < cores->carrier_patience && !together))
      return;
  }
  cores->looks = 0;
  if (!together || cores->loss_ns == 0 || cores->yields++ % DF_CORES_SAMPLE != 0) {
    df_cpu_yield();
    return;
  }
  uint64_t before = df_clock_ns();
  df_cpu_yield();
  df_cores_met(cores, before, df_clock_ns(), cpu);
}
