/* Data movement, with a hook at each read and write, and a moment in its middle when others run. */
#include <string.h>

#include "primitives/movers/mover_cpu.h"
#include "sim.h"

static void sum(void *dst, const void *a, const void *b, size_t count) {
  const int32_t *x = a, *y = b;
  int32_t *to = dst;
  size_t half = count / 2;
  for (size_t part = 0; part < 2; part++) {
    size_t first = part ? half : 0, n = part ? count - half : half;
    sim_touch(x + first, n * sizeof *x, 0);
    sim_touch(y + first, n * sizeof *y, 0);
    sim_touch(to + first, n * sizeof *to, 1);
    for (size_t i = first; i < first + n; i++) to[i] = x[i] + y[i];
    sim_midway();
  }
}

static void copy(void *dst, const void *src, size_t bytes) {
  size_t half = bytes / 8 * 4;
  if (dst == src) return;
  for (size_t part = 0; part < 2; part++) {
    size_t first = part ? half : 0, n = part ? bytes - half : half;
    sim_touch((const uint8_t *)src + first, n, 0);
    sim_touch((uint8_t *)dst + first, n, 1);
    memcpy((uint8_t *)dst + first, (const uint8_t *)src + first, n);
    sim_midway();
  }
}

static df_mover_cpu mover;

const df_mover_cpu *df_mover_cpu_best(void) {
  mover.name = "simulated";
  mover.reduce[dfcclInt32][dfcclSum] = mover.reduce_stream[dfcclInt32][dfcclSum] = sum;
  mover.copy = mover.copy_stream = copy;
  return &mover;
}

const df_mover_cpu *df_mover_cpu_by_name(const char *name) {
  (void)name;
  return df_mover_cpu_best();
}
