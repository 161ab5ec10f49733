/*
 * Promises of DFCCL_NET=tcp:
 *   - Ranks of different processes exchange their messages over TCP on the loopback address, and
 *     ranks of one process do not. Without it no rank has a TCP connection. One rank that sets it
 *     is enough.
 *   - A lost connection is made again: collectives have a pause, and nothing is lost.
 *   - If it is not made again within DFCCL_NET_RESUME_MS, the collectives fail with a sentence that
 *     names both ends.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 20000, FDS = 256 };

/* Connected TCP sockets of this process, listed if sockets is not NULL. */
static int count_connections(int *sockets) {
  int n = 0;
  for (int fd = 0; fd < FDS; fd++) {
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) != 0) continue;
    if (address.sin_family != AF_INET) continue;
    if (sockets) sockets[n] = fd;
    n++;
  }
  return n;
}

static void run_some(dfcclContext_t ctx, int rank) {
  static int32_t send[COUNT], recv[COUNT];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < COUNT; i++) send[i] = (rank + 1) * (i + round);
    OK(dfcclRunAllReduce(ctx, 0, send, recv, NULL, NULL));
    OK(dfcclWait(ctx, 0));
    for (int i = 0; i < COUNT; i++) CHECK(recv[i] == 3 * (i + round), "element %d: %d", i, recv[i]);
  }
}

static void count(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const char *const *nets = arg;
  setenv("DFCCL_NET", nets[rank], 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, 0, COUNT, dfcclInt32, dfcclSum, NULL));
  run_some(ctx, rank);
  const int made = count_connections(NULL);
  const int wanted = strcmp(nets[0], "tcp") == 0 ? 2 : 0; /* small and bulk */
  CHECK(made == wanted, "rank %d has %d connections, and not %d", rank, made, wanted);
  df_finish(ctx);
}

DF_TEST(wire, messages_go_over_tcp_if_a_rank_asks_for_it, 60) {
  static const char *const settings[][RANKS] = {
      {"tcp", "tcp"}, {"tcp", "auto"}, {"auto", "auto"}, {"none", "auto"}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    df_family family;
    df_fork(&family, RANKS, 30, count, (void *)settings[i]);
    df_join(&family);
  }
}

typedef struct {
  atomic_int ran;
} stage;

static void lose(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  stage *scene = arg;
  static int32_t send[COUNT], recv[COUNT];
  int sockets[FDS];
  setenv("DFCCL_NET", "tcp", 1);
  setenv("DFCCL_NET_RESUME_MS", "0", 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, 0, COUNT, dfcclInt32, dfcclSum, NULL));
  run_some(ctx, rank);
  atomic_fetch_add(&scene->ran, 1);
  EVENTUALLY(atomic_load(&scene->ran) == ranks);
  if (rank == 0)
    for (int n = count_connections(sockets); n > 0; n--) shutdown(sockets[n - 1], SHUT_RDWR);
  dfcclResult_t result = dfcclSuccess;
  df_waiting_for("the loss");
  while (result == dfcclSuccess) {
    result = dfcclRunAllReduce(ctx, 0, send, recv, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, 0);
  }
  CHECK(result == dfcclRemoteError, "%s", df_test_result_name(result));
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(strstr(sentence, "the connection 127.0.0.1:") && strstr(sentence, " to 127.0.0.1:") &&
            strstr(sentence, "was lost"),
        "\"%s\"", sentence);
  df_finish(ctx);
}

DF_TEST(wire, a_lost_connection_fails_the_collectives, 60) {
  df_family family;
  df_fork(&family, RANKS, 40, lose, df_shared(sizeof(stage)));
  df_join(&family);
}

/* ---- connections that are cut */

enum { BULK = 400000 };

static atomic_int stops;

/* Resets both ends, as a switch that has lost its state does. */
static void *cut(void *arg) {
  unsigned *seed = arg;
  int sockets[FDS];
  while (!atomic_load(&stops)) {
    df_sleep_ms(5 + rand_r(seed) % 60);
    for (int n = count_connections(sockets); n > 0; n--)
      if (rand_r(seed) % 2) shutdown(sockets[n - 1], SHUT_RDWR);
  }
  return NULL;
}

static void resume(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  static int32_t send[BULK], recv[3][BULK];
  unsigned seed = 1 + (unsigned)rank;
  pthread_t cutter;
  setenv("DFCCL_NET", "tcp", 1);
  setenv("DFCCL_NET_RESUME_MS", "20000", 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, 0, COUNT, dfcclInt32, dfcclSum, NULL));
  OK(dfcclRegisterAllReduce(ctx, 1, BULK, dfcclInt32, dfcclSum, NULL));
  OK(dfcclRegisterAllReduce(ctx, 2, 2, dfcclInt32, dfcclSum, NULL));
  run_some(ctx, rank);
  CHECK(pthread_create(&cutter, NULL, cut, &seed) == 0, "no thread");
  for (int round = 0; round < 150; round++) {
    for (int i = 0; i < BULK; i++) send[i] = (rank + 1) * (i + round);
    for (uint64_t coll = 0; coll < 3; coll++) { /* each rank runs them in another order */
      const uint64_t now = rank ? coll : 2 - coll;
      OK(dfcclRunAllReduce(ctx, now, send, recv[now], NULL, NULL));
    }
    OK(dfcclWaitAll(ctx));
    for (int coll = 0; coll < 3; coll++) {
      const int n = coll == 0 ? COUNT : coll == 1 ? BULK : 2;
      for (int i = 0; i < n; i++)
        CHECK(recv[coll][i] == 3 * (i + round), "round %d, element %d: %d", round, i,
              recv[coll][i]);
    }
  }
  atomic_store(&stops, 1);
  pthread_join(cutter, NULL);
  df_finish(ctx);
}

DF_TEST(wire, lost_connections_resume, 90) {
  df_family family;
  df_fork(&family, RANKS, 80, resume, NULL);
  df_join(&family);
}

/* ---- several pieces in one message, and a connection's least size for lending */

/* A piece is shorter than the least size for lending, and a message is longer. */
static void overwrite_what_was_sent(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  enum { PIECE = 4096, MEMBERS = 4 };
  static int32_t send[MEMBERS * PIECE], recv[PIECE];
  (void)arg;
  setenv("DFCCL_NET", "tcp", 1);
  setenv("DFCCL_TUNING", "set:lend_min=1K,net_lend_min=20K", 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "halving";
  OK(dfcclRegisterReduceScatter(ctx, 1, PIECE, dfcclInt32, dfcclSum, &options));
  for (int run = 0; run < 300; run++) {
    for (int i = 0; i < MEMBERS * PIECE; i++) send[i] = run + i + rank;
    OK(dfcclRunReduceScatter(ctx, 1, send, recv, NULL, NULL));
    OK(dfcclWait(ctx, 1));
    memset(send, 0xff, sizeof send);
    for (int i = 0; i < PIECE; i++) {
      const int right = ranks * (run + rank * PIECE + i) + ranks * (ranks - 1) / 2;
      CHECK(recv[i] == right, "run %d: element %d is %d, not %d", run, i, recv[i], right);
    }
  }
  df_finish(ctx);
}

DF_TEST(wire, a_message_of_several_pieces_is_not_read_after_its_run, 60) {
  df_family family;
  df_fork(&family, 4, 40, overwrite_what_was_sent, NULL);
  df_join(&family);
}
