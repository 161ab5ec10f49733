#include "control/process_inbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "bootstrap/net/fork_guard.h"

static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER;
static df_process_inbox *worlds;
static uint32_t n_arriving; /* [worlds_lock] */

static void watch_forks(void) { df_fork_waits_for(&worlds_lock, 0); }

static void lock_worlds(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&worlds_lock);
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
  pthread_mutex_init(&process_inbox->lock, NULL);
  for (uint32_t r = 0; r < n_ranks; r++) {
    df_inbox *inbox = &inboxes[r];
    pthread_mutex_init(&inbox->lock, NULL);
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
    pthread_mutex_destroy(&process_inbox->inboxes[r].lock);
  }
  while (process_inbox->graveyard) {
    df_remains *next = process_inbox->graveyard->next;
    process_inbox->graveyard->destroy(process_inbox->graveyard);
    process_inbox->graveyard = next;
  }
  pthread_mutex_destroy(&process_inbox->lock);
  free(process_inbox->inboxes);
  free(process_inbox->departed);
  free(process_inbox);
}

/* [worlds_lock] */
static df_process_inbox *find_world(const unsigned char job[16]) {
  df_process_inbox *process_inbox = worlds;
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
      process_inbox->to_come = n_local;
      process_inbox->next = worlds;
      worlds = process_inbox;
    }
  }
  if (process_inbox) {
    process_inbox->references++;
    process_inbox->to_come--;
  }
  pthread_mutex_unlock(&worlds_lock);
  return process_inbox;
}

/* [worlds_lock] Unlists a world that nobody uses or will use. */
static int is_over(df_process_inbox *process_inbox) {
  if (process_inbox->references > 0 || process_inbox->to_come > 0) return 0;
  df_process_inbox **at = &worlds;
  while (*at != process_inbox) at = &(*at)->next;
  *at = process_inbox->next;
  return 1;
}

void df_process_inbox_release(df_process_inbox *process_inbox) {
  lock_worlds();
  process_inbox->references--;
  int over = is_over(process_inbox);
  pthread_mutex_unlock(&worlds_lock);
  if (over) free_world(process_inbox);
}

void df_process_inbox_expect_less(const unsigned char job[16], uint32_t n) {
  lock_worlds();
  df_process_inbox *process_inbox = find_world(job);
  int over = 0;
  if (process_inbox) {
    process_inbox->to_come -= n;
    over = is_over(process_inbox);
  }
  pthread_mutex_unlock(&worlds_lock);
  if (over) free_world(process_inbox);
}

void df_process_inbox_arriving(void) {
  lock_worlds();
  n_arriving++;
  pthread_mutex_unlock(&worlds_lock);
}

void df_process_inbox_arrived(void) {
  lock_worlds();
  df_process_inbox *over = NULL, **at = &worlds;
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
  pthread_mutex_unlock(&worlds_lock);
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

void df_process_inbox_tell_absence(const df_mesh *mesh) {
  if (mesh->absence == DF_ABSENCE_AWAITED) df_process_inbox_miss(mesh);
  if (mesh->absence == DF_ABSENCE_COUNTED) df_process_inbox_expect_less(mesh->job, 1);
}

/* [inbox->lock] */
static void wake(const df_inbox *inbox) {
  if (inbox->event_fd < 0) return;
  uint64_t one = 1;
  ssize_t written = write(inbox->event_fd, &one, sizeof one);
  (void)written; /* a full counter wakes as well */
}

void df_process_inbox_attach(df_process_inbox *process_inbox, uint32_t rank, int event_fd,
                             df_bell *bell) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  inbox->event_fd = event_fd;
  inbox->bell = bell;
  wake(inbox); /* for letters that came before event_fd */
  pthread_mutex_unlock(&inbox->lock);
}

/* Readers look only at new departures: with many ranks, each looks once at each other. */
static void tell_of_departure(df_process_inbox *process_inbox, uint32_t rank, int is_silent) {
  pthread_mutex_lock(&process_inbox->lock);
  uint32_t n = process_inbox->departures;
  DF_ASSERT(n < 2 * process_inbox->n_ranks);
  process_inbox->departed[n] = (df_departure){.rank = rank, .is_silent = is_silent};
  df_publish_u32(&process_inbox->departures, n + 1);
  pthread_mutex_unlock(&process_inbox->lock);
  for (uint32_t r = 0; r < process_inbox->n_ranks; r++) {
    pthread_mutex_lock(&process_inbox->inboxes[r].lock);
    wake(&process_inbox->inboxes[r]);
    pthread_mutex_unlock(&process_inbox->inboxes[r].lock);
  }
}

void df_process_inbox_detach(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  inbox->event_fd = -1;
  inbox->open = 0;
  int had_left = inbox->left;
  inbox->left = 1;
  df_queued_message *letters = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  pthread_mutex_unlock(&inbox->lock);
  free_letters(letters);
  if (!had_left) tell_of_departure(process_inbox, rank, 0);
}

uint32_t df_process_inbox_departures(df_process_inbox *process_inbox) {
  return df_observe_u32(&process_inbox->departures);
}

df_departure df_process_inbox_departed(const df_process_inbox *process_inbox, uint32_t departure) {
  return process_inbox->departed[departure];
}

int df_process_inbox_has_left(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  int left = inbox->left;
  pthread_mutex_unlock(&inbox->lock);
  return left;
}

void df_process_inbox_set_silent(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  int was_mute = inbox->is_silent;
  inbox->is_silent = 1;
  pthread_mutex_unlock(&inbox->lock);
  if (!was_mute) tell_of_departure(process_inbox, rank, 1);
}

int df_process_inbox_is_silent(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  int is_silent = inbox->is_silent;
  pthread_mutex_unlock(&inbox->lock);
  return is_silent;
}

void df_process_inbox_bury(df_process_inbox *process_inbox, df_remains *remains) {
  pthread_mutex_lock(&process_inbox->lock);
  remains->next = process_inbox->graveyard;
  process_inbox->graveyard = remains;
  pthread_mutex_unlock(&process_inbox->lock);
}

df_bell *df_process_inbox_bell(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  df_bell *bell = inbox->bell;
  pthread_mutex_unlock(&inbox->lock);
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
  pthread_mutex_lock(&inbox->lock);
  if (inbox->open) {
    *inbox->last = queued;
    inbox->last = &queued->next;
    queued = NULL;
    wake(inbox);
  }
  pthread_mutex_unlock(&inbox->lock);
  free(queued); /* the rank has gone: nobody would read it */
  return dfcclSuccess;
}

df_queued_message *df_process_inbox_collect(df_process_inbox *process_inbox, uint32_t rank) {
  df_inbox *inbox = &process_inbox->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  df_queued_message *letters = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  pthread_mutex_unlock(&inbox->lock);
  return letters;
}
