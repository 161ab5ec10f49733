/* World: a job's ranks in this process. Segments of a destroyed rank stay until the last rank has
 * gone: peers' links point into them. */
#ifndef DF_CONTROL_PROCESS_INBOX_H
#define DF_CONTROL_PROCESS_INBOX_H

#include <pthread.h>

#include "base/bell.h"
#include "bootstrap/bootstrap.h"
#include "control/message.h"

typedef struct df_remains {
  struct df_remains *next;
  void (*destroy)(struct df_remains *remains);
} df_remains;

typedef struct df_letter {
  struct df_letter *next;
  uint32_t from;
  int fd;             /* -1: none came along */
  df_message message; /* The payload follows in memory. */
} df_letter;

typedef struct df_inbox {
  pthread_mutex_t lock;
  df_letter *first, **last;
  int event_fd; /* of the rank's service thread; -1: not there */
  int open;
  int left;
  int is_mute; /* no memory to say what the rank gave up */
  df_bell *bell;
} df_inbox;

typedef struct df_departure {
  uint32_t rank;
  int is_mute; /* 0: the rank has gone */
} df_departure;

typedef struct df_world {
  struct df_world *next;
  unsigned char job[16];
  uint32_t n_ranks, references;
  uint32_t to_come;       /* ranks to join: letters wait for them */
  df_inbox *inboxes;      /* [n_ranks] */
  uint32_t departures;    /* a rank goes and becomes mute once at most */
  df_departure *departed; /* [2 * n_ranks], in order */
  df_remains *graveyard;
  pthread_mutex_t lock; /* graveyard, departures */
} df_world;

/* Each of n_local ranks joins and releases once. The world stays until all have gone, so that late
 * ranks hear early ones. NULL: out of memory (sentence recorded). */
df_world *df_world_join(const unsigned char job[16], uint32_t n_ranks, uint32_t n_local);
void df_world_release(df_world *world);
/* n ranks of this process will never join. */
void df_world_expect_less(const unsigned char job[16], uint32_t n);
/* Around dfcclInit. When no thread is inside, nobody comes for what others have left: not every
 * rank knows a job that failed while it formed. */
void df_world_arriving(void);
void df_world_arrived(void);
/* This mesh's rank will not come, though others may wait. */
void df_world_miss(const df_mesh *mesh);
/* The same for a rank whose join failed, if others expect it. */
void df_world_tell_absence(const df_mesh *mesh);

void df_world_attach(df_world *world, uint32_t rank, int event_fd, df_bell *bell);
/* Later letters are dropped; all others wake to see it. */
void df_world_detach(df_world *world, uint32_t rank);
uint32_t df_world_departures(df_world *world);
df_departure df_world_departed(const df_world *world, uint32_t departure);
int df_world_has_left(df_world *world, uint32_t rank);
/* All others wake: the rank could not tell them something. */
void df_world_mute(df_world *world, uint32_t rank);
int df_world_is_mute(df_world *world, uint32_t rank);
void df_world_bury(df_world *world, df_remains *remains); /* The world frees the remains. */
df_bell *df_world_bell(df_world *world, uint32_t rank);

/* Copies message and payload. dfcclOutOfMemory. */
dfcclResult_t df_world_post(df_world *world, uint32_t to, uint32_t from, const df_message *message,
                            const void *payload);
/* Oldest first; the caller frees each. */
df_letter *df_world_collect(df_world *world, uint32_t rank);

#endif
