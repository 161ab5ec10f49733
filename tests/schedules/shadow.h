/*
 * The record of plain accesses: for each 4 bytes of the arena, the last writer in this schedule and
 * the readers since, each with its clock at that time.
 */
#ifndef DF_TESTS_SIM_SHADOW_H
#define DF_TESTS_SIM_SHADOW_H

#include "sim.h"

typedef union sim_cell {
  struct {
    uint16_t location;      /* number of an atomic word; 0: none */
    uint8_t writer, reader; /* agent + 1; 0: nobody in this schedule */
    int16_t written, read;  /* by that agent's clock */
  };
  uint64_t all;
} sim_cell;

enum { SIM_FORBIDDEN = 255 }; /* the writer of what was freed */

extern sim_cell sim_cells[SIM_ARENA_BYTES / 4];
extern int16_t sim_clocks[SIM_MAX_AGENTS];
extern uint64_t sim_dirty[SIM_ARENA_BYTES / 64 / 64]; /* lines that this schedule has accessed */

static inline void sim_mark_dirty(uint64_t offset) {
  sim_dirty[offset / 4096] |= 1ull << (offset / 64 % 64);
}

/* A cell as one number, for speed. */
static inline uint64_t sim_cell_of_writer(uint32_t me) {
  return (uint64_t)(me + 1) << 16 | (uint64_t)(uint16_t)sim_clocks[me] << 32;
}
static inline uint64_t sim_cell_of_reader(uint32_t me) {
  return (uint64_t)(me + 1) << 24 | (uint64_t)(uint16_t)sim_clocks[me] << 48;
}

/* Most accesses are by the agent that made the last one, so that there is nothing to be checked: if
 * it has read the cell since the last write, or has written it and nobody else has read it.
 */
static inline int sim_touch_again(sim_cell *cell, int is_write) {
  uint32_t me = sim_agents_now.current, written = (me + 1) << 16, read = (me + 1) << 24;
  uint32_t who = (uint32_t)cell->all; /* location, writer and reader */
  if (is_write) {
    if (who != written && who != (written | read)) return 0;
    cell->all = sim_cell_of_writer(me);
    return 1;
  }
  if ((who & 0xff00ffff) != read && who != written) return 0;
  cell->all = (cell->all & 0x0000ffff00ff0000) | sim_cell_of_reader(me);
  return 1;
}

/* The first access to it in this schedule. */
static inline int sim_touch_first(sim_cell *cell, int is_write) {
  uint32_t me = sim_agents_now.current;
  if (cell->all != 0) return 0;
  sim_mark_dirty((uint64_t)(cell - sim_cells) * 4);
  cell->all = is_write ? sim_cell_of_writer(me) : sim_cell_of_reader(me);
  return 1;
}

#endif
