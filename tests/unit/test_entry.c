/*
 * Promise: a process that cannot join a job is refused within its DFCCL_INIT_TIMEOUT_MS, with the
 * reason: the secret of another job, a job without a free number, another process that joins. A
 * newcomer may end at any step of its entry, and more than one may call at once. The job notices
 * none of that, and a later newcomer joins.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/entry.h"
#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/sockets.h"
#include "support/processes.h"

enum { MOST = 4, BEFORE = 1, AFTER = 2, DONE = 1 << MOST };

typedef struct {
  atomic_int lost, has_id, ends;
  dfcclUniqueId id, other_id;
} stage;

static stage *scene;
static int self, n_ranks;
static unsigned victims; /* ranks that die before newcomers come */
static atomic_int lost_seen, joined_seen, status;

static void told(dfcclContext_t ctx, const dfcclMembership_t *m, void *arg) {
  (void)ctx;
  (void)arg;
  atomic_fetch_add(&lost_seen, m->nLost);
  atomic_fetch_add(&joined_seen, m->nJoined);
}

static dfcclConfig_t configure(void) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.survive = 1;
  config.membership = told;
  return config;
}

/* Sums the bits of the ranks, and DONE for each of them that is done. */
static int32_t sum(dfcclContext_t ctx, dfcclCollId_t id, int is_done) {
  int32_t send = (1 << self) + (is_done ? DONE : 0), recv = 0;
  OK(dfcclRunAllReduce(ctx, id, &send, &recv, NULL, NULL));
  OK(dfcclWait(ctx, id));
  return recv;
}

static void admitted(dfcclContext_t ctx, dfcclResult_t result, void *arg) {
  (void)ctx;
  (void)arg;
  atomic_store(&status, 1 + (int)result);
}

static void admit(dfcclContext_t ctx) {
  atomic_store(&status, 0);
  OK(dfcclAdmit(ctx, admitted, NULL));
  EVENTUALLY(atomic_load(&status) != 0);
  RESULT((dfcclResult_t)(atomic_load(&status) - 1), dfcclSuccess);
}

static void run_together(dfcclContext_t ctx) {
  OK(dfcclRegisterAllReduce(ctx, AFTER, 1, dfcclInt32, dfcclSum, NULL));
  CHECK(sum(ctx, AFTER, 0) == (1 << n_ranks) - 1, "a rank is missing");
}

/* The members run until the test ends that, and nothing changes meanwhile. Then they take newcomers
 * in, one for each victim. */
static void be_member(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const dfcclConfig_t config = configure();
  const int n_victims = __builtin_popcount(victims);
  (void)arg;
  self = rank;
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  OK(dfcclRegisterAllReduce(ctx, BEFORE, 1, dfcclInt32, dfcclSum, NULL));
  CHECK(sum(ctx, BEFORE, 0) == (1 << ranks) - 1, "a rank is missing");
  if (victims >> rank & 1) {
    EVENTUALLY(atomic_load(&scene->lost) == ranks - n_victims);
    raise(SIGKILL);
  }
  atomic_fetch_add(&scene->lost, 1);
  EVENTUALLY(atomic_load(&lost_seen) == n_victims);
  if (rank == 0) OK(dfcclGetJoinId(ctx, &scene->other_id));
  if (rank == ranks - 1) OK(dfcclGetJoinId(ctx, &scene->id));
  if (rank == 0 || rank == ranks - 1) atomic_fetch_add(&scene->has_id, 1);
  const int32_t members = (1 << ranks) - 1 - (int32_t)victims;
  for (int32_t all = 0; all < DONE; usleep(1000)) {
    all = sum(ctx, BEFORE, rank == 0 && atomic_load(&scene->ends));
    CHECK(all % DONE == members, "ranks %x take part", (unsigned)all);
  }
  CHECK(atomic_load(&joined_seen) == 0 && atomic_load(&lost_seen) == n_victims,
        "the job has noticed a process that has not joined");
  for (int k = 0; k < n_victims; k++) admit(ctx);
  run_together(ctx);
  df_finish(ctx);
}

static void begin(df_family *family, int ranks, unsigned set) {
  scene = df_shared(sizeof *scene);
  n_ranks = ranks;
  victims = set;
  df_fork(family, ranks, 80, be_member, NULL);
  EVENTUALLY(atomic_load(&scene->has_id) == 2);
}

static void end_job(df_family *family) {
  for (int r = 0; r < n_ranks; r++) {
    const int ended = df_reap(family, r);
    CHECK(ended == 0 || (victims >> r & 1 && WIFSIGNALED(ended)), "rank %d ended with status %d", r,
          ended);
  }
}

static pid_t start(void (*newcomer)(void)) { return df_start_process(newcomer, 70); }

static void join(void) {
  const dfcclConfig_t config = configure();
  dfcclMembership_t m = DFCCL_MEMBERSHIP_INITIALIZER;
  dfcclContext_t ctx = NULL;
  OK(dfcclJoin(&ctx, &scene->id, &config));
  OK(dfcclGetRank(ctx, &self, NULL));
  CHECK(victims >> self & 1, "the newcomer is rank %d", self);
  df_watch(ctx);
  OK(dfcclGetMembership(ctx, &m));
  for (int k = m.nMembers; k < n_ranks; k++) admit(ctx);
  run_together(ctx);
  df_finish(ctx);
}

/* Fails within the timeout. The sentence has one of the parts. */
static void fail_to_join(const dfcclUniqueId *id, dfcclResult_t wanted, const char *timeout_ms,
                         const char *part, const char *other_part) {
  const dfcclConfig_t config = configure();
  dfcclContext_t ctx = NULL;
  setenv("DFCCL_INIT_TIMEOUT_MS", timeout_ms, 1);
  const dfcclResult_t result = dfcclJoin(&ctx, id, &config);
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(result == wanted &&
            (strstr(sentence, part) || (other_part && strstr(sentence, other_part))),
        "%s: \"%s\", without \"%s\"", df_test_result_name(result), sentence, part);
  CHECK(ctx == NULL, "ctx was set");
}

/* ---- refusals */

/* The address of a member of this job, and the secret of another entrance. */
static void forge(void) {
  df_entrance entrance, other;
  dfcclUniqueId id;
  OK(df_entrance_read(&scene->id, &entrance));
  OK(df_entrance_read(&scene->other_id, &other));
  memcpy(entrance.secret, other.secret, sizeof entrance.secret);
  df_entrance_write(&id, &entrance);
  fail_to_join(&id, dfcclInvalidArgument, "30000", "the id has the secret of another job", NULL);
}

/* The entrance of a process that is no member of a job: nobody has its secret. */
static void call_stranger(void) {
  df_entrance entrance;
  dfcclUniqueId id;
  OK(df_entrance_read(&scene->id, &entrance));
  memset(entrance.name, 1, sizeof entrance.name);
  df_entrance_write(&id, &entrance);
  fail_to_join(&id, dfcclRemoteError, "30000", "nobody answers at the address of the id", NULL);
}

static void find_no_number(void) {
  fail_to_join(&scene->id, dfcclTimeout, "3000", "all 3 ranks of the job are members", NULL);
}

DF_TEST(entry, refusals, 90) {
  df_family family;
  begin(&family, 3, 0);
  df_end_process(start(forge), 0);
  df_end_process(start(call_stranger), 0);
  df_end_process(start(find_no_number), 0);
  atomic_store(&scene->ends, 1);
  end_job(&family);
}

/* ---- newcomers that end on their way */

static void hang_up(void) {
  df_entrance entrance;
  OK(df_entrance_read(&scene->id, &entrance));
  CHECK(df_connect_abstract(SOCK_SEQPACKET, entrance.name) >= 0, "no entrance");
  raise(SIGKILL);
}

static void send_half(void) {
  df_entrance entrance;
  df_entry_request request;
  OK(df_entrance_read(&scene->id, &entrance));
  const int fd = df_connect_abstract(SOCK_SEQPACKET, entrance.name);
  df_message_start(&request, DF_MESSAGE_ENTRY_REQUEST, sizeof request);
  CHECK(fd >= 0 && send(fd, &request, sizeof request / 2, MSG_NOSIGNAL) > 0, "no entrance");
  raise(SIGKILL);
}

/* Sends a whole request, and has gone when the members call. */
static void be_gone_when_called(void) {
  df_entrance entrance;
  df_entry_request request = {.pid = getpid(), .survive = 1};
  unsigned char key[DF_KEY_BYTES];
  OK(df_entrance_read(&scene->id, &entrance));
  const int fd = df_connect_abstract(SOCK_SEQPACKET, entrance.name);
  CHECK(fd >= 0, "no entrance");
  df_message_start(&request, DF_MESSAGE_ENTRY_REQUEST, sizeof request);
  memset(request.name, 2, sizeof request.name);
  df_key_from_secret(key, entrance.secret);
  df_message_seal(&request, sizeof request, key);
  CHECK(send(fd, &request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request, "no request");
  raise(SIGKILL);
}

/* Has a connection to each member, and has no context. */
static void end_in_mesh(void) {
  df_entrance entrance;
  const df_peer_info info = {0};
  df_mesh mesh;
  OK(df_entrance_read(&scene->id, &entrance));
  OK(df_entry_join(&entrance, &info, 1, df_after_ms(60000), &mesh));
  CHECK(mesh.n_ranks == n_ranks && mesh.rank == 1, "the newcomer is rank %d of %d", mesh.rank,
        mesh.n_ranks);
  raise(SIGKILL);
}

/* Usually it can be admitted by then. */
static void end_before_the_admit(void) {
  const dfcclConfig_t config = configure();
  const pid_t self_id = getpid();
  dfcclContext_t ctx = NULL;
  fflush(NULL);
  if (fork() == 0) {
    df_sleep_ms(300);
    kill(self_id, SIGKILL);
    _exit(0);
  }
  const dfcclResult_t result = dfcclJoin(&ctx, &scene->id, &config);
  CHECK(0, "dfcclJoin has returned %s", df_test_result_name(result));
}

DF_TEST(entry, ends_of_newcomers, 90) {
  df_family family;
  void (*const ends[])(void) = {
      hang_up, send_half, be_gone_when_called, end_in_mesh, end_before_the_admit, end_in_mesh};
  begin(&family, 3, 1 << 1);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) df_end_process(start(ends[i]), 1);
  atomic_store(&scene->ends, 1);
  df_end_process(start(join), 0);
  end_job(&family);
}

/* ---- two at once */

static void lose(void) {
  /* The reason of the latest attempt depends on how far the other newcomer was. */
  fail_to_join(&scene->id, dfcclTimeout, "2000", "could not join the job within 2000 ms", NULL);
}

DF_TEST(entry, two_newcomers_for_one_number, 90) {
  df_family family;
  begin(&family, 3, 1 << 1);
  const pid_t loser = start(lose), winner = start(join);
  df_end_process(loser, 0);
  atomic_store(&scene->ends, 1);
  df_end_process(winner, 0);
  end_job(&family);
}

DF_TEST(entry, two_newcomers_for_two_numbers, 90) {
  df_family family;
  begin(&family, 4, 1 << 1 | 1 << 2);
  const pid_t one = start(join), other = start(join);
  atomic_store(&scene->ends, 1);
  df_end_process(one, 0);
  df_end_process(other, 0);
  end_job(&family);
}
