/*
 * A tuner plugin for tests. Library N has the tables of versions 2 to N, and the library must use
 * the newest. The plugin ends the process when its caller does something that plugins do not allow:
 * two calls at one time, a table of another layout, a cost for an algorithm that the library lacks.
 *
 * DFCCL_TEST_TUNER selects its answer, read at each call:
 *
 *   ALGORITHM,PROTOCOL      by NCCL's numbers; "turns" after it: the next algorithm at each call
 *   none                    no answer
 *   init, info, chunk       that call fails
 *   nan, infinite           such a cost
 *   absent                  a cost for an algorithm that the library lacks
 *   channels:N              in addition N channels
 *   chunk:N                 in addition a chunk size of N bytes
 */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define OF_SOME_VERSIONS __attribute__((unused))

enum { ALGORITHMS = 7, PROTOCOLS = 3, TREE = 0, RING = 1, PAT = 6, LL128 = 1, SIMPLE = 2 };
enum { SUCCESS = 0, SYSTEM_ERROR = 2 };

static atomic_int n_in_call, n_asked, n_open;

EXPORT int tuner_plugin_asked(void);
EXPORT int tuner_plugin_open(void);
int tuner_plugin_asked(void) { return atomic_load(&n_asked); }
int tuner_plugin_open(void) { return atomic_load(&n_open); }

#define MUST(condition, what)                                                                      \
  ((condition)                                                                                     \
       ? (void)0                                                                                   \
       : (fprintf(stderr, "tuner plugin for tests: %s (%s:%d)\n", what, __FILE__, __LINE__),       \
          abort()))

static const char *answer(void) {
  const char *text = getenv("DFCCL_TEST_TUNER");
  return text ? text : "none";
}
static int number_after(const char *word, long *number) {
  const char *at = strstr(answer(), word);
  if (at == NULL) return 0;
  *number = atol(at + strlen(word));
  return 1;
}

static void enter(void) { MUST(atomic_fetch_add(&n_in_call, 1) == 0, "two calls at one time"); }
static int leave(int result) {
  atomic_fetch_sub(&n_in_call, 1);
  return result;
}

typedef void (*logger)(int level, unsigned long flags, const char *file, int line,
                       const char *format, ...);

static int init(size_t ranks, size_t nodes, logger log, void **context) {
  enter();
  MUST(ranks > 0 && nodes > 0 && nodes <= ranks, "no ranks");
  log(3, 0, __FILE__, __LINE__, "for %zu ranks", ranks);
  if (strcmp(answer(), "init") == 0) return leave(SYSTEM_ERROR);
  *context = malloc(1);
  atomic_fetch_add(&n_open, 1);
  return leave(SUCCESS);
}

OF_SOME_VERSIONS static int init_5(void **context, uint64_t communicator, size_t ranks,
                                   size_t nodes, logger log, int *domains, double *constants) {
  (void)communicator;
  MUST(domains[0] == (int)nodes && domains[1] <= domains[2], "domains");
  constants[0] = constants[143] = 1; /* 7 * 3 + 3 * 7 * 3 + 5 * 4 * 3 */
  return init(ranks, nodes, log, context);
}

static int finish(void *context) {
  enter();
  free(context);
  atomic_fetch_sub(&n_open, 1);
  return leave(SUCCESS);
}

/* 0: no algorithm is named */
static int named(int *algorithm, int *protocol) {
  const int turn = atomic_fetch_add(&n_asked, 1);
  if (sscanf(answer(), "%d,%d", algorithm, protocol) != 2) return 0;
  if (strstr(answer(), "turns")) *algorithm = turn % 2 ? RING : TREE;
  return 1;
}

static int answer_channels(int *channels, int result) {
  long n;
  if (number_after("channels:", &n)) *channels = (int)n;
  return leave(strcmp(answer(), "info") == 0 ? SYSTEM_ERROR : result);
}

static int info_2(void *context, int function, size_t bytes, int collnet, int nvls, int operations,
                  int *algorithm, int *protocol, int *channels) {
  (void)bytes, (void)collnet, (void)nvls;
  enter();
  MUST(context && function >= 0 && function <= 4 && operations == 1, "arguments");
  MUST(*algorithm == -1 && *protocol == -1 && *channels == 0, "outputs begin as none");
  named(algorithm, protocol);
  return answer_channels(channels, SUCCESS);
}

OF_SOME_VERSIONS static int info(void *context, int function, float (*table)[PROTOCOLS],
                                 int algorithms, int protocols, int *channels) {
  int algorithm, protocol;
  enter();
  MUST(context && function >= 0 && function <= 4 && *channels == 0, "arguments");
  MUST(algorithms == ALGORITHMS && protocols == PROTOCOLS, "sizes of the table");
  for (int a = 0; a < ALGORITHMS; a++)
    for (int p = 0; p < PROTOCOLS; p++) {
      const int may_be = (a == TREE || a == RING || a == PAT) && p != LL128;
      MUST(may_be ? table[a][p] >= 0 || table[a][p] == -1 : table[a][p] == -1, "the table");
    }
  MUST(table[RING][SIMPLE] >= 0, "all have a ring");
  if (named(&algorithm, &protocol)) table[algorithm][protocol] = 0;
  if (strcmp(answer(), "nan") == 0) table[RING][SIMPLE] = NAN;
  if (strcmp(answer(), "infinite") == 0) table[RING][SIMPLE] = -INFINITY;
  if (strcmp(answer(), "absent") == 0) table[4][SIMPLE] = 1;
  return answer_channels(channels, SUCCESS);
}

OF_SOME_VERSIONS static int info_3(void *context, int function, size_t bytes, int operations,
                                   float **table, int algorithms, int protocols, int *channels) {
  (void)bytes, (void)operations;
  return info(context, function, (float(*)[PROTOCOLS])(void *)table, algorithms, protocols,
              channels);
}
OF_SOME_VERSIONS static int info_4(void *context, int function, size_t bytes, int operations,
                                   float **table, int algorithms, int protocols, int reaches,
                                   int *channels) {
  (void)bytes, (void)operations;
  MUST(reaches == 0 || reaches == 1, "regBuff");
  return info(context, function, (float(*)[PROTOCOLS])(void *)table, algorithms, protocols,
              channels);
}

OF_SOME_VERSIONS static int chunk_6(void *context, int function, size_t bytes, int algorithm,
                                    int protocol, int channels, size_t *chunk) {
  long n;
  (void)context, (void)function, (void)bytes, (void)channels;
  enter();
  MUST(algorithm >= 0 && algorithm < ALGORITHMS && protocol >= 0 && protocol < PROTOCOLS, "chosen");
  MUST(*chunk > 0, "a chunk before");
  if (number_after("chunk:", &n)) *chunk = (size_t)n;
  return leave(strstr(answer(), "chunkfails") ? SYSTEM_ERROR : SUCCESS);
}

#define TABLE(version, begin, ask)                                                                 \
  EXPORT const struct {                                                                            \
    const char *name;                                                                              \
    __typeof__(&begin) init;                                                                       \
    __typeof__(&ask) info;                                                                         \
    int (*end)(void *);                                                                            \
  } ncclTunerPlugin_v##version = {"DfcclTest", begin, ask, finish};

TABLE(2, init, info_2)
#if PLUGIN_VERSION >= 3
TABLE(3, init, info_3)
#endif
#if PLUGIN_VERSION >= 4
TABLE(4, init, info_4)
#endif
#if PLUGIN_VERSION >= 5
TABLE(5, init_5, info_4)
#endif
#if PLUGIN_VERSION >= 6
EXPORT struct {
  const char *name;
  __typeof__(&init_5) init;
  __typeof__(&info_4) info;
  int (*end)(void *);
  __typeof__(&chunk_6) chunk;
} ncclTunerPlugin_v6 = {"DfcclTest", init_5, info_4, finish, chunk_6};

__attribute__((constructor)) static void leave_out(void) {
  if (getenv("DFCCL_TEST_TUNER_NO_CHUNK")) ncclTunerPlugin_v6.chunk = NULL;
}
#endif
