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

typedef struct df_queued_message {
  struct df_queued_message *next;
  uint32_t from;
  int fd;             /* -1: none came along */
  df_message message; /* The payload follows in memory. */
} df_queued_message;

typedef struct df_inbox {
  pthread_mutex_t lock;
  df_queued_message *first, **last;
  int event_fd; /* of the rank's service thread; -1: not there */
  int open;
  int left;
  int is_silent; /* no memory to say what the rank gave up */
  df_bell *bell;
} df_inbox;

typedef struct df_departure {
  uint32_t rank;
  int is_silent; /* 0: the rank has gone */
} df_departure;

typedef struct df_process_inbox {
  struct df_process_inbox *next;
  unsigned char job[16];
  uint32_t n_ranks, references;
  uint32_t to_come;       /* ranks to join: letters wait for them */
  df_inbox *inboxes;      /* [n_ranks] */
  uint32_t departures;    /* a rank goes and becomes mute once at most */
  df_departure *departed; /* [2 * n_ranks], in order */
  df_remains *graveyard;
  pthread_mutex_t lock; /* graveyard, departures */
} df_process_inbox;

/* Each of n_local ranks joins and releases once. The world stays until all have gone, so that late
 * ranks hear early ones. NULL: out of memory (sentence recorded). */
df_process_inbox *df_process_inbox_join(const unsigned char job[16], uint32_t n_ranks,
                                        uint32_t n_local);
void df_process_inbox_release(df_process_inbox *process_inbox);
/* n ranks of this process will never join. */
void df_process_inbox_expect_less(const unsigned char job[16], uint32_t n);
/* Around dfcclInit. When no thread is inside, nobody comes for what others have left: not every
 * rank knows a job that failed while it formed. */
void df_process_inbox_arriving(void);
void df_process_inbox_arrived(void);
/* This mesh's rank will not come, though others may wait. */
void df_process_inbox_miss(const df_mesh *mesh);
/* The same for a rank whose join failed, if others expect it. */
void df_process_inbox_tell_absence(const df_mesh *mesh);

void df_process_inbox_attach(df_process_inbox *process_inbox, uint32_t rank, int event_fd,
                             df_bell *bell);
/* Later letters are dropped; all others wake to see it. */
void df_process_inbox_detach(df_process_inbox *process_inbox, uint32_t rank);
uint32_t df_process_inbox_departures(df_process_inbox *process_inbox);
df_departure df_process_inbox_departed(const df_process_inbox *process_inbox, uint32_t departure);
int df_process_inbox_has_left(df_process_inbox *process_inbox, uint32_t rank);
/* All others wake: the rank could not tell them something. */
void df_process_inbox_set_silent(df_process_inbox *process_inbox, uint32_t rank);
int df_process_inbox_is_silent(df_process_inbox *process_inbox, uint32_t rank);
void df_process_inbox_bury(df_process_inbox *process_inbox,
                           df_remains *remains); /* The world frees the remains. */
df_bell *df_process_inbox_bell(df_process_inbox *process_inbox, uint32_t rank);

/* Copies message and payload. dfcclOutOfMemory. */
dfcclResult_t df_process_inbox_send(df_process_inbox *process_inbox, uint32_t to, uint32_t from,
                                    const df_message *message, const void *payload);
/* Oldest first; the caller frees each. */
df_queued_message *df_process_inbox_collect(df_process_inbox *process_inbox, uint32_t rank);

#endif
