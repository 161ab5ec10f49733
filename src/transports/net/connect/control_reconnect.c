#include "transports/net/connect/control_reconnect.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bootstrap/net/sockets.h"

enum {
  FIRST_RETRY_US = 200,
#if defined(DF_SIMULATION) /* simulated time passes slowly */
  FIRST_CONNECT_US = 400,
  LAST_RETRY_US = 400,
  OTHERS_CALL_US = 400
#else
  FIRST_CONNECT_US = 50000,
  LAST_RETRY_US = 50000,
  OTHERS_CALL_US =
      50000 /* an end that does not call waits so long before it checks whether the other is dead */
#endif
};
#define ANSWER_NS ((uint64_t)10 * 1000 * 1000 * 1000)

dfcclResult_t df_control_reconnect_open(df_control_reconnect **out, df_tcp *tcp,
                                        const df_endpoint_owner *owner) {
  *out = NULL;
  if (owner->remote == NULL || owner->resume_ms == 0) return dfcclSuccess;
  uint32_t n_calls = 0;
  for (uint32_t r = 0; r < owner->n_ranks; r++) n_calls += (uint32_t)owner->remote[r].has_channel;
  df_control_reconnect *all = calloc(1, sizeof *all + n_calls * sizeof *all->all);
  df_reconnect_call **calls = calloc(owner->n_ranks, sizeof *calls);
  if (all == NULL || calls == NULL) {
    free(all);
    free(calls);
    return df_fail(dfcclOutOfMemory, "no memory for the control channels to %u ranks", n_calls);
  }
  *all =
      (df_control_reconnect){.tcp = tcp, .owner = owner, .remote = owner->remote, .calls = calls};
  for (uint32_t r = 0; r < owner->n_ranks; r++) {
    if (!owner->remote[r].has_channel) continue;
    calls[r] = &all->all[all->n_calls++];
    *calls[r] = (df_reconnect_call){.peer = r, .is_known = 1};
  }
  *out = all;
  return dfcclSuccess;
}

static void end_call(df_control_reconnect *all, df_reconnect_call *call) {
  if (call->stream) df_tcp_end(all->tcp, call->stream);
  call->stream = NULL;
  sodium_memzero(&call->handshake, sizeof call->handshake);
}

void df_control_reconnect_close(df_control_reconnect *all) {
  if (all == NULL) return;
  for (uint32_t i = 0; i < all->n_calls; i++) end_call(all, &all->all[i]);
  free(all->calls);
  free(all);
}

void df_control_reconnect_want(df_control_reconnect *all, uint32_t peer,
                               df_reconnect_request request) {
  df_reconnect_call *call = all->calls[peer];
  const int is_wanted = request != DF_RECONNECT_NOT_WANTED;
  if (call->is_wanted == is_wanted) return;
  call->is_wanted = is_wanted;
  all->n_wanted += is_wanted ? 1 : UINT32_MAX;
  end_call(all, call);
  call->vain_tries = request == DF_RECONNECT_WANTED_ELSEWHERE && call->is_known;
  call->refused_ns = 0;
  call->call_ns = df_clock_ns() + (all->remote[peer].calls ? 0 : OTHERS_CALL_US * (uint64_t)1000);
}

uint64_t df_control_reconnect_refused_ns(const df_control_reconnect *all, uint32_t peer) {
  return all->calls[peer]->refused_ns;
}

/* ---- calling */

/* Finds the other addresses of the rank. Link-local ones are left out, because their interface is
 * not known. */
static uint32_t find_others(const df_remote_rank *remote, df_tcp_path others[DF_ADDRESSES_MAX]) {
  uint32_t n = 0;
  for (int i = 0; i < remote->n_offered; i++) {
    const df_address *address = &remote->offered[i];
    if (df_address_is_sane(address) && !df_address_is_link_local(address) &&
        !df_address_same_host(address, &remote->address))
      others[n++] = (df_tcp_path){.to = *address};
  }
  return n;
}

static int has_others(const df_remote_rank *remote) {
  df_tcp_path others[DF_ADDRESSES_MAX];
  return find_others(remote, others) > 0;
}

uint32_t df_control_reconnect_silence_ms(const df_endpoint_owner *owner, uint32_t peer) {
  const int has_choice = owner->resume_ms && has_others(&owner->remote[peer]);
  return has_choice ? df_silence_of_rail(owner->silence_ms) : owner->silence_ms;
}

/* Every second call uses the address where the mesh has found the rank, and so does the first call,
 * unless the rank was silent there: an address that was never called may lead nowhere, or to
 * another host. An address that has refused is tried again. */
static df_tcp_path choose_path(const df_remote_rank *remote, df_reconnect_call *call) {
  df_tcp_path others[DF_ADDRESSES_MAX];
  const uint32_t n = find_others(remote, others);
  call->is_known = n == 0 || call->refused_ns || call->vain_tries % 2 == 0;
  if (call->is_known) return (df_tcp_path){.to = remote->address, .scope = remote->scope};
  return others[call->vain_tries / 2 % n];
}

/* is_refused: the address refuses connections. The answer of another address shows nothing about
 * the peer. */
static void try_later(df_control_reconnect *all, df_reconnect_call *call, int is_refused) {
  const uint64_t now = df_clock_ns();
  const uint64_t wait_us = (uint64_t)FIRST_RETRY_US << DF_MIN(call->vain_tries, 16u);
  end_call(all, call);
  call->vain_tries++;
  call->call_ns = now + 1000 * DF_MIN(wait_us, (uint64_t)LAST_RETRY_US);
  all->has_new_due = 1;
  if (!call->is_known) return;
  if (!is_refused) call->refused_ns = 0;
  if (is_refused && call->refused_ns == 0) call->refused_ns = now;
}

static uint64_t answer_ns(const df_control_reconnect *all, uint32_t peer) {
  const uint64_t silence_ns = df_control_reconnect_silence_ms(all->owner, peer) * (uint64_t)1000000;
  return silence_ns ? silence_ns / (has_others(&all->remote[peer]) ? 2 : 1) : ANSWER_NS;
}

/* A call that is not accepted is given up soon, because several of the addresses may belong to cut
 * rails. Each round waits longer, because the path may be long. */
static uint64_t connect_ns(const df_control_reconnect *all, uint32_t peer) {
  df_tcp_path others[DF_ADDRESSES_MAX];
  const uint32_t n = find_others(&all->remote[peer], others);
  const uint32_t rounds = n ? all->calls[peer]->vain_tries / (2 * n) : 0;
  const uint64_t most_ns = answer_ns(all, peer);
  return n ? DF_MIN((uint64_t)FIRST_CONNECT_US * 1000 << DF_MIN(rounds, 16u), most_ns) : most_ns;
}

static void begin_call(df_control_reconnect *all, df_reconnect_call *call) {
  const uint32_t peer = call->peer;
  const df_remote_rank *remote = &all->remote[peer];
  unsigned char key[DF_KEY_BYTES];
  const df_tcp_path way = choose_path(remote, call);
  const dfcclResult_t result = df_tcp_connect(all->tcp, &way, &call->stream);
  if (result != dfcclSuccess) {
    call->stream = NULL;
    try_later(all, call, result == dfcclRemoteError);
    return;
  }
  call->is_taken = 0;
  call->due_ns = df_clock_ns() + connect_ns(all, peer);
  all->has_new_due = 1;
  df_connection_handshake_channel_key(key, remote);
  df_connection_handshake_call(&call->handshake, &call->stream->stream, all->owner->rank, peer,
                               DF_HANDSHAKE_CONTROL_PORT, ++call->calls_made, key, 1);
  sodium_memzero(key, sizeof key);
}

/* Derives the key of the channel from the handshake and passes the connection to control. Returns 0
 * if it was closed instead, which the other end sees. */
static int pass_to_control(df_control_reconnect *all, df_tcp_stream *stream,
                           df_connection_handshake *handshake, uint32_t peer) {
  unsigned char key[DF_KEY_BYTES];
  if (df_connection_handshake_traffic_key(handshake, key) != dfcclSuccess) {
    df_tcp_end(all->tcp, stream);
    return 0;
  }
  if (all->owner->silence_ms)
    df_tcp_set_silence(stream, df_control_reconnect_silence_ms(all->owner, peer));
  int fd = df_tcp_release(all->tcp, stream);
  const int is_taken = all->owner->channel_reconnected(all->owner->owner, peer, fd, key);
  if (!is_taken) df_socket_close(&fd);
  sodium_memzero(key, sizeof key);
  return is_taken;
}

static void on_readable(df_control_reconnect *all, df_reconnect_call *call) {
  const uint32_t peer = call->peer;
  call->stream->is_ready = 0;
  const df_connection_handshake_state state =
      df_connection_handshake_progress(&call->handshake, all->owner->n_ranks);
  const int is_through =
      call->handshake.out_at ==
      call->handshake.out_end; /* the first message of the handshake has been sent completely */
  if (state == DF_HANDSHAKE_REFUSED)
    try_later(all, call, call->stream->error == ECONNREFUSED);
  else if (!all->remote[peer].calls && is_through)
    try_later(all, call,
              0); /* the address accepts connections, which is all that this call should find out */
  else if (state == DF_HANDSHAKE_DONE) {
    df_tcp_stream *stream = call->stream;
    call->stream = NULL;
    if (pass_to_control(all, stream, &call->handshake, peer))
      df_control_reconnect_want(
          all, peer,
          DF_RECONNECT_NOT_WANTED); /* control requests another one if this one is lost */
    else
      try_later(all, call, 0);
  } else if (is_through && !call->is_taken) {
    call->is_taken = 1;
    call->due_ns = df_clock_ns() + answer_ns(all, peer);
    all->has_new_due = 1;
  }
}

int df_control_reconnect_carry(df_control_reconnect *all) {
  if (all->n_wanted == 0) return 0;
  const uint64_t now = df_clock_ns();
  all->has_new_due = 0;
  for (uint32_t i = 0; i < all->n_calls; i++) {
    df_reconnect_call *call = &all->all[i];
    if (!call->is_wanted) continue;
    if (call->stream == NULL && now >= call->call_ns) begin_call(all, call);
    if (call->stream && call->stream->is_ready) on_readable(all, call);
    if (call->stream && now >= call->due_ns) try_later(all, call, 0);
  }
  return all->has_new_due;
}

uint64_t df_control_reconnect_patience_ns(const df_control_reconnect *all, uint64_t now_ns) {
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < all->n_calls && all->n_wanted; i++) {
    const df_reconnect_call *call = &all->all[i];
    if (!call->is_wanted) continue;
    const uint64_t due = call->stream ? call->due_ns : call->call_ns;
    least = DF_MIN(least, due > now_ns ? due - now_ns : 0);
  }
  return least;
}

/* ---- called */

void df_control_reconnect_take(df_control_reconnect *all, df_tcp_stream *stream,
                               df_connection_handshake *handshake) {
  df_reconnect_call *call =
      all->calls[handshake->peer]; /* the handshake refuses a peer without a channel */
  /* Either this end calls, or the call has been given up meanwhile. */
  if (all->remote[handshake->peer].calls || handshake->number <= call->call_received) {
    df_tcp_end(all->tcp, stream);
    return;
  }
  call->call_received = handshake->number;
  (void)pass_to_control(all, stream, handshake, handshake->peer);
}
