/*
 * A crew: ranks of one job spread over processes and threads, each with an outcome in memory that
 * all share. For the tests of the bootstrap.
 */
#ifndef DF_TESTS_BOOTSTRAP_CREW_H
#define DF_TESTS_BOOTSTRAP_CREW_H

#include <sys/types.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/rendezvous/handshake.h"
#include "support/harness.h"

/* LONG_MS: longer than any test may take, so who returns did not wait for its timeout. */
enum { CREW_MAX = 64, LONG_MS = 1000000, NOT_YET = -1 };

typedef struct {
  /* in */
  int n_ranks, rank, timeout_ms;
  int turn;        /* comes when those of earlier turns have done what they can; 0: at once */
  int descriptors; /* 0, or how many its process may add */
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
  int n;           /* members */
  int per_process; /* members of one process, each in a thread */
  int gate;        /* members wait until it is 1 */
  int entered;     /* 1 when the rank of start_still_rank is counted in */
  pid_t pids[CREW_MAX];
  member members[CREW_MAX];
} crew;

/* Zeroed memory that forked children share; never freed. */
void *shared_memory(size_t bytes);

/* n members, to run in processes of per_process threads; each as rank i of n, with a timeout of
 * LONG_MS and in turn 0. Nothing runs yet. */
crew *make_crew(bool by_key, int n, int per_process);

/* What a rank tells the others. */
df_peer_info info_of(int rank);

/* Returns when the members' processes and the root in this one have done what they can. */
void await_rest_of_crew(const crew *c);

/* Starts the process of members first to first + per_process - 1; they wait for the gate. */
pid_t start_process(crew *c, int first, double seconds);

/* Makes the id, if the crew has none yet, only now: its root's thread must not run while we fork.
 */
void open_gate(crew *c);

/* All processes, and the gate. */
void start_crew(crew *c);

/* A process's wait status. */
int reap(pid_t pid);

/* All processes must have ended well. */
void reap_crew(crew *c);

/* NOT_YET, or what the join has returned. */
int code_of(const member *m);
void check_code(const crew *c, int index, dfcclResult_t expected);
void check_mentions(const member *m, const char *words);

/* Time-outs that a test needs may pass, on a slow machine, before what was to come first: its round
 * then says nothing, returns false, and is played again with twice the time. Only a round that is
 * late with MOST_MS too has failed. */
enum { LEAST_MS = 1000, MOST_MS = 32000 };
#define IN_GOOD_TIME(timeout_ms, round)                                                            \
  for (int timeout_ms = LEAST_MS; !(round); timeout_ms *= 2)                                       \
  CHECK(timeout_ms < MOST_MS, "late with %d ms too", timeout_ms)
/* Has the member's time-out, or that of who told it, passed? */
bool is_late(const member *m);

/* Runs prepare in a process that then stays until it is killed; returns when it is prepared. */
pid_t start_helper(void (*prepare)(crew *c), crew *c);

/* The key and the root's address of a crew's key. */
void address_of(const crew *c, unsigned char key[DF_KEY_BYTES], unsigned char name[DF_NAME_BYTES]);

/* A process that is counted in as that rank, and then sits still, its listener open. */
pid_t start_still_rank(crew *c, int rank);

#endif
