#include "host/membership/process_ends.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transports/shm/home.h"

enum { TICK_MS = 1 };
#if defined(DF_SIMULATION) /* the adversary lets any amount of time pass */
enum { PATIENCE_MS = 1 << 30 };
#else
enum { PATIENCE_MS = 3000 /* on a machine with much load a killed process ends slowly */ };
#endif

/* The process that has made the connection. -1: the kernel cannot say. */
static int open_pidfd(int socket) {
  int pidfd = -1;
  socklen_t bytes = sizeof pidfd;
#if !defined(SO_PEERPIDFD)
#define SO_PEERPIDFD 77
#endif
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0) return pidfd;
#if defined(SYS_pidfd_open) && !defined(DF_SIMULATION)
  struct ucred {
    pid_t pid;
    uid_t uid;
    gid_t gid;
  } credentials;
  bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.pid > 0)
    return (int)syscall(SYS_pidfd_open, credentials.pid, 0);
#endif
  return -1;
}

int df_process_ends_open(dfcclContext_t context, df_process_ends *ends) {
  *ends = (df_process_ends){.n_ranks = context->n_ranks};
  ends->pidfds = malloc(context->n_ranks * sizeof *ends->pidfds);
  ends->lost_ns = calloc(context->n_ranks, sizeof *ends->lost_ns);
  for (uint32_t r = 0; ends->pidfds && r < context->n_ranks; r++) {
    const int socket = context->control.peers[r].socket;
    ends->pidfds[r] = socket >= 0 ? open_pidfd(socket) : -1;
  }
  return ends->pidfds && ends->lost_ns;
}

void df_process_ends_close_files(const df_process_ends *ends) {
  for (uint32_t r = 0; ends->pidfds && r < ends->n_ranks; r++)
    if (ends->pidfds[r] >= 0) close(ends->pidfds[r]);
}

void df_process_ends_close(df_process_ends *ends) {
  df_process_ends_close_files(ends);
  free(ends->pidfds);
  free(ends->lost_ns);
}

void df_process_ends_await(df_process_ends *ends, uint32_t rank, uint64_t now_ns) {
  if (ends->lost_ns[rank]) return;
  ends->lost_ns[rank] = now_ns;
  ends->n_awaited++;
}

int df_process_ends_tick_ms(const df_process_ends *ends) {
  return ends->n_awaited > 0 ? TICK_MS : -1;
}

static int has_ended(int pidfd) {
  struct pollfd watched = {.fd = pidfd, .events = POLLIN};
  return pidfd >= 0 && poll(&watched, 1, 0) == 1 && (watched.revents & POLLIN);
}

static uint32_t *notice(df_home *home, uint32_t n_ranks, uint32_t from) {
  return &home->refusals[n_ranks + from];
}

static int was_notified(dfcclContext_t context, uint32_t by) DF_RANK_LOCKED {
  df_home *home = (df_home *)context->transports.shm->home->base;
  return df_observe_u32(notice(home, context->n_ranks, by)) != 0;
}

int df_process_ends_is_over(const df_process_ends *ends, uint32_t rank) {
  return ends->lost_ns[rank] == 0 && has_ended(ends->pidfds[rank]);
}

void df_process_ends_replace(df_process_ends *ends, uint32_t rank, int socket) {
  if (ends->lost_ns[rank]) ends->n_awaited--;
  ends->lost_ns[rank] = 0;
  if (ends->pidfds[rank] >= 0) close(ends->pidfds[rank]);
  ends->pidfds[rank] = open_pidfd(socket);
}

void df_process_ends_notify(dfcclContext_t context, uint32_t rank) {
  df_home *home = (df_home *)df_shm_bell(context->transports.shm, rank);
  if (home) df_publish_u32(notice(home, context->n_ranks, context->rank), 1);
}

int df_process_ends_take(dfcclContext_t context, df_process_ends *ends, uint64_t now_ns,
                         uint32_t *rank, int *is_proved) {
  for (uint32_t r = 0; ends->n_awaited > 0 && r < ends->n_ranks; r++) {
    if (ends->lost_ns[r] == 0) continue;
    const int ended = has_ended(ends->pidfds[r]);
    const int is_late = now_ns - ends->lost_ns[r] >= PATIENCE_MS * (uint64_t)1000000;
    if (!ended && !is_late && ends->pidfds[r] >= 0) continue;
    ends->lost_ns[r] = 0;
    ends->n_awaited--;
    *rank = r;
    *is_proved = ended && !was_notified(context, r);
    return 1;
  }
  return 0;
}
