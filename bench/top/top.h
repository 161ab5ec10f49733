/* dfccl-top: the ranks of a job as they are at the moment. find.c finds the sockets of jobs,
 * session.c asks the ranks, model.c and diagnose.c conclude, and the other files print. */
#ifndef DF_BENCH_TOP_TOP_H
#define DF_BENCH_TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "host/observe/snapshot.h"
#include "host/observe/snapshot_socket.h"

/* ---- find.c: jobs on this host ---- */

typedef struct df_found_socket {
  char path[DF_SNAPSHOT_PATH];
  df_snapshot_name name;
  uid_t user;
} df_found_socket;

typedef struct df_found_job {
  uint64_t job;
  uint32_t first, n; /* in the sockets */
  char program[32];  /* "": unknown */
} df_found_job;

typedef struct df_found {
  df_found_socket *sockets; /* those of this user, by job and rank */
  uint32_t n_sockets;
  df_found_job *jobs;
  uint32_t n_jobs;
  df_found_socket *foreign; /* those of other users */
  uint32_t n_foreign;
} df_found;

/* Removes the sockets of dead processes on the way. Returns false, after an error message, if there
 * is no memory. */
bool df_top_find(df_found *found);
void df_top_found_free(df_found *found);
/* word NULL: the only job. Returns NULL after an error message; if several jobs fit, they are
 * listed before, as a table or as a JSON object. */
const df_found_job *df_top_choose(const df_found *found, const char *word, bool json);

/* ---- session.c: questions to the ranks ---- */

typedef enum {
  RANK_UNKNOWN, /* no answer yet */
  RANK_ANSWERS, /* now is not NULL */
  RANK_SILENT,  /* its process exists and does not answer */
  RANK_CLOSED,  /* DFCCL_VIEW=0 */
  RANK_GONE     /* its process has ended, or its peers have lost it */
} df_rank_contact;

typedef struct df_top_rank {
  df_rank_contact contact;
  int fd;                      /* -1: no connection */
  uint32_t process;            /* 0: unknown */
  char path[DF_SNAPSHOT_PATH]; /* "": the rank has no socket here */
  uint64_t asked_ns;           /* the first question without an answer; 0: none */
  uint64_t number;             /* number of the latest question */
  /* For a rank without a socket here: another rank, the gateway, asks it. */
  bool is_requested; /* the gateway has not answered for it */
  bool is_done;      /* it was requested since the latest df_top_ask */
  uint32_t gateway;
  char host[DF_HOST_NAME];          /* as the gateway has it; "": unknown */
  df_snapshot_buffer *now, *before; /* the two latest snapshots; NULL: none */
  char absence[256];                /* why it is gone */
} df_top_rank;

typedef struct df_top_session {
  uint64_t job;
  char program[32], host[DF_HOST_NAME];
  uint32_t n_ranks; /* 0: no rank has answered yet */
  df_top_rank *ranks;
  uint64_t number;
  uint32_t gateway;                  /* asks the ranks that have no socket here */
  uint64_t asked[DF_SNAPSHOT_ASKED]; /* collectives that the next question names */
  uint32_t n_asked;
  bool has_ended;  /* no process of the job on this host is left */
  char error[256]; /* the caller prints it when the terminal is restored */
} df_top_session;

enum {
  DF_TOP_INTERVAL_MS = 500,
  DF_TOP_SILENCE_MS = 1000 /* a rank that has not answered for this long is silent */
};

/* These functions return false after writing session->error. */
bool df_top_session_open(df_top_session *session, const df_found *found, const df_found_job *job);
void df_top_session_close(df_top_session *session);
/* Whether the other end of the connection is a process of this user. */
bool df_top_belongs_to_user(int fd);
/* Asks all ranks that have no question. */
bool df_top_ask(df_top_session *session);
/* Milliseconds from one question to the next: gateways ask 64 ranks a second. */
uint64_t df_top_interval_ms(const df_top_session *session);
/* Receives answers until all have come, or the deadline. fd: returns when it is readable, too; -1:
 * none. */
bool df_top_receive(df_top_session *session, uint64_t deadline_ns, int fd);

/* ---- model.c: what a rank does ---- */

typedef enum {
  STATE_UNKNOWN,
  STATE_RUNNING,
  STATE_WAITING,
  STATE_CALLBACK, /* runs have ended, and their callbacks have not returned */
  STATE_IDLE,
  STATE_BROKEN,
  STATE_SILENT,
  STATE_CLOSED,
  STATE_GONE,
  STATES
} df_top_state;
extern const char *const df_top_state_names[STATES];

typedef struct df_top_row {
  df_top_state state;
  const df_snapshot_coll *coll; /* that it runs; NULL: none, or unknown */
  double since_s;               /* negative: unknown */
  bool since_is_least;
  bool has_rates;
  double runs_per_s, bytes_per_s, preemptions_per_s, quits_per_s;
  uint64_t queue;
  double late_ms;                  /* negative: unknown */
  const df_snapshot_coll *late_in; /* the collective to which it comes latest; NULL: none */
} df_top_row;

typedef enum {
  VERDICT_NONE,
  VERDICT_MISSING,
  VERDICT_STOPPED,
  VERDICT_CIRCLE,
  VERDICT_MISMATCH,
  VERDICT_SLOW,
  VERDICTS
} df_verdict_kind;
extern const char *const df_verdict_names[VERDICTS];

enum { DF_VERDICT_RANKS = 64 };

typedef struct df_verdict {
  df_verdict_kind kind;
  uint32_t ranks[DF_VERDICT_RANKS], n_ranks; /* the culprits; of a circle: in its order */
  bool has_collective, is_registration;
  uint64_t collective;
  char name[DF_MAX_NAME];
  char sentence[1024];
} df_verdict;

typedef struct df_top_view {
  const df_top_session *session;
  df_top_row *rows; /* [session->n_ranks] */
  df_verdict verdict;
} df_top_view;

/* Returns false if there is no memory. */
bool df_top_view_make(df_top_view *view, const df_top_session *session);
void df_top_view_free(df_top_view *view);
/* The collectives that the next question should name: those under way. */
void df_top_choose_asked(df_top_session *session);
/* The collective in a snapshot; NULL: it is not there. */
const df_snapshot_coll *df_top_coll(const df_snapshot_buffer *buffer, uint64_t id);
/* Whether its oldest run was the oldest one in the snapshot before, too. */
bool df_top_is_stuck(const df_top_rank *rank, const df_snapshot_coll *coll);

/* diagnose.c; the rows are complete. */
void df_top_diagnose(df_top_view *view);

/* ---- flight.c ---- */

/* Writes the flight recorder's files of the job's ranks on this host to the directory. Returns the
 * exit status. */
int df_top_flight(const df_found *found, const df_found_job *job, const char *directory);

/* ---- output ---- */

/* Writes 'collective 7 ("grad")'. */
const char *df_top_label(uint64_t id, const char *name, char *text, size_t bytes);
/* "rank 3", "ranks 0, 2 and 5". */
const char *df_top_rank_words(const uint32_t *ranks, uint32_t n, char *text, size_t bytes);
/* The host and the process of a rank, as far as they are known. */
const char *df_top_host(const df_top_session *session, uint32_t rank);

/* Lines of the table: first_row: the first rank; n_rows: the most; columns: their length. */
typedef struct df_top_table {
  uint32_t first_row, n_rows, columns;
} df_top_table;
void df_top_print(const df_top_view *view, const df_top_table *table, FILE *to);
bool df_top_print_json(const df_top_view *view);
bool df_top_write_svg(const df_top_view *view, const char *path);
/* Shows the job until the user or the job ends it. Returns the exit status. */
int df_top_screen(df_top_session *session);

#endif
