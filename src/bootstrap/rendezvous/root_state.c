#include "bootstrap/rendezvous/root_state.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/sockets.h"
#include "bootstrap/rendezvous/root_reports.h"

enum { FLUSH_MS = 1000, NEWS_MS = 5000, LARGE_JOB = 512, OTHER_DESCRIPTORS = 512 };

void df_job_stop_listening(df_root *root) {
  df_listener_close(&root->listener);
  df_listener_close(&root->users);
  df_listeners_close(root->options.listeners);
  root->options.listeners = NULL;
}

/* ---- messages to ranks */

static void send_signal(df_caller *caller, df_message_type type) {
  df_signal signal;
  df_message_start(&signal, type, sizeof signal);
  df_message_seal(&signal, sizeof signal, caller->key);
  df_caller_queue(caller, &signal, sizeof signal);
}

static void report_failure(df_root *root, df_caller *caller, dfcclResult_t code) {
  df_refusal refusal;
  df_refusal_write(&refusal, DF_MESSAGE_FAILURE, code, root->reason, caller->key);
  df_caller_queue(caller, &refusal, sizeof refusal);
  caller->stage = DF_CALLER_DECIDED;
  root->n_notified++;
}

/* Sends root->reason to all ranks; offender, if not NULL, gets a code of its own. */
static void fail_job(df_root *root, dfcclResult_t code, df_caller *offender,
                     dfcclResult_t offender_code) {
  if (root->phase == DF_ROOT_FAILED || root->phase == DF_ROOT_STARTED) return;
  df_log(DF_LOG_INFO, "rendezvous failed: %s", root->reason);
  root->phase = DF_ROOT_FAILED;
  root->failure = code;
  root->deadline_ns = df_after_ms(root->options.linger_ms);
  if (root->stop >= 0) root->deadline_ns = DF_MIN(root->deadline_ns, root->idle_end_ns);
  root->end_ns = root->deadline_ns + (uint64_t)FLUSH_MS * 1000000u;
  if (offender != NULL) report_failure(root, offender, offender_code);
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->stage == DF_CALLER_JOINED || caller->stage == DF_CALLER_MESHED)
      report_failure(root, caller, code);
  }
}

static void member_gone(df_root *root, df_caller *caller) {
  root->members[caller->rank] = NULL;
  root->n_dead++;
  snprintf(root->reason, sizeof root->reason,
           "rank %d (process %d) died before the job of %d ranks was connected", caller->rank,
           caller->pid, root->n_ranks);
  df_socket_close(&caller->fd);
  caller->stage = DF_CALLER_DECIDED;
  fail_job(root, dfcclRemoteError, NULL, dfcclRemoteError);
}

void df_job_close_caller(df_root *root, df_caller *caller) {
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
  root->phase = DF_ROOT_MESHING;
  /* From this point the ranks have more exact information about missing ranks. */
  root->deadline_ns = root->patience_ns;
  for (int rank = 0; rank < root->n_ranks; rank++) {
    df_caller *caller = root->members[rank];
    df_table table = root->table;
    df_message_seal(&table, sizeof table, caller->key);
    df_caller_queue(caller, &table, sizeof table);
    df_caller_queue_bulk(caller, root->records, bytes);
  }
}

/* All ranks have joined. From this point, ranks of the next job with the same key cannot connect to
 * this root. */
static void all_have_joined(df_root *root) {
  df_job_stop_listening(root);
  for (int rank = 1; rank < root->n_ranks; rank++)
    root->is_spread |= root->records[rank].host != root->records[0].host;
  if (!root->is_spread) {
    send_table(root);
    return;
  }
  for (int rank = 0; rank < root->n_ranks; rank++)
    send_signal(root->members[rank], DF_MESSAGE_SPREAD);
}

static void on_place(df_root *root, df_caller *caller) {
  const df_place *place = &caller->in.place;
  if (caller->stage == DF_CALLER_DECIDED) return;
  df_record *record = &root->records[caller->rank];
  bool makes_sense = root->is_spread && root->phase == DF_ROOT_COLLECTING &&
                     record->n_addresses == 0 && place->n_addresses >= 1 &&
                     place->n_addresses <= DF_ADDRESSES_MAX;
  if (!makes_sense || !df_message_verify(place, sizeof *place, caller->key)) {
    df_job_close_caller(root, caller);
    return;
  }
  record->n_addresses = place->n_addresses;
  memcpy(record->addresses, place->addresses, sizeof record->addresses);
  if (++root->n_placed == root->n_ranks) send_table(root);
}

static void send_go(df_root *root) {
  root->phase = DF_ROOT_STARTED;
  root->deadline_ns = df_clock_ns();
  root->end_ns = df_after_ms(FLUSH_MS);
  for (int rank = 0; rank < root->n_ranks; rank++) {
    df_caller *caller = root->members[rank];
    send_signal(caller, DF_MESSAGE_GO);
    caller->stage = DF_CALLER_DECIDED;
    root->n_notified++;
  }
}

static void on_hello(df_root *root, df_caller *caller) {
  const df_hello *hello = &caller->in.hello;
  df_challenge challenge;
  df_message_start(&challenge, DF_MESSAGE_CHALLENGE, sizeof challenge);
  if (df_header_is_foreign(&hello->header)) {
    if (memcmp(hello->tag, root->options.tag, sizeof hello->tag) == 0)
      df_root_note_version(root, caller);
    /* Only a caller that has the key of the job may receive the version. */
    if (df_message_verify(hello, sizeof *hello, root->options.key)) {
      df_caller_queue(caller, &challenge, sizeof challenge);
      df_caller_flush(caller);
    }
    df_socket_close(&caller->fd);
    return;
  }
  if (memcmp(hello->tag, root->options.tag, sizeof hello->tag) != 0) {
    df_socket_close(&caller->fd); /* the caller belongs to another job, before or after this one */
    return;
  }
  if (!df_message_verify(hello, sizeof *hello, root->options.key))
    df_root_note_secret(root, caller);
  randombytes_buf(challenge.nonce, sizeof challenge.nonce);
  df_derive(caller->key, sizeof caller->key, root->options.key, "dfccl rendezvous", hello->nonce,
            sizeof hello->nonce, challenge.nonce, sizeof challenge.nonce);
  df_message_seal(&challenge, sizeof challenge, caller->key);
  df_caller_queue(caller, &challenge, sizeof challenge);
  caller->stage = DF_CALLER_PROVEN;
}

/* A root has a connection with each rank. A large job needs more descriptors than the soft limit of
 * most systems; the root raises it as far as the hard limit allows. */
static void make_room(int n_ranks) {
  struct rlimit limit;
  const rlim_t want = (rlim_t)n_ranks + OTHER_DESCRIPTORS;
  if (n_ranks < LARGE_JOB || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want)
    return;
  limit.rlim_cur = DF_MIN(want, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
    df_log(DF_LOG_INFO, "the root of a job of %d ranks may now have %llu descriptors", n_ranks,
           (unsigned long long)limit.rlim_cur);
}

/* Returns false if out of memory. */
static bool set_size(df_root *root, int n_ranks) {
  if (root->members != NULL) return true;
  make_room(n_ranks);
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

static bool contradicts(df_root *root, const df_caller *caller, const df_join_request *join) {
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
  char from[DF_CALLER_PLACE_BYTES];
  snprintf(root->reason, sizeof root->reason,
           "two processes claim rank %d of %d: process %d and process %d%s", join->rank,
           root->n_ranks, other->pid, join->record.pid, df_caller_place(caller, from));
  return true;
}

/* Returns whether rank 0 has called its own root, at an address of another machine that passes
 * packets on to this host. Each rank has a name of its own. */
static bool is_own_call(const df_root *root, const df_join_request *join) {
  return root->members && join->n_ranks == root->n_ranks && root->members[join->rank] &&
         memcmp(root->records[join->rank].name, join->record.name, DF_NAME_BYTES) == 0;
}

/* The deadline of the job is the earliest one of its ranks. */
static void set_deadline(df_root *root, const df_join_request *join) {
  uint64_t patience_ns = df_after_ms(join->left_ms + df_news_ms((int)join->timeout_ms));
  if (root->n_joined > 0 && patience_ns >= root->patience_ns) return;
  root->patience_ns = patience_ns;
  root->deadline_ns = df_after_ms(join->left_ms);
  root->limit_ms = join->timeout_ms;
}

static void on_join(df_root *root, df_caller *caller) {
  const df_join_request *join = &caller->in.join;
  bool makes_sense = join->n_ranks >= 1 && join->n_ranks <= DF_MAX_RANKS && join->rank >= 0 &&
                     join->rank < join->n_ranks && join->timeout_ms <= INT32_MAX &&
                     join->left_ms <= INT32_MAX;
  if (!df_message_verify(join, sizeof *join, caller->key) || !makes_sense) {
    df_socket_close(&caller->fd);
    return;
  }
  caller->rank = join->rank;
  caller->pid = join->record.pid;
  if (is_own_call(root, join)) {
    df_socket_close(&caller->fd);
    return;
  }
  if (root->phase == DF_ROOT_FAILED) {
    report_failure(root, caller, root->failure);
    return;
  }
  int n_ranks = root->options.n_ranks > 0 ? root->options.n_ranks : join->n_ranks;
  if (root->phase != DF_ROOT_COLLECTING || !set_size(root, n_ranks)) {
    /* The caller tries again, but without success once this job is connected. */
    df_socket_close(&caller->fd);
    return;
  }
  if (contradicts(root, caller, join)) {
    fail_job(root, dfcclRemoteError, caller, dfcclInvalidArgument);
    return;
  }
  set_deadline(root, join);
  root->members[join->rank] = caller;
  root->records[join->rank] = join->record;
  root->records[join->rank].n_addresses = 0;
  caller->stage = DF_CALLER_JOINED;
  if (root->n_joined++ == 0) root->news_ns = df_after_ms(root->news_ms = NEWS_MS);
  send_signal(caller, DF_MESSAGE_WELCOME);
  if (root->n_joined == root->n_ranks) all_have_joined(root);
}

static void on_done(df_root *root, df_caller *caller) {
  if (caller->stage == DF_CALLER_DECIDED) return;
  if (root->phase != DF_ROOT_MESHING ||
      !df_message_verify(&caller->in, sizeof(df_signal), caller->key)) {
    df_job_close_caller(root, caller);
    return;
  }
  caller->stage = DF_CALLER_MESHED;
  root->n_meshed++;
  if (root->n_meshed == root->n_ranks) send_go(root);
}

static void on_leave(df_root *root, df_caller *caller) {
  const df_refusal *leave = &caller->in.refusal;
  if (caller->stage == DF_CALLER_DECIDED) return;
  if (!df_message_verify(leave, sizeof *leave, caller->key)) {
    df_job_close_caller(root, caller);
    return;
  }
  int length = (int)strnlen(leave->reason, sizeof leave->reason);
  snprintf(root->reason, sizeof root->reason, "rank %d (process %d) gave up: %.*s", caller->rank,
           caller->pid, DF_MIN(length, DF_REASON_BYTES - 64), leave->reason);
  bool late = leave->code == dfcclTimeout;
  fail_job(root, late ? dfcclTimeout : dfcclRemoteError, NULL, dfcclRemoteError);
}

void df_job_serve(df_root *root, df_caller *caller) {
  while (caller->fd >= 0) {
    switch (df_caller_read(caller)) {
    case DF_CALLER_NOTHING:
      return;
    case DF_CALLER_GONE:
    case DF_CALLER_NONSENSE:
      df_job_close_caller(root, caller);
      return;
    case DF_CALLER_MESSAGE:
      break;
    }
    df_message_type type = (df_message_type)caller->in.header.type;
    if (type == DF_MESSAGE_HELLO) on_hello(root, caller);
    if (type == DF_MESSAGE_JOIN) on_join(root, caller);
    if (type == DF_MESSAGE_PLACE) on_place(root, caller);
    if (type == DF_MESSAGE_DONE) on_done(root, caller);
    if (type == DF_MESSAGE_LEAVE) on_leave(root, caller);
    caller->in_used = 0;
  }
}

/* Sends the list of missing ranks to every waiting rank. */
static void send_news(df_root *root) {
  char text[DF_REASON_BYTES];
  df_refusal news;
  root->news_ns = df_after_ms(root->news_ms);
  root->news_ms *= 2; /* after 5 s, 10 s, 20 s and so on */
  df_root_describe_missing(root, text);
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->stage != DF_CALLER_JOINED && caller->stage != DF_CALLER_MESHED) continue;
    if (df_caller_has_output(caller)) continue;
    df_refusal_write(&news, DF_MESSAGE_NEWS, dfcclInProgress, text, caller->key);
    df_caller_queue_news(caller, &news, sizeof news);
  }
}

static bool all_said(const df_root *root) {
  for (int i = 0; i < root->n_callers; i++)
    if (root->callers[i]->stage == DF_CALLER_DECIDED && df_caller_has_output(root->callers[i]))
      return false;
  return true;
}

bool df_job_check_time(df_root *root) {
  uint64_t now = df_clock_ns();
  for (int i = 0; i < root->n_callers; i++) {
    df_caller *caller = root->callers[i];
    if (caller->fd >= 0 && df_caller_is_unproven(caller) && now >= caller->deadline_ns)
      df_socket_close(&caller->fd);
  }
  if (root->phase == DF_ROOT_COLLECTING || root->phase == DF_ROOT_MESHING) {
    if (root->stopping) return false;
    if (root->n_joined > 0 && now >= root->news_ns) send_news(root);
    if (now < root->deadline_ns) return true;
    if (root->n_joined == 0) return false;
    df_root_explain_timeout(root);
    fail_job(root, dfcclTimeout, NULL, dfcclTimeout);
    return true;
  }
  if (now >= root->end_ns) return false;
  bool everybody = root->n_ranks > 0 && root->n_notified + root->n_dead >= root->n_ranks;
  return !(all_said(root) && (everybody || now >= root->deadline_ns));
}

uint64_t df_job_next_deadline(const df_root *root) {
  bool ending = root->phase == DF_ROOT_STARTED || root->phase == DF_ROOT_FAILED;
  uint64_t next = ending && df_clock_ns() >= root->deadline_ns ? root->end_ns : root->deadline_ns;
  if (!ending && root->n_joined > 0) next = DF_MIN(next, root->news_ns);
  if (root->accept_from_ns > df_clock_ns()) next = DF_MIN(next, root->accept_from_ns);
  for (int i = 0; i < root->n_callers; i++)
    if (df_caller_is_unproven(root->callers[i])) next = DF_MIN(next, root->callers[i]->deadline_ns);
  return next;
}
