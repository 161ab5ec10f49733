/*
 * Promises of src/bootstrap/bootstrap.h about failures around it:
 *   - A rank that dies or fails ends the join of all others with a sentence that names it.
 *   - Nothing remains, not even after SIGKILL.
 */
#include "bootstrap/bootstrap.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap_crew.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/root_loop.h"
#include "bootstrap/net/sockets.h"
#include "support/leftovers.h"
#include "support/rest.h"

/* ---- Some ranks die ---- */

static void check_killed_is_named(const crew *c, int victim) {
  char words[32];
  snprintf(words, sizeof words, "rank %d ", victim);
  for (int i = 0; i < 3; i++) {
    const member *m = &c->members[i];
    if (i == victim) continue;
    check_mentions(m, words);
    /* By a key: a rank that had not found rank 0 before its death has never received anything from
     * it. */
    if (c->key[0] != '\0' && strstr(m->sentence, "rank 0 of 4 did not come") != NULL) continue;
    check_code(c, i, dfcclRemoteError);
    check_mentions(m, "died");
  }
}

static bool kill_while_collecting(bool by_key, int victim, int timeout_ms) {
  crew *c = make_crew(by_key, 4, 1); /* rank 3 never joins */
  df_quiet_before_fork();
  for (int i = 0; i < 3; i++) {
    c->members[i].timeout_ms = by_key ? 2 * timeout_ms : LONG_MS;
    if (i != victim || victim == 0) start_process(c, i, 60);
  }
  if (victim != 0) c->pids[victim] = start_still_rank(c, victim);
  open_gate(c);
  if (victim != 0) EVENTUALLY(__atomic_load_n(&c->entered, __ATOMIC_ACQUIRE) == 1);
  await_rest_of_crew(c);
  bool late = false;
  for (int i = 0; i < 3; i++) late |= is_late(&c->members[i]);
  for (int i = 0; i < 3 && !late; i++)
    CHECK(code_of(&c->members[i]) == NOT_YET, "member %d returned", i);
  kill(c->pids[victim], SIGKILL);
  for (int i = 0; i < 3; i++) reap(c->pids[i]);
  if (!late) check_killed_is_named(c, victim);
  return !late;
}

DF_TEST(bootstrap_faults, a_rank_killed_while_others_wait_is_named_at_once, 90) {
  IN_GOOD_TIME(ms, kill_while_collecting(false, 1, ms));
  IN_GOOD_TIME(ms, kill_while_collecting(false, 2, ms));
  IN_GOOD_TIME(ms, kill_while_collecting(true, 1, ms));
  IN_GOOD_TIME(ms, kill_while_collecting(true, 0, ms));
}

/* The outcomes that a survivor may have: the victim had joined before it died, or is named. Returns
 * false if another rank was reported as missing, because the machine was slow. */
static bool check_survivor(const crew *c, int index, int victim) {
  const member *m = &c->members[index];
  char words[32];
  snprintf(words, sizeof words, "rank %d ", victim);
  if (code_of(m) == dfcclSuccess) return true;
  /* A rank that joins after rank 0 has given up, and has refused callers for a while, finds no
   * root. */
  if (m->code == dfcclTimeout && c->key[0] != '\0' && strstr(m->sentence, "rank 0 of 6 did not"))
    return true;
  if (is_late(m) && strstr(m->sentence, words) == NULL) return false;
  CHECK(m->code == dfcclRemoteError || m->code == dfcclTimeout, "member %d: %s: %s", index,
        df_result_name((dfcclResult_t)m->code), m->sentence);
  check_mentions(m, words);
  return true;
}

/* Counts the survivors that were notified. */
static bool kill_at_any_moment(bool by_key, int victim, useconds_t after_us, int timeout_ms,
                               int *notified) {
  bool in_time = true;
  int notified_now = 0;
  crew *c = make_crew(by_key, 6, 1);
  for (int i = 0; i < 6; i++) {
    c->members[i].timeout_ms = timeout_ms; /* a rank that never joins is reported late */
    c->members[i].mute = true;             /* dead ranks do not answer */
  }
  start_crew(c);
  usleep(after_us);
  kill(c->pids[victim], SIGKILL);
  for (int i = 0; i < 6; i++) {
    int status = reap(c->pids[i]);
    CHECK(i == victim || status == 0, "the process of rank %d failed", i);
    if (i == victim) continue;
    in_time &= check_survivor(c, i, victim);
    notified_now += code_of(&c->members[i]) > dfcclSuccess;
  }
  if (in_time) *notified += notified_now;
  return in_time;
}

DF_TEST(bootstrap_faults, a_rank_killed_at_any_moment_blocks_no_other, 120) {
  static char before[1 << 17], after[1 << 17];
  int notified = 0;
  df_unix_socket_names(before, sizeof before);
  df_random random = {20240611};
  for (int round = 0; round < 12; round++) {
    int victim = df_random_below(&random, 6);
    useconds_t after_us = (useconds_t)df_random_below(&random, 8000);
    IN_GOOD_TIME(ms, kill_at_any_moment(round % 2, victim, after_us, ms, &notified));
  }
  fprintf(stderr, "%d of 60 survivors were notified\n", notified);
  df_unix_socket_names(after, sizeof after);
  EVENTUALLY(df_unix_sockets_left(before, after) == 0);
}

static void make_id(crew *c) { OK(df_bootstrap_create_id(&c->id, NULL)); }

DF_TEST(bootstrap_faults, the_death_of_an_ids_maker_is_noticed, 30) {
  crew *c = make_crew(false, 2, 1);
  pid_t maker = start_other_process(make_id, c);
  c->members[0].n_ranks = c->members[1].n_ranks = 3;
  start_crew(c);
  await_rest_of_crew(c);
  kill(maker, SIGKILL);
  reap(maker);
  reap_crew(c);
  for (int i = 0; i < 2; i++) {
    check_code(c, i, dfcclRemoteError);
    check_mentions(&c->members[i], "the process that made the unique id died");
  }
}

DF_TEST(bootstrap_faults, a_rank_that_cannot_continue_reports_it, 60) {
  for (int by_key = 0; by_key <= 1; by_key++) {
    crew *c = make_crew(by_key, 24, 1);
    c->members[23].descriptors = 10;
    start_crew(c);
    for (int i = 0; i < 24; i++) reap(c->pids[i]);
    check_code(c, 23, dfcclOutOfMemory);
    check_mentions(&c->members[23], "Too many open files");
    check_mentions(&c->members[23], "RLIMIT_NOFILE");
    for (int i = 0; i < 23; i++) {
      check_code(c, i, dfcclRemoteError);
      check_mentions(&c->members[i], "rank 23");
      check_mentions(&c->members[i], "Too many open files");
    }
  }
}

/* Ranks for which the root has no descriptor have called: the sentence must not blame them. */
DF_TEST(bootstrap_faults, a_root_without_descriptors_reports_it, 120) {
  crew *c = make_crew(true, 24, 1);
  for (int i = 0; i < 24; i++) c->members[i].timeout_ms = 2000;
  c->members[0].descriptors = 12;
  start_crew(c);
  for (int i = 0; i < 24; i++) reap(c->pids[i]);
  check_code(c, 0, dfcclTimeout);
  check_mentions(&c->members[0], "Too many open files");
  check_mentions(&c->members[0], "RLIMIT_NOFILE");
  check_mentions(&c->members[0], "process ");
  CHECK(strstr(c->members[0].sentence, "did not come") == NULL, "%s", c->members[0].sentence);
}

static bool make_no_connections(bool by_key, int timeout_ms) {
  bool late = false;
  crew *c = make_crew(by_key, 3, 1);
  for (int i = 0; i < 3; i++) c->members[i].timeout_ms = timeout_ms;
  df_quiet_before_fork();
  start_process(c, 0, 120);
  start_process(c, 2, 120);
  c->pids[1] = start_still_rank(c, 1);
  open_gate(c);
  reap(c->pids[0]);
  reap(c->pids[2]);
  for (int i = 0; i < 3; i += 2)
    late |= is_late(&c->members[i]) && strstr(c->members[i].sentence, "no connection") == NULL;
  for (int i = 0; i < 3 && !late; i += 2) {
    check_code(c, i, dfcclTimeout);
    check_mentions(&c->members[i], "no connection between rank ");
    check_mentions(&c->members[i], " and rank 1 within");
  }
  kill(c->pids[1], SIGKILL);
  reap(c->pids[1]);
  return !late;
}

DF_TEST(bootstrap_faults, a_rank_that_makes_no_connections_is_named, 120) {
  IN_GOOD_TIME(ms, make_no_connections(false, ms));
  IN_GOOD_TIME(ms, make_no_connections(true, ms));
}

/* ---- Processes ---- */

DF_TEST(bootstrap_faults, a_forked_child_is_another_process, 10) {
  unsigned char *tokens = shared_memory(3 * DF_TOKEN_BYTES);
  OK(df_handshake_ready());
  df_process_token(tokens);
  fflush(NULL);
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0) {
    df_process_token(tokens + DF_TOKEN_BYTES);
    _exit(0);
  }
  df_watch_child(child);
  CHECK(reap(child) == 0, "the child failed");
  df_process_token(tokens + 2 * DF_TOKEN_BYTES);
  CHECK(memcmp(tokens, tokens + DF_TOKEN_BYTES, DF_TOKEN_BYTES) != 0, "the child has our token");
  CHECK(memcmp(tokens, tokens + 2 * DF_TOKEN_BYTES, DF_TOKEN_BYTES) == 0, "our token changed");
}

DF_TEST(bootstrap_faults, a_forked_child_does_not_hold_the_address, 20) {
  uint16_t port;
  OK(df_handshake_ready());
  df_root_options options = {.users_listener = -1, .idle_ms = 100};
  options.listener = df_listen_loopback(&port);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  df_root *root;
  OK(df_root_start(&options, -1, &root));
  fflush(NULL);
  df_quiet_before_fork();
  pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  df_watch_child(child);
  df_root_stop(root);
  int fd = df_connect_loopback(port);
  if (fd >= 0) {
    CHECK(df_socket_wait(fd, POLLOUT, UINT64_MAX) == 1, "no answer");
    CHECK(df_socket_error(fd) == ECONNREFUSED, "the child still listens");
    close(fd);
  } else {
    CHECK(fd == -ECONNREFUSED, "%s", strerror(-fd));
  }
  kill(child, SIGKILL);
  reap(child);
}
