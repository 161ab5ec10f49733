#include "control/process_inbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mutex.h"
#include "bootstrap/net/fork_guard.h"

static df_mutex inboxes_lock = DF_MUTEX_INITIALIZER;
static df_process_inbox *all_inboxes DF_GUARDED_BY(inboxes_lock);
static uint32_t n_arriving DF_GUARDED_BY(inboxes_lock);

static void watch_forks(void) { df_fork_waits_for(&inboxes_lock, 0); }

static void lock_worlds(void) DF_ACQUIRE(inboxes_lock) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  df_lock(&inboxes_lock);
}

static df_process_inbox *make_world(const unsigned char job[16], uint32_t n_ranks) {
  df_process_inbox *process_inbox = calloc(1, sizeof *process_inbox);
  df_inbox *inboxes = calloc(n_ranks, sizeof *inboxes);
  df_departure *departed = calloc(2 * (size_t)n_ranks, sizeof *departed);
  if (process_inbox == NULL || inboxes == NULL || departed == NULL) {
    free(process_inbox);
    free(inboxes);
    free(departed);
    df_fail(dfcclOutOfMemory, "no memory for the records of %u ranks", n_ranks);
    return NULL;
  }
  memcpy(process_inbox->job, job, sizeof process_inbox->job);
  process_inbox->n_ranks = n_ranks;
  process_inbox->inboxes = inboxes;
  process_inbox->departed = departed;
  df_mutex_init(&process_inbox->lock);
  for (uint32_t r = 0; r < n_ranks; r++) {
    df_inbox *inbox = &inboxes[r];
    df_mutex_init(&inbox->lock);
    inbox->last = &inbox->first;
    inbox->event_fd = -1;
    inbox->open = 1;
  }
  return process_inbox;
}

static void free_letters(df_queued_message *queued) {
  while (queued) {
    df_queued_message *next = queued->next;
    if (queued->fd >= 0) close(queued->fd);
    free(queued);
    queued = next;
  }
}

static void free_world(df_process_inbox *process_inbox) {
  for (uint32_t r = 0; r < process_inbox->n_ranks; r++) {
    free_letters(process_inbox->inboxes[r].first);
    df_mutex_destroy(&process_inbox->inboxes[r].lock);
  }
  while (process_inbox->graveyard) {
    df_remains *next = process_inbox->graveyard->next;
    process_inbox->graveyard->destroy(process_inbox->graveyard);
    process_inbox->graveyard = next;
  }
  df_mutex_destroy(&process_inbox->lock);
  free(process_inbox->inboxes);
  free(process_inbox->departed);
  free(process_inbox);
}

static df_process_inbox *find_world(const unsigned char job[16]) DF_REQUIRES(inboxes_lock) {
  df_process_inbox *process_inbox = all_inboxes;
  while (process_inbox && memcmp(process_inbox->job, job, sizeof process_inbox->job) != 0)
    process_inbox = process_inbox->next;
  return process_inbox;
}

df_process_inbox *df_process_inbox_join(const unsigned char job[16], uint32_t n_ranks,
                                        uint32_t n_local) {
  lock_worlds();
  df_process_inbox *process_inbox = find_world(job);
  if (process_inbox == NULL) {
    process_inbox = make_world(job, n_ranks);
    if (process_inbox) {
      process_inbox->n_expected = n_local;
      process_inbox->next = all_inboxes;
      all_inboxes = process_inbox;
    }
  }
  if (process_inbox) {
    process_inbox->references++;
    process_inbox->n_expected--;
  }
  df_unlock(&inboxes_lock);
  return process_inbox;
}

/* Removes an inbox that no rank uses or will use from the list. */
static int has_finished(df_process_inbox *process_inbox) DF_REQUIRES(inboxes_lock) {
  if (process_inbox->references > 0 || process_inbox->n_expected > 0) return 0;
  df_process_inbox **at = &all_inboxes;
  while (*at != process_inbox) at = &(*at)->next;
  *at = process_inbox->next;
  return 1;
}

int df_process_inbox_exists(const unsigned char job[16]) {
  lock_worlds();
  const int exists = find_world(job) != NULL;
  df_unlock(&inboxes_lock);
  return exists;
}

void df_process_inbox_release(df_process_inbox *process_inbox) {
  lock_worlds();
  process_inbox->references--;
  int over = has_finished(process_inbox);
  df_unlock(&inboxes_lock);
  if (over) free_world(process_inbox);
}

void df_process_inbox_expect_less(const unsigned char job[16], uint32_t n) {
  lock_worlds();
  df_process_inbox *process_inbox = find_world(job);
  int over = 0;
  if (process_inbox) {
    process_inbox->n_expected -= n;
    over = has_finished(process_inbox);
  }
  df_unlock(&inboxes_lock);
  if (over) free_world(process_inbox);
}

void df_process_inbox_arriving(void) {
  lock_worlds();
  n_arriving++;
  df_unlock(&inboxes_lock);
}

void df_process_inbox_arrived(void) {
  lock_worlds();
  df_process_inbox *over = NULL, **at = &all_inboxes;
  n_arriving--;
  while (n_arriving == 0 && *at) {
    df_process_inbox *process_inbox = *at;
    if (process_inbox->references > 0) {
      at = &process_inbox->next;
      continue;
    }
    *at = process_inbox->next;
    process_inbox->next = over;
    over = process_inbox;
  }
  df_unlock(&inboxes_lock);
  while (over) {
    df_process_inbox *next = over->next;
    free_world(over);
    over = next;
  }
}

void df_process_inbox_miss(const df_mesh *mesh) {
  df_process_inbox *process_inbox =
      df_process_inbox_join(mesh->job, (uint32_t)mesh->n_ranks, mesh->n_local);
  if (process_inbox == NULL) return;
  df_process_inbox_detach(process_inbox, (uint32_t)mesh->rank);
  df_process_inbox_release(process_inbox);
}

void df_process_inbox_announce_absence(const df_mesh *mesh) {
  if (mesh->absence == DF_ABSENCE_AWAITED) df_process_inbox_miss(mesh);
  if (mesh->absence == DF_ABSENCE_COUNTED) df_process_inbox_expect_less(mesh->job, 1);
}

/* [inbox->lock] */
static void wake(const df_inbox *inbox) {
  if (inbox->event_fd < 0) return;
  uint64_t one = 1;
  ssize_t written = write(inbox->event_fd, &one, sizeof one);
  (void)written; /* EAGAIN: the counter is full, which wakes the thread as well */
}

void df_process_inbox_attach(df_process_inbox *process_inbox, uint32_t rank, int event_fd,
                             df_bell *bell) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  inbox->event_fd = event_fd;
  inbox->bell = bell;
  wake(inbox); /* messages may have arrived before event_fd was set */
  df_unlock(&inbox->lock);
}

/* Readers look only at new departures, so each rank looks once at each other rank. */
static void note_departure(df_process_inbox *process_inbox, uint32_t rank, int is_silent) {
  df_lock(&process_inbox->lock);
  uint32_t n = process_inbox->departures;
  DF_ASSERT(n < 2 * process_inbox->n_ranks);
  process_inbox->departed[n] = (df_departure){.rank = rank, .is_silent = is_silent};
  df_publish_u32(&process_inbox->departures, n + 1);
  df_unlock(&process_inbox->lock);
  for (uint32_t r = 0; r < process_inbox->n_ranks; r++) {
    df_lock(&process_inbox->inboxes[r].lock);
    wake(&process_inbox->inboxes[r]);
    df_unlock(&process_inbox->inboxes[r].lock);
  }
}

void df_process_inbox_detach(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  inbox->event_fd = -1;
  inbox->open = 0;
  int had_left = inbox->left;
  inbox->left = 1;
  df_queued_message *letters = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  df_unlock(&inbox->lock);
  free_letters(letters);
  if (!had_left) note_departure(process_inbox, rank, 0);
}

uint32_t df_process_inbox_departures(df_process_inbox *process_inbox) {
  return df_observe_u32(&process_inbox->departures);
}

df_departure df_process_inbox_departed(const df_process_inbox *process_inbox, uint32_t departure) {
  return process_inbox->departed[departure];
}

int df_process_inbox_has_left(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  int left = inbox->left;
  df_unlock(&inbox->lock);
  return left;
}

void df_process_inbox_set_silent(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  int was_mute = inbox->is_silent;
  inbox->is_silent = 1;
  df_unlock(&inbox->lock);
  if (!was_mute) note_departure(process_inbox, rank, 1);
}

int df_process_inbox_is_silent(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  int is_silent = inbox->is_silent;
  df_unlock(&inbox->lock);
  return is_silent;
}

void df_process_inbox_bury(df_process_inbox *process_inbox, df_remains *remains) {
  df_lock(&process_inbox->lock);
  remains->next = process_inbox->graveyard;
  process_inbox->graveyard = remains;
  df_unlock(&process_inbox->lock);
}

df_bell *df_process_inbox_bell(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  df_bell *bell = inbox->bell;
  df_unlock(&inbox->lock);
  return bell;
}

dfcclResult_t df_process_inbox_send(df_process_inbox *process_inbox, uint32_t to, uint32_t from,
                                    const df_message *message, const void *payload) {
  df_queued_message *queued = malloc(sizeof *queued + message->payload_bytes);
  if (queued == NULL) return df_fail(dfcclOutOfMemory, "no memory for a message to rank %u", to);
  queued->next = NULL;
  queued->from = from;
  queued->fd = -1;
  queued->message = *message;
  if (message->payload_bytes) memcpy(&queued->message + 1, payload, message->payload_bytes);
  df_inbox *inbox = &process_inbox->inboxes[to];
  df_lock(&inbox->lock);
  if (inbox->open) {
    *inbox->last = queued;
    inbox->last = &queued->next;
    queued = NULL;
    wake(inbox);
  }
  df_unlock(&inbox->lock);
  free(queued); /* the rank has gone and will not read the message */
  return dfcclSuccess;
}

df_queued_message *df_process_inbox_collect(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  df_lock(&inbox->lock);
  df_queued_message *letters = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  df_unlock(&inbox->lock);
  return letters;
}
