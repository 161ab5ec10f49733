/*
 * Promises of src/host/bootstrap.h:
 *   - All ranks get every card and a socket to each rank of another process, whoever comes first,
 *     however they are spread over processes and threads, by id and by key.
 *   - Or none does: a wrong, missing, failing or killed rank ends the join of all others with a
 *     sentence that names it, long before the timeout unless nobody can know earlier.
 *   - A stranger who connects learns nothing, and neither silence nor nonsense delays the job.
 *   - Nothing stays behind: no descriptor, no thread, no address, not even after SIGKILL.
 */
#include "host/bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/handshake.h"
#include "host/process.h"
#include "host/rendezvous.h"
#include "host/rendezvous_root.h"
#include "host/sockets.h"
#include "support/harness.h"
#include "support/leftovers.h"

#if defined(__SANITIZE_ADDRESS__)
#define LEAK_CHECK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAK_CHECK 1
#endif
#endif
#ifdef LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif

enum { CREW_MAX = 64, LONG_MS = 100000, NOT_YET = -1 };

/* ---- A crew: ranks spread over processes, each with an outcome in shared memory ---- */

typedef struct {
  /* in */
  int n_ranks, rank, timeout_ms, delay_ms;
  int descriptors; /* 0, or how many its process may add */
  bool mute;       /* does not try its sockets */
  /* out */
  int code; /* NOT_YET until the join has returned */
  char sentence[DF_SENTENCE_BYTES];
  unsigned char job[16];
  double seconds;
} member;

typedef struct {
  char key[64]; /* "": by id */
  dfcclUniqueId id;
  int n;           /* members */
  int per_process; /* members of one process, each in a thread */
  int gate;        /* members wait until it is 1 */
  pid_t pids[CREW_MAX];
  member members[CREW_MAX];
} crew;

/* Zeroed memory that forked children share; never freed. */
static void *shared_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap: %s", strerror(errno));
  return memory;
}

static crew *make_crew(bool by_key, int n, int per_process) {
  static int jobs;
  crew *c = shared_memory(sizeof *c);
  c->n = n;
  c->per_process = per_process;
  if (by_key) snprintf(c->key, sizeof c->key, "test %d of process %d", ++jobs, (int)getpid());
  for (int i = 0; i < n; i++)
    c->members[i] =
        (member){.n_ranks = n, .rank = i, .timeout_ms = LONG_MS, .code = NOT_YET, .sentence = ""};
  return c;
}

static df_card card_of(int rank) {
  df_card card;
  memset(&card, 'a' + rank % 26, sizeof card);
  memcpy(card.bytes, &rank, sizeof rank);
  return card;
}

static dfcclResult_t join_crew(const crew *c, const member *m, df_mesh *mesh) {
  df_card card = card_of(m->rank);
  if (c->key[0] != '\0')
    return df_bootstrap_join_key(c->key, m->n_ranks, m->rank, &card, m->timeout_ms, mesh);
  return df_bootstrap_join(&c->id, m->n_ranks, m->rank, &card, m->timeout_ms, mesh);
}

static void check_socket(int fd, int rank) {
  int type, domain;
  socklen_t bytes = sizeof type;
  CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK, "the socket to rank %d blocks", rank);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "the socket to rank %d survives exec", rank);
  CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0, "%s", strerror(errno));
  CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0, "%s", strerror(errno));
  CHECK(type == SOCK_SEQPACKET && domain == AF_UNIX, "type %d, domain %d", type, domain);
}

/* Everybody tells everybody its rank: each socket leads where it says, and carries nothing else. */
static void talk(const df_mesh *mesh) {
  for (int rank = 0; rank < mesh->n_ranks; rank++)
    if (mesh->sockets[rank] >= 0)
      CHECK(send(mesh->sockets[rank], &mesh->rank, sizeof(int), 0) == sizeof(int), "to rank %d: %s",
            rank, strerror(errno));
  for (int rank = 0; rank < mesh->n_ranks; rank++) {
    if (mesh->sockets[rank] < 0) continue;
    int said[2] = {-1, -1};
    ssize_t got;
    EVENTUALLY((got = recv(mesh->sockets[rank], said, sizeof said, 0)) >= 0 || errno != EAGAIN);
    CHECK(got == sizeof(int) && said[0] == rank, "%zd bytes, rank %d instead of %d", got, said[0],
          rank);
  }
}

static void check_mesh(const crew *c, const member *m, const df_mesh *mesh) {
  CHECK(mesh->n_ranks == m->n_ranks && mesh->rank == m->rank, "rank %d of %d", mesh->rank,
        mesh->n_ranks);
  for (int rank = 0; rank < mesh->n_ranks; rank++) {
    df_card card = card_of(rank);
    bool here = rank / c->per_process == m->rank / c->per_process;
    CHECK(memcmp(&mesh->cards[rank], &card, sizeof card) == 0, "the card of rank %d", rank);
    CHECK(mesh->local[rank] == here, "rank %d: local is %d", rank, mesh->local[rank]);
    CHECK((mesh->sockets[rank] < 0) == here, "rank %d: socket %d", rank, mesh->sockets[rank]);
    if (mesh->sockets[rank] >= 0) check_socket(mesh->sockets[rank], rank);
  }
  if (!m->mute) talk(mesh);
}

static const crew *current_crew; /* of this process */

static void *run_member(void *argument) {
  member *m = argument;
  df_mesh mesh;
  memset(&mesh, 0, sizeof mesh);
  if (m->delay_ms > 0) df_sleep_ms(m->delay_ms);
  double begin = df_seconds();
  dfcclResult_t code = join_crew(current_crew, m, &mesh);
  m->seconds = df_seconds() - begin;
  if (code == dfcclSuccess) {
    check_mesh(current_crew, m, &mesh);
    memcpy(m->job, mesh.job, sizeof m->job);
  } else {
    CHECK(mesh.sockets == NULL && mesh.cards == NULL, "a mesh in spite of the failure");
    snprintf(m->sentence, sizeof m->sentence, "%s", df_last_sentence());
  }
  df_mesh_close(&mesh);
  df_mesh_close(&mesh);
  __atomic_store_n(&m->code, (int)code, __ATOMIC_RELEASE);
  return NULL;
}

/* The limit that leaves so many free descriptors. */
static rlim_t descriptors_up_to(int count) {
  int taken[64], last = 0;
  CHECK(count <= 64, "%d descriptors", count);
  for (int i = 0; i < count; i++) {
    taken[i] = dup(0);
    CHECK(taken[i] >= 0, "%s", strerror(errno));
    last = taken[i];
  }
  for (int i = 0; i < count; i++) close(taken[i]);
  return (rlim_t)last + 1;
}

static void run_process(crew *c, int first) {
  pthread_t threads[CREW_MAX];
  int end = first + c->per_process < c->n ? first + c->per_process : c->n;
  current_crew = c;
  EVENTUALLY(__atomic_load_n(&c->gate, __ATOMIC_ACQUIRE) == 1);
  int descriptors = df_descriptor_count();
  if (c->members[first].descriptors > 0) {
    rlim_t most = descriptors_up_to(c->members[first].descriptors);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0, "%s", strerror(errno));
  }
  for (int i = first; i < end; i++)
    CHECK(pthread_create(&threads[i], NULL, run_member, &c->members[i]) == 0, "no thread");
  for (int i = first; i < end; i++) pthread_join(threads[i], NULL);
  if (c->members[first].descriptors == 0)
    CHECK(df_descriptor_count() == descriptors, "%d descriptors before, %d after", descriptors,
          df_descriptor_count());
}

/* Forking while another thread allocates can leave AddressSanitizer's allocator locked in the child
 * for ever, and a thread that has just been started (the watchdog) does. */
static void be_quiet(void) {
  if (df_slowdown() > 1) df_sleep_ms(20);
}

static pid_t start_process(crew *c, int first, double seconds) {
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid == 0) {
    df_watchdog_start("a process of the crew", seconds);
    run_process(c, first);
    df_watchdog_stop();
#ifdef LEAK_CHECK
    if (__lsan_do_recoverable_leak_check() != 0) _exit(2);
#endif
    _exit(0);
  }
  df_watch_child(pid);
  for (int i = first; i < first + c->per_process && i < c->n; i++) c->pids[i] = pid;
  return pid;
}

/* Makes the id, if it is to be one, only now: its root's thread must not run while we fork. */
static void open_gate(crew *c) {
  if (c->key[0] == '\0' && c->id.internal[0] == '\0') OK(df_bootstrap_create_id(&c->id));
  __atomic_store_n(&c->gate, 1, __ATOMIC_RELEASE);
}

static void start_crew(crew *c) {
  be_quiet();
  for (int first = 0; first < c->n; first += c->per_process) start_process(c, first, 60);
  open_gate(c);
}

static int reap(pid_t pid) {
  int status = 0;
  df_waiting_for("a process of the crew");
  CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
  df_waiting_for(NULL);
  df_unwatch_child(pid);
  return status;
}

static void reap_crew(crew *c) {
  for (int first = 0; first < c->n; first += c->per_process)
    CHECK(reap(c->pids[first]) == 0, "the process of member %d failed", first);
}

static int code_of(const member *m) { return __atomic_load_n(&m->code, __ATOMIC_ACQUIRE); }

static void check_code(const crew *c, int index, dfcclResult_t expected) {
  const member *m = &c->members[index];
  CHECK(m->code == (int)expected, "member %d: %s instead of %s: %s", index,
        m->code == NOT_YET ? "nothing" : df_result_name((dfcclResult_t)m->code),
        df_result_name(expected), m->sentence);
}

static void check_mentions(const member *m, const char *words) {
  CHECK(strstr(m->sentence, words) != NULL, "rank %d does not mention \"%s\": %s", m->rank, words,
        m->sentence);
}

/* Far less than the timeout of LONG_MS. */
static void check_prompt(const member *m) {
  CHECK(m->seconds < LONG_MS / 4000.0, "rank %d waited for %.1f s", m->rank, m->seconds);
}

/* Runs prepare in a process that then stays until it is killed; returns when it is prepared. */
static pid_t start_helper(void (*prepare)(crew *c), crew *c) {
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0, "%s", strerror(errno));
  fflush(NULL);
  be_quiet();
  pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid == 0) {
    df_watchdog_start("a helper", 60);
    prepare(c);
    CHECK(write(ready[1], "", 1) == 1, "%s", strerror(errno));
    for (;;) pause();
  }
  df_watch_child(pid);
  CHECK(read(ready[0], &byte, 1) == 1, "the helper failed");
  close(ready[0]);
  close(ready[1]);
  return pid;
}

/* ---- All meet ---- */

static void meet(bool by_key, int n, int per_process) {
  int sockets = df_unix_socket_count();
  crew *c = make_crew(by_key, n, per_process);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < n; i++) {
    check_code(c, i, dfcclSuccess);
    CHECK(memcmp(c->members[i].job, c->members[0].job, 16) == 0, "rank %d has another job", i);
  }
  EVENTUALLY(df_unix_socket_count() <= sockets);
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
  c->members[late].delay_ms = 300;
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
  be_quiet();
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) {
      df_watchdog_start("a rank of many jobs", 50);
      for (int job = 0; job < JOBS; job++) {
        df_mesh mesh;
        df_card card = card_of(rank);
        OK(df_bootstrap_join_key(key, RANKS, rank, &card, LONG_MS, &mesh));
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

static void hold_address(crew *c) {
  unsigned char key[DF_KEY_BYTES], name[DF_NAME_BYTES];
  OK(df_handshake_ready());
  df_key_from_text(key, c->key, (uint32_t)geteuid());
  df_derive(name, sizeof name, key, "dfccl address", NULL, 0, NULL, 0);
  int listener = df_listen_abstract(SOCK_STREAM, name);
  CHECK(listener >= 0, "%s", strerror(-listener));
}

DF_TEST(bootstrap, a_root_that_is_slow_to_leave_is_waited_for, 30) {
  /* A process holds the address, as rank 0 of an earlier job of this key would, and then goes. */
  crew *c = make_crew(true, 3, 1);
  pid_t holder = start_helper(hold_address, c);
  start_crew(c);
  df_sleep_ms(400);
  for (int i = 0; i < 3; i++) CHECK(code_of(&c->members[i]) == NOT_YET, "member %d returned", i);
  kill(holder, SIGKILL);
  reap(holder);
  reap_crew(c);
  for (int i = 0; i < 3; i++) check_code(c, i, dfcclSuccess);
}

/* ---- Some are wrong ---- */

static void disagree_on_size(bool by_key) {
  crew *c = make_crew(by_key, 3, 1);
  c->members[2].n_ranks = 4;
  c->members[2].delay_ms = 300;
  start_crew(c);
  reap_crew(c);
  check_code(c, 0, dfcclRemoteError);
  check_code(c, 1, dfcclRemoteError);
  check_code(c, 2, dfcclInvalidArgument);
  for (int i = 0; i < 3; i++) {
    check_mentions(&c->members[i], "rank 2");
    check_mentions(&c->members[i], "has 4 ranks");
    check_mentions(&c->members[i], "says 3");
    check_prompt(&c->members[i]);
  }
}

DF_TEST(bootstrap, a_different_number_of_ranks_ends_the_join_of_all, 60) {
  disagree_on_size(false);
  disagree_on_size(true);
}

static void claim_twice(bool by_key, int rank) {
  crew *c = make_crew(by_key, 4, 1);
  c->members[3].rank = rank; /* so rank 3 is missing */
  c->members[3].delay_ms = 300;
  start_crew(c);
  reap_crew(c);
  char words[64];
  snprintf(words, sizeof words, "two processes claim rank %d of 4: process %d and process %d", rank,
           c->pids[rank], c->pids[3]);
  for (int i = 0; i < 4; i++) {
    check_code(c, i, i == 3 ? dfcclInvalidArgument : dfcclRemoteError);
    check_mentions(&c->members[i], words);
    check_prompt(&c->members[i]);
  }
}

DF_TEST(bootstrap, two_processes_of_one_rank_end_the_join_of_all, 90) {
  claim_twice(false, 1);
  claim_twice(false, 0);
  claim_twice(true, 1);
  claim_twice(true, 0);
}

DF_TEST(bootstrap, who_comes_after_a_failure_is_told_why, 30) {
  crew *c = make_crew(false, 3, 1);
  c->members[1].n_ranks = 4;
  c->members[1].delay_ms = 200;
  c->members[2].delay_ms = 500;
  start_crew(c);
  reap_crew(c);
  check_code(c, 2, dfcclRemoteError);
  check_mentions(&c->members[2], "has 4 ranks");
}

DF_TEST(bootstrap, missing_ranks_are_named_in_time, 60) {
  for (int by_key = 0; by_key <= 1; by_key++) {
    crew *c = make_crew(by_key, 2, 1);
    for (int i = 0; i < 2; i++) {
      c->members[i].n_ranks = 7;
      c->members[i].rank = 3 * i;
      c->members[i].timeout_ms = 2000;
    }
    start_crew(c);
    reap_crew(c);
    for (int i = 0; i < 2; i++) {
      check_code(c, i, dfcclTimeout);
      check_mentions(&c->members[i], "ranks 1-2 and 4-6 of 7 did not come");
    }
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

DF_TEST(bootstrap, senseless_arguments_are_refused, 10) {
  df_card card = card_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  memset(&id, 0, sizeof id);
  RESULT(df_bootstrap_create_id(NULL), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(NULL, 1, 0, &card, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(&id, 1, 0, NULL, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, 100, NULL), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, 0, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key("k", 0, 0, &card, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key("k", DF_MAX_RANKS + 1, 0, &card, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key("k", 2, -1, &card, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key("k", 2, 2, &card, 100, &mesh), dfcclInvalidArgument);
  CHECK(strstr(df_last_sentence(), "the rank is 2, not 0 to 1") != NULL, "%s", df_last_sentence());
  RESULT(df_bootstrap_join_key("", 1, 0, &card, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join_key(NULL, 1, 0, &card, 100, &mesh), dfcclInvalidArgument);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, 100, &mesh), dfcclInvalidArgument);
}

DF_TEST(bootstrap, every_damaged_byte_of_an_id_is_noticed, 20) {
  df_card card = card_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  OK(df_bootstrap_create_id(&id));
  for (size_t i = 0; i < sizeof id; i++) {
    dfcclUniqueId damaged = id;
    damaged.internal[i] ^= 0x10;
    bool version = i >= 8 && i < 12;
    RESULT(df_bootstrap_join(&damaged, 1, 0, &card, 100, &mesh),
           version ? dfcclInvalidUsage : dfcclInvalidArgument);
  }
  OK(df_bootstrap_join(&id, 1, 0, &card, LONG_MS, &mesh));
  df_mesh_close(&mesh);
}

DF_TEST(bootstrap, an_id_serves_one_job_only, 20) {
  df_card card = card_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  int threads = df_thread_count();
  OK(df_bootstrap_create_id(&id));
  OK(df_bootstrap_join(&id, 1, 0, &card, LONG_MS, &mesh));
  df_mesh_close(&mesh);
  EVENTUALLY(df_thread_count() == threads);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, LONG_MS, &mesh), dfcclRemoteError);
}

/* ---- Some die ---- */

static void kill_while_collecting(bool by_key, int victim) {
  crew *c = make_crew(by_key, 3, 1);
  c->n = 4; /* rank 3 never comes */
  for (int i = 0; i < 3; i++) c->members[i].n_ranks = 4;
  be_quiet();
  for (int i = 0; i < 3; i++) start_process(c, i, 60);
  open_gate(c);
  df_sleep_ms(300);
  for (int i = 0; i < 3; i++) CHECK(code_of(&c->members[i]) == NOT_YET, "member %d returned", i);
  kill(c->pids[victim], SIGKILL);
  for (int i = 0; i < 3; i++) reap(c->pids[i]);
  char words[32];
  snprintf(words, sizeof words, "rank %d ", victim);
  for (int i = 0; i < 3; i++) {
    if (i == victim) continue;
    check_code(c, i, dfcclRemoteError);
    check_mentions(&c->members[i], words);
    check_mentions(&c->members[i], "died");
    check_prompt(&c->members[i]);
  }
}

DF_TEST(bootstrap, a_rank_killed_while_others_wait_is_named_at_once, 60) {
  kill_while_collecting(false, 0);
  kill_while_collecting(false, 2);
  kill_while_collecting(true, 1);
  kill_while_collecting(true, 0);
}

/* What a survivor may see: the victim was up before it died, or is named. */
static void check_survivor(const crew *c, int index, int victim) {
  const member *m = &c->members[index];
  char words[32];
  snprintf(words, sizeof words, "rank %d ", victim);
  if (code_of(m) == dfcclSuccess) return;
  /* Who comes so late that rank 0 has given up, and said so for a while, finds nobody. */
  if (m->code == dfcclTimeout && c->key[0] != '\0' && strstr(m->sentence, "rank 0 of 6 did not"))
    return;
  CHECK(m->code == dfcclRemoteError || m->code == dfcclTimeout, "member %d: %s: %s", index,
        df_result_name((dfcclResult_t)m->code), m->sentence);
  check_mentions(m, words);
}

DF_TEST(bootstrap, a_rank_killed_at_any_moment_hangs_nobody, 120) {
  int sockets = df_unix_socket_count(), told = 0;
  df_random random = {20240611};
  for (int round = 0; round < 24; round++) {
    crew *c = make_crew(round % 2, 6, 1);
    for (int i = 0; i < 6; i++) {
      c->members[i].timeout_ms = 4000; /* who never came is missed late */
      c->members[i].mute = true;       /* the dead do not answer */
    }
    start_crew(c);
    int victim = df_random_below(&random, 6);
    usleep((useconds_t)df_random_below(&random, 8000));
    kill(c->pids[victim], SIGKILL);
    for (int i = 0; i < 6; i++) {
      int status = reap(c->pids[i]);
      CHECK(i == victim || status == 0, "the process of rank %d failed", i);
      if (i != victim) check_survivor(c, i, victim);
      told += i != victim && code_of(&c->members[i]) > dfcclSuccess;
    }
  }
  fprintf(stderr, "%d of 120 survivors were told\n", told);
  EVENTUALLY(df_unix_socket_count() <= sockets);
}

static void make_id(crew *c) { OK(df_bootstrap_create_id(&c->id)); }

DF_TEST(bootstrap, the_death_of_an_ids_maker_is_noticed, 30) {
  crew *c = make_crew(false, 2, 1);
  pid_t maker = start_helper(make_id, c);
  c->members[0].n_ranks = c->members[1].n_ranks = 3;
  start_crew(c);
  df_sleep_ms(300);
  kill(maker, SIGKILL);
  reap(maker);
  reap_crew(c);
  for (int i = 0; i < 2; i++) {
    check_code(c, i, dfcclRemoteError);
    check_mentions(&c->members[i], "the process that made the unique id died");
    check_prompt(&c->members[i]);
  }
}

DF_TEST(bootstrap, a_rank_that_cannot_go_on_tells_the_others, 60) {
  for (int by_key = 0; by_key <= 1; by_key++) {
    crew *c = make_crew(by_key, 24, 1);
    c->members[23].descriptors = 10;
    start_crew(c);
    for (int i = 0; i < 24; i++) reap(c->pids[i]);
    check_code(c, 23, dfcclOutOfMemory);
    check_mentions(&c->members[23], "Too many open files");
    for (int i = 0; i < 23; i++) {
      check_code(c, i, dfcclRemoteError);
      check_mentions(&c->members[i], "rank 23");
      check_mentions(&c->members[i], "Too many open files");
      check_prompt(&c->members[i]);
    }
  }
}

DF_TEST(bootstrap, a_rank_that_makes_no_connections_is_named, 30) {
  crew *c = make_crew(false, 3, 1);
  for (int i = 0; i < 3; i++) c->members[i].timeout_ms = 4000;
  be_quiet();
  start_process(c, 0, 60);
  start_process(c, 2, 60);
  open_gate(c);
  /* Rank 1 is counted in and then sits still, its listener open. */
  df_rendezvous *r = calloc(1, sizeof *r);
  unsigned char secret[DF_SECRET_BYTES];
  *r = (df_rendezvous){.n_ranks = 3, .rank = 1, .fd = -1, .timeout_ms = LONG_MS};
  r->deadline_ns = UINT64_MAX;
  OK(df_id_read(&c->id, &r->port, secret));
  df_key_from_secret(r->key, secret);
  int listener = df_listen_abstract(SOCK_SEQPACKET, r->own.name);
  CHECK(listener >= 0, "%s", strerror(-listener));
  OK(df_rendezvous_enter(r));
  OK(df_rendezvous_table(r));
  reap(c->pids[0]);
  reap(c->pids[2]);
  for (int i = 0; i < 3; i += 2) {
    check_code(c, i, dfcclTimeout);
    check_mentions(&c->members[i], "no connection between rank ");
    check_mentions(&c->members[i], " and rank 1 within");
  }
  close(listener);
  close(r->fd);
  free(r->records);
  free(r);
}

/* ---- Strangers ---- */

static uint16_t port_of(const crew *c) {
  uint16_t port;
  unsigned char secret[DF_SECRET_BYTES];
  OK(df_id_read(&c->id, &port, secret));
  return port;
}

static int call_root(uint16_t port) {
  int fd = df_connect_loopback(port);
  CHECK(fd >= 0, "%s", strerror(-fd));
  CHECK(df_socket_wait(fd, POLLOUT, UINT64_MAX) == 1 && df_socket_error(fd) == 0, "no connection");
  return fd;
}

static void call_and_be_silent(crew *c) {
  enum { STRANGERS = 700 };
  for (int i = 0; i < STRANGERS; i++) call_root(port_of(c));
}

DF_TEST(bootstrap, silent_strangers_delay_nobody, 60) {
  crew *c = make_crew(false, 4, 1);
  OK(df_bootstrap_create_id(&c->id));
  pid_t strangers = start_helper(call_and_be_silent, c);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 4; i++) {
    check_code(c, i, dfcclSuccess);
    check_prompt(&c->members[i]);
  }
  kill(strangers, SIGKILL);
  reap(strangers);
}

DF_TEST(bootstrap, nonsense_gets_no_answer, 60) {
  df_random random = {7};
  crew *c = make_crew(false, 2, 1);
  OK(df_bootstrap_create_id(&c->id));
  for (int i = 0; i < 100; i++) {
    unsigned char bytes[600];
    char answer[16];
    int fd = call_root(port_of(c));
    size_t length = (size_t)(16 + df_random_below(&random, (int)sizeof bytes - 16));
    for (size_t k = 0; k < length; k++) bytes[k] = (unsigned char)df_random_next(&random);
    CHECK(send(fd, bytes, length, MSG_NOSIGNAL) > 0, "%s", strerror(errno));
    CHECK(df_socket_wait(fd, POLLIN, UINT64_MAX) == 1, "no end");
    CHECK(recv(fd, answer, sizeof answer, 0) <= 0, "a stranger got an answer");
    close(fd);
  }
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 2; i++) check_code(c, i, dfcclSuccess);
}

DF_TEST(bootstrap, a_rank_without_the_secret_is_not_counted, 30) {
  crew *c = make_crew(false, 2, 1);
  OK(df_bootstrap_create_id(&c->id));
  df_rendezvous *r = calloc(1, sizeof *r);
  *r = (df_rendezvous){.n_ranks = 2, .rank = 0, .fd = -1, .timeout_ms = LONG_MS};
  r->deadline_ns = UINT64_MAX;
  r->port = port_of(c);
  memset(r->key, 1, sizeof r->key);
  RESULT(df_rendezvous_enter(r), dfcclRemoteError); /* the root's proof is wrong for it */
  CHECK(strstr(df_last_sentence(), "is not the root of this unique id") != NULL, "%s",
        df_last_sentence());
  free(r);
  start_crew(c);
  reap_crew(c);
  for (int i = 0; i < 2; i++) check_code(c, i, dfcclSuccess);
}

DF_TEST(bootstrap, a_stranger_in_place_of_the_root_is_found_out, 30) {
  uint16_t port;
  df_card card = card_of(0);
  df_mesh mesh;
  dfcclUniqueId id;
  unsigned char secret[DF_SECRET_BYTES] = {1, 2, 3};
  OK(df_handshake_ready());
  int listener = df_listen_loopback(&port);
  df_id_write(&id, port, secret);
  fflush(NULL);
  be_quiet();
  pid_t stranger = fork();
  if (stranger == 0) {
    df_challenge lie;
    CHECK(df_socket_wait(listener, POLLIN, UINT64_MAX) == 1, "nobody came");
    int fd = df_accept(listener);
    df_message_start(&lie, DF_MESSAGE_CHALLENGE, sizeof lie);
    CHECK(send(fd, &lie, sizeof lie, 0) == sizeof lie, "%s", strerror(errno));
    for (;;) pause();
  }
  df_watch_child(stranger);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, LONG_MS, &mesh), dfcclRemoteError);
  kill(stranger, SIGKILL);
  reap(stranger);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, 200, &mesh), dfcclTimeout); /* a silent one */
  close(listener);
  RESULT(df_bootstrap_join(&id, 1, 0, &card, LONG_MS, &mesh), dfcclRemoteError);
  CHECK(strstr(df_last_sentence(), "nobody answers at 127.0.0.1") != NULL, "%s",
        df_last_sentence());
}

DF_TEST(bootstrap, an_id_that_nobody_uses_comes_to_its_end, 30) {
  int threads = df_thread_count(), descriptors = df_descriptor_count();
  uint16_t port;
  df_root_options options = {.idle_ms = 50};
  OK(df_handshake_ready());
  options.listener = df_listen_loopback(&port);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  OK(df_root_start(&options, NULL));
  EVENTUALLY(df_thread_count() == threads);
  CHECK(df_descriptor_count() == descriptors, "%d descriptors", df_descriptor_count());
}

/* ---- Processes ---- */

DF_TEST(bootstrap, a_forked_child_is_another_process, 10) {
  unsigned char *tokens = shared_memory(3 * DF_TOKEN_BYTES);
  OK(df_handshake_ready());
  df_process_token(tokens);
  fflush(NULL);
  be_quiet();
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

DF_TEST(bootstrap, a_forked_child_does_not_hold_the_address, 20) {
  uint16_t port;
  OK(df_handshake_ready());
  df_root_options options = {.idle_ms = 100};
  options.listener = df_listen_loopback(&port);
  CHECK(options.listener >= 0, "%s", strerror(-options.listener));
  df_root *root;
  OK(df_root_start(&options, &root));
  fflush(NULL);
  be_quiet();
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
