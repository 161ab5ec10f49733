/*
 * One rank of a job over several hosts, which a shell has started. It joins from the environment,
 * and runs collectives of all sizes, in an order of its own in each round, for the given rounds or
 * seconds, or until the job has failed. Every element is checked.
 *
 *   worker [--rounds N] [--seconds S] [--seed S] [--largest ELEMENTS] [--break MS]
 *     --break: every MS milliseconds this rank shuts down its connections to other hosts, both for
 *              data and for control.
 *
 * The program prints lines "WORD NANOSECONDS[: TEXT]" (CLOCK_MONOTONIC): begins (with the process),
 * joined, then through (with the runs) or told (with the sentence), then gone (dfcclDestroy has
 * returned), and left for each descriptor, thread or child that did not exist at the beginning. The
 * exit status is 0 if all elements so far are right, and 1 after a wrong element.
 */
#include <dfccl.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { COLLECTIVES = 12, OPERATIONS = 6, DESCRIPTORS = 1024, SENTENCE = 1024 };
typedef enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL } operation;

typedef struct {
  operation operation;
  size_t count; /* the collective as registered */
  int root;
  int32_t *sends, *receives;
} collective;

static struct {
  uint64_t rounds, seconds, seed, largest, break_ms;
} options = {.rounds = UINT64_MAX, .seconds = UINT64_MAX, .seed = 1, .largest = 20000};
static dfcclContext_t ctx;
static int rank, ranks;
static collective all[COLLECTIVES];
static uint64_t runs;
static _Atomic uint64_t breaks;
static int32_t goes_on = 1; /* from rank 0, which decides in each round */
static _Atomic int is_over;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(const char *word, const char *text) {
  printf("%s %llu: %s\n", word, (unsigned long long)now_ns(), text);
  fflush(stdout);
}

static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* ---- descriptors and threads of a process */

static int entries(const char *path) {
  DIR *directory = opendir(path);
  int n = 0;
  while (directory && readdir(directory)) n++;
  if (directory) closedir(directory);
  return n;
}

static int segments(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int n = 0;
  while (maps && fgets(line, sizeof line, maps)) n += strstr(line, "memfd:") != NULL;
  if (maps) fclose(maps);
  return n;
}

/* ThreadSanitizer starts one thread of its own with the first thread of a process, and keeps it. */
#if defined(__SANITIZE_THREAD__)
enum { SANITIZER_THREADS = 1 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { SANITIZER_THREADS = 1 };
#else
enum { SANITIZER_THREADS = 0 };
#endif
#else
enum { SANITIZER_THREADS = 0 };
#endif

static void check_left(int descriptors, int threads) {
  const int most = threads + SANITIZER_THREADS;
  char text[80];
  for (int tries = 0; entries("/proc/self/task") > most && tries < 100; tries++) usleep(1000);
  const int left = entries("/proc/self/task") - most;
  snprintf(text, sizeof text, "%d descriptors, %d threads, %d segments",
           entries("/proc/self/fd") - descriptors, left > 0 ? left : 0, segments());
  if (strcmp(text, "0 descriptors, 0 threads, 0 segments") != 0) say("left", text);
}

/* ---- breaking */

static int is_connection(int fd) {
  struct sockaddr_storage peer;
  socklen_t bytes = sizeof peer;
  return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
         (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

static void *break_connections(void *unused) {
  while (!atomic_load(&is_over)) {
    usleep((useconds_t)(options.break_ms * 1000));
    for (int fd = 3; fd < DESCRIPTORS && !atomic_load(&is_over); fd++)
      if (is_connection(fd)) atomic_fetch_add(&breaks, shutdown(fd, SHUT_RDWR) == 0);
  }
  return unused;
}

/* ---- collectives */

static size_t send_count(const collective *c) {
  const int is_wide = c->operation == REDUCE_SCATTER || c->operation == ALL_TO_ALL;
  return is_wide ? c->count * (size_t)ranks : c->count;
}

static size_t receive_count(const collective *c) {
  const int is_wide = c->operation == ALL_GATHER || c->operation == ALL_TO_ALL;
  return is_wide ? c->count * (size_t)ranks : c->count;
}

static dfcclResult_t make(dfcclCollId_t id, uint64_t *random) {
  collective *c = &all[id];
  const uint64_t bits = draw(random) % 20;
  c->operation = (operation)(id % OPERATIONS);
  c->count = 1 + draw(random) % (options.largest >> (bits < 14 ? bits : 14) | 1);
  c->root = (int)(draw(random) % (uint64_t)ranks);
  c->sends = malloc(send_count(c) * sizeof *c->sends);
  c->receives = malloc(receive_count(c) * sizeof *c->receives);
  if (c->sends == NULL || c->receives == NULL) exit(3);
  switch (c->operation) {
  case ALL_REDUCE:
    return dfcclRegisterAllReduce(ctx, id, c->count, dfcclInt32, dfcclSum, NULL);
  case REDUCE:
    return dfcclRegisterReduce(ctx, id, c->count, dfcclInt32, dfcclSum, c->root, NULL);
  case BROADCAST:
    return dfcclRegisterBroadcast(ctx, id, c->count, dfcclInt32, c->root, NULL);
  case ALL_GATHER:
    return dfcclRegisterAllGather(ctx, id, c->count, dfcclInt32, NULL);
  case REDUCE_SCATTER:
    return dfcclRegisterReduceScatter(ctx, id, c->count, dfcclInt32, dfcclSum, NULL);
  default:
    return dfcclRegisterAllToAll(ctx, id, c->count, dfcclInt32, NULL);
  }
}

static dfcclResult_t submit(dfcclCollId_t id) {
  collective *c = &all[id];
  switch (c->operation) {
  case ALL_REDUCE:
    return dfcclRunAllReduce(ctx, id, c->sends, c->receives, NULL, NULL);
  case REDUCE:
    return dfcclRunReduce(ctx, id, c->sends, c->receives, NULL, NULL);
  case BROADCAST:
    return dfcclRunBroadcast(ctx, id, c->sends, c->receives, NULL, NULL);
  case ALL_GATHER:
    return dfcclRunAllGather(ctx, id, c->sends, c->receives, NULL, NULL);
  case REDUCE_SCATTER:
    return dfcclRunReduceScatter(ctx, id, c->sends, c->receives, NULL, NULL);
  default:
    return dfcclRunAllToAll(ctx, id, c->sends, c->receives, NULL, NULL);
  }
}

/* Element i of rank r's send buffer. */
static int32_t input(int r, size_t i, uint64_t round) {
  return (int32_t)((uint32_t)(r + 1) * ((uint32_t)i + (uint32_t)round));
}

static int32_t expected(const collective *c, size_t i, uint64_t round) {
  const uint32_t sum = (uint32_t)(ranks * (ranks + 1) / 2);
  const size_t first = c->operation == REDUCE_SCATTER ? (size_t)rank * c->count : 0;
  switch (c->operation) {
  case BROADCAST:
    return input(c->root, i, round);
  case ALL_GATHER:
    return input((int)(i / c->count), i % c->count, round);
  case ALL_TO_ALL:
    return input((int)(i / c->count), (size_t)rank * c->count + i % c->count, round);
  default:
    return (int32_t)(sum * ((uint32_t)(first + i) + (uint32_t)round));
  }
}

static void check(dfcclCollId_t id, uint64_t round) {
  const collective *c = &all[id];
  if (c->operation == REDUCE && rank != c->root) return;
  for (size_t i = 0; i < receive_count(c); i++) {
    if (c->receives[i] == expected(c, i, round)) continue;
    fprintf(stderr, "wrong: round %llu, collective %llu, element %zu: %d instead of %d\n",
            (unsigned long long)round, (unsigned long long)id, i, c->receives[i],
            expected(c, i, round));
    exit(1);
  }
}

static dfcclResult_t play(uint64_t round, uint64_t *random) {
  dfcclCollId_t order[COLLECTIVES];
  dfcclResult_t result = dfcclSuccess;
  for (uint32_t k = 0; k < COLLECTIVES; k++) {
    const uint64_t at = draw(random) % (k + 1);
    order[k] = order[at];
    order[at] = k;
    for (size_t i = 0; i < send_count(&all[k]); i++) all[k].sends[i] = input(rank, i, round);
    memset(all[k].receives, 0, receive_count(&all[k]) * sizeof(int32_t));
  }
  result = dfcclRunBroadcast(ctx, COLLECTIVES, &goes_on, &goes_on, NULL, NULL);
  for (uint32_t k = 0; k < COLLECTIVES && result == dfcclSuccess; k++) result = submit(order[k]);
  const dfcclResult_t ended = dfcclWaitAll(ctx); /* the library has returned the buffers */
  if (result == dfcclSuccess) result = ended;
  if (result != dfcclSuccess) return result;
  for (uint32_t k = 0; k < COLLECTIVES; k++) check(k, round);
  runs += COLLECTIVES;
  return dfcclSuccess;
}

static dfcclResult_t play_all(void) {
  uint64_t common = options.seed, own = options.seed + 1000 + (uint64_t)rank;
  const uint64_t begin = now_ns();
  dfcclResult_t result = dfcclSuccess;
  for (uint32_t k = 0; k < COLLECTIVES && result == dfcclSuccess; k++) result = make(k, &common);
  if (result == dfcclSuccess)
    result = dfcclRegisterBroadcast(ctx, COLLECTIVES, 1, dfcclInt32, 0, NULL);
  for (uint64_t r = 0; r < options.rounds && result == dfcclSuccess; r++) {
    const int is_last =
        options.seconds != UINT64_MAX && now_ns() - begin > options.seconds * 1000000000u;
    if (rank == 0) goes_on = !is_last;
    result = play(r, &own);
    if (!goes_on) break;
  }
  return result;
}

static void read_options(int argc, char **argv) {
  const struct {
    const char *name;
    uint64_t *value;
  } known[] = {{"--rounds", &options.rounds},
               {"--seconds", &options.seconds},
               {"--seed", &options.seed},
               {"--largest", &options.largest},
               {"--break", &options.break_ms}};
  for (int i = 1; i + 1 < argc; i += 2)
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
      if (strcmp(argv[i], known[k].name) == 0) *known[k].value = strtoull(argv[i + 1], NULL, 10);
}

int main(int argc, char **argv) {
  char text[SENTENCE];
  pthread_t breaker;
  read_options(argc, argv);
  const int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  snprintf(text, sizeof text, "process %d", (int)getpid());
  say("begins", text);
  dfcclResult_t result = dfcclInitFromEnv(&ctx, NULL);
  if (result != dfcclSuccess) {
    snprintf(text, sizeof text, "%s", dfcclGetLastError(NULL));
    say("told", text);
    check_left(descriptors, threads);
    return 0;
  }
  dfcclGetRank(ctx, &rank, &ranks);
  if (options.break_ms && pthread_create(&breaker, NULL, break_connections, NULL) != 0) return 3;
  say("joined", "");
  result = play_all();
  snprintf(text, sizeof text, "%s", dfcclGetLastError(ctx));
  if (result == dfcclSuccess)
    snprintf(text, sizeof text, "%llu runs, %llu breaks", (unsigned long long)runs,
             (unsigned long long)atomic_load(&breaks));
  say(result == dfcclSuccess ? "through" : "told", text);
  atomic_store(&is_over, 1);
  if (options.break_ms) pthread_join(breaker, NULL);
  dfcclDestroy(ctx);
  say("gone", "");
  check_left(descriptors, threads);
  return 0;
}
