/* The side of a newcomer. */
#include "bootstrap/entry.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/sockets.h"

enum {
  RETRY_MS = 5, /* before the second attempt; each time twice as long */
  RETRY_MOST_MS = 80,
  ANSWER_MS = 3000, /* an attempt without news for this time has failed */
  FIRST_MS = 50,    /* the same before the first news; each attempt has twice as much */
  CALLERS_MOST = 1 + DF_ENTRY_RANKS_MOST
};

/* One attempt. It is on the heap: a forked child keeps the list that contains its listener. */
typedef struct {
  df_listener listener;
  unsigned char name[DF_NAME_BYTES];
  unsigned char key[DF_KEY_BYTES];
  uint64_t deadline_ns;
  int callers[CALLERS_MOST]; /* connections without MEMBER or TABLE so far */
  int n_callers;
  int records_fd; /* the connection that brings the records; -1: none */
  int n_records, n_missing;
  int first_ms;
  df_mesh mesh;
} entry;

static dfcclResult_t take_refusal(const entry *e, const void *packet, size_t bytes) {
  const df_refusal *refusal = packet;
  if (bytes != sizeof *refusal || !df_header_is(&refusal->header, DF_MESSAGE_FAILURE, bytes) ||
      !df_message_verify(refusal, bytes, e->key))
    return dfcclSuccess;
  return df_refusal_read(refusal, "");
}

/* ---- the entrance */

static dfcclResult_t read_answer(const entry *e, int fd) {
  union {
    df_header header;
    df_signal noted;
    df_refusal refusal;
  } answer;
  const int ready = df_socket_wait(fd, POLLIN, DF_MIN(e->deadline_ns, df_after_ms(ANSWER_MS)));
  const ssize_t got = ready == 1 ? recv(fd, &answer, sizeof answer, MSG_DONTWAIT) : 0;
  if (got < (ssize_t)sizeof answer.header)
    return df_fail(dfcclInProgress, "the member that made the id does not answer");
  if (df_header_is_foreign(&answer.header))
    return df_fail(dfcclInvalidUsage,
                   "the job runs another build of the library (version %u, protocol %u; this "
                   "process has %u, protocol %u)",
                   DF_BUILD_VERSION(answer.header.version),
                   DF_BUILD_PROTOCOL(answer.header.version), (unsigned)DFCCL_VERSION_CODE,
                   (unsigned)DF_PROTOCOL);
  const dfcclResult_t refused = take_refusal(e, &answer, (size_t)got);
  if (refused != dfcclSuccess) return refused;
  if (got == sizeof answer.noted &&
      df_header_is(&answer.header, DF_MESSAGE_ENTRY_NOTED, sizeof answer.noted) &&
      df_message_verify(&answer, sizeof answer.noted, e->key))
    return dfcclSuccess;
  return df_fail(dfcclRemoteError, "the process at the address of the id is no member of its job");
}

/* An abstract address has no owner but the socket, so a refusal is final. */
static dfcclResult_t no_entrance(int error) {
  char why[DF_WHY_BYTES];
  if (error == ECONNREFUSED)
    return df_fail(dfcclRemoteError,
                   "nobody answers at the address of the id: its job has ended, or the rank that "
                   "made it has (dfcclGetJoinId on another member makes another one)");
  return df_fail(error == EAGAIN ? dfcclInProgress : dfcclSystemError,
                 "cannot call the member that made the id: %s", df_why(error, why));
}

static dfcclResult_t ask_entrance(const entry *e, const df_entrance *entrance,
                                  const df_peer_info *info, uint32_t survive) {
  df_entry_request request;
  unsigned char key[DF_KEY_BYTES];
  int fd = df_connect_abstract(SOCK_SEQPACKET, entrance->name);
  if (fd < 0) return no_entrance(-fd);
  if (!df_socket_same_user(fd, NULL)) { /* the name is free again once its rank has ended */
    df_socket_close(&fd);
    return df_fail(dfcclRemoteError, "the process at the address of the id is of another user");
  }
  df_message_start(&request, DF_MESSAGE_ENTRY_REQUEST, sizeof request);
  request.pid = getpid();
  request.survive = survive;
  request.info = *info;
  memcpy(request.name, e->name, sizeof request.name);
  memcpy(request.key, e->key, sizeof request.key);
  df_key_from_secret(key, entrance->secret);
  df_message_seal(&request, sizeof request, key);
  sodium_memzero(key, sizeof key);
  const ssize_t sent = send(fd, &request, sizeof request, MSG_NOSIGNAL);
  const dfcclResult_t result =
      sent == (ssize_t)sizeof request
          ? read_answer(e, fd)
          : df_fail(dfcclInProgress, "the member that made the id has hung up");
  df_socket_close(&fd);
  return result;
}

/* ---- connections of members */

static dfcclResult_t make_mesh(entry *e, const df_entry_table *table) {
  df_mesh *mesh = &e->mesh;
  const size_t n = (size_t)table->n_ranks;
  mesh->sockets = malloc(n * sizeof *mesh->sockets);
  mesh->peer_info = calloc(n, sizeof *mesh->peer_info);
  mesh->local = calloc(n, 1);
  mesh->members = malloc(n);
  if (!mesh->sockets || !mesh->peer_info || !mesh->local || !mesh->members)
    return df_fail(dfcclOutOfMemory, "no memory for the table of %d ranks", table->n_ranks);
  mesh->n_ranks = table->n_ranks;
  mesh->rank = table->rank;
  mesh->n_local = 1;
  mesh->local[table->rank] = 1;
  mesh->incarnation = table->incarnation;
  memcpy(mesh->job, table->job, sizeof mesh->job);
  memcpy(mesh->members, table->members, n);
  for (size_t i = 0; i < n; i++) {
    mesh->sockets[i] = -1;
    e->n_missing += mesh->members[i];
  }
  return dfcclSuccess;
}

static int table_is_sound(const df_entry_table *table) {
  int n = 0;
  if (table->n_ranks < 2 || table->n_ranks > DF_ENTRY_RANKS_MOST || table->rank < 0 ||
      table->rank >= table->n_ranks || table->incarnation == 0 || table->incarnation > UINT16_MAX ||
      table->sender >= (uint32_t)table->n_ranks)
    return 0;
  for (int i = 0; i < table->n_ranks; i++) {
    if (table->members[i] > 1) return 0;
    n += table->members[i];
  }
  return n > 0 && table->members[table->sender] && !table->members[table->rank];
}

static void set_connected(entry *e, uint32_t rank, int fd) {
  e->mesh.sockets[rank] = fd;
  e->n_missing--;
}

static dfcclResult_t take_table(entry *e, const df_entry_table *table, int fd) {
  if (e->mesh.sockets || !table_is_sound(table))
    return df_fail(dfcclRemoteError, "the job's table of members is malformed");
  const dfcclResult_t result = make_mesh(e, table);
  if (result != dfcclSuccess) return result;
  set_connected(e, table->sender, fd);
  e->records_fd = fd;
  return dfcclSuccess;
}

/* Reads the first packet of the caller. *is_kept: the mesh has the socket. dfcclInProgress: the
 * attempt has failed. */
static dfcclResult_t take_packet(entry *e, int fd, int *is_kept) {
  union {
    df_header header;
    df_entry_member member;
    df_entry_table table;
    df_refusal refusal;
  } packet;
  *is_kept = 0;
  const ssize_t got = recv(fd, &packet, sizeof packet, MSG_DONTWAIT);
  if (got < (ssize_t)sizeof packet.header) return dfcclSuccess; /* no member */
  const size_t bytes = (size_t)got;
  const dfcclResult_t refused = take_refusal(e, &packet, bytes);
  if (refused != dfcclSuccess) return refused;
  if (bytes == sizeof packet.table && df_header_is(&packet.header, DF_MESSAGE_ENTRY_TABLE, bytes) &&
      df_message_verify(&packet, bytes, e->key)) {
    const dfcclResult_t result = take_table(e, &packet.table, fd);
    *is_kept = result == dfcclSuccess;
    return result;
  }
  if (bytes == sizeof packet.member &&
      df_header_is(&packet.header, DF_MESSAGE_ENTRY_MEMBER, bytes) &&
      df_message_verify(&packet, bytes, e->key)) {
    const uint32_t rank = packet.member.rank;
    if (rank >= (uint32_t)e->mesh.n_ranks || !e->mesh.members[rank] || e->mesh.sockets[rank] >= 0)
      return df_fail(dfcclInProgress, "rank %u called, which is no member", rank);
    set_connected(e, rank, fd);
    *is_kept = 1;
  }
  return dfcclSuccess;
}

static dfcclResult_t take_records(entry *e) {
  df_entry_records records;
  const ssize_t got = recv(e->records_fd, &records, sizeof records, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return dfcclSuccess;
  if (got <= 0) return df_fail(dfcclInProgress, "the lowest member has ended its connection");
  if (got != (ssize_t)sizeof records ||
      !df_header_is(&records.header, DF_MESSAGE_ENTRY_RECORDS, sizeof records) ||
      !df_message_verify(&records, sizeof records, e->key) || records.first != e->n_records ||
      records.n < 1 || records.n > (int)DF_ENTRY_RECORDS_MOST ||
      records.n > e->mesh.n_ranks - e->n_records)
    return df_fail(dfcclRemoteError, "the job's facts about its ranks are malformed");
  memcpy(e->mesh.peer_info + records.first, records.info, (size_t)records.n * sizeof *records.info);
  e->n_records += records.n;
  return dfcclSuccess;
}

static void accept_members(entry *e) {
  while (e->n_callers < CALLERS_MOST) {
    int fd = df_accept(e->listener.fd);
    if (fd < 0) return;
    if (df_socket_same_user(fd, NULL))
      e->callers[e->n_callers++] = fd;
    else
      df_socket_close(&fd);
  }
}

/* The lowest member may connect after others, whose MEMBER says nothing before its TABLE. */
static int may_read(const entry *e, int fd) {
  df_header header;
  if (e->mesh.sockets) return 1;
  const ssize_t got = recv(fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  return got < (ssize_t)sizeof header || header.type != DF_MESSAGE_ENTRY_MEMBER;
}

static dfcclResult_t serve_callers(entry *e, const struct pollfd *polled) {
  for (int i = e->n_callers - 1; i >= 0; i--) {
    int is_kept;
    if (!polled[i].revents || !may_read(e, e->callers[i])) continue;
    const dfcclResult_t result = take_packet(e, e->callers[i], &is_kept);
    if (!is_kept) df_socket_close(&e->callers[i]);
    e->callers[i] = e->callers[--e->n_callers];
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}

static int is_complete(const entry *e) {
  return e->mesh.sockets && e->n_missing == 0 && e->n_records == e->mesh.n_ranks;
}

static dfcclResult_t meet_members(entry *e) {
  struct pollfd polled[CALLERS_MOST + 2];
  const uint64_t begin_ns = df_clock_ns();
  while (!is_complete(e)) {
    /* The lowest member may be dead, and the entrance's rank may not have detected that yet. */
    const int most_ms = e->mesh.sockets || e->n_callers ? (int)ANSWER_MS : e->first_ms;
    const uint64_t end_ns = begin_ns + (uint64_t)most_ms * 1000000;
    const int left_ms = df_remaining_ms(DF_MIN(e->deadline_ns, end_ns));
    if (left_ms == 0 && e->mesh.sockets)
      return df_fail(dfcclInProgress, "%d members did not call within %d ms", e->n_missing,
                     most_ms);
    if (left_ms == 0)
      return df_fail(dfcclInProgress, "the lowest member did not call within %d ms", most_ms);
    int n = 0, waits_for_table = 0;
    for (; n < e->n_callers; n++)
      polled[n] = (struct pollfd){.fd = e->callers[n], .events = POLLIN};
    /* A MEMBER that waits for the TABLE would end each poll at once. */
    for (int i = 0; i < n; i++)
      if (!may_read(e, e->callers[i])) waits_for_table = 1, polled[i].fd = -1;
    polled[n] = (struct pollfd){.fd = n < CALLERS_MOST ? e->listener.fd : -1, .events = POLLIN};
    /* The lowest member hangs up if another member was lost. */
    const int has_records = e->mesh.sockets && e->n_records < e->mesh.n_ranks;
    polled[n + 1] = (struct pollfd){.fd = e->records_fd,
                                    .events = (short)(POLLRDHUP | (has_records ? POLLIN : 0))};
    poll(polled, (nfds_t)n + 2, waits_for_table ? DF_MIN(left_ms, (int)RETRY_MS) : left_ms);
    dfcclResult_t result = polled[n + 1].revents & POLLIN ? take_records(e) : dfcclSuccess;
    if (polled[n + 1].revents & ~POLLIN)
      result = df_fail(dfcclInProgress, "the lowest member has ended its connection");
    const int has_caller = polled[n].revents != 0;
    if (result == dfcclSuccess) result = serve_callers(e, polled);
    if (result != dfcclSuccess) return result;
    if (has_caller) accept_members(e);
  }
  return dfcclSuccess;
}

static dfcclResult_t attempt(entry *e, const df_entrance *entrance, const df_peer_info *info,
                             uint32_t survive) {
  randombytes_buf(e->name, sizeof e->name);
  randombytes_buf(e->key, sizeof e->key);
  const int fd = df_listen_abstract(SOCK_SEQPACKET, e->name);
  char why[DF_WHY_BYTES];
  if (fd < 0)
    return df_fail(dfcclSystemError, "the newcomer cannot listen for the members: %s",
                   df_why(-fd, why));
  df_listener_open(&e->listener, fd);
  dfcclResult_t result = ask_entrance(e, entrance, info, survive);
  if (result == dfcclSuccess) result = meet_members(e);
  df_listener_close(&e->listener);
  while (e->n_callers > 0) df_socket_close(&e->callers[--e->n_callers]);
  return result;
}

dfcclResult_t df_entry_join(const df_entrance *entrance, const df_peer_info *info, uint32_t survive,
                            uint64_t deadline_ns, df_mesh *mesh) {
  dfcclResult_t result = df_handshake_ready();
  if (result != dfcclSuccess) return result;
  entry *e = calloc(1, sizeof *e);
  if (e == NULL) return df_fail(dfcclOutOfMemory, "no memory to join a job");
  int first_ms = FIRST_MS, wait_ms = RETRY_MS;
  char reason[DF_SENTENCE_BYTES] = "";
  do {
    memset(e, 0, sizeof *e);
    e->first_ms = first_ms;
    first_ms = DF_MIN(2 * first_ms, (int)ANSWER_MS);
    e->deadline_ns = deadline_ns;
    e->listener.fd = e->records_fd = -1;
    result = attempt(e, entrance, info, survive);
    if (result == dfcclSuccess)
      *mesh = e->mesh;
    else
      df_mesh_close(&e->mesh);
    if (result == dfcclInProgress) {
      /* The last attempt may have had too little time for an answer. */
      if (df_clock_ns() < deadline_ns || reason[0] == '\0')
        snprintf(reason, sizeof reason, "%s", df_last_sentence());
      else
        df_fail(dfcclInProgress, "%s", reason);
      poll(NULL, 0, DF_MIN(wait_ms, df_remaining_ms(deadline_ns)));
    }
    wait_ms = DF_MIN(2 * wait_ms, (int)RETRY_MOST_MS);
  } while (result == dfcclInProgress && df_clock_ns() < deadline_ns);
  sodium_memzero(e, sizeof *e);
  free(e);
  return result;
}
