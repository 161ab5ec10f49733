/*
 * A link whose messages take given times, in virtual time: a sender that chooses ways, and a
 * receiver that is a lap of the ring behind. Used by test_ways.c and test_way_proofs.c.
 */
#ifndef DF_TESTS_UNIT_WAYS_WORLD_H
#define DF_TESTS_UNIT_WAYS_WORLD_H

#include "primitives/ways.h"
#include "support/harness.h"

enum { LAP = 8, MESSAGE = 32768, LEND = 1, NEAR_NS = 40, FAR_NS = 130 };

typedef struct {
  uint64_t write_ns, read_ns;
} move_times;

typedef struct ways_world {
  df_ways ways;
  move_times now[DF_WAYS];
  uint32_t words[DF_WAYS];
  struct {
    uint32_t way;
    int is_timed;
    uint64_t read_ns;
  } in_ring[LAP]; /* messages that the receiver has not read */
  uint64_t sent, total_ns, excess_ns, longest_ns, n_trial;
  df_ways_memory memory;
  uint32_t n_slots; /* slots of a new link */
  uint32_t slow;    /* so many first messages of a link take twice the time */
  df_random random;
  uint32_t interrupted; /* one message of so many; 0: none */
  uint64_t line_ns;
  uint64_t clock_ns;
  uint64_t hidden_ns;    /* the owner's cost of a lent message after the run */
  uint64_t elsewhere_ns; /* the program's own work in each run */
  uint32_t per_run;      /* messages */
  int runs_ahead;        /* 1: the sender never waits for the receiver */
  uint64_t first_ns; /* cost of a cached message to a slot that another way has left; 0: as usual */
  uint8_t left_by[DF_MAX_LINK_SLOTS]; /* the way that has left each slot, if first_ns counts */
  uint32_t noise_ns;                  /* each run takes up to so much longer */
} world;

extern const df_ways_terms exchange, one_way;

/* A link with a ring without slots. now: the times of each way. */
void begin(world *w, df_ways_terms terms, const move_times now[DF_WAYS]);

/* Another link of the kind. */
void reopen(world *w);

uint64_t cost_of(const world *w, uint32_t way);
uint32_t in_use(const world *w, int may_lend);

/* Returns the way of the message. */
uint32_t send_one(world *w, int may_lend);
void send_many(world *w, uint64_t n, int may_lend);

/* From now on a line takes so long to arrive. */
void look_many(world *w, uint64_t ns);

/* Whether it is the best way; ways of about the same cost are all right. */
int is_right(const world *w, uint32_t way, int may_lend);

#endif
