/* World: the ranks of one job that live in this process. They exchange control messages through
 * inboxes. Segments of a destroyed rank stay until the last rank has gone: links of peers point
 * into them. */
#ifndef DF_CONTROL_WORLD_H
#define DF_CONTROL_WORLD_H

#include <pthread.h>

#include "base/bell.h"
#include "bootstrap/bootstrap.h"
#include "control/message.h"

/* Ranks of this process may still look at it. */
typedef struct df_remains {
  struct df_remains *next;
  void (*destroy)(struct df_remains *remains); /* when the last rank has gone */
} df_remains;

typedef struct df_letter {
  struct df_letter *next;
  uint32_t from;
  int fd;             /* -1: none came along */
  df_message message; /* payload behind it */
} df_letter;

typedef struct df_inbox {
  pthread_mutex_t lock;
  df_letter *first, **last;
  int event_fd;  /* of the rank's service thread; -1: not there */
  int open;      /* letters are kept */
  int left;      /* the rank has gone */
  int is_mute;   /* the rank had no memory to say what it gave up */
  df_bell *bell; /* the rank's work bell */
} df_inbox;

typedef struct df_departure {
  uint32_t rank;
  int is_mute; /* no memory to say something; 0: the rank has gone */
} df_departure;

typedef struct df_world {
  struct df_world *next;
  unsigned char job[16];
  uint32_t n_ranks, references;
  uint32_t to_come;       /* ranks that have not joined yet: letters wait for them */
  df_inbox *inboxes;      /* [n_ranks] */
  uint32_t departures;    /* each rank goes once and becomes mute once at most */
  df_departure *departed; /* [2 * n_ranks], in order */
  df_remains *graveyard;
  pthread_mutex_t lock; /* graveyard, departures */
} df_world;

/* n_local: ranks in this process; each joins and releases once. The world stays until all have
 * gone, so that late ranks hear early ones. NULL: out of memory (sentence recorded). */
df_world *df_world_join(const unsigned char job[16], uint32_t n_ranks, uint32_t n_local);
void df_world_release(df_world *world);
/* n ranks of this process will never join. Does nothing without such a world. */
void df_world_expect_less(const unsigned char job[16], uint32_t n);
/* A thread enters and leaves dfcclInit. When none is inside, nobody comes for what others have
 * left: not every rank knows the job that failed while it formed. */
void df_world_arriving(void);
void df_world_arrived(void);
/* This mesh's rank will not come, though others of its process may wait. */
void df_world_miss(const df_mesh *mesh);
/* The same for a rank whose join failed, if others expect it. */
void df_world_tell_absence(const df_mesh *mesh);

void df_world_attach(df_world *world, uint32_t rank, int event_fd, df_bell *bell);
/* Later letters to the rank are dropped; all others wake to see it. */
void df_world_detach(df_world *world, uint32_t rank);
uint32_t df_world_departures(df_world *world);
/* departure: less than df_world_departures. */
df_departure df_world_departed(const df_world *world, uint32_t departure);
int df_world_has_left(df_world *world, uint32_t rank);
/* All others wake to see that the rank could not tell them something. */
void df_world_mute(df_world *world, uint32_t rank);
int df_world_is_mute(df_world *world, uint32_t rank);
void df_world_bury(df_world *world, df_remains *remains); /* takes it */
df_bell *df_world_bell(df_world *world, uint32_t rank);

/* Copies message and payload. dfcclOutOfMemory. */
dfcclResult_t df_world_post(df_world *world, uint32_t to, uint32_t from, const df_message *message,
                            const void *payload);
/* Oldest first; the caller frees each. */
df_letter *df_world_collect(df_world *world, uint32_t rank);

#endif
