#include "host/membership/newcomers.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/sockets.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/membership/membership_parts.h"
#include "host/registration/match.h"
#include "host/state/peer_info.h"
#include "host/state/registry.h"

static df_newcomers *of(const dfcclContext_t context) {
  return &df_membership_of(context)->newcomers;
}

/* ---- the number */

/* Nobody writes to memory of the rank any more, and this rank's tables of it can be made anew. */
static int is_free(const dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED {
  df_membership *membership = df_membership_of(context);
  df_peer *peer = &context->control.peers[rank];
  if (rank == context->rank || df_is_member(context->survival, rank) || peer->local ||
      peer->is_remote || peer->socket >= 0 || membership->ends.lost_ns[rank] ||
      membership->view.peers[rank].open)
    return 0;
  if (peer->state == DF_PEER_GIVEN_UP && df_process_ends_is_over(&membership->ends, rank))
    peer->state = DF_PEER_DEAD;
  return peer->state == DF_PEER_DEAD || peer->state == DF_PEER_LEFT;
}

/* Other jobs send and take no messages about newcomers. */
static int is_joinable(const dfcclContext_t context) DF_RANK_LOCKED {
  return df_membership_of(context)->view.config.on_one_host && context->transports.wire == NULL &&
         context->n_ranks <= DF_ENTRY_RANKS_MOST;
}

static uint32_t free_number(const dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (is_free(context, rank)) return rank;
  return DF_NOBODY;
}

static uint32_t count_members(const dfcclContext_t context) DF_RANK_LOCKED {
  uint32_t n = 0;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    n += (uint32_t)df_is_member(context->survival, rank);
  return n;
}

/* ---- the connection with a newcomer */

static int replace(dfcclContext_t context, const df_newcomer *newcomer, int fd) DF_RANK_LOCKED {
  df_membership *membership = df_membership_of(context);
  const uint32_t rank = newcomer->rank;
  if (df_service_replace_peer(&context->control, rank, fd) != dfcclSuccess) return 0;
  df_process_ends_replace(&membership->ends, rank, fd);
  df_match_replaced(context, rank);
  df_view_connected(&membership->view, rank);
  of(context)->joining = *newcomer;
  of(context)->is_joining = 1;
  of(context)->is_ready = 0;
  of(context)->view = context->survival->view;
  df_log(DF_LOG_INFO, "rank %u is connected to a newcomer, rank %u", context->rank, rank);
  if (!df_shm_replace_peer(context->transports.shm, rank))
    df_messenger_cut_off(&context->control, rank); /* its end is a loss like others */
  return 1;
}

static void handle_newcomer(void *room, uint32_t from, const df_message *message,
                            int fd) DF_RANK_LOCKED {
  dfcclContext_t context = room;
  df_newcomers *newcomers = of(context);
  df_newcomer newcomer;
  char reason[200];
  (void)fd;
  if (!df_membership_may_tell(context)) return;
  if (!is_joinable(context)) {
    context->control.events.refused(context->control.events.owner, from);
    return;
  }
  if (message->payload_bytes == 0) {
    newcomers->is_ready |= newcomers->is_joining && newcomers->joining.rank == from;
    return;
  }
  memcpy(&newcomer, df_message_payload(message), sizeof newcomer);
  if (newcomer.rank >= context->n_ranks || newcomer.incarnation == 0 ||
      newcomer.incarnation > UINT16_MAX || !df_is_member(context->survival, from)) {
    context->control.events.refused(context->control.events.owner, from);
    return;
  }
  if (newcomers->is_joining || newcomers->has_left || !is_free(context, newcomer.rank)) {
    snprintf(reason, sizeof reason, "rank %u still has a connection to another process of rank %u",
             context->rank, newcomers->is_joining ? newcomers->joining.rank : newcomer.rank);
    df_entry_refuse(newcomer.name, newcomer.key, dfcclInProgress, reason);
    return;
  }
  int connection = df_entry_connect(newcomer.name, newcomer.key, context->rank);
  if (connection >= 0 && !replace(context, &newcomer, connection)) df_socket_close(&connection);
}

/* ---- the lowest member */

static uint32_t lowest_member(const dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (df_is_member(context->survival, rank) && !context->survival->suspected[rank]) return rank;
  return context->rank;
}

/* Returns dfcclSuccess, or why the process cannot join. */
static dfcclResult_t check_request(const dfcclContext_t context, const df_entry_request *request,
                                   char *reason, size_t bytes) DF_RANK_LOCKED {
  const df_newcomers *newcomers = of(context);
  if (request->survive != (uint32_t)context->settings.survive) {
    snprintf(reason, bytes, "config.survive is %u on the newcomer and %d in the job",
             request->survive, context->settings.survive);
    return dfcclMismatch;
  }
  if (newcomers->is_joining || newcomers->has_left) {
    snprintf(reason, bytes, "another process is joining as rank %u", newcomers->joining.rank);
    return dfcclInProgress;
  }
  if (free_number(context) != DF_NOBODY) return dfcclSuccess;
  if (count_members(context) == context->n_ranks)
    snprintf(reason, bytes, "all %u ranks of the job are members", context->n_ranks);
  else
    snprintf(reason, bytes,
             "%u of the %u ranks of the job are members, and the processes of the "
             "others have not all ended",
             count_members(context), context->n_ranks);
  return dfcclInProgress;
}

static void admit_to_mesh(dfcclContext_t context, const df_entry_request *request) DF_RANK_LOCKED {
  df_newcomer newcomer = {.rank = free_number(context),
                          .incarnation = 1 + randombytes_uniform(UINT16_MAX)};
  df_entry_table table = {.n_ranks = (int32_t)context->n_ranks,
                          .rank = (int32_t)newcomer.rank,
                          .incarnation = newcomer.incarnation,
                          .sender = context->rank};
  memcpy(newcomer.name, request->name, sizeof newcomer.name);
  memcpy(newcomer.key, request->key, sizeof newcomer.key);
  memcpy(table.job, context->mesh.job, sizeof table.job);
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    table.members[rank] = (unsigned char)df_is_member(context->survival, rank);
  int fd = df_entry_admit(newcomer.name, newcomer.key, &table, context->mesh.peer_info);
  if (fd < 0) return; /* the newcomer asks again, if it lives */
  if (!replace(context, &newcomer, fd)) {
    df_socket_close(&fd);
    return;
  }
  const df_message message = {.kind = DF_MESSAGE_NEWCOMER, .payload_bytes = sizeof newcomer};
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (rank != context->rank && table.members[rank])
      df_messenger_send(&context->control, rank, &message, &newcomer, -1);
}

static void take_request(dfcclContext_t context, const df_entry_request *request) DF_RANK_LOCKED {
  char reason[DF_REASON_BYTES];
  const dfcclResult_t result = check_request(context, request, reason, sizeof reason);
  if (result == dfcclSuccess)
    admit_to_mesh(context, request);
  else
    df_entry_refuse(request->name, request->key, result, reason);
}

static void handle_entry(void *room, uint32_t from, const df_message *message,
                         int fd) DF_RANK_LOCKED {
  dfcclContext_t context = room;
  df_entry_request request;
  (void)fd;
  if (!df_membership_may_tell(context)) return;
  if (!is_joinable(context) || !df_is_member(context->survival, from) ||
      !df_entry_is_request(df_message_payload(message), message->payload_bytes)) {
    context->control.events.refused(context->control.events.owner, from);
    return;
  }
  memcpy(&request, df_message_payload(message), sizeof request);
  take_request(context, &request);
}

/* Memory of former processes is free when no collective has a home with one of them. */
static int is_home_of_lost(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < coll->n; i++)
    if (df_coll_has_lost(context, coll, coll->ranks[i])) return 1;
  return 0;
}

static void free_formers(dfcclContext_t context) DF_RANK_LOCKED {
  if (context->transports.shm->formers == NULL || context->registry.gone) return;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll && is_home_of_lost(context, coll)) return;
  }
  df_shm_free_formers(context->transports.shm);
}

void df_newcomers_forget(dfcclContext_t context, uint32_t rank) {
  df_newcomers *newcomers = of(context);
  df_peer *peer = &context->control.peers[rank];
  if (!newcomers->is_joining || newcomers->joining.rank != rank) return;
  newcomers->is_joining = newcomers->is_ready = 0;
  /* It has no collectives with this rank, so nobody need wait for the end of its process. A former
   * member has. */
  if (!df_is_member(context->survival, rank) && peer->state != DF_PEER_LEFT)
    peer->state = DF_PEER_DEAD;
}

int df_newcomers_lost(dfcclContext_t context, uint32_t rank) {
  df_membership *membership = df_membership_of(context);
  if (membership->is_newcomer) { /* the attempt ends (df_newcomer_check) */
    if (context->control.peers[rank].state == DF_PEER_ALIVE)
      context->control.peers[rank].state = DF_PEER_DEAD;
    df_view_disconnected(&membership->view, rank, 0, df_clock_ns());
    return 1;
  }
  if (df_is_member(context->survival, rank)) return 0;
  if (!membership->newcomers.is_joining || rank != membership->newcomers.joining.rank)
    return context->control.peers[rank].state == DF_PEER_LEFT;
  if (membership->admit.is_reported && membership->newcomers.is_joining) {
    const int has_left = context->control.peers[rank].state == DF_PEER_LEFT;
    membership->newcomers.has_left |= has_left;
    return has_left;
  }
  df_view_disconnected(&membership->view, rank, 0, df_clock_ns());
  df_newcomers_forget(context, rank);
  return 1;
}

/* A newcomer has left in the middle of the agreement that was about it. */
static void judge_left(dfcclContext_t context) DF_RANK_LOCKED {
  df_membership *membership = df_membership_of(context);
  df_newcomers *newcomers = &membership->newcomers;
  const uint32_t rank = newcomers->joining.rank;
  if (!newcomers->has_left || membership->admit.is_reported) return;
  newcomers->has_left = 0;
  if (!df_newcomers_lost(context, rank)) {
    df_view_suspect(&membership->view, rank, DF_EVIDENCE_BYE, df_clock_ns());
    df_membership_drive(context);
  }
}

void df_newcomers_progress(dfcclContext_t context) {
  df_newcomers *newcomers = of(context);
  free_formers(context);
  judge_left(context);
  /* It waits for the call of a member that is lost. */
  if (newcomers->is_joining && !newcomers->is_ready && newcomers->view != context->survival->view)
    df_messenger_cut_off(&context->control, newcomers->joining.rank);
  if (!newcomers->has_request) return;
  newcomers->has_request = 0;
  take_request(context, &newcomers->request);
}

void df_newcomers_subscribe(dfcclContext_t context) {
  df_control *control = &context->control;
  of(context)->stop_fd = of(context)->listener.fd = -1;
  df_messenger_subscribe(control, DF_MESSAGE_ENTRY, handle_entry, context, 0);
  df_messenger_subscribe(control, DF_MESSAGE_NEWCOMER, handle_newcomer, context, 0);
}

/* ---- the entrance */

/* Passes the request on. Returns 0 if this rank cannot. */
static int pass_on(dfcclContext_t context, const df_entry_request *request) {
  const df_message message = {.kind = DF_MESSAGE_ENTRY, .payload_bytes = sizeof *request};
  df_rank_lock(&context->lock);
  df_newcomers *newcomers = of(context);
  const uint32_t lowest = lowest_member(context);
  int passed = df_membership_may_tell(context);
  if (passed && lowest != context->rank) {
    df_messenger_send(&context->control, lowest, &message, request, -1);
  } else if (passed) {
    passed = !newcomers->has_request;
    if (passed) newcomers->request = *request;
    newcomers->has_request = 1;
  }
  df_rank_unlock(&context->lock);
  df_service_wake(&context->control);
  return passed;
}

static void serve(dfcclContext_t context, int fd) {
  df_entry_request request;
  if (df_entry_receive(fd, of(context)->entrance.secret, &request) && pass_on(context, &request))
    df_entry_note(fd, request.key);
  sodium_memzero(&request, sizeof request);
}

static void *attend_entrance(void *argument) {
  dfcclContext_t context = argument;
  const df_newcomers *newcomers = of(context);
  for (;;) {
    struct pollfd polled[2] = {{.fd = newcomers->stop_fd, .events = POLLIN},
                               {.fd = newcomers->listener.fd, .events = POLLIN}};
    poll(polled, 2, -1);
    if (polled[0].revents) return NULL;
    int fd = polled[1].revents ? df_accept(newcomers->listener.fd) : -1;
    if (fd >= 0) serve(context, fd);
    df_socket_close(&fd);
  }
}

static dfcclResult_t open_entrance(dfcclContext_t context) DF_RANK_LOCKED {
  df_newcomers *newcomers = of(context);
  char why[DF_WHY_BYTES];
  dfcclResult_t result = df_handshake_ready();
  if (result != dfcclSuccess) return result;
  newcomers->entrance.host = df_host_identity();
  randombytes_buf(newcomers->entrance.name, sizeof newcomers->entrance.name);
  randombytes_buf(newcomers->entrance.secret, sizeof newcomers->entrance.secret);
  const int fd = df_listen_abstract(SOCK_SEQPACKET, newcomers->entrance.name);
  if (fd < 0)
    return df_fail(df_is_exhausted(-fd) ? dfcclOutOfMemory : dfcclSystemError,
                   "rank %u cannot listen for newcomers: %s", context->rank, df_why(-fd, why));
  df_listener_open(&newcomers->listener, fd);
  newcomers->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (newcomers->stop_fd >= 0 &&
      df_thread_start(&newcomers->thread, false, attend_entrance, context) == 0) {
    newcomers->has_entrance = 1;
    return dfcclSuccess;
  }
  if (newcomers->stop_fd >= 0) close(newcomers->stop_fd);
  newcomers->stop_fd = -1;
  df_listener_close(&newcomers->listener);
  return df_fail(dfcclOutOfMemory, "rank %u has no thread or descriptor to listen for newcomers",
                 context->rank);
}

static dfcclResult_t check_entrance(const dfcclContext_t context) DF_RANK_LOCKED {
  if (context->survival == NULL)
    return df_fail(dfcclInvalidUsage,
                   "dfcclGetJoinId needs config.survive 1 or 2; it is 0 on rank %u", context->rank);
  if (context->failure.broken != dfcclSuccess)
    return df_fail_again(context->failure.broken, context->failure.broken_sentence);
  if (!df_membership_of(context)->view.config.on_one_host || context->transports.wire)
    return df_fail(dfcclInvalidUsage,
                   "processes can join only jobs of one host that use shared memory; rank %u has "
                   "ranks of other hosts, or DFCCL_NET=tcp",
                   context->rank);
  if (context->n_ranks > DF_ENTRY_RANKS_MOST)
    return df_fail(dfcclInvalidUsage, "processes can join jobs of up to %d ranks; this one has %u",
                   DF_ENTRY_RANKS_MOST, context->n_ranks);
  return dfcclSuccess;
}

dfcclResult_t df_newcomers_open_entrance(dfcclContext_t context, dfcclUniqueId *id) {
  df_rank_lock(&context->lock);
  dfcclResult_t result = check_entrance(context);
  if (result == dfcclSuccess && !of(context)->has_entrance) result = open_entrance(context);
  if (result == dfcclSuccess) df_entrance_write(id, &of(context)->entrance);
  df_rank_unlock(&context->lock);
  return result;
}

void df_newcomers_close_entrance(dfcclContext_t context) {
  df_newcomers *newcomers = of(context);
  const uint64_t one = 1;
  if (!newcomers->has_entrance) return;
  if (write(newcomers->stop_fd, &one, sizeof one) != sizeof one) return; /* cannot happen */
  pthread_join(newcomers->thread, NULL);
  df_listener_close(&newcomers->listener);
  close(newcomers->stop_fd);
  newcomers->has_entrance = 0;
}

void df_newcomers_close_in_child(dfcclContext_t context) {
  if (of(context)->has_entrance) close(of(context)->stop_fd);
}

/* ---- the newcomer */

void df_newcomer_is_ready(dfcclContext_t context) {
  const df_message message = {.kind = DF_MESSAGE_NEWCOMER};
  df_rank_lock(&context->lock);
  df_messenger_send_all(&context->control, &message, NULL);
  df_rank_unlock(&context->lock);
}

dfcclResult_t df_newcomer_check(dfcclContext_t context) {
  dfcclResult_t result = dfcclInProgress;
  df_rank_lock(&context->lock);
  if (!df_membership_of(context)->is_newcomer) {
    result = dfcclSuccess;
  } else if (context->failure.broken != dfcclSuccess) {
    result = df_fail(dfcclRemoteError, "%.500s", context->failure.broken_sentence);
  } else {
    for (uint32_t rank = 0; rank < context->n_ranks && result == dfcclInProgress; rank++)
      if (context->mesh.members[rank] && context->control.peers[rank].socket < 0)
        result = df_fail(dfcclRemoteError,
                         "rank %u has ended its connection: it is lost, or the members have ended "
                         "the admit",
                         rank);
  }
  df_rank_unlock(&context->lock);
  return result;
}
