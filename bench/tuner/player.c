#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 8, CONTROL = 1 };

const char *const player_names[OPERATIONS] = {"allreduce", "allgather", "reducescatter",
                                              "broadcast", "reduce",    "alltoall"};

double player_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void player_check(const player *p, dfcclResult_t result) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "bench-tuner-grid: %s\n", dfcclGetLastError(p->ctx));
  exit(1);
}

void player_open(player *p, size_t room) {
  dfcclCollOptions_t o = DFCCL_COLL_OPTIONS_INITIALIZER;
  p->send = calloc(1, room);
  p->recv = calloc(1, room);
  if (p->send == NULL || p->recv == NULL) exit(1);
  o.tune = -1;
  player_check(p, dfcclRegisterBroadcast(p->ctx, CONTROL, WORDS, dfcclInt32, 0, &o));
}

void player_close(player *p) {
  dfcclDestroy(p->ctx);
  free(p->send);
  free(p->recv);
}

static void enroll(player *p, int id, int which, size_t bytes, int tune) {
  dfcclCollOptions_t o = DFCCL_COLL_OPTIONS_INITIALIZER;
  const size_t all = bytes / sizeof(float), part = all / (size_t)p->ranks;
  const dfcclCollId_t coll = (dfcclCollId_t)id;
  o.tune = tune;
  p->kinds[id] = which;
  switch (which) {
  case ALLREDUCE:
    player_check(p, dfcclRegisterAllReduce(p->ctx, coll, all, dfcclFloat32, dfcclSum, &o));
    return;
  case ALLGATHER:
    player_check(p, dfcclRegisterAllGather(p->ctx, coll, part, dfcclFloat32, &o));
    return;
  case REDUCESCATTER:
    player_check(p, dfcclRegisterReduceScatter(p->ctx, coll, part, dfcclFloat32, dfcclSum, &o));
    return;
  case BROADCAST:
    player_check(p, dfcclRegisterBroadcast(p->ctx, coll, all, dfcclFloat32, 0, &o));
    return;
  case REDUCE:
    player_check(p, dfcclRegisterReduce(p->ctx, coll, all, dfcclFloat32, dfcclSum, 0, &o));
    return;
  default:
    player_check(p, dfcclRegisterAllToAll(p->ctx, coll, part, dfcclFloat32, &o));
  }
}

static void run_once(const player *p, int id) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = p->send;
  run.recvBuf = p->recv;
  player_check(p, dfcclRun(p->ctx, (dfcclCollId_t)id, &run));
  player_check(p, dfcclWait(p->ctx, (dfcclCollId_t)id));
}

static void execute(player *p, const int32_t *words) {
  if (words[0] == ENROLL)
    enroll(p, words[1], words[2], (size_t)words[3], words[4]);
  else if (words[0] == LEAVE)
    player_check(p, dfcclDeregister(p->ctx, (dfcclCollId_t)words[1]));
  else
    for (int i = 0; i < words[2]; i++) run_once(p, words[1]);
}

static void receive_command(const player *p, int32_t words[WORDS]) {
  player_check(p, dfcclRunBroadcast(p->ctx, CONTROL, words, words, NULL, NULL));
  player_check(p, dfcclWait(p->ctx, CONTROL));
}

void player_send(player *p, player_command what, int a, int b, int c, int d) {
  int32_t words[WORDS] = {(int32_t)what, a, b, c, d};
  receive_command(p, words);
  if (what != END && what != RUN) execute(p, words);
}

void player_execute(player *p) {
  for (int32_t words[WORDS];;) {
    receive_command(p, words);
    if (words[0] == END) return;
    execute(p, words);
  }
}

double player_timed(player *p, int id, int n) {
  player_send(p, RUN, id, n + 1, 0, 0);
  run_once(p, id);
  const double begin = player_now_us();
  for (int i = 0; i < n; i++) run_once(p, id);
  return (player_now_us() - begin) / n;
}
