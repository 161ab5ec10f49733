/*
 * World: the ranks of one job that live in this process. They reach each other's memory directly
 * and exchange control messages through inboxes. Segments of a rank that was destroyed stay until
 * the last rank has gone, because peers' links point into them.
 */
#ifndef DF_CONTROL_WORLD_H
#define DF_CONTROL_WORLD_H

#include <pthread.h>

#include "base/bell.h"
#include "bootstrap/bootstrap.h"
#include "control/message.h"

/* What a rank leaves behind, because ranks of this process may still look at it. */
typedef struct df_remains {
  struct df_remains *next;
  void (*destroy)(struct df_remains *remains); /* when the last rank has gone */
} df_remains;

typedef struct df_letter {
  struct df_letter *next;
  uint32_t from;
  int fd;             /* -1, or a descriptor that came along */
  df_message message; /* payload behind it */
} df_letter;

typedef struct df_inbox {
  pthread_mutex_t lock;
  df_letter *first, **last;
  int event_fd;  /* rings the rank's service thread; -1: nobody there yet, or no more */
  int open;      /* letters are kept */
  int left;      /* the rank has gone, whether or not there was memory to say so */
  int is_mute;   /* the rank had no memory to say what it has given up */
  df_bell *bell; /* the rank's work bell */
} df_inbox;

typedef struct df_departure {
  uint32_t rank;
  int is_mute; /* it had no memory to say something; 0: it has gone */
} df_departure;

typedef struct df_world {
  struct df_world *next;
  unsigned char job[16];
  uint32_t n_ranks, references;
  uint32_t to_come;    /* ranks of this process that have not joined yet: letters wait for them */
  df_inbox *inboxes;   /* [n_ranks] */
  uint32_t departures; /* times that a rank has gone, or become mute: each does so at most once */
  df_departure *departed; /* [2 * n_ranks] what it was each time */
  df_remains *graveyard;
  pthread_mutex_t lock; /* graveyard, and who departs */
} df_world;

/* Finds or makes the world of a job, of whose ranks n_local live in this process; each of them
 * joins once and releases it once. It stays until all have come and gone: who leaves early is heard
 * by who comes late. NULL: out of memory (sentence recorded). */
df_world *df_world_join(const unsigned char job[16], uint32_t n_ranks, uint32_t n_local);
void df_world_release(df_world *world);
/* So many ranks of this process will never join. No world of this job: nothing to do. */
void df_world_expect_less(const unsigned char job[16], uint32_t n);
/* A thread is inside dfcclInit, and is no more. When nobody is, nobody comes for what others have
 * left: of a job that failed while it formed, not every rank of this process knows which it was. */
void df_world_arriving(void);
void df_world_arrived(void);
/* The rank of this mesh will not come, though others of its process may have a mesh and wait. */
void df_world_miss(const df_mesh *mesh);
/* The same for a rank whose join failed, if others expect it. */
void df_world_tell_absence(const df_mesh *mesh);

void df_world_attach(df_world *world, uint32_t rank, int event_fd, df_bell *bell);
/* The rank has gone: later letters to it are dropped, and all others are woken to see it. */
void df_world_detach(df_world *world, uint32_t rank);
uint32_t df_world_departures(df_world *world);
/* What it was, of the first df_world_departures. */
df_departure df_world_departed(const df_world *world, uint32_t departure);
int df_world_has_left(df_world *world, uint32_t rank);
/* All others are woken to see that the rank could not tell them something. */
void df_world_mute(df_world *world, uint32_t rank);
int df_world_is_mute(df_world *world, uint32_t rank);
void df_world_bury(df_world *world, df_remains *remains); /* takes it */
df_bell *df_world_bell(df_world *world, uint32_t rank);

/* A copy of message and payload goes to the rank's inbox. dfcclOutOfMemory if there is no memory
 * for it. */
dfcclResult_t df_world_post(df_world *world, uint32_t to, uint32_t from, const df_message *message,
                            const void *payload);
/* All letters, oldest first; the caller frees each. */
df_letter *df_world_collect(df_world *world, uint32_t rank);

#endif
