/*
 * What is remembered of plain accesses: for each 4 bytes of the arena, who wrote them last in this
 * schedule, and who has read them since, each with its clock then.
 */
#ifndef DF_TESTS_SIM_SHADOW_H
#define DF_TESTS_SIM_SHADOW_H

#include "sim.h"

typedef union sim_cell {
  struct {
    uint16_t location;      /* of an atomic word; 0: none */
    uint8_t writer, reader; /* agent + 1; 0: nobody in this schedule */
    int16_t written, read;  /* by that agent's clock */
  };
  uint64_t all;
} sim_cell;

enum { SIM_FORBIDDEN = 255 }; /* the writer of what was freed */

extern sim_cell sim_cells[SIM_ARENA_BYTES / 4];
extern int16_t sim_clocks[SIM_MAX_AGENTS];

/* Most accesses are by the agent that made the last one, so that there is nothing to be checked: if
 * it has read the cell since the last write, or if it has written it and nobody else has read it.
 */
static inline int sim_touch_again(sim_cell *cell, int is_write) {
  uint32_t me = sim_agents_now.current;
  if (cell->location != 0) return 0;
  if (!is_write) {
    if (cell->reader != me + 1) return 0;
    cell->read = sim_clocks[me];
    return 1;
  }
  if (cell->writer != me + 1 || (cell->reader != 0 && cell->reader != me + 1)) return 0;
  cell->written = sim_clocks[me];
  cell->reader = 0;
  return 1;
}

#endif
