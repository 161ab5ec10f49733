/* The inbox of a process: control messages between those ranks of a job that are in this process.
 * Segments of a destroyed rank stay until the last rank of the job has gone, because links of peers
 * point into them. */
#ifndef DF_CONTROL_PROCESS_INBOX_H
#define DF_CONTROL_PROCESS_INBOX_H

#include <pthread.h>

#include "base/bell.h"
#include "base/mutex.h"
#include "bootstrap/bootstrap.h"
#include "control/message.h"

typedef struct df_remains {
  struct df_remains *next;
  void (*destroy)(struct df_remains *remains);
} df_remains;

typedef struct df_queued_message {
  struct df_queued_message *next;
  uint32_t from;
  int fd;             /* -1: the message has no descriptor */
  df_message message; /* The payload follows in memory. */
} df_queued_message;

typedef struct df_inbox {
  df_mutex lock;
  df_queued_message *first, **last;
  int event_fd; /* wakes the service thread of the rank; -1: not attached */
  int open;
  int left;
  int is_silent; /* the rank had no memory to report what it gave up */
  df_bell *bell;
} df_inbox;

typedef struct df_departure {
  uint32_t rank;
  int is_silent; /* 1: the rank is silent; 0: the rank has gone */
} df_departure;

typedef struct df_process_inbox {
  struct df_process_inbox *next;
  unsigned char job[16];
  uint32_t n_ranks, references;
  uint32_t n_expected; /* number of ranks that have not joined yet; messages wait for them */
  df_inbox *inboxes;   /* [n_ranks] */
  uint32_t departures; /* length of departed: a rank goes once and becomes silent once, at most */
  df_departure *departed; /* [2 * n_ranks], in order */
  df_remains *graveyard;
  df_mutex lock; /* protects graveyard and departures */
} df_process_inbox;

/* Each of the n_local ranks joins and releases once. The inbox stays until all have gone, so that
 * ranks that join late receive messages of early ones. Returns NULL if there is no memory (the
 * sentence is recorded). */
df_process_inbox *df_process_inbox_join(const unsigned char job[16], uint32_t n_ranks,
                                        uint32_t n_local);
void df_process_inbox_release(df_process_inbox *process_inbox);
/* Whether a rank of this process is, or was, in the job. */
int df_process_inbox_exists(const unsigned char job[16]);
/* n ranks of this process will never join. */
void df_process_inbox_expect_less(const unsigned char job[16], uint32_t n);
/* Called around dfcclInit. When no thread is inside, nobody fetches messages that others have left:
 * not every rank is notified of a job that failed while it formed. */
void df_process_inbox_arriving(void);
void df_process_inbox_arrived(void);
/* The rank of this mesh will not join, though others may wait for it. */
void df_process_inbox_miss(const df_mesh *mesh);
/* The same for a rank that failed to join, if other ranks expect it. */
void df_process_inbox_announce_absence(const df_mesh *mesh);

void df_process_inbox_attach(df_process_inbox *process_inbox, uint32_t rank, int event_fd,
                             df_bell *bell);
/* Drops later messages; all other ranks wake and see the departure. */
void df_process_inbox_detach(df_process_inbox *process_inbox, uint32_t rank);
uint32_t df_process_inbox_departures(df_process_inbox *process_inbox);
df_departure df_process_inbox_departed(const df_process_inbox *process_inbox, uint32_t departure);
int df_process_inbox_has_left(df_process_inbox *process_inbox, uint32_t rank);
/* Marks a rank that could not report a failure as silent; all other ranks wake. */
void df_process_inbox_set_silent(df_process_inbox *process_inbox, uint32_t rank);
int df_process_inbox_is_silent(df_process_inbox *process_inbox, uint32_t rank);
void df_process_inbox_bury(df_process_inbox *process_inbox,
                           df_remains *remains); /* The inbox frees the remains. */
df_bell *df_process_inbox_bell(df_process_inbox *process_inbox, uint32_t rank);

/* Copies the message and the payload. Fails with dfcclOutOfMemory. */
dfcclResult_t df_process_inbox_send(df_process_inbox *process_inbox, uint32_t to, uint32_t from,
                                    const df_message *message, const void *payload);
/* Returns the messages, the oldest first; the caller frees each. */
df_queued_message *df_process_inbox_collect(df_process_inbox *process_inbox, uint32_t rank);

#endif
