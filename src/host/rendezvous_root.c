#include "host/rendezvous_root.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/process.h"
#include "host/rank_list.h"
#include "host/rendezvous_caller.h"
#include "host/sockets.h"

enum {
  PROOF_MS = 5000,     /* from accept to a complete JOIN */
  FLUSH_MS = 1000,     /* for the last message to leave */
  STRANGERS_MAX = 512, /* callers that have not joined; the oldest gives way */
  ACCEPTS_MAX = 32,    /* before those that are here are served again */
  CALLERS_MAX = DF_MAX_RANKS + STRANGERS_MAX,
  ACCEPT_PAUSE_MS = 20, /* when the process has no descriptor left */
  STACK_BYTES = 256 * 1024
};

typedef enum { COLLECTING, MESHING, STARTED, FAILED } root_phase;

struct df_root {
  df_root_options options;
  df_listener listener;
  uint64_t accept_from_ns; /* accepting pauses until then */
  int stop;                /* eventfd; -1 for a detached root */
  bool stopping;
  pthread_t thread;

  root_phase phase;
  uint64_t deadline_ns; /* of the phase: nobody came; patience of the ranks; last words said */
  uint64_t end_ns;      /* STARTED, FAILED: at the latest */
  uint64_t patience_ns; /* when the least patient rank gives up by itself */
  int n_ranks;          /* 0: not known yet */
  int n_joined, n_meshed, n_told, n_dead;
  uint64_t idle_end_ns;
  df_caller **members; /* [n_ranks]; NULL: has not come, or is gone */
  df_record *records;  /* [n_ranks] */
  df_table table;
  dfcclResult_t failure;
  char reason[DF_REASON_BYTES];

  df_caller *callers[CALLERS_MAX]; /* in order of arrival */
  int n_callers;
  struct pollfd polled[CALLERS_MAX + 2];
};

static uint64_t after_ms(uint64_t ms) { return df_clock_ns() + ms * 1000000u; }

df_root *df_root_create(const df_root_options *options) {
  df_root *root = calloc(1, sizeof *root);
  if (root == NULL) {
    if (options->listener >= 0) close(options->listener);
    return NULL;
  }
  root->options = *options;
  root->stop = -1;
  root->listener.fd = -1;
  root->idle_end_ns = after_ms(options->idle_ms);
  root->deadline_ns = root->idle_end_ns;
  if (options->listener >= 0) df_listener_open(&root->listener, options->listener);
  return root;
}

void df_root_destroy(df_root *root) {
  df_listener_close(&root->listener);
  for (int i = 0; i < root->n_callers; i++) {
    df_socket_close(&root->callers[i]->fd);
    free(root->callers[i]);
  }
  df_socket_close(&root->stop);
  free(root->members);
  free(root->records);
  sodium_memzero(root->options.key, sizeof root->options.key);
  free(root);
}

/* ---- The job fails, or stands ---- */

static void tell_failure(df_root *root, df_caller *caller, dfcclResult_t code) {
  df_refusal refusal;
  df_refusal_write(&refusal, DF_MESSAGE_FAILURE, code, root->reason, caller->key);
  df_caller_queue(caller, &refusal, sizeof refusal);
  caller->stage = DF_CALLER_TOLD;
  root->n_told++;
}

/* Ends the job for everybody with root->reason. offender, if not NULL, is told its own code. */
static void fail_job(df_root *root, dfcclResult_t code, df_caller *offender,
                     dfcclResult_t offender_code) {
  if (root->phase == FAILED || root->phase == STARTED) return;
  df_log(DF_LOG_INFO, "rendezvous failed: %s", root->reason);
  root->phase = FAILED;
  root->failure = code;
  root->deadline_ns = after_ms(root->options.linger_ms);
  if (root->stop >= 0) root->deadline_ns = DF_MIN(root->deadline_ns, root->idle_end_ns);
  root->end_ns = root->deadline_ns + (uint64_t)FLUSH_MS * 1000000u;
  if (offender != NULL) tell_failure(root, offender, offender_code);
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->stage == DF_CALLER_JOINED || caller->stage == DF_CALLER_MESHED)
      tell_failure(root, caller, code);
  }
}

static void member_gone(df_root *root, df_caller *caller) {
  root->members[caller->rank] = NULL;
  root->n_dead++;
  snprintf(root->reason, sizeof root->reason,
           "rank %d (process %d) died before the job of %d ranks stood", caller->rank, caller->pid,
           root->n_ranks);
  df_socket_close(&caller->fd);
  caller->stage = DF_CALLER_TOLD; /* it needs no telling */
  fail_job(root, dfcclRemoteError, NULL, dfcclRemoteError);
}

static void close_caller(df_root *root, df_caller *caller) {
  if (caller->stage == DF_CALLER_JOINED || caller->stage == DF_CALLER_MESHED)
    member_gone(root, caller);
  else
    df_socket_close(&caller->fd);
}

static void send_table(df_root *root) {
  size_t bytes = sizeof(df_record) * (size_t)root->n_ranks;
  df_message_start(&root->table, DF_MESSAGE_TABLE, sizeof root->table);
  randombytes_buf(root->table.session, sizeof root->table.session);
  crypto_generichash(root->table.digest, sizeof root->table.digest,
                     (const unsigned char *)root->records, bytes, NULL, 0);
  /* From here on the address is free: the next job of this key cannot meet this one's root. */
  df_listener_close(&root->listener);
  root->phase = MESHING;
  root->deadline_ns = root->patience_ns; /* now ranks know better than the root who is missing */
  for (int rank = 0; rank < root->n_ranks; rank++) {
    df_caller *caller = root->members[rank];
    df_table table = root->table;
    df_message_seal(&table, sizeof table, caller->key);
    df_caller_queue(caller, &table, sizeof table);
    df_caller_queue_bulk(caller, root->records, bytes);
  }
}

static void send_go(df_root *root) {
  root->phase = STARTED;
  root->deadline_ns = df_clock_ns();
  root->end_ns = after_ms(FLUSH_MS);
  for (int rank = 0; rank < root->n_ranks; rank++) {
    df_caller *caller = root->members[rank];
    df_signal go;
    df_message_start(&go, DF_MESSAGE_GO, sizeof go);
    df_message_seal(&go, sizeof go, caller->key);
    df_caller_queue(caller, &go, sizeof go);
    caller->stage = DF_CALLER_TOLD;
    root->n_told++;
  }
}

/* ---- Messages ---- */

static void on_hello(df_root *root, df_caller *caller) {
  const df_hello *hello = &caller->in.hello;
  df_challenge challenge;
  df_message_start(&challenge, DF_MESSAGE_CHALLENGE, sizeof challenge);
  if (df_header_is_foreign(&hello->header)) {
    /* Only a process of this user may learn the version; then it can say what is wrong. */
    if (root->options.same_user_only) {
      df_caller_queue(caller, &challenge, sizeof challenge);
      df_caller_flush(caller);
    }
    df_socket_close(&caller->fd);
    return;
  }
  randombytes_buf(challenge.nonce, sizeof challenge.nonce);
  df_derive(caller->key, sizeof caller->key, root->options.key, "dfccl rendezvous", hello->nonce,
            sizeof hello->nonce, challenge.nonce, sizeof challenge.nonce);
  df_message_seal(&challenge, sizeof challenge, caller->key);
  df_caller_queue(caller, &challenge, sizeof challenge);
  caller->stage = DF_CALLER_PROVEN;
}

/* The number of ranks as the first one says; false when out of memory. */
static bool learn_size(df_root *root, int n_ranks) {
  if (root->members != NULL) return true;
  root->members = calloc((size_t)n_ranks, sizeof *root->members);
  root->records = calloc((size_t)n_ranks, sizeof *root->records);
  if (root->members == NULL || root->records == NULL) {
    free(root->members);
    free(root->records);
    root->members = NULL;
    root->records = NULL;
    return false;
  }
  root->n_ranks = n_ranks;
  return true;
}

/* Whether the caller contradicts those before it; the reason then tells how. */
static bool contradicts(df_root *root, const df_join_request *join) {
  const df_caller *other = NULL;
  for (int i = 0; i < root->n_callers && other == NULL; i++)
    if (root->callers[i]->stage == DF_CALLER_JOINED) other = root->callers[i];
  if (join->n_ranks != root->n_ranks && other != NULL) {
    snprintf(root->reason, sizeof root->reason,
             "rank %d (process %d) says that the job has %d ranks, rank %d (process %d) says %d",
             join->rank, join->record.pid, join->n_ranks, other->rank, other->pid, root->n_ranks);
    return true;
  }
  if (join->n_ranks != root->n_ranks) {
    snprintf(root->reason, sizeof root->reason,
             "rank %d (process %d) says that the job has %d ranks, its root says %d", join->rank,
             join->record.pid, join->n_ranks, root->n_ranks);
    return true;
  }
  other = root->members[join->rank];
  if (other == NULL) return false;
  snprintf(root->reason, sizeof root->reason,
           "two processes claim rank %d of %d: process %d and process %d", join->rank,
           root->n_ranks, other->pid, join->record.pid);
  return true;
}

/* The least patient rank's deadline is everybody's, less what the news needs to arrive in time. */
static void learn_deadline(df_root *root, uint32_t timeout_ms) {
  uint64_t patience_ns = after_ms(timeout_ms);
  if (root->n_joined > 0 && patience_ns >= root->patience_ns) return;
  root->patience_ns = patience_ns;
  root->deadline_ns = patience_ns - df_news_margin_ns(timeout_ms);
}

static void on_join(df_root *root, df_caller *caller) {
  const df_join_request *join = &caller->in.join;
  bool makes_sense = join->n_ranks >= 1 && join->n_ranks <= DF_MAX_RANKS && join->rank >= 0 &&
                     join->rank < join->n_ranks && join->timeout_ms <= INT32_MAX;
  if (!df_message_verify(join, sizeof *join, caller->key) || !makes_sense) {
    df_socket_close(&caller->fd);
    return;
  }
  caller->rank = join->rank;
  caller->pid = join->record.pid;
  if (root->phase == FAILED) {
    tell_failure(root, caller, root->failure);
    return;
  }
  int n_ranks = root->options.n_ranks > 0 ? root->options.n_ranks : join->n_ranks;
  if (root->phase != COLLECTING || !learn_size(root, n_ranks)) {
    df_socket_close(&caller->fd); /* it will try again, and find nobody once this job stands */
    return;
  }
  if (contradicts(root, join)) {
    fail_job(root, dfcclRemoteError, caller, dfcclInvalidArgument);
    return;
  }
  learn_deadline(root, join->timeout_ms);
  root->members[join->rank] = caller;
  root->records[join->rank] = join->record;
  caller->stage = DF_CALLER_JOINED;
  root->n_joined++;
  df_signal welcome;
  df_message_start(&welcome, DF_MESSAGE_WELCOME, sizeof welcome);
  df_message_seal(&welcome, sizeof welcome, caller->key);
  df_caller_queue(caller, &welcome, sizeof welcome);
  if (root->n_joined == root->n_ranks) send_table(root);
}

static void on_done(df_root *root, df_caller *caller) {
  if (caller->stage == DF_CALLER_TOLD) return;
  if (root->phase != MESHING || !df_message_verify(&caller->in, sizeof(df_signal), caller->key)) {
    close_caller(root, caller);
    return;
  }
  caller->stage = DF_CALLER_MESHED;
  root->n_meshed++;
  if (root->n_meshed == root->n_ranks) send_go(root);
}

static void on_leave(df_root *root, df_caller *caller) {
  const df_refusal *leave = &caller->in.refusal;
  if (caller->stage == DF_CALLER_TOLD) return; /* too late to matter */
  if (!df_message_verify(leave, sizeof *leave, caller->key)) {
    close_caller(root, caller);
    return;
  }
  int length = (int)strnlen(leave->reason, sizeof leave->reason);
  snprintf(root->reason, sizeof root->reason, "rank %d (process %d) gave up: %.*s", caller->rank,
           caller->pid, DF_MIN(length, DF_REASON_BYTES - 64), leave->reason);
  bool late = leave->code == dfcclTimeout;
  fail_job(root, late ? dfcclTimeout : dfcclRemoteError, NULL, dfcclRemoteError);
}

static void serve(df_root *root, df_caller *caller) {
  while (caller->fd >= 0) {
    switch (df_caller_read(caller)) {
    case DF_CALLER_NOTHING:
      return;
    case DF_CALLER_GONE:
    case DF_CALLER_NONSENSE:
      close_caller(root, caller);
      return;
    case DF_CALLER_MESSAGE:
      break;
    }
    df_message_type type = (df_message_type)caller->in.header.type;
    if (type == DF_MESSAGE_HELLO) on_hello(root, caller);
    if (type == DF_MESSAGE_JOIN) on_join(root, caller);
    if (type == DF_MESSAGE_DONE) on_done(root, caller);
    if (type == DF_MESSAGE_LEAVE) on_leave(root, caller);
    caller->in_used = 0;
  }
}

/* ---- Connections come and go ---- */

static bool is_stranger(const df_caller *caller) {
  return caller->stage == DF_CALLER_NEW || caller->stage == DF_CALLER_PROVEN;
}

/* Closes the stranger that has been here longest, if there are at least so many. */
static void drop_oldest_stranger(df_root *root, int if_at_least) {
  df_caller *oldest = NULL;
  int strangers = 0;
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd < 0 || !is_stranger(caller)) continue;
    if (oldest == NULL) oldest = caller;
    strangers++;
  }
  if (oldest != NULL && strangers >= if_at_least) df_socket_close(&oldest->fd);
}

static void sweep_closed(df_root *root) {
  int kept = 0;
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd >= 0)
      root->callers[kept++] = caller;
    else
      free(caller);
  }
  root->n_callers = kept;
}

void df_root_adopt(df_root *root, int fd) {
  drop_oldest_stranger(root, STRANGERS_MAX);
  sweep_closed(root);
  bool turned_away = root->n_callers == CALLERS_MAX ||
                     (root->options.same_user_only && !df_socket_same_user(fd, NULL));
  df_caller *caller = turned_away ? NULL : calloc(1, sizeof *caller);
  if (caller == NULL) {
    close(fd);
    return;
  }
  caller->fd = fd;
  caller->deadline_ns = after_ms(PROOF_MS);
  root->callers[root->n_callers++] = caller;
}

static void accept_callers(df_root *root) {
  for (int i = 0; i < ACCEPTS_MAX && root->listener.fd >= 0; i++) {
    int fd = df_accept(root->listener.fd);
    if (fd >= 0) {
      df_root_adopt(root, fd);
    } else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
      drop_oldest_stranger(root, 1);
      root->accept_from_ns = after_ms(ACCEPT_PAUSE_MS);
      return;
    } else if (fd != -EINTR && fd != -ECONNABORTED) {
      return;
    }
  }
}

/* ---- Time ---- */

static void name_the_missing(df_root *root) {
  unsigned char missing[DF_MAX_RANKS] = {0};
  char names[DF_RANK_LIST_BYTES];
  bool meshing = root->phase == MESHING;
  for (int rank = 0; rank < root->n_ranks; rank++) {
    const df_caller *caller = root->members[rank];
    missing[rank] = meshing ? caller->stage != DF_CALLER_MESHED : caller == NULL;
  }
  df_rank_list(names, sizeof names, missing, root->n_ranks);
  snprintf(root->reason, sizeof root->reason,
           meshing ? "%s of %d did not get all connections in time"
                   : "%s of %d did not come in time",
           names, root->n_ranks);
}

static bool all_said(const df_root *root) {
  for (int i = 0; i < root->n_callers; i++)
    if (root->callers[i]->stage == DF_CALLER_TOLD && df_caller_has_output(root->callers[i]))
      return false;
  return true;
}

/* False when the root has nothing more to do. */
static bool check_time(df_root *root) {
  uint64_t now = df_clock_ns();
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd >= 0 && is_stranger(caller) && now >= caller->deadline_ns)
      df_socket_close(&caller->fd);
  }
  if (root->phase == COLLECTING || root->phase == MESHING) {
    if (root->stopping) return false;
    if (now < root->deadline_ns) return true;
    if (root->n_joined == 0) return false;
    name_the_missing(root);
    fail_job(root, dfcclTimeout, NULL, dfcclTimeout);
    return true;
  }
  if (now >= root->end_ns) return false;
  bool everybody = root->n_ranks > 0 && root->n_told + root->n_dead >= root->n_ranks;
  return !(all_said(root) && (everybody || now >= root->deadline_ns));
}

/* When to wake up although nothing happened. */
static uint64_t next_deadline(const df_root *root) {
  bool ending = root->phase == STARTED || root->phase == FAILED;
  uint64_t next = ending && df_clock_ns() >= root->deadline_ns ? root->end_ns : root->deadline_ns;
  if (root->accept_from_ns > df_clock_ns()) next = DF_MIN(next, root->accept_from_ns);
  for (int i = 0; i < root->n_callers; i++)
    if (is_stranger(root->callers[i])) next = DF_MIN(next, root->callers[i]->deadline_ns);
  return next;
}

/* ---- The loop ---- */

static int fill_polled(df_root *root) {
  bool accepting = root->listener.fd >= 0 && df_clock_ns() >= root->accept_from_ns;
  root->polled[0] = (struct pollfd){.fd = root->stopping ? -1 : root->stop, .events = POLLIN};
  root->polled[1] = (struct pollfd){.fd = accepting ? root->listener.fd : -1, .events = POLLIN};
  for (int i = 0; i < root->n_callers; i++) {
    const df_caller *caller = root->callers[i];
    short events = df_caller_has_output(caller) ? POLLIN | POLLOUT : POLLIN;
    root->polled[2 + i] = (struct pollfd){.fd = caller->fd, .events = events};
  }
  return root->n_callers + 2;
}

bool df_root_step(df_root *root, int wait_ms) {
  int n_polled = fill_polled(root);
  int n_served = root->n_callers;
  int ready = poll(root->polled, (nfds_t)n_polled, wait_ms);
  if (ready < 0 && errno != EINTR) return false;
  if (ready > 0) {
    root->stopping = root->stopping || root->polled[0].revents != 0;
    /* Those who have joined first: if one of them is gone, a newcomer must not be taken for its
     * double. */
    for (int strangers = 0; strangers <= 1; strangers++)
      for (int i = 0; i < n_served; i++)
        if (root->polled[2 + i].revents != 0 && is_stranger(root->callers[i]) == strangers) {
          root->polled[2 + i].revents = 0; /* who joins now is served once */
          serve(root, root->callers[i]);
        }
    if (root->polled[1].revents != 0) accept_callers(root);
  }
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd >= 0 && df_caller_has_output(caller) && !df_caller_flush(caller))
      close_caller(root, caller);
  }
  sweep_closed(root);
  return check_time(root);
}

static void *run_root(void *argument) {
  df_root *root = argument;
  while (df_root_step(root, df_remaining_ms(next_deadline(root)))) continue;
  /* Nobody may wait for a root that has ended. */
  df_listener_close(&root->listener);
  if (root->stop < 0) df_root_destroy(root);
  return NULL;
}

dfcclResult_t df_root_start(const df_root_options *options, df_root **root) {
  df_root *made = df_root_create(options);
  if (made == NULL) return df_fail(dfcclOutOfMemory, "no memory for the root of the rendezvous");
  if (root != NULL) made->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (root != NULL && made->stop < 0) {
    df_root_destroy(made);
    return df_fail(dfcclSystemError, "no event descriptor for the rendezvous: %s", strerror(errno));
  }
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  if (root == NULL) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  /* The application's signals are for its own threads. */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, run_root, made);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    df_root_destroy(made);
    return df_fail(error == EAGAIN ? dfcclOutOfMemory : dfcclSystemError,
                   "no thread for the root of the rendezvous: %s", strerror(error));
  }
  if (root != NULL) {
    made->thread = thread;
    *root = made;
  }
  return dfcclSuccess;
}

void df_root_stop(df_root *root) {
  uint64_t one = 1;
  ssize_t written = write(root->stop, &one, sizeof one);
  DF_ASSERT(written == sizeof one);
  pthread_join(root->thread, NULL);
  df_root_destroy(root);
}
