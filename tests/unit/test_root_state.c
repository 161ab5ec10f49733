/*
 * Promises of src/bootstrap/rendezvous/root_loop.h and of the callers of a root:
 *   - An unauthenticated caller learns nothing. Neither silence nor malformed bytes delay the job,
 *     or take the place of the root's own rank.
 *   - A rank detects a root that is not its job's.
 *   - Unused ids end, and share one thread.
 *   - The ranks that wait receive the reason why a caller of their job was refused (another secret,
 *     another version, another user), and the root logs it. Reports about missing ranks become
 *     rarer.
 */
#include "bootstrap/rendezvous/root_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/root_state.h"
#include "bootstrap/net/sockets.h"
#include "bootstrap_crew.h"
#include "support/leftovers.h"
#include "support/rest.h"

static uint16_t port_of(const crew *c) {
  df_id_content content;
  OK(df_id_read(&c->id, &content));
  return content.port;
}

static int call_root(uint16_t port) {
  int fd = df_connect_loopback(port);
  CHECK(fd >= 0, "%s", strerror(-fd));
  CHECK(df_socket_wait(fd, POLLOUT, UINT64_MAX) == 1 && df_socket_error(fd) == 0, "no connection");
  return fd;
}

static void call_and_be_silent(crew *c) {
  enum { CALLERS = 700 };
  for (int i = 0; i < CALLERS; i++) call_root(port_of(c));
}

/* A TCP socket does not reveal its user, so it counts as another user's. */
DF_TEST(root, the_number_of_a_refused_caller_is_free_for_others, 20) {
  uint16_t port;
  OK(df_handshake_ready());
  df_root_options options = {.same_user_only = true, .users_listener = -1, .idle_ms = LONG_MS};
  options.listener = df_listen_loopback(&port);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  df_root *root = df_root_create(&options);
  int caller = call_root(port), number = dup(STDERR_FILENO);
  close(number); /* the root's end of the connection will have this number */
  struct pollfd entry = {.fd = caller, .events = POLLIN};
  while (poll(&entry, 1, 0) == 0) CHECK(df_root_step(root, 100), "the root has ended");
  CHECK(dup(STDERR_FILENO) == number, "another number than %d", number);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(fcntl(number, F_GETFD) < 0);
  df_watch_child(child);
  CHECK(reap(child) == 0, "the child closes a file of others");
  close(number);
  df_socket_close(&caller);
  df_root_destroy(root);
}

static bool is_answered(int fd, const unsigned char *key) {
  df_hello hello;
  df_challenge answer;
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  df_message_seal(&hello, sizeof hello, key);
  return send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
         df_socket_wait(fd, POLLIN, UINT64_MAX) == 1 &&
         recv(fd, &answer, sizeof answer, 0) == sizeof answer;
}

/* Without a free descriptor, the root gives up pending connections, but not that of its own
 * rank. */
DF_TEST(root, callers_do_not_take_the_place_of_the_roots_own_rank, 20) {
  enum { CALLERS = 8, FREE = 3 };
  int callers[CALLERS], own[2];
  uint16_t port;
  df_root *root;
  OK(df_handshake_ready());
  df_root_options options = {.users_listener = -1, .idle_ms = LONG_MS, .n_ranks = 2};
  options.listener = df_listen_loopback(&port);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  for (int i = 0; i < CALLERS; i++) callers[i] = call_root(port);
  CHECK(df_connected_pair(own) == 0, "no pair");
  const rlim_t most = (rlim_t)own[1] + 1 + FREE; /* one of them belongs to the thread */
  CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0, "%s", strerror(errno));
  OK(df_root_start(&options, own[1], &root));
  for (int i = 0; i < CALLERS - FREE; i++) /* given up for later callers */
    CHECK(df_socket_wait(callers[i], POLLIN, UINT64_MAX) == 1, "caller %d stays", i);
  CHECK(is_answered(own[0], options.key), "the root's own rank is not answered");
  for (int i = 0; i < CALLERS; i++) df_socket_close(&callers[i]);
  df_socket_close(&own[0]);
  df_root_stop(root);
}

DF_TEST(root, silent_callers_delay_no_rank, 60) {
  crew *c = make_crew(false, 4, 1);
  OK(df_bootstrap_create_id(&c->id, NULL));
  pid_t callers = start_other_process(call_and_be_silent, c);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 4; i++) {
    check_code(c, i, dfcclSuccess);
  }
  kill(callers, SIGKILL);
  reap(callers);
}

DF_TEST(root, malformed_bytes_get_no_answer, 60) {
  df_random random = {7};
  crew *c = make_crew(false, 2, 1);
  OK(df_bootstrap_create_id(&c->id, NULL));
  for (int i = 0; i < 100; i++) {
    unsigned char bytes[600];
    char answer[16];
    int fd = call_root(port_of(c));
    size_t length = (size_t)(16 + df_random_below(&random, (int)sizeof bytes - 16));
    for (size_t k = 0; k < length; k++) bytes[k] = (unsigned char)df_random_next(&random);
    CHECK(send(fd, bytes, length, MSG_NOSIGNAL) > 0, "%s", strerror(errno));
    CHECK(df_socket_wait(fd, POLLIN, UINT64_MAX) == 1, "no end");
    CHECK(recv(fd, answer, sizeof answer, 0) <= 0, "an unauthenticated caller got an answer");
    close(fd);
  }
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 2; i++) check_code(c, i, dfcclSuccess);
}

/* A HELLO of another version, and the root's answer. */
static ssize_t ask_as_another_version(const unsigned char *key, df_challenge *answer) {
  df_root_options options = {
      .listener = -1, .users_listener = -1, .n_ranks = 2, .idle_ms = LONG_MS};
  df_root *root = df_root_create(&options);
  int pair[2];
  df_hello hello;
  CHECK(root && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no root");
  df_root_adopt(root, pair[1]);
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  hello.header.version++;
  df_message_seal(&hello, sizeof hello, key);
  CHECK(send(pair[0], &hello, sizeof hello, 0) == sizeof hello, "%s", strerror(errno));
  CHECK(df_root_step(root, 1000), "the root has ended");
  df_root_step(root, 0);
  const ssize_t got = recv(pair[0], answer, sizeof *answer, 0);
  close(pair[0]);
  df_root_destroy(root);
  return got;
}

DF_TEST(root, only_ranks_with_the_key_learn_the_version, 30) {
  const unsigned char right[DF_KEY_BYTES] = {0}, wrong[DF_KEY_BYTES] = {1};
  df_challenge answer;
  OK(df_handshake_ready());
  CHECK(ask_as_another_version(wrong, &answer) == 0, "an unauthenticated caller was answered");
  CHECK(ask_as_another_version(right, &answer) == sizeof answer &&
            answer.header.version == DF_BUILD,
        "a rank was not answered");
}

/* A root of another version at an address that a rank probes: the rank reports it at once. */
DF_TEST(root, a_root_of_another_version_is_named, 30) {
  df_probe *probe = calloc(1, sizeof *probe);
  df_address address = {.family = 4, .bytes = {127, 0, 0, 1}};
  static df_interfaces none;
  unsigned char key[DF_KEY_BYTES];
  df_challenge answer;
  df_hello hello;
  int fd = -1;
  OK(df_handshake_ready());
  int listener = df_listen_loopback(&address.port);
  df_probe_add(probe, &address, &none);
  EVENTUALLY(df_probe_step(probe, df_clock_ns() + 20000000, &fd, key) == dfcclInProgress &&
             df_socket_wait(listener, POLLIN, 0) == 1);
  int caller = df_accept(listener);
  CHECK(caller >= 0, "%s", strerror(-caller));
  EVENTUALLY(df_probe_step(probe, df_clock_ns() + 20000000, &fd, key) == dfcclInProgress &&
             recv(caller, &hello, sizeof hello, MSG_DONTWAIT) == sizeof hello);
  df_message_start(&answer, DF_MESSAGE_CHALLENGE, sizeof answer);
  answer.header.version++;
  CHECK(send(caller, &answer, sizeof answer, 0) == sizeof answer, "%s", strerror(errno));
  dfcclResult_t result;
  EVENTUALLY((result = df_probe_step(probe, df_clock_ns() + 20000000, &fd, key)) !=
             dfcclInProgress);
  CHECK(result == dfcclInvalidUsage && strstr(df_last_sentence(), "runs version"), "%s",
        df_last_sentence());
  df_probe_close(probe);
  free(probe);
  df_socket_close(&caller);
  close(listener);
}

DF_TEST(root, a_rank_without_the_secret_is_not_counted, 30) {
  crew *c = make_crew(false, 2, 1);
  OK(df_bootstrap_create_id(&c->id, NULL));
  df_rendezvous *r = calloc(1, sizeof *r);
  *r = (df_rendezvous){.n_ranks = 2, .rank = 0, .fd = -1, .timeout_ms = LONG_MS, .is_near = true};
  r->deadline_ns = UINT64_MAX;
  r->port = port_of(c);
  memset(r->key, 1, sizeof r->key);
  RESULT(df_rendezvous_enter(r), dfcclRemoteError); /* to this rank, the root's proof is wrong */
  CHECK(strstr(df_last_sentence(), "is not the root of this unique id") != NULL, "%s",
        df_last_sentence());
  free(r);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 2; i++) check_code(c, i, dfcclSuccess);
}

DF_TEST(root, an_impostor_of_the_root_is_detected, 30) {
  uint16_t port;
  df_peer_info info = info_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  OK(df_handshake_ready());
  int listener = df_listen_loopback(&port);
  const df_id_content content = {
      .port = port, .secret = {1, 2, 3}, .machine = df_machine_identity()};
  df_id_write(&id, &content);
  fflush(NULL);
  df_quiet_before_fork();
  pid_t caller = fork();
  if (caller == 0) {
    df_challenge lie;
    CHECK(df_socket_wait(listener, POLLIN, UINT64_MAX) == 1, "nobody came");
    int fd = df_accept(listener);
    df_message_start(&lie, DF_MESSAGE_CHALLENGE, sizeof lie);
    CHECK(send(fd, &lie, sizeof lie, 0) == sizeof lie, "%s", strerror(errno));
    for (;;) pause();
  }
  df_watch_child(caller);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, LONG_MS, &mesh), dfcclRemoteError);
  kill(caller, SIGKILL);
  reap(caller);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, 200, &mesh), dfcclTimeout); /* a silent caller */
  close(listener);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, LONG_MS, &mesh), dfcclRemoteError);
  CHECK(strstr(df_last_sentence(), "nobody answers at 127.0.0.1") != NULL, "%s",
        df_last_sentence());
}

DF_TEST(root, an_unused_id_ends, 30) {
  int threads = df_thread_count(), descriptors = df_descriptor_count();
  uint16_t port;
  df_root_options options = {.users_listener = -1, .idle_ms = 50};
  OK(df_handshake_ready());
  options.listener = df_listen_loopback(&port);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  OK(df_root_start(&options, -1, NULL));
  EVENTUALLY(df_thread_count() == threads);
  CHECK(df_descriptor_count() == descriptors, "%d descriptors", df_descriptor_count());
}

enum { IDS = 50 };

static void join_alone(const dfcclUniqueId *id) {
  df_mesh mesh;
  df_peer_info info = info_of(0);
  OK(df_bootstrap_join(NULL, id, 1, 0, &info, LONG_MS, &mesh));
  df_mesh_close(&mesh);
}

/* A forked child has ids of its own, and none of its parent's. */
static void use_ids_in_a_child(const dfcclUniqueId *of_parent) {
  dfcclUniqueId id;
  fflush(NULL);
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0) {
    df_watchdog_start("a child with ids", 20);
    for (int i = 0; i < 3; i++) OK(df_bootstrap_create_id(&id, NULL));
    join_alone(&id);
    join_alone(of_parent);
    df_watchdog_stop();
    _exit(0);
  }
  df_watch_child(child);
  CHECK(reap(child) == 0, "the child failed");
}

DF_TEST(root, unused_ids_share_one_thread, 60) {
  static dfcclUniqueId ids[IDS];
  int threads = df_thread_count(), descriptors = df_descriptor_count();
  for (int i = 0; i < IDS; i++) OK(df_bootstrap_create_id(&ids[i], NULL));
  CHECK(df_thread_count() <= threads + 1, "%d threads for %d ids", df_thread_count() - threads,
        IDS);
  use_ids_in_a_child(&ids[0]);
  for (int i = IDS - 1; i > 0; i--) join_alone(&ids[i]);
  EVENTUALLY(df_thread_count() == threads);
  CHECK(df_descriptor_count() == descriptors, "%d descriptors", df_descriptor_count());
}

/* ---- callers that are refused */

static const unsigned char job_key[DF_KEY_BYTES] = {1}, another_key[DF_KEY_BYTES] = {2};
static const unsigned char job_tag[DF_TAG_BYTES] = {3}, another_tag[DF_TAG_BYTES] = {4};

static df_root *make_root(bool by_key) {
  df_root_options options = {.listener = -1,
                             .users_listener = -1,
                             .same_user_only = by_key,
                             .n_ranks = 2,
                             .idle_ms = LONG_MS};
  OK(df_handshake_ready());
  memcpy(options.key, job_key, sizeof options.key);
  memcpy(options.tag, job_tag, sizeof options.tag);
  df_root *root = df_root_create(&options);
  CHECK(root != NULL, "no memory");
  return root;
}

/* Sends a HELLO and returns the caller's end. */
static int greet(df_root *root, const unsigned char *key, const unsigned char *tag,
                 uint32_t version) {
  df_hello hello;
  int ends[2];
  CHECK(df_connected_pair(ends) == 0, "no pair");
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  if (version) hello.header.version = version;
  memcpy(hello.tag, tag, sizeof hello.tag);
  df_message_seal(&hello, sizeof hello, key);
  CHECK(send(ends[0], &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello, "not sent");
  df_root_adopt(root, ends[1]);
  CHECK(df_root_step(root, 1000), "the root has ended");
  return ends[0];
}

static void expect_note(bool by_key, const unsigned char *key, const unsigned char *tag,
                        uint32_t version, const char *expected) {
  df_root *root = make_root(by_key);
  int caller = greet(root, key, tag, version);
  if (expected)
    CHECK(strstr(root->note, expected), "\"%s\" lacks \"%s\"", root->note, expected);
  else
    CHECK(root->note[0] == '\0', "\"%s\"", root->note);
  df_socket_close(&caller);
  df_root_destroy(root);
}

DF_TEST(root, the_reason_of_a_refusal_is_noted, 20) {
  char process[32];
  const uint32_t older = DF_BUILD - 1, newer = DF_BUILD + (2u << 24);
  snprintf(process, sizeof process, "process %d", (int)getpid());
  expect_note(true, job_key, job_tag, 0, NULL);
  expect_note(true, another_key, job_tag, 0, "another secret (DFCCL_SECRET");
  expect_note(true, another_key, job_tag, 0, process);
  expect_note(false, another_key, job_tag, 0, "another unique id");
  expect_note(true, another_key, another_tag, 0, NULL); /* another job */
  expect_note(true, job_key, job_tag, older, "runs version");
  expect_note(true, another_key, job_tag, newer, "runs version");
  expect_note(true, job_key, another_tag, newer, NULL);
}

static void join_as(df_root *root, int fd, int rank) {
  df_challenge challenge;
  df_join_request join = {0};
  unsigned char key[DF_KEY_BYTES];
  df_hello hello;
  memset(&hello, 0, sizeof hello);
  CHECK(recv(fd, &challenge, sizeof challenge, 0) == sizeof challenge, "no CHALLENGE");
  df_derive(key, sizeof key, job_key, "dfccl rendezvous", hello.nonce, sizeof hello.nonce,
            challenge.nonce, sizeof challenge.nonce);
  df_message_start(&join, DF_MESSAGE_JOIN, sizeof join);
  join.n_ranks = 2;
  join.rank = rank;
  join.timeout_ms = join.left_ms = LONG_MS;
  df_message_seal(&join, sizeof join, key);
  CHECK(send(fd, &join, sizeof join, MSG_NOSIGNAL) == sizeof join, "not sent");
  CHECK(df_root_step(root, 1000), "the root has ended");
  CHECK(root->n_joined == 1, "%d joined", root->n_joined);
}

DF_TEST(root, news_become_rarer_and_have_the_reason, 20) {
  df_root *root = make_root(true);
  df_hello hello;
  int own[2];
  CHECK(df_connected_pair(own) == 0, "no pair");
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  memset(hello.nonce, 0, sizeof hello.nonce);
  memcpy(hello.tag, job_tag, sizeof hello.tag);
  df_message_seal(&hello, sizeof hello, job_key);
  CHECK(send(own[0], &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello, "not sent");
  df_root_adopt(root, own[1]);
  CHECK(df_root_step(root, 1000), "the root has ended");
  join_as(root, own[0], 0);
  df_signal welcome;
  CHECK(recv(own[0], &welcome, sizeof welcome, 0) == sizeof welcome, "no WELCOME");
  int stranger = greet(root, another_key, job_tag, 0);
  for (uint64_t least_ms = 4000; least_ms < 100000; least_ms *= 2) {
    df_refusal news;
    root->news_ns = 0; /* the time has come */
    CHECK(df_root_step(root, 0), "the root has ended");
    CHECK(df_root_step(root, 0), "the root has ended");
    CHECK(recv(own[0], &news, sizeof news, MSG_DONTWAIT) == sizeof news, "no NEWS");
    CHECK(strstr(news.reason, "rank 1 of 2 has not come") && strstr(news.reason, "another secret"),
          "\"%s\"", news.reason);
    CHECK(root->news_ns > df_clock_ns() + least_ms * 1000000, "the next NEWS comes after %llu ms",
          (unsigned long long)(root->news_ns - df_clock_ns()) / 1000000);
  }
  df_socket_close(&stranger);
  df_socket_close(&own[0]);
  df_root_destroy(root);
}
