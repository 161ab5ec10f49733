/*
 * A crew: ranks of one job in several processes and threads, each with an outcome in shared memory.
 * For the tests of the bootstrap.
 */
#ifndef DF_TESTS_BOOTSTRAP_CREW_H
#define DF_TESTS_BOOTSTRAP_CREW_H

#include <sys/types.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/rendezvous/handshake.h"
#include "support/harness.h"

/* LONG_MS: longer than any test may take, so a rank that returns did not wait for its timeout. */
enum { CREW_MAX = 64, LONG_MS = 1000000, NOT_YET = -1 };

typedef struct {
  /* in */
  int n_ranks, rank, timeout_ms;
  int turn; /* joins when the members of earlier turns have done all that they can; 0: at once */
  int descriptors; /* 0, or the number of descriptors that its process may add */
  bool mute;       /* does not try its sockets */
  /* out */
  int started;
  int code; /* NOT_YET until the join has returned */
  char sentence[DF_SENTENCE_BYTES];
  unsigned char job[16];
} member;

typedef struct {
  char key[64]; /* "": by id */
  dfcclUniqueId id;
  int n;           /* number of members */
  int per_process; /* members of one process, each in a thread */
  int gate;        /* members wait until it is 1 */
  int entered;     /* 1 when the rank of start_still_rank has joined the rendezvous */
  pid_t pids[CREW_MAX];
  member members[CREW_MAX];
} crew;

/* Zeroed memory that forked children share; never freed. */
void *shared_memory(size_t bytes);

/* n members, to run in processes of per_process threads each; member i is rank i of n, with a
 * timeout of LONG_MS and in turn 0. Nothing runs yet. */
crew *make_crew(bool by_key, int n, int per_process);

/* The facts that a rank sends to the others. */
df_peer_info info_of(int rank);

/* Returns when the members' processes, and the root in this one, have done all that they can. */
void await_rest_of_crew(const crew *c);

/* Starts the process of members first to first + per_process - 1; they wait for the gate. */
pid_t start_process(crew *c, int first, double seconds);

/* Creates the id, if the crew has none yet, only now: its root's thread must not run during a
 * fork. */
void open_gate(crew *c);

/* Starts all processes, and opens the gate. */
void start_crew(crew *c);

/* Returns a process's wait status. */
int reap(pid_t pid);

/* Checks that all processes have ended without an error. */
void reap_crew(crew *c);

/* NOT_YET, or the result of the join. */
int code_of(const member *m);
void check_code(const crew *c, int index, dfcclResult_t expected);
void check_mentions(const member *m, const char *words);

/* On a slow machine a time-out may pass before an event that the test expects first. The round then
 * proves nothing, returns false, and is played again with twice the time. Only if a round with
 * MOST_MS is late too has the test failed. */
enum { LEAST_MS = 1000, MOST_MS = 32000 };
#define IN_GOOD_TIME(timeout_ms, round)                                                            \
  for (int timeout_ms = LEAST_MS; !(round); timeout_ms *= 2)                                       \
  CHECK(timeout_ms < MOST_MS, "late with %d ms too", timeout_ms)
/* Whether the time-out of the member, or of a rank that reported to it, has passed. */
bool is_late(const member *m);

/* Runs prepare in a process that then lives until it is killed; returns when prepare has
 * returned. */
pid_t start_other_process(void (*prepare)(crew *c), crew *c);

/* The key and the root's address of a crew's key. */
void address_of(const crew *c, unsigned char key[DF_KEY_BYTES], unsigned char name[DF_NAME_BYTES]);

/* A process that joins the rendezvous as that rank and then does nothing, with its listener
 * open. */
pid_t start_still_rank(crew *c, int rank);

#endif
