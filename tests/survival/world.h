/*
 * A simulated job for the agreement on views: the real state machines of src/control/view.h, the
 * connections between them, and a model of their runs. Time, order and faults are inputs. The whole
 * state of a world is one piece of memory, so a search can save and restore it.
 */
#ifndef DF_SURVIVAL_WORLD_H
#define DF_SURVIVAL_WORLD_H

#include <stdint.h>

#include "control/view.h"

enum {
  PROCESSES = 7, /* at most 6 members and a newcomer */
  COLLECTIVES = 3,
  RUNS = 3,
  VIEWS = 24,
  MESSAGES = 300,
  MESSAGE_BYTES = 320,
  MEMORY = 1536, /* most bytes of a machine */
  RUN_FAILED = 1 << PROCESSES
};

/* The parts of a world; they follow from its seed, or from options. */
typedef struct {
  int members, joins;     /* joins: process `members` is a newcomer */
  int newcomer_is_lowest; /* its rank is below those of all others */
  int reruns;             /* 1: runs without a result are executed again; 0: they fail */
  int several_hosts;      /* connections break; the end of a process is no proof */
  int strict;             /* df_quorum */
  int runs, before_admit; /* runs of collective 0, and those before the admit */
  int runs_of_part;       /* those of collective 2, whose group is a part of the members; 0: none */
  int part;               /* mask of that group */
  int runs_of_all;        /* those of collective 1, registered after the admit */
  int crashes, silences, excludes, breaks, leaves, deregisters; /* most of each */
  int proofs;       /* deaths that are proved after the rank was suspected */
  int full_sockets; /* notices may not fit into their sockets */
  int parts;        /* one entry in each message */
  int prompt;       /* reports follow a freeze at once; no ticks before all is quiet */
  int may_all_stop; /* it is no failure if no living member goes on */
} world_shape;

typedef enum {
  EVENT_READ,
  EVENT_SUBMIT,
  EVENT_DATA,
  EVENT_COMPLETE,
  EVENT_REGISTER,
  EVENT_DEREGISTER,
  EVENT_ADMIT,
  EVENT_LEAVE,
  EVENT_REPORT,
  EVENT_TICK,
  EVENT_SILENCE,
  EVENT_EXCLUDE,
  EVENT_PROOF,
  EVENT_BREAK,
  EVENT_DIE,
  EVENT_KINDS
} event_kind;

typedef struct {
  uint8_t kind, p, q;
  uint8_t kept, kept_back; /* messages that a broken connection still delivers, each way */
  int16_t dies_after;      /* the process dies after this many messages of the event; -1: not */
} event;
enum { EVENTS = 400 };

typedef enum { LIVES, CRASHED, STOPPED, GONE } fate; /* GONE: has left in order */

typedef struct {
  uint8_t registered; /* 2: deregistered */
  uint8_t reported;   /* in this view: 1: from the first report on; 2: registered after a report */
  uint8_t submitted, done, completed;
  uint8_t changed;       /* number of the view that changed the group last */
  uint16_t result[RUNS]; /* mask of the contributing processes, or RUN_FAILED; 0: not ended */
  uint8_t submitted_in[VIEWS], done_in[VIEWS];
} run_state;

typedef struct {
  df_view view;
  _Alignas(16) uint8_t memory[MEMORY];
  uint8_t fate, admits, admitted, leaves;
  uint8_t open; /* mask of the processes whose messages it reads */
  run_state runs[COLLECTIVES];
  uint64_t history[VIEWS]; /* hash of the content of each view */
} process;

typedef struct {
  uint8_t from, to, is_end;
  uint16_t bytes;
  uint8_t payload[MESSAGE_BYTES];
} message;

typedef struct {
  world_shape shape;
  int crashes, silences, excludes, breaks, leaves, deregisters, proofs; /* that are left */
  uint8_t broken[PROCESSES]; /* mask of the processes to which the connection is broken */
  uint8_t word[PROCESSES];   /* mask of the processes that it has excluded, in shared memory */
  int n_messages;
  process processes[PROCESSES];
  message messages[MESSAGES]; /* in their order for each connection */
} world;

extern world current;
/* The failure of the current world; empty: none. */
extern char world_failure[600];
extern int world_traces;
/* 0: none; otherwise the planted fault that is active (plant.py). */
extern int survival_planted_number;
int survival_planted(int number);

static inline int world_processes(void) { return current.shape.members + current.shape.joins; }
uint32_t world_rank(int p);
int world_process(uint32_t rank); /* -1: none */

void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_begin(const world_shape *shape);
/* Lists what may happen next. *quiet: only faults and ticks. Returns the number. */
int world_events(event *events, int *quiet);
/* Returns the number of messages that the event has sent. */
int world_play(const event *what);
/* Nothing can happen any more. */
void world_check_end(void);
void world_describe(const event *what, char *text, int bytes);
void world_print(void);

/* runs.c */
int runs_group(int p, int c); /* mask of the processes of the effective group, as p sees it */
int runs_limit(int p, int c); /* runs that may be in the device */
int runs_may_submit(int p, int c);
int runs_may_have_data(int p, int c);
int runs_may_complete(int p, int c);
int runs_are_complete(int p);
void runs_submit(int p, int c);
void runs_have_data(int p, int c);
void runs_complete(int p, int c);
void runs_admitted(int p);
uint32_t runs_report(int p, df_view_runs *runs);
void runs_install(int p, const df_view_content *content, int is_first);
void runs_check(void);
void runs_check_end(int p);

#endif
