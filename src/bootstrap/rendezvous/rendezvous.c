#include "bootstrap/rendezvous/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/sockets.h"

enum {
  PROBE_STEP_MS = 20,
  RIVAL_STEP_MS = 200, /* between two looks for another rank 0 */
  RIVAL_MS = 1000      /* for its answer */
};

typedef enum {
  GOT,
  REFUSED, /* the root has sent a FAILURE */
  LATE,
  GONE, /* end of file, or a connection error */
  FOREIGN,
  NONSENSE,
  BROKEN /* poll failed, and errno has the reason */
} arrival;

/* Rank 0 of a launcher's job is its own root. The addresses of its probe are those at which another
 * rank 0 may be, and not those of its root. */
static bool is_its_root(const df_rendezvous *r) { return r->by_key && r->rank == 0; }

/* Returns the time until which the root may still report why the job was not connected in time. */
static uint64_t news_deadline_ns(const df_rendezvous *r) {
  uint64_t news_ns = (uint64_t)df_news_ms(r->timeout_ms) * 1000000u;
  return r->deadline_ns > UINT64_MAX - news_ns ? UINT64_MAX : r->deadline_ns + news_ns;
}

static void send_all(df_rendezvous *r, const void *message, size_t bytes) {
  const unsigned char *from = message;
  while (bytes > 0) {
    ssize_t sent = send(r->fd, from, bytes, MSG_NOSIGNAL);
    if (sent >= 0) {
      from += sent;
      bytes -= (size_t)sent;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (df_socket_wait(r->fd, POLLOUT, news_deadline_ns(r)) <= 0) return;
    } else if (errno != EINTR) {
      return; /* the next read detects the loss, and receives the earlier messages of the root */
    }
  }
}

/* Returns GOT, LATE, GONE or BROKEN. */
static arrival read_exactly(df_rendezvous *r, void *into, size_t *used, size_t bytes,
                            uint64_t deadline_ns) {
  while (*used < bytes) {
    ssize_t got = recv(r->fd, (unsigned char *)into + *used, bytes - *used, 0);
    if (got > 0) {
      *used += (size_t)got;
    } else if (got == 0) {
      return GONE;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      int ready = df_socket_wait(r->fd, POLLIN, deadline_ns);
      if (ready == 0) return LATE;
      if (ready < 0) return BROKEN;
    } else if (errno != EINTR) {
      return GONE;
    }
  }
  return GOT;
}

/* Returns the length of a message that may arrive instead of one of this type, or 0 if the message
 * is not allowed. */
static size_t other_bytes(const df_header *header, df_message_type type) {
  if (type == DF_MESSAGE_CHALLENGE) return 0; /* the root has not proven itself yet */
  if (df_header_is(header, DF_MESSAGE_FAILURE, sizeof(df_refusal)) ||
      df_header_is(header, DF_MESSAGE_NEWS, sizeof(df_refusal)))
    return sizeof(df_refusal);
  if (type == DF_MESSAGE_TABLE && df_header_is(header, DF_MESSAGE_SPREAD, sizeof(df_signal)))
    return sizeof(df_signal);
  return 0;
}

/* Receives the message, FAILURE, NEWS, or SPREAD instead of TABLE. The part that has arrived by the
 * deadline is kept for the next call. */
static arrival receive_any(df_rendezvous *r, df_message_type type, size_t bytes,
                           uint64_t deadline_ns) {
  arrival what = read_exactly(r, r->in.bytes, &r->in_used, sizeof(df_header), deadline_ns);
  if (what != GOT) return what;
  if (df_header_is_foreign(&r->in.header)) return FOREIGN;
  if (!df_header_is(&r->in.header, type, bytes)) bytes = other_bytes(&r->in.header, type);
  if (bytes == 0) return NONSENSE;
  DF_ASSERT(bytes <= sizeof r->in.bytes);
  what = read_exactly(r, r->in.bytes, &r->in_used, bytes, deadline_ns);
  if (what != GOT) return what;
  r->in_used = 0;
  if (type == DF_MESSAGE_CHALLENGE) return GOT; /* the key for its proof derives from its nonce */
  if (!df_message_verify(r->in.bytes, bytes, r->connection_key)) return NONSENSE;
  return r->in.header.type == DF_MESSAGE_FAILURE ? REFUSED : GOT;
}

static arrival receive(df_rendezvous *r, df_message_type type, size_t bytes, uint64_t deadline_ns) {
  for (;;) {
    arrival what = receive_any(r, type, bytes, deadline_ns);
    if (what != GOT || r->in.header.type != DF_MESSAGE_NEWS) return what;
    snprintf(r->news, sizeof r->news, "%.*s", DF_REASON_BYTES - 1, r->in.refusal.reason);
    df_log(DF_LOG_WARN, "rank %d of %d waits: %s", r->rank, r->n_ranks, r->news);
  }
}

dfcclResult_t df_rendezvous_orphaned(const df_rendezvous *r) {
  if (r->by_key)
    return df_fail(dfcclRemoteError, "rank 0 of %d died before the job was connected", r->n_ranks);
  return df_fail(dfcclRemoteError,
                 "the process that made the unique id died before its job of %d "
                 "ranks was connected (its root at port %u is gone)",
                 r->n_ranks, r->port);
}

static dfcclResult_t not_the_root(const df_rendezvous *r) {
  if (r->by_key)
    return df_fail(
        dfcclRemoteError,
        "the process that answers for rank 0 of this job's key is not its root, or has another "
        "secret: DFCCL_SECRET (or DFCCL_SECRET_FILE) must be the same on all ranks");
  return df_fail(dfcclRemoteError,
                 "the program that answers at 127.0.0.1:%u is not the root of this unique id",
                 r->port);
}

static dfcclResult_t bad_arrival(df_rendezvous *r, arrival what) {
  switch (what) {
  case REFUSED:
    return df_refusal_read(&r->in.refusal, "");
  case LATE:
    return df_fail(dfcclTimeout, "the root of the job of %d ranks was silent for %d ms", r->n_ranks,
                   r->timeout_ms);
  case FOREIGN:
    return df_fail(
        dfcclInvalidUsage,
        "the job's root runs version %u (protocol %u) of the library, rank %d version %d "
        "(protocol %d)",
        DF_BUILD_VERSION(r->in.header.version), DF_BUILD_PROTOCOL(r->in.header.version), r->rank,
        DFCCL_VERSION_CODE, DF_PROTOCOL);
  case BROKEN:
    return df_fail(dfcclSystemError, "cannot wait for the job's root: %s", strerror(errno));
  case GOT:
  case GONE:
  case NONSENSE:
    break;
  }
  return not_the_root(r);
}

static dfcclResult_t no_connection(const df_rendezvous *r, int error) {
  if (r->by_key && (error == ECONNREFUSED || error == EAGAIN)) return dfcclInProgress;
  if (error == EADDRNOTAVAIL) return dfcclInProgress; /* all ports are in use at the moment */
  char why[DF_WHY_BYTES];
  if (df_is_exhausted(error))
    return df_fail(dfcclOutOfMemory, "no socket for rank %d: %s", r->rank, df_why(error, why));
  if (r->by_key)
    return df_fail(dfcclSystemError, "rank %d cannot connect to rank 0: %s", r->rank,
                   strerror(error));
  return df_fail(dfcclRemoteError,
                 "nobody answers at 127.0.0.1:%u (%s): the process that made the unique id has "
                 "ended or is on another host, or the id was used before, or its job failed",
                 r->port, strerror(error));
}

static dfcclResult_t connect_to_root(df_rendezvous *r) {
  int fd = r->by_key ? df_connect_abstract(SOCK_STREAM, r->name) : df_connect_loopback(r->port);
  if (fd < 0) return no_connection(r, -fd);
  r->fd = fd;
  r->in_used = 0;
  if (r->by_key) {
    uid_t other;
    if (df_socket_same_user(fd, &other)) return dfcclSuccess;
    return df_fail(dfcclRemoteError, "rank 0 of this job's key runs as user %u, rank %d as user %u",
                   other, r->rank, geteuid());
  }
  int ready = df_socket_wait(fd, POLLOUT, r->deadline_ns);
  if (ready < 0) return bad_arrival(r, BROKEN);
  int error = df_socket_error(fd);
  if (error != 0) return no_connection(r, error);
  return ready > 0 ? dfcclSuccess : bad_arrival(r, LATE);
}

/* Exchanges HELLO and CHALLENGE: the root proves itself, and the connection gets a key. */
static dfcclResult_t prove_root(df_rendezvous *r) {
  df_hello hello;
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  memcpy(hello.tag, r->tag, sizeof hello.tag);
  randombytes_buf(hello.nonce, sizeof hello.nonce);
  df_message_seal(&hello, sizeof hello, r->key);
  send_all(r, &hello, sizeof hello);
  arrival what = receive(r, DF_MESSAGE_CHALLENGE, sizeof(df_challenge), news_deadline_ns(r));
  if (what == GONE) return dfcclInProgress;
  if (what != GOT) return bad_arrival(r, what);
  const df_challenge *challenge = &r->in.challenge;
  df_derive(r->connection_key, sizeof r->connection_key, r->key, "dfccl rendezvous", hello.nonce,
            sizeof hello.nonce, challenge->nonce, sizeof challenge->nonce);
  if (!df_message_verify(challenge, sizeof *challenge, r->connection_key)) return not_the_root(r);
  return dfcclSuccess;
}

static dfcclResult_t be_counted(df_rendezvous *r, uint64_t deadline_ns) {
  df_join_request join;
  df_message_start(&join, DF_MESSAGE_JOIN, sizeof join);
  join.n_ranks = r->n_ranks;
  join.rank = r->rank;
  join.timeout_ms = (uint32_t)r->timeout_ms;
  join.left_ms = (uint32_t)df_remaining_ms(r->deadline_ns);
  join.record = r->own;
  df_message_seal(&join, sizeof join, r->connection_key);
  send_all(r, &join, sizeof join);
  arrival what = receive(r, DF_MESSAGE_WELCOME, sizeof(df_signal), deadline_ns);
  if (what == GOT) return dfcclSuccess;
  return what == GONE ? dfcclInProgress : bad_arrival(r, what);
}

static dfcclResult_t enter_near(df_rendezvous *r) {
  dfcclResult_t result = r->fd < 0 ? connect_to_root(r) : dfcclSuccess;
  if (result == dfcclSuccess) result = prove_root(r);
  if (result == dfcclSuccess) result = be_counted(r, news_deadline_ns(r));
  if (result != dfcclSuccess) df_socket_close(&r->fd);
  return result;
}

static dfcclResult_t enter_remote(df_rendezvous *r) {
  uint64_t until_ns = df_after_ms(PROBE_STEP_MS);
  dfcclResult_t result =
      df_probe_step(&r->probe, DF_MIN(until_ns, r->deadline_ns), &r->fd, r->connection_key);
  if (result != dfcclSuccess) return result;
  df_socket_set_silence(r->fd, r->network->silence_ms);
  r->in_used = 0;
  result = be_counted(r, news_deadline_ns(r));
  if (result != dfcclSuccess) df_socket_close(&r->fd);
  return result;
}

dfcclResult_t df_rendezvous_enter(df_rendezvous *r) {
  dfcclResult_t result = r->is_near ? enter_near(r) : dfcclInProgress;
  if (result == dfcclInProgress && r->probe.n > 0 && !is_its_root(r)) result = enter_remote(r);
  return result;
}

/* The job is multi-node: opens the listeners and sends their addresses. */
static dfcclResult_t send_place(df_rendezvous *r) {
  if (r->network->is_off)
    return df_fail(
        dfcclInvalidUsage,
        "rank %d may not talk to other hosts (DFCCL_NET), but ranks of its job are there", r->rank);
  if (r->by_key && !r->network->has_secret)
    return df_fail(dfcclInvalidUsage, "rank %d of %d has no secret, but " DF_NEEDS_SECRET, r->rank,
                   r->n_ranks);
  dfcclResult_t result =
      df_listeners_open(&r->listeners, r->network, 0, 0, DF_ADDRESSES_MAX, r->deadline_ns);
  if (result != dfcclSuccess) return result;
  df_place place;
  df_message_start(&place, DF_MESSAGE_PLACE, sizeof place);
  place.n_addresses = r->listeners->n_offered;
  memcpy(place.addresses, r->listeners->offered,
         sizeof *place.addresses * (size_t)place.n_addresses);
  if (place.n_addresses == 0) { /* several hosts on one machine: containers */
    place.n_addresses = 1;
    place.addresses[0] = df_address_loopback(r->listeners->port);
  }
  r->own.n_addresses = place.n_addresses;
  memcpy(r->own.addresses, place.addresses, sizeof r->own.addresses);
  df_message_seal(&place, sizeof place, r->connection_key);
  send_all(r, &place, sizeof place);
  return dfcclSuccess;
}

/* Rank 0 looks for another rank 0 at the addresses at which other hosts look for it. The root there
 * fails its job because of this claim, and its answer fails this one. */
static dfcclResult_t look_for_rival(df_rendezvous *r) {
  const int fd = r->fd;
  unsigned char key[DF_KEY_BYTES];
  memcpy(key, r->connection_key, sizeof key);
  dfcclResult_t result =
      df_probe_step(&r->probe, df_after_ms(PROBE_STEP_MS), &r->fd, r->connection_key);
  const bool is_there = result != dfcclInProgress;
  if (result == dfcclSuccess) result = be_counted(r, df_after_ms(RIVAL_MS));
  if (result == dfcclSuccess)
    result = df_fail(dfcclInvalidArgument,
                     "two processes claim rank 0 of %d: process %d of this host, and another one "
                     "that has not joined its own job yet",
                     r->n_ranks, (int)getpid());
  /* This rank's own root closes the call. A root with another secret or version, or one whose job
   * has failed, is no reason to end. */
  if (result != dfcclInvalidArgument) result = dfcclInProgress;
  if (is_there) {
    df_probe_close(&r->probe);
    r->probe.n = 0;
    if (r->fd != fd) df_socket_close(&r->fd);
  }
  r->fd = fd;
  r->in_used = 0;
  memcpy(r->connection_key, key, sizeof key);
  sodium_memzero(key, sizeof key);
  return result;
}

/* Waits for the table. Rank 0 looks for others with its number meanwhile. */
static arrival await_table(df_rendezvous *r, dfcclResult_t *result) {
  const uint64_t deadline_ns = news_deadline_ns(r);
  for (;;) {
    const bool looks = is_its_root(r) && r->probe.n > 0;
    const uint64_t until_ns = looks ? DF_MIN(df_after_ms(RIVAL_STEP_MS), deadline_ns) : deadline_ns;
    const arrival what = receive(r, DF_MESSAGE_TABLE, sizeof(df_table), until_ns);
    if (what != LATE || df_clock_ns() >= deadline_ns) return what;
    if (!looks || r->in_used > 0) continue; /* part of a message of the root is in r->in */
    *result = look_for_rival(r);
    if (*result != dfcclInProgress) return REFUSED;
  }
}

dfcclResult_t df_rendezvous_table(df_rendezvous *r) {
  dfcclResult_t rival = dfcclInProgress;
  arrival what = await_table(r, &rival);
  if (rival != dfcclInProgress) return rival;
  while (what == GOT && r->in.header.type == DF_MESSAGE_SPREAD) {
    dfcclResult_t result = r->listeners == NULL ? send_place(r) : not_the_root(r);
    if (result != dfcclSuccess) return result;
    what = receive(r, DF_MESSAGE_TABLE, sizeof(df_table), news_deadline_ns(r));
  }
  if (what == GONE) return dfcclInProgress;
  if (what != GOT) return bad_arrival(r, what);
  df_table table = r->in.table;
  size_t bytes = (size_t)r->n_ranks * sizeof(df_record), used = 0;
  df_record *records = malloc(bytes);
  if (records == NULL) return df_fail(dfcclOutOfMemory, "no memory for %d ranks", r->n_ranks);
  what = read_exactly(r, records, &used, bytes, news_deadline_ns(r));
  unsigned char digest[DF_MAC_BYTES];
  if (what == GOT) {
    crypto_generichash(digest, sizeof digest, (const unsigned char *)records, bytes, NULL, 0);
    if (memcmp(digest, table.digest, sizeof digest) != 0) what = NONSENSE;
  }
  if (what == GOT) {
    memcpy(r->session, table.session, sizeof r->session);
    r->records = records;
    return dfcclSuccess;
  }
  free(records);
  return what == GONE ? dfcclInProgress : bad_arrival(r, what);
}

/* A GO at this time is an error of the protocol. */
dfcclResult_t df_rendezvous_news(df_rendezvous *r) {
  arrival what = receive(r, DF_MESSAGE_FAILURE, sizeof(df_refusal), 0);
  if (what == LATE) return dfcclInProgress;
  return what == GONE ? df_rendezvous_orphaned(r) : bad_arrival(r, what);
}

void df_rendezvous_send_done(df_rendezvous *r) {
  df_signal done;
  df_message_start(&done, DF_MESSAGE_DONE, sizeof done);
  df_message_seal(&done, sizeof done, r->connection_key);
  send_all(r, &done, sizeof done);
}

uint64_t df_rendezvous_go_deadline_ns(const df_rendezvous *r) { return news_deadline_ns(r); }

dfcclResult_t df_rendezvous_go(df_rendezvous *r) {
  arrival what = receive(r, DF_MESSAGE_GO, sizeof(df_signal), 0);
  if (what == GOT) return dfcclSuccess;
  if (what == LATE && df_clock_ns() < news_deadline_ns(r)) return dfcclInProgress;
  r->others_may_go = what != REFUSED;
  return what == GONE ? df_rendezvous_orphaned(r) : bad_arrival(r, what);
}

void df_rendezvous_leave(df_rendezvous *r, dfcclResult_t code) {
  if (r->fd < 0) return;
  df_refusal leave;
  df_refusal_write(&leave, DF_MESSAGE_LEAVE, code, df_last_sentence(), r->connection_key);
  send_all(r, &leave, sizeof leave);
}
