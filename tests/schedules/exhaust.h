/* All interleavings of the smallest worlds (exhaust.c), by its parts. */
#ifndef DF_TESTS_SIM_EXHAUST_H
#define DF_TESTS_SIM_EXHAUST_H

#include "world.h"

/* ---- exhaust_steps.c: what agents are about to do, and which of them must go on */

enum { SIM_PIECE = 64 }; /* bytes, of which a state is made */

typedef struct sim_step {
  uint32_t word;
  uint32_t intention; /* sim_intention */
} sim_step;
/* By agent; the rest fills a piece. Part of the state. */
extern sim_step sim_next_steps[SIM_MAX_AGENTS + 1];

/* Accesses that were not known when sets of agents were chosen; forgotten by sim_steps_begin. */
int sim_has_new_accesses(void);
/* As a schedule begins. */
void sim_steps_begin(void);
/* The agent continues from its present place to the next access that others may see. */
void sim_step_on(uint32_t agent);
uint32_t sim_enabled_agents(void);             /* by bit */
uint32_t sim_persistent_set(uint32_t enabled); /* the smallest that begins with one of them */
uint32_t sim_count_shared_words(void);

/* ---- exhaust_state.c: what tells how it goes on, and what transitions change of it */

typedef struct sim_hash {
  uint64_t a, b;
} sim_hash;
extern sim_hash sim_state_hash;

void sim_state_begin(void);   /* as a schedule begins: what is compared with, what does not count */
void sim_state_lay_out(void); /* the pieces of the state, by the lines that are known to change */
uint32_t sim_state_pieces(void);
void sim_note_agent(uint32_t agent); /* changed parts of its stack */
void sim_note_common(void);          /* ... of all else */
size_t sim_noted_changes(void);
void sim_undo_changes(size_t to);
/* Lines that the state does not have yet: all begins anew with them. Returns 1 if there are any. */
int sim_has_new_lines(int compares);

/* ---- exhaust_met.c: states that were met, each at its place, and from which one came to which */

int sim_met_open(uint64_t most); /* 0: no memory */
void sim_met_forget(void);
uint64_t sim_met_place(int *is_first); /* place of the present state */
uint64_t sim_met_states(void);
void sim_met_set_on_path(uint64_t place, int is_on_path);
int sim_met_is_on_path(uint64_t place);
void sim_met_note_edge(uint64_t from, uint64_t to);
void sim_met_note_end(uint64_t place);
int sim_met_all_edges(void);          /* there was room for them */
uint64_t sim_met_count_endless(void); /* from how many states does no way lead to an end? */

#endif
