#include "control/process_inbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "bootstrap/net/fork_guard.h"

static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER;
static df_world *worlds;
static uint32_t n_arriving; /* [worlds_lock] */

static void watch_forks(void) { df_fork_waits_for(&worlds_lock, 0); }

static void lock_worlds(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&worlds_lock);
}

static df_world *make_world(const unsigned char job[16], uint32_t n_ranks) {
  df_world *world = calloc(1, sizeof *world);
  df_inbox *inboxes = calloc(n_ranks, sizeof *inboxes);
  df_departure *departed = calloc(2 * (size_t)n_ranks, sizeof *departed);
  if (world == NULL || inboxes == NULL || departed == NULL) {
    free(world);
    free(inboxes);
    free(departed);
    df_fail(dfcclOutOfMemory, "no memory for the records of %u ranks", n_ranks);
    return NULL;
  }
  memcpy(world->job, job, sizeof world->job);
  world->n_ranks = n_ranks;
  world->inboxes = inboxes;
  world->departed = departed;
  pthread_mutex_init(&world->lock, NULL);
  for (uint32_t r = 0; r < n_ranks; r++) {
    df_inbox *inbox = &inboxes[r];
    pthread_mutex_init(&inbox->lock, NULL);
    inbox->last = &inbox->first;
    inbox->event_fd = -1;
    inbox->open = 1;
  }
  return world;
}

static void free_letters(df_letter *letter) {
  while (letter) {
    df_letter *next = letter->next;
    if (letter->fd >= 0) close(letter->fd);
    free(letter);
    letter = next;
  }
}

static void free_world(df_world *world) {
  for (uint32_t r = 0; r < world->n_ranks; r++) {
    free_letters(world->inboxes[r].first);
    pthread_mutex_destroy(&world->inboxes[r].lock);
  }
  while (world->graveyard) {
    df_remains *next = world->graveyard->next;
    world->graveyard->destroy(world->graveyard);
    world->graveyard = next;
  }
  pthread_mutex_destroy(&world->lock);
  free(world->inboxes);
  free(world->departed);
  free(world);
}

/* [worlds_lock] */
static df_world *find_world(const unsigned char job[16]) {
  df_world *world = worlds;
  while (world && memcmp(world->job, job, sizeof world->job) != 0) world = world->next;
  return world;
}

df_world *df_world_join(const unsigned char job[16], uint32_t n_ranks, uint32_t n_local) {
  lock_worlds();
  df_world *world = find_world(job);
  if (world == NULL) {
    world = make_world(job, n_ranks);
    if (world) {
      world->to_come = n_local;
      world->next = worlds;
      worlds = world;
    }
  }
  if (world) {
    world->references++;
    world->to_come--;
  }
  pthread_mutex_unlock(&worlds_lock);
  return world;
}

/* [worlds_lock] Unlists a world that nobody uses or will use. */
static int is_over(df_world *world) {
  if (world->references > 0 || world->to_come > 0) return 0;
  df_world **at = &worlds;
  while (*at != world) at = &(*at)->next;
  *at = world->next;
  return 1;
}

void df_world_release(df_world *world) {
  lock_worlds();
  world->references--;
  int over = is_over(world);
  pthread_mutex_unlock(&worlds_lock);
  if (over) free_world(world);
}

void df_world_expect_less(const unsigned char job[16], uint32_t n) {
  lock_worlds();
  df_world *world = find_world(job);
  int over = 0;
  if (world) {
    world->to_come -= n;
    over = is_over(world);
  }
  pthread_mutex_unlock(&worlds_lock);
  if (over) free_world(world);
}

void df_world_arriving(void) {
  lock_worlds();
  n_arriving++;
  pthread_mutex_unlock(&worlds_lock);
}

void df_world_arrived(void) {
  lock_worlds();
  df_world *over = NULL, **at = &worlds;
  n_arriving--;
  while (n_arriving == 0 && *at) {
    df_world *world = *at;
    if (world->references > 0) {
      at = &world->next;
      continue;
    }
    *at = world->next;
    world->next = over;
    over = world;
  }
  pthread_mutex_unlock(&worlds_lock);
  while (over) {
    df_world *next = over->next;
    free_world(over);
    over = next;
  }
}

void df_world_miss(const df_mesh *mesh) {
  df_world *world = df_world_join(mesh->job, (uint32_t)mesh->n_ranks, mesh->n_local);
  if (world == NULL) return;
  df_world_detach(world, (uint32_t)mesh->rank);
  df_world_release(world);
}

void df_world_tell_absence(const df_mesh *mesh) {
  if (mesh->absence == DF_ABSENCE_AWAITED) df_world_miss(mesh);
  if (mesh->absence == DF_ABSENCE_COUNTED) df_world_expect_less(mesh->job, 1);
}

/* [inbox->lock] */
static void wake(const df_inbox *inbox) {
  if (inbox->event_fd < 0) return;
  uint64_t one = 1;
  ssize_t written = write(inbox->event_fd, &one, sizeof one);
  (void)written; /* a full counter wakes as well */
}

void df_world_attach(df_world *world, uint32_t rank, int event_fd, df_bell *bell) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  inbox->event_fd = event_fd;
  inbox->bell = bell;
  wake(inbox); /* for letters that came before event_fd */
  pthread_mutex_unlock(&inbox->lock);
}

/* Readers look only at new departures: with many ranks, each looks once at each other. */
static void tell_of_departure(df_world *world, uint32_t rank, int is_mute) {
  pthread_mutex_lock(&world->lock);
  uint32_t n = world->departures;
  DF_ASSERT(n < 2 * world->n_ranks);
  world->departed[n] = (df_departure){.rank = rank, .is_mute = is_mute};
  df_publish_u32(&world->departures, n + 1);
  pthread_mutex_unlock(&world->lock);
  for (uint32_t r = 0; r < world->n_ranks; r++) {
    pthread_mutex_lock(&world->inboxes[r].lock);
    wake(&world->inboxes[r]);
    pthread_mutex_unlock(&world->inboxes[r].lock);
  }
}

void df_world_detach(df_world *world, uint32_t rank) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  inbox->event_fd = -1;
  inbox->open = 0;
  int had_left = inbox->left;
  inbox->left = 1;
  df_letter *letters = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  pthread_mutex_unlock(&inbox->lock);
  free_letters(letters);
  if (!had_left) tell_of_departure(world, rank, 0);
}

uint32_t df_world_departures(df_world *world) { return df_observe_u32(&world->departures); }

df_departure df_world_departed(const df_world *world, uint32_t departure) {
  return world->departed[departure];
}

int df_world_has_left(df_world *world, uint32_t rank) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  int left = inbox->left;
  pthread_mutex_unlock(&inbox->lock);
  return left;
}

void df_world_mute(df_world *world, uint32_t rank) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  int was_mute = inbox->is_mute;
  inbox->is_mute = 1;
  pthread_mutex_unlock(&inbox->lock);
  if (!was_mute) tell_of_departure(world, rank, 1);
}

int df_world_is_mute(df_world *world, uint32_t rank) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  int is_mute = inbox->is_mute;
  pthread_mutex_unlock(&inbox->lock);
  return is_mute;
}

void df_world_bury(df_world *world, df_remains *remains) {
  pthread_mutex_lock(&world->lock);
  remains->next = world->graveyard;
  world->graveyard = remains;
  pthread_mutex_unlock(&world->lock);
}

df_bell *df_world_bell(df_world *world, uint32_t rank) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  df_bell *bell = inbox->bell;
  pthread_mutex_unlock(&inbox->lock);
  return bell;
}

dfcclResult_t df_world_post(df_world *world, uint32_t to, uint32_t from, const df_message *message,
                            const void *payload) {
  df_letter *letter = malloc(sizeof *letter + message->payload_bytes);
  if (letter == NULL) return df_fail(dfcclOutOfMemory, "no memory for a message to rank %u", to);
  letter->next = NULL;
  letter->from = from;
  letter->fd = -1;
  letter->message = *message;
  if (message->payload_bytes) memcpy(&letter->message + 1, payload, message->payload_bytes);
  df_inbox *inbox = &world->inboxes[to];
  pthread_mutex_lock(&inbox->lock);
  if (inbox->open) {
    *inbox->last = letter;
    inbox->last = &letter->next;
    letter = NULL;
    wake(inbox);
  }
  pthread_mutex_unlock(&inbox->lock);
  free(letter); /* the rank has gone: nobody would read it */
  return dfcclSuccess;
}

df_letter *df_world_collect(df_world *world, uint32_t rank) {
  df_inbox *inbox = &world->inboxes[rank];
  pthread_mutex_lock(&inbox->lock);
  df_letter *letters = inbox->first;
  inbox->first = NULL;
  inbox->last = &inbox->first;
  pthread_mutex_unlock(&inbox->lock);
  return letters;
}
