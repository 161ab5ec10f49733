#include "bootstrap/rendezvous/probe.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/net/sockets.h"

enum { AGAIN_MS = 50 };

void df_probe_add(df_probe *probe, const df_address *address, const df_interfaces *interfaces) {
  const bool scoped = df_address_is_link_local(address);
  for (int i = 0; i < (scoped ? interfaces->n : 1); i++) {
    const df_interface *own = &interfaces->of[i];
    if (scoped && !(own->is_chosen && df_address_is_link_local(&own->address))) continue;
    if (probe->n == DF_PROBE_MAX) return;
    probe->attempts[probe->n++] =
        (df_probe_attempt){.address = *address, .scope = scoped ? own->index : 0, .fd = -1};
  }
}

static void rest(df_probe_attempt *attempt, int error, bool was_closed) {
  df_socket_close(&attempt->fd);
  attempt->error = error;
  attempt->was_closed = was_closed;
  attempt->silent_ns = 0;
  attempt->since_ns = df_after_ms(AGAIN_MS);
}

static dfcclResult_t call(df_probe_attempt *attempt) {
  struct sockaddr_storage address;
  socklen_t bytes = df_address_to_socket(&attempt->address, attempt->scope, &address);
  int fd = df_connect_network(&address, bytes, NULL);
  attempt->is_asked = false;
  attempt->in_used = 0;
  if (fd >= 0) {
    attempt->fd = fd;
    if (attempt->silent_ns == 0) attempt->silent_ns = df_clock_ns();
    return dfcclSuccess;
  }
  char why[DF_WHY_BYTES];
  if (df_is_exhausted(-fd))
    return df_fail(dfcclOutOfMemory, "no socket to look for the root: %s", df_why(-fd, why));
  rest(attempt, -fd, false);
  return dfcclSuccess;
}

static void say_hello(const df_probe *probe, df_probe_attempt *attempt) {
  df_hello hello;
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  memcpy(hello.tag, probe->tag, sizeof hello.tag);
  randombytes_buf(attempt->nonce, sizeof attempt->nonce);
  memcpy(hello.nonce, attempt->nonce, sizeof hello.nonce);
  df_message_seal(&hello, sizeof hello, probe->key);
  attempt->is_asked = true;
  if (send(attempt->fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
    rest(attempt, errno, false);
}

static dfcclResult_t judge(const df_probe *probe, const df_probe_attempt *attempt,
                           unsigned char key[DF_KEY_BYTES]) {
  char text[DF_ADDRESS_TEXT];
  df_address_text(&attempt->address, text);
  if (df_header_is_foreign(&attempt->in.header))
    return df_fail(dfcclInvalidUsage,
                   "the job's root at %s runs version %u (protocol %u) of the library, this rank "
                   "version %d (protocol %d)",
                   text, DF_BUILD_VERSION(attempt->in.header.version),
                   DF_BUILD_PROTOCOL(attempt->in.header.version), DFCCL_VERSION_CODE, DF_PROTOCOL);
  df_derive(key, DF_KEY_BYTES, probe->key, "dfccl rendezvous", attempt->nonce,
            sizeof attempt->nonce, attempt->in.nonce, sizeof attempt->in.nonce);
  if (df_message_verify(&attempt->in, sizeof attempt->in, key)) return dfcclSuccess;
  return df_fail(dfcclRemoteError,
                 "the root of this job at %s has another secret than this rank: DFCCL_SECRET (or "
                 "DFCCL_SECRET_FILE) must be the same on all ranks",
                 text);
}

/* Reads the answer as far as it has arrived. dfcclInProgress: it is not complete, or it is not an
 * answer. */
static dfcclResult_t receive_answer(const df_probe *probe, df_probe_attempt *attempt,
                                    unsigned char key[DF_KEY_BYTES]) {
  ssize_t got = recv(attempt->fd, (unsigned char *)&attempt->in + attempt->in_used,
                     sizeof attempt->in - attempt->in_used, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return dfcclInProgress;
  if (got <= 0) {
    rest(attempt, got < 0 ? errno : 0, got == 0);
    return dfcclInProgress;
  }
  attempt->in_used += (size_t)got;
  if (attempt->in_used < sizeof attempt->in) return dfcclInProgress;
  const df_header *header = &attempt->in.header;
  const bool is_ours = df_header_is(header, DF_MESSAGE_CHALLENGE, sizeof(df_challenge)) ||
                       (df_header_is_foreign(header) && header->type == DF_MESSAGE_CHALLENGE);
  if (is_ours) return judge(probe, attempt, key);
  rest(attempt, EPROTO, false); /* another program listens at the port */
  return dfcclInProgress;
}

static dfcclResult_t advance(const df_probe *probe, df_probe_attempt *attempt,
                             unsigned char key[DF_KEY_BYTES]) {
  if (attempt->is_asked) return receive_answer(probe, attempt, key);
  int error = df_socket_error(attempt->fd);
  if (error)
    rest(attempt, error, false);
  else
    say_hello(probe, attempt);
  return dfcclInProgress;
}

static dfcclResult_t call_due(df_probe *probe, struct pollfd *polled, uint64_t *until_ns) {
  const uint64_t now = df_clock_ns();
  for (int i = 0; i < probe->n; i++) {
    df_probe_attempt *attempt = &probe->attempts[i];
    if (attempt->fd < 0 && now >= attempt->since_ns) {
      dfcclResult_t result = call(attempt);
      if (result != dfcclSuccess) return result;
    }
    if (attempt->fd < 0) *until_ns = DF_MIN(*until_ns, attempt->since_ns);
    polled[i] = (struct pollfd){.fd = attempt->fd, .events = attempt->is_asked ? POLLIN : POLLOUT};
  }
  return dfcclSuccess;
}

dfcclResult_t df_probe_step(df_probe *probe, uint64_t until_ns, int *fd,
                            unsigned char connection_key[DF_KEY_BYTES]) {
  struct pollfd polled[DF_PROBE_MAX];
  do {
    uint64_t wake_ns = until_ns;
    dfcclResult_t result = call_due(probe, polled, &wake_ns);
    if (result != dfcclSuccess) return result;
    if (poll(polled, (nfds_t)probe->n, df_remaining_ms(wake_ns)) < 0 && errno != EINTR)
      return df_fail(dfcclSystemError, "cannot wait for the root: %s", strerror(errno));
    for (int i = 0; i < probe->n; i++) {
      df_probe_attempt *attempt = &probe->attempts[i];
      if (attempt->fd < 0 || polled[i].revents == 0) continue;
      result = advance(probe, attempt, connection_key);
      if (result == dfcclInProgress) continue;
      *fd = attempt->fd;
      attempt->fd = -1;
      attempt->silent_ns = 0;
      if (result != dfcclSuccess) df_socket_close(fd);
      return result;
    }
  } while (df_clock_ns() < until_ns);
  return dfcclInProgress;
}

bool df_probe_is_refused(const df_probe *probe) {
  for (int i = 0; i < probe->n; i++)
    if (probe->attempts[i].error == 0) return false;
  return probe->n > 0;
}

void df_probe_attempt_describe(const df_probe_attempt *attempt, df_text *text) {
  char address[DF_ADDRESS_TEXT];
  df_say(text, "%s ", df_address_scoped_text(&attempt->address, attempt->scope, address));
  if (attempt->silent_ns)
    df_say(text, "is silent for %llu s",
           (unsigned long long)((df_clock_ns() - attempt->silent_ns) / 1000000000u));
  else if (attempt->was_closed)
    df_say(text, "is another program, or another job");
  else
    df_say(text, "fails: %s", attempt->error ? strerror(attempt->error) : "it was not called");
}

/* Whether the second address is the next port of the same host, in the same state. */
static bool follows(const df_probe_attempt *first, const df_probe_attempt *second) {
  return df_address_same_host(&first->address, &second->address) &&
         second->address.port == first->address.port + 1 && first->scope == second->scope &&
         (first->silent_ns != 0) == (second->silent_ns != 0) &&
         first->was_closed == second->was_closed && first->error == second->error;
}

bool df_probe_is_silent(const df_probe_attempt *attempt) {
  return attempt->silent_ns != 0 || df_is_silence(attempt->error);
}

void df_probe_describe(const df_probe *probe, char text[DF_PROBE_TEXT]) {
  df_text rest = {text, DF_PROBE_TEXT};
  bool is_silent = false;
  text[0] = '\0';
  for (int i = 0, last; i < probe->n; i = last + 1) {
    for (last = i;
         last + 1 < probe->n && follows(&probe->attempts[last], &probe->attempts[last + 1]);)
      last++;
    if (i > 0) df_say(&rest, "; ");
    df_probe_attempt_describe(&probe->attempts[i], &rest);
    if (last > i) df_say(&rest, " (ports to %u alike)", probe->attempts[last].address.port);
    is_silent |= df_probe_is_silent(&probe->attempts[i]);
  }
  if (is_silent) df_say(&rest, "; " DF_PROBE_FIREWALL);
}

void df_probe_close(df_probe *probe) {
  for (int i = 0; i < probe->n; i++) df_socket_close(&probe->attempts[i].fd);
  sodium_memzero(probe->key, sizeof probe->key);
}
