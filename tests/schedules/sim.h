/*
 * The simulator's parts, as they see each other.
 *
 * One schedule: agents (threads of the real library, and of the application) are fibers of one
 * thread. At each atomic access, lock and sleep the adversary may let another agent go on, and a
 * load may return an older value of its location, as far as the memory model allows. Everything
 * that the library touches lies in one arena, which is copied back before the next schedule.
 */
#ifndef DF_TESTS_SIM_SIM_H
#define DF_TESTS_SIM_SIM_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
  SIM_ARENA_BYTES = 1 << 20, /* copied back before each schedule, as far as it is used */
  SIM_FAR_BYTES = 4 << 20,   /* large allocations, also copied back */
  SIM_MAX_AGENTS = 31,
  SIM_FIRST_LOCATION = 32, /* words of a view before it: the agents' clocks */
  SIM_MAX_WORDS = 2048,    /* bytes of a view */
  SIM_HISTORY = 4,         /* latest values of a location that may be seen */
  SIM_STACK_BYTES = 64 << 10
};

/* ---- random numbers: one stream for each schedule */

typedef struct sim_random {
  uint64_t state;
} sim_random;

static inline uint64_t sim_next(sim_random *random) { /* splitmix64 */
  uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static inline uint32_t sim_below(sim_random *random, uint32_t n) {
  return (uint32_t)((sim_next(random) >> 32) * n >> 32);
}
static inline int sim_one_in(sim_random *random, uint32_t n) { return sim_below(random, n) == 0; }

/* ---- actions of the adversary in one schedule */

typedef struct sim_policy {
  uint32_t quantum;      /* accesses between two choices of an agent, on average */
  uint32_t stale_of_256; /* chance that a load looks for an older value */
  uint32_t
      by_priority;   /* 1: the agent of highest priority runs; priorities change at random steps */
  uint32_t spurious; /* 1: sleeps may end for no reason */
  uint32_t slow_moves; /* 1: data may move for long, meanwhile others go on */
  uint32_t changes;    /* not 0: the first in an order runs, until it waits, or is put last at one
                            of so many moments */
  uint32_t stalls;     /* agents, by bit, that do not run ... */
  uint32_t stalls_from, stalls_until; /* ... between these steps */
  uint32_t last_change;               /* step before which those moments lie */
  uint32_t slow_most;
  uint32_t nap_ends;            /* one in so many choices ends a sleep */
  uint32_t stops_at, stops_for; /* the agent that runs at that step pauses for so many steps; 0 */
  uint32_t in_vain;             /* looks of the others in vain that end a stall; 0: none do */
  uint32_t unfair_steps;        /* then the adversary becomes fair, and all must end soon */
} sim_policy;

/* ---- agents.c */

typedef enum {
  SIM_DONE = 0,
  SIM_RUNNABLE,
  SIM_WAITS_MUTEX,
  SIM_WAITS_FUTEX,
  SIM_WAITS_EVENT,
  SIM_WAITS_JOIN,
  SIM_WAITS_GATE,  /* for the snapshot to be taken */
  SIM_WAITS_WORLD, /* the application, for its callbacks */
  SIM_STATES
} sim_state;

typedef struct sim_agent {
  void *stack_pointer;
  uint8_t *stack;
  uint32_t state;
  const void *waits_for;
  uint64_t deadline; /* virtual ns; UINT64_MAX: none */
  int timed_out;
  int daemon; /* a thread of the library, not of the application */
  int rank;
  void *(*run)(void *);
  void *argument;
  const char *name;
} sim_agent;

typedef struct sim_agents {
  uint32_t n, current;
  uint32_t in[SIM_STATES]; /* agents in that state, by bit */
  uint32_t naps;           /* ... of those that sleep, whose sleep time ends */
  uint64_t now_ns;
  sim_agent agent[SIM_MAX_AGENTS];
} sim_agents;

extern sim_agents sim_agents_now;
extern sim_policy sim_policy_now;
extern sim_random sim_random_now;
extern int64_t sim_quantum; /* accesses until the adversary chooses again */
extern uint64_t sim_steps;  /* belongs to this schedule */
extern uint64_t sim_runs;   /* belongs to schedules, and to setting up */
extern int sim_is_running;  /* agents run, and not the main program */
extern int sim_is_quiet;    /* setting up: no adversary */
extern int sim_is_tracing;
extern uint64_t sim_death_step; /* from which on sim_world_death is asked */

void sim_choose(void);
static inline void sim_point(void) {
  sim_steps++;
  if (--sim_quantum <= 0) sim_choose();
}
static inline uint32_t sim_first_bit(uint32_t bits) { return (uint32_t)__builtin_ctz(bits); }
void sim_midway(void);                                /* in the middle of a movement of data */
void sim_stand_still(uint32_t agent, uint32_t steps); /* while others can run */
void sim_block(sim_state state, const void *waits_for, uint64_t deadline);
void sim_wake(uint32_t agent, int timed_out);
void sim_wake_those(sim_state state, const void *waiting_for);
uint32_t sim_spawn(const char *name, int rank, void *(*run)(void *), void *argument);
void sim_settle(int deeply); /* the caller waits until nobody else has anything to do */
void sim_wait_world(void);   /* ... until every callback has run */
void sim_agents_begin(void); /* a new schedule */
void sim_park(void);         /* the caller, and all with it, until sim_run */
void sim_stop_rank(int rank);
void sim_end_agent(uint32_t agent);
int sim_holds_outside_lock(int rank); /* one that ranks of other processes would not share */
void sim_run(void);                   /* the agents, until sim_leave */
void *sim_thread_locals(uint32_t agent, size_t *bytes);
void sim_leave(void) __attribute__((noreturn));
uint64_t sim_seconds_ns(void);  /* real time */
extern const char *sim_failure; /* NULL: the schedule was good */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The same outside of the agents. */
void sim_note_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Implemented by the program: sim_fail outside of a schedule. */
void sim_fail_outside(void) __attribute__((noreturn));

/* ---- memory.c */

void sim_memory_forget(void); /* a new world: no location is known */
void sim_memory_begin(void);  /* a new schedule */
void sim_memory_restore(const uint8_t *snapshot, size_t bytes, int compares); /* before it */
void sim_view_of_new_agent(uint32_t agent, uint32_t parent);
void sim_view_of_joined(uint32_t agent, uint32_t by);
void sim_acquire_from(const void *p); /* orders by the kernel or a lock */
void sim_release_to(const void *p);
void sim_touch(const void *p, size_t bytes, int is_write); /* plain access: race detection */
void sim_written(const void *p, size_t bytes);             /* to be copied back; not checked */
void sim_forbid(const void *p, size_t bytes);              /* from now on: it was freed */

/* ---- system.c */

extern uint8_t sim_arena[SIM_ARENA_BYTES];
extern size_t sim_arena_used, sim_far_used;
/* Large allocations as they are now, and as they were, when so much was used. */
void sim_far_take(void);
void sim_far_restore(size_t used);
extern uint32_t sim_more_failures;   /* ... and so many after it */
extern uint32_t sim_fail_allocation; /* the so-maniest from now on fails; 0: none */
extern int sim_uses_allocation_failure;
void sim_system_reset(void);
void *sim_hidden_alloc(size_t bytes); /* belongs to the simulated kernel */
void *sim_map_new(size_t bytes);
void sim_unmap(void *p);

/* ---- descriptors.c */

enum { SIM_MAX_FDS = 160 };
typedef enum {
  SIM_CLOSED,
  SIM_COUNTER,
  SIM_FILE,
  SIM_SOCKET,
  SIM_STREAM,
  SIM_PROCESS
} sim_descriptor_kind;
typedef struct sim_descriptor {
  sim_descriptor_kind kind;
  int epoll; /* that watches it; -1 */
  uint32_t data, events;
  uint64_t count; /* value of a counter */
  uint32_t file;
  int peer, rank; /* for a socket: the other end, -1 when it has gone; its owner. For a process: its
                     rank */
  int ended;
  uint32_t n_letters;
  void *first, *last, *order;
  void *stream;
  const struct sim_stream_calls *calls;
} sim_descriptor;
typedef struct sim_file { /* shared memory: all mappings are one */
  void *base;
  size_t bytes;
  uint32_t references;
} sim_file;
typedef struct sim_system_state {
  uint64_t allocations; /* not freed yet */
  uint32_t n_fds;
  uint32_t ended; /* processes of ranks, by bit */
  sim_descriptor fd[SIM_MAX_FDS];
  sim_file file[SIM_MAX_FDS];
} sim_system_state;
extern sim_system_state sim_system_now;
void sim_socket_pair(int fds[2], const int ranks[2]);
void sim_sockets_die(int rank);
uint32_t sim_open_descriptors(void);
void sim_signal(int fd); /* a counter; nobody else goes on meanwhile */

/* Streams by a descriptor; their calls are as send(2), recv(2) and shutdown(2) of both ways. */
typedef struct sim_stream_calls {
  ssize_t (*send)(void *stream, const void *bytes, size_t n);
  ssize_t (*recv)(void *stream, void *bytes, size_t n);
  void (*shutdown)(void *stream);
  void (*close)(void *stream);
  uint32_t (*events)(const void *stream);
} sim_stream_calls;
int sim_stream_descriptor(void *stream, const sim_stream_calls *calls);
void sim_stream_news(int fd); /* as sim_signal */

/* ---- wire.c: TCP between ranks of different processes */

void sim_wire_begin(void); /* belongs to a new world with it; it has an agent of its own */
void sim_wire_die(int rank);
uint16_t sim_wire_port(uint32_t rank); /* where it will listen, if each opens its wire in turn */
void sim_stream_pair(int fds[2], const int ranks[2]);

/* ---- trace.c */

typedef struct sim_event {
  const char *what;
  const void *where, *caller;
  uint64_t value;
  uint64_t step;
  uint32_t agent;
  uint32_t age; /* for a value that was read: number of newer ones */
} sim_event;
void sim_trace(const char *what, const void *where, uint64_t value, uint32_t age,
               const void *caller);
extern uint64_t sim_trace_until; /* steps after it are not recorded */
void sim_trace_begin(void);
void sim_trace_print(void);
#define SIM_TRACE(what, where, value, age)                                                         \
  (__builtin_expect(sim_is_tracing, 0)                                                             \
       ? sim_trace(what, where, value, age, __builtin_return_address(0))                           \
       : (void)0)

/* ---- world.c */

extern uint32_t sim_percent_small, sim_percent_endings; /* for the worlds */
extern int sim_is_crowd, sim_only_crowds;
extern int sim_only_wires;          /* ranks of different processes share no memory */
extern int sim_only_rails;          /* ... and messages of any length go over one to three rails */
extern int sim_only_hosts;          /* ... and are of different hosts: so are control's messages */
extern int sim_only_relays;         /* ... and one host passes on control's messages of others */
extern int sim_only_varying;        /* runs have any counts up to the registered ones */
extern int sim_only_switches;       /* collectives are asked to switch to other plans */
extern int sim_only_survivors;      /* ranks die, and the others go on: survive.c */
extern int sim_only_others;         /* operations beyond the six of worlds on record */
extern int sim_is_small;            /* this world */
extern int sim_compare_next;        /* the schedule before left the arena in disorder, perhaps */
extern int sim_endings;             /* worlds whose schedules end with closed contexts: endings.c */
void sim_world_make(uint64_t seed); /* sets up contexts and collectives, and takes the snapshot */
void sim_world_restore(uint64_t seed);
int sim_world_is_over(void); /* every run is through, as far as the application knows */
void sim_world_death(void);
void sim_world_check(void); /* at the end of a schedule */
void sim_world_print(void);
void sim_world_print_state(void); /* queues, cursors and links, as the schedule left them */

/* ---- explore.c */

extern int sim_is_exploring;
uint32_t sim_explore_point(void);
void sim_explore_access(const volatile void *p, int is_write); /* the next point is before it */
int sim_explore(uint64_t first, uint64_t variants, uint32_t bound); /* 0: one went wrong */

/* ---- exhaust.c */

/* The next access of an agent, before which another agent may continue. */
typedef enum {
  SIM_GOES_ON, /* nothing that others see */
  SIM_READS,
  SIM_WRITES,
  SIM_LOCKS,
  SIM_SLEEPS,
  SIM_SPINS /* it has paused for very long */
} sim_intention;

extern int sim_is_exhausting;
void sim_exhaust_point(const volatile void *p, sim_intention intention);
void sim_exhaust_sleep(const volatile void *p);
void sim_exhaust_pause(void);
void sim_exhaust_data(void); /* others may go on in the middle of a movement of data */
int sim_exhaust_naps(void);  /* sleeps may time out */

typedef struct sim_smallest {          /* the world: 2 ranks */
  uint32_t colls, chunks, runs, depth; /* runs of each, entries of the SQ */
  int callbacks;                       /* ... instead of waiting; the poller runs them */
  int background; /* submissions wake executors; else waiters drive, and executors sleep */
  int naps;       /* naps may end at any moment; else never */
  int first_turns, lends;
  uint32_t cq;
} sim_smallest;
extern sim_smallest sim_smallest_now;
int sim_exhaust(uint64_t most_states); /* 0: something is wrong, or was not complete */

/* Before an access that others may see. */
static inline void sim_point_at(const volatile void *p, sim_intention intention) {
  if (__builtin_expect(sim_is_exhausting, 0)) {
    sim_exhaust_point(p, intention);
    return;
  }
  if (__builtin_expect(sim_is_exploring, 0)) sim_explore_access(p, intention != SIM_READS);
  sim_point();
}

/* ---- state.c */

struct dfcclContext;
void sim_state_print(const struct dfcclContext *context);

#endif
