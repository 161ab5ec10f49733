/*
 * Promises of src/bootstrap/bootstrap.h:
 *   - All ranks get the peer info of every rank and a socket to each rank of another process, in
 *     any order of arrival, in any distribution over processes and threads, by id and by key.
 *   - Or the join fails on all ranks: a wrong or missing rank ends it with a sentence that names
 *     the rank, long before the timeout unless no rank can have noticed earlier.
 *   - A rank whose root has vanished joins the next root, whatever it has sent to the first one.
 *   - Jobs may follow each other, and nothing remains: no descriptor, no thread, no address.
 */
#include "bootstrap/bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap_crew.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/root_state.h"
#include "bootstrap/net/sockets.h"
#include "support/leftovers.h"
#include "support/rest.h"

/* ---- All ranks join ---- */

/* Names of sockets that contain dfccl: ours must vanish, while those of other jobs come and go. */
static char names_before[1 << 17], names_after[1 << 17];

static void meet(bool by_key, int n, int per_process) {
  df_unix_socket_names(names_before, sizeof names_before);
  crew *c = make_crew(by_key, n, per_process);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < n; i++) {
    check_code(c, i, dfcclSuccess);
    CHECK(memcmp(c->members[i].job, c->members[0].job, 16) == 0, "rank %d has another job", i);
  }
  df_unix_socket_names(names_after, sizeof names_after);
  EVENTUALLY(df_unix_sockets_left(names_before, names_after) == 0);
}

static void meet_in_all_shapes(bool by_key) {
  meet(by_key, 1, 1);
  meet(by_key, 2, 1);
  meet(by_key, 2, 2);
  meet(by_key, 5, 1);
  meet(by_key, 8, 3);
  meet(by_key, 16, 16);
  meet(by_key, 24, 1);
}

DF_TEST(bootstrap, all_ranks_of_an_id_meet, 60) { meet_in_all_shapes(false); }

DF_TEST(bootstrap, all_ranks_of_a_key_meet, 60) { meet_in_all_shapes(true); }

static void meet_with_late_rank(bool by_key, int late) {
  crew *c = make_crew(by_key, 4, 1);
  c->members[late].turn = 1;
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 4; i++) check_code(c, i, dfcclSuccess);
}

DF_TEST(bootstrap, any_rank_may_come_last, 60) {
  meet_with_late_rank(false, 0);
  meet_with_late_rank(false, 3);
  meet_with_late_rank(true, 0);
  meet_with_late_rank(true, 3);
}

DF_TEST(bootstrap, the_root_of_an_id_ends_with_its_job, 30) {
  int threads = df_thread_count(), descriptors = df_descriptor_count();
  meet(false, 3, 1);
  EVENTUALLY(df_thread_count() == threads);
  EVENTUALLY(df_descriptor_count() == descriptors);
}

DF_TEST(bootstrap, jobs_of_one_process_and_one_key_follow_each_other, 60) {
  enum { JOBS = 40, RANKS = 3 };
  unsigned char(*jobs)[RANKS][16] = shared_memory(sizeof(unsigned char[JOBS][RANKS][16]));
  pid_t pids[RANKS];
  char key[64];
  snprintf(key, sizeof key, "one key of process %d", (int)getpid());
  fflush(NULL);
  df_quiet_before_fork();
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) {
      df_watchdog_start("a rank of many jobs", 50);
      for (int job = 0; job < JOBS; job++) {
        df_mesh mesh;
        df_peer_info info = info_of(rank);
        OK(df_bootstrap_join_key(NULL, NULL, key, RANKS, rank, &info, LONG_MS, &mesh));
        memcpy(jobs[job][rank], mesh.job, 16);
        df_mesh_close(&mesh);
      }
      df_watchdog_stop();
      _exit(0);
    }
    df_watch_child(pids[rank]);
  }
  for (int rank = 0; rank < RANKS; rank++) CHECK(reap(pids[rank]) == 0, "rank %d failed", rank);
  for (int job = 0; job < JOBS; job++) {
    for (int rank = 1; rank < RANKS; rank++)
      CHECK(memcmp(jobs[job][rank], jobs[job][0], 16) == 0, "job %d of rank %d", job, rank);
    for (int other = 0; other < job; other++)
      CHECK(memcmp(jobs[job][0], jobs[other][0], 16) != 0, "jobs %d and %d are one", job, other);
  }
}

/* A rank forks after its join has returned and before its context is open. */
static int child_has_sockets(const df_mesh *mesh, int n) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    int open = 0;
    for (int rank = 0; rank < n; rank++)
      open += mesh->sockets[rank] >= 0 && fcntl(mesh->sockets[rank], F_GETFD) >= 0;
    _exit(open);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "a child ended by a signal");
  return WEXITSTATUS(status);
}

DF_TEST(bootstrap, a_child_that_is_forked_after_the_join_has_no_connection, 60) {
  enum { RANKS = 3 };
  pid_t pids[RANKS];
  char key[64];
  snprintf(key, sizeof key, "the key of a parent, %d", (int)getpid());
  fflush(NULL);
  df_quiet_before_fork();
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) {
      df_watchdog_start("a rank that forks", 50);
      df_mesh mesh;
      df_peer_info info = info_of(rank);
      OK(df_bootstrap_join_key(NULL, NULL, key, RANKS, rank, &info, LONG_MS, &mesh));
      CHECK(child_has_sockets(&mesh, RANKS) == 0, "rank %d's child has a connection", rank);
      df_mesh_close(&mesh);
      df_watchdog_stop();
      _exit(0);
    }
    df_watch_child(pids[rank]);
  }
  for (int rank = 0; rank < RANKS; rank++) CHECK(reap(pids[rank]) == 0, "rank %d failed", rank);
}

static void hold_address(crew *c) {
  unsigned char key[DF_KEY_BYTES], name[DF_NAME_BYTES];
  OK(df_handshake_ready());
  address_of(c, key, name);
  int listener = df_listen_abstract(SOCK_STREAM, name);
  CHECK(listener >= 0, "%s", strerror(-listener));
}

DF_TEST(bootstrap, a_root_that_is_slow_to_leave_is_waited_for, 30) {
  /* A process holds the address, as rank 0 of an earlier job of this key would, and then ends. */
  crew *c = make_crew(true, 3, 1);
  pid_t holder = start_other_process(hold_address, c);
  start_crew(c);
  df_sleep_ms(400);
  for (int i = 0; i < 3; i++) CHECK(code_of(&c->members[i]) == NOT_YET, "member %d returned", i);
  kill(holder, SIGKILL);
  reap(holder);
  reap_crew(c);
  for (int i = 0; i < 3; i++) check_code(c, i, dfcclSuccess);
}

/* ---- Some ranks are wrong ---- */

static void disagree_on_size(bool by_key) {
  crew *c = make_crew(by_key, 3, 1);
  c->members[2].n_ranks = 4;
  c->members[2].turn = 1;
  start_crew(c);
  reap_crew(c);
  check_code(c, 0, dfcclRemoteError);
  check_code(c, 1, dfcclRemoteError);
  check_code(c, 2, dfcclInvalidArgument);
  for (int i = 0; i < 3; i++) {
    check_mentions(&c->members[i], "rank 2");
    check_mentions(&c->members[i], "has 4 ranks");
    check_mentions(&c->members[i], "says 3");
  }
}

DF_TEST(bootstrap, a_different_number_of_ranks_ends_the_join_of_all, 60) {
  disagree_on_size(false);
  disagree_on_size(true);
}

static void claim_twice(bool by_key, int rank) {
  crew *c = make_crew(by_key, 4, 1);
  c->members[3].rank = rank; /* so rank 3 is reported as missing */
  c->members[3].turn = 1;
  start_crew(c);
  reap_crew(c);
  char words[64];
  snprintf(words, sizeof words, "two processes claim rank %d of 4: process %d and process %d", rank,
           c->pids[rank], c->pids[3]);
  for (int i = 0; i < 4; i++) {
    check_code(c, i, i == 3 ? dfcclInvalidArgument : dfcclRemoteError);
    check_mentions(&c->members[i], words);
  }
}

DF_TEST(bootstrap, two_processes_of_one_rank_end_the_join_of_all, 90) {
  claim_twice(false, 1);
  claim_twice(false, 0);
  claim_twice(true, 1);
  claim_twice(true, 0);
}

DF_TEST(bootstrap, a_rank_after_a_failure_gets_the_reason, 30) {
  crew *c = make_crew(false, 3, 1);
  c->members[1].n_ranks = 4;
  c->members[1].turn = 1;
  c->members[2].turn = 2;
  start_crew(c);
  reap_crew(c);
  check_code(c, 2, dfcclRemoteError);
  check_mentions(&c->members[2], "has 4 ranks");
}

static bool leave_ranks_out(int timeout_ms) {
  bool late = false;
  crew *crews[2];
  char words[80];
  snprintf(words, sizeof words, "ranks 1-2 and 4-6 of 7 did not come within %d ms", timeout_ms);
  for (int by_key = 0; by_key <= 1; by_key++) {
    crew *c = crews[by_key] = make_crew(by_key, 2, 1);
    for (int i = 0; i < 2; i++) {
      c->members[i].n_ranks = 7;
      c->members[i].rank = 3 * i;
      c->members[i].timeout_ms = timeout_ms;
    }
    df_quiet_before_fork();
    for (int i = 0; i < 2; i++) start_process(c, i, 120);
  }
  for (int by_key = 0; by_key <= 1; by_key++) open_gate(crews[by_key]);
  for (int by_key = 0; by_key <= 1; by_key++) {
    reap_crew(crews[by_key]);
    for (int i = 0; i < 2; i++) /* one of the two present ranks may be reported as missing too */
      late |= is_late(&crews[by_key]->members[i]) &&
              strstr(crews[by_key]->members[i].sentence, "ranks 1-2 and 4-6") == NULL;
    for (int i = 0; i < 2 && !late; i++) {
      check_code(crews[by_key], i, dfcclTimeout);
      check_mentions(&crews[by_key]->members[i], words);
    }
  }
  return !late;
}

DF_TEST(bootstrap, missing_ranks_are_named_in_time, 120) { IN_GOOD_TIME(ms, leave_ranks_out(ms)); }

/* The join lasts as long as the setting says, and no less: a late rank may still be in time. */
DF_TEST(bootstrap, the_others_have_the_whole_time, 60) {
  for (int by_key = 0; by_key <= 1; by_key++) {
    crew *c = make_crew(by_key, 2, 1);
    c->members[0].n_ranks = c->members[1].n_ranks = 3;
    c->members[0].timeout_ms = c->members[1].timeout_ms = 800;
    start_crew(c);
    uint64_t begin_ns = df_now_ns();
    reap_crew(c);
    for (int i = 0; i < 2; i++) check_code(c, i, dfcclTimeout);
    CHECK(df_now_ns() - begin_ns >= 800 * 1000000ull, "given up early");
  }
}

DF_TEST(bootstrap, a_missing_rank_0_of_a_key_is_named, 30) {
  crew *c = make_crew(true, 1, 1);
  c->members[0].n_ranks = 2;
  c->members[0].rank = 1;
  c->members[0].timeout_ms = 300;
  start_crew(c);
  reap_crew(c);
  check_code(c, 0, dfcclTimeout);
  check_mentions(&c->members[0], "rank 0 of 2 did not come within 300 ms");
}

DF_TEST(bootstrap, invalid_arguments_are_refused, 10) {
  df_peer_info info = info_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  memset(&id, 0, sizeof id);
  RESULT(df_bootstrap_create_id(NULL, NULL), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(NULL, NULL, 1, 0, &info, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, NULL, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, 100, NULL), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, 0, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key(NULL, NULL, "k", 0, 0, &info, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key(NULL, NULL, "k", DF_MAX_RANKS + 1, 0, &info, 100, &mesh),
         dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key(NULL, NULL, "k", 2, -1, &info, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key(NULL, NULL, "k", 2, 2, &info, 100, &mesh), dfcclInvalidArgument);
  CHECK(strstr(df_last_sentence(), "the rank is 2, not 0 to 1") != NULL, "%s", df_last_sentence());
  RESULT(df_bootstrap_join_key(NULL, NULL, "", 1, 0, &info, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key(NULL, NULL, NULL, 1, 0, &info, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, 100, &mesh), dfcclInvalidArgument);
}

DF_TEST(bootstrap, every_damaged_byte_of_an_id_is_noticed, 20) {
  df_peer_info info = info_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  OK(df_bootstrap_create_id(&id, NULL));
  for (size_t i = 0; i < sizeof id; i++) {
    dfcclUniqueId damaged = id;
    damaged.internal[i] ^= 0x10;
    bool version = i >= 8 && i < 12;
    RESULT(df_bootstrap_join(NULL, &damaged, 1, 0, &info, 100, &mesh),
           version ? dfcclInvalidUsage : dfcclInvalidArgument);
  }
  OK(df_bootstrap_join(NULL, &id, 1, 0, &info, LONG_MS, &mesh));
  df_mesh_close(&mesh);
}

DF_TEST(bootstrap, an_id_serves_one_job_only, 20) {
  df_peer_info info = info_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  int threads = df_thread_count();
  OK(df_bootstrap_create_id(&id, NULL));
  OK(df_bootstrap_join(NULL, &id, 1, 0, &info, LONG_MS, &mesh));
  df_mesh_close(&mesh);
  EVENTUALLY(df_thread_count() == threads);
  RESULT(df_bootstrap_join(NULL, &id, 1, 0, &info, LONG_MS, &mesh), dfcclRemoteError);
}

/* ---- A second root ---- */

static const df_network_settings with_secret = {.interfaces = "lo", .has_secret = 1};
enum { TWO_ROOTS_MS = 60000 };

static void *join_as_rank_1(void *key) {
  df_peer_info info = info_of(1);
  df_mesh mesh;
  OK(df_bootstrap_join_key(&with_secret, NULL, key, 2, 1, &info, TWO_ROOTS_MS, &mesh));
  df_mesh_close(&mesh);
  return NULL;
}

static void *enter(void *rank_0) {
  dfcclResult_t result;
  EVENTUALLY((result = df_rendezvous_enter(rank_0)) != dfcclInProgress);
  OK(result);
  return NULL;
}

/* The root receives the listeners of rank 1, since rank 0 reports that it is on another host. */
static void vanish_after_place(const crew *c) {
  df_root_options options = {.listener = -1,
                             .users_listener = -1,
                             .same_user_only = true,
                             .n_ranks = 2,
                             .idle_ms = TWO_ROOTS_MS};
  df_rendezvous *rank_0 = calloc(1, sizeof *rank_0);
  pthread_t thread;
  *rank_0 = (df_rendezvous){.n_ranks = 2,
                            .fd = -1,
                            .timeout_ms = TWO_ROOTS_MS,
                            .deadline_ns = UINT64_MAX,
                            .network = &with_secret,
                            .by_key = true,
                            .is_near = true,
                            .own = {.host = df_host_identity() ^ 1}};
  address_of(c, rank_0->key, rank_0->name);
  df_key_from_text_and_secret(rank_0->key, c->key, with_secret.secret);
  df_tag_from_text(rank_0->tag, c->key);
  memcpy(options.key, rank_0->key, sizeof options.key);
  memcpy(options.tag, rank_0->tag, sizeof options.tag);
  options.listener = df_listen_abstract(SOCK_STREAM, rank_0->name);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  df_root *root = df_root_create(&options);
  CHECK(pthread_create(&thread, NULL, enter, rank_0) == 0, "no thread");
  while (root->n_placed == 0) CHECK(df_root_step(root, 100), "the root has ended");
  pthread_join(thread, NULL);
  df_root_destroy(root);
  df_socket_close(&rank_0->fd);
  free(rank_0);
}

/* The first root ends when rank 1 has sent its listeners; the second root requests no listeners. */
DF_TEST(bootstrap, messages_to_an_earlier_root_have_no_effect, 60) {
  crew *c = make_crew(true, 2, 2);
  df_peer_info info = info_of(0);
  df_mesh mesh;
  pthread_t thread;
  OK(df_handshake_ready());
  CHECK(pthread_create(&thread, NULL, join_as_rank_1, c->key) == 0, "no thread");
  vanish_after_place(c);
  OK(df_bootstrap_join_key(&with_secret, NULL, c->key, 2, 0, &info, TWO_ROOTS_MS, &mesh));
  pthread_join(thread, NULL);
  df_mesh_close(&mesh);
}
