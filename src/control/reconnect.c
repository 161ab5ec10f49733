#include "control/reconnect.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/net/sockets.h"
#include "control/service.h"

#if defined(DF_SIMULATION) /* simulated time passes slowly */
enum { REFUSED_MS = 4, REFUSED_OTHERWISE_MS = 8, TICK_MS = 2 };
#else
/* A rank whose host has refused calls for this time is dead. The longer time applies where this end
 * has not called before: a firewall may refuse its calls, while the other end calls. */
enum { REFUSED_MS = 200, REFUSED_OTHERWISE_MS = 1000, TICK_MS = 20 };
#endif

typedef struct df_arrival {
  struct df_arrival *next;
  uint32_t rank;
  int fd;
  unsigned char key[DF_REMOTE_CHANNEL_KEY];
} df_arrival;

static int may_resume(const df_control *control, const df_peer *peer) {
  return control->reconnector.want && control->reconnector.resume_ms && !peer->has_finished &&
         peer->state != DF_PEER_DEAD;
}

/* The other end has received the reason, or it will call and receive the reason then. */
static int need_not_call(const df_peer *peer) {
  return peer->cut_off && peer->channel->has_ended && !peer->calls;
}

int df_resume_begin(df_control *control, uint32_t rank, int error) {
  df_peer *peer = &control->peers[rank];
  if (!may_resume(control, peer) || need_not_call(peer)) return 0;
  /* The peer was silent for the whole permitted time, unless another path may exist. */
  if (df_is_silence(error) && !peer->has_paths) return 0;
  df_log(DF_LOG_INFO, "rank %u: lost the control connection to rank %u: %s", control->rank, rank,
         error ? strerror(error) : "the other end closed it");
  if (peer->lost_ns == 0) {
    peer->was_silent = df_is_silence(error);
    peer->lost_ns = df_clock_ns();
    control->n_lost++;
  }
  df_socket_close(peer->mesh_socket);
  peer->unsent = peer->first;
  control->reconnector.want(control->reconnector.owner, rank,
                            peer->was_silent ? DF_RECONNECT_WANTED_ELSEWHERE : DF_RECONNECT_WANTED);
  return 1;
}

static void stop(df_control *control, uint32_t rank) {
  control->peers[rank].lost_ns = 0;
  control->n_lost--;
  control->reconnector.want(control->reconnector.owner, rank, DF_RECONNECT_NOT_WANTED);
}

void df_resume_received(df_control *control, uint32_t rank) {
  if (control->peers[rank].lost_ns == 0) return;
  stop(control, rank);
  control->peers[rank].resumes++;
  df_log(DF_LOG_INFO, "rank %u: the control connection to rank %u is established again",
         control->rank, rank);
}

void df_resume_end(df_control *control, uint32_t rank) {
  control->peers[rank].has_finished = 1;
  if (control->peers[rank].lost_ns) stop(control, rank);
}

/* ---- connections that were made */

int df_resume_arrived(df_control *control, uint32_t rank, int fd,
                      const unsigned char key[DF_REMOTE_CHANNEL_KEY]) {
  df_arrival *arrival = malloc(sizeof *arrival);
  if (arrival == NULL) return 0;
  *arrival = (df_arrival){.rank = rank, .fd = fd};
  memcpy(arrival->key, key, sizeof arrival->key);
  df_lock(&control->arrivals_lock);
  df_arrival **last = &control->arrivals;
  while (*last) last = &(*last)->next;
  *last = arrival;
  df_unlock(&control->arrivals_lock);
  df_service_wake(control);
  return 1;
}

static df_arrival *take_all(df_control *control) {
  df_lock(&control->arrivals_lock);
  df_arrival *first = control->arrivals;
  control->arrivals = NULL;
  df_unlock(&control->arrivals_lock);
  return first;
}

static void put(df_control *control, uint32_t rank, int fd) {
  df_peer *peer = &control->peers[rank];
  if (peer->socket >= 0) epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, peer->socket, NULL);
  df_socket_close(peer->mesh_socket);
  *peer->mesh_socket = peer->socket = fd;
  peer->writable_wanted = 0;
  struct epoll_event event = {.events = EPOLLIN, .data.u32 = rank};
  epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Messages of the old connection are not accepted from here on. Therefore the number that this end
 * sends is the number from which the other end must continue. */
static void attach(df_control *control, df_arrival *arrival) DF_RANK_LOCKED {
  df_peer *peer = &control->peers[arrival->rank];
  const int is_wanted = may_resume(control, peer);
  if (is_wanted && peer->lost_ns == 0) { /* only the other end has seen the loss */
    peer->was_silent = 0;
    peer->lost_ns = df_clock_ns();
    control->n_lost++;
  }
  df_remote_channel_renew(peer->channel, arrival->key);
  peer->unsent = peer->first;
  put(control, arrival->rank, arrival->fd);
  if (is_wanted)
    df_messenger_flush(control, arrival->rank);
  else /* The other end may not have received the end of the channel. */
    df_messenger_end(control, arrival->rank);
}

static void forget(df_arrival *arrival) {
  sodium_memzero(arrival, sizeof *arrival);
  free(arrival);
}

void df_resume_take(df_control *control) {
  for (df_arrival *arrival = take_all(control), *next; arrival; arrival = next) {
    next = arrival->next;
    df_rank_lock(control->lock);
    attach(control, arrival);
    df_rank_unlock(control->lock);
    forget(arrival);
  }
}

/* ---- channels without a connection */

int df_resume_has_failed(df_control *control, uint32_t rank, int *error) {
  const df_peer *peer = &control->peers[rank];
  const df_reconnector *reconnector = &control->reconnector;
  if (peer->lost_ns == 0) return 0;
  const uint64_t now = df_clock_ns(),
                 refused_ns = reconnector->refused_ns(reconnector->owner, rank);
  const uint64_t silence_ms = reconnector->silence_ms;
  uint64_t patience_ms =
      silence_ms ? DF_MIN(silence_ms, reconnector->resume_ms) : reconnector->resume_ms;
  if (peer->was_silent) patience_ms = silence_ms - df_silence_of_rail(reconnector->silence_ms);
  const uint64_t refused_ms = peer->calls ? REFUSED_MS : REFUSED_OTHERWISE_MS;
  *error = ECONNREFUSED;
  if (refused_ns && now - refused_ns >= refused_ms * 1000000) return 1;
  *error = ETIMEDOUT;
  return now - peer->lost_ns >= patience_ms * 1000000;
}

int df_resume_tick_ms(const df_control *control) { return control->n_lost ? TICK_MS : -1; }

void df_resume_close(df_control *control) {
  for (df_arrival *arrival = take_all(control), *next; arrival; arrival = next) {
    next = arrival->next;
    df_socket_close(&arrival->fd);
    forget(arrival);
  }
  df_mutex_destroy(&control->arrivals_lock);
}
