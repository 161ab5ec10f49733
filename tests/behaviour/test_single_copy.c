/*
 * Promise: ordinary memory goes to a process of the same host by one copy if the system permits it,
 * and otherwise through slots, without a word. Results are the same. If memory that was lent so
 * cannot be read, the run fails on all members with a sentence that names the rank, the address and
 * the reason; later collectives work. The death of a process is reported as ever.
 */
#include "support/buffers.h"
#include "support/memory.h"
#include "support/processes.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, RUNS = 3 };
static const size_t COUNT = 40000;

/* Memory that the processes share. */
typedef struct {
  atomic_int step;
  unsigned long long reads[RANKS], refused[RANKS];
  bool says_refused[RANKS]; /* dfcclGetConfiguration, of a peer */
} scene;

/* ---- rights of a rank's process ---- */

static void drop_ptrace(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  CHECK(syscall(SYS_capget, &header, data) == 0, "capget: %s", strerror(errno));
  const uint32_t bit = 1u << CAP_SYS_PTRACE;
  data[0].effective &= ~bit;
  data[0].permitted &= ~bit;
  data[0].inheritable &= ~bit;
  CHECK(syscall(SYS_capset, &header, data) == 0, "capset: %s", strerror(errno));
}

static int filter_error;
static void filter_call(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)filter_error & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof code[0], code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs: %s", strerror(errno));
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp: %s", strerror(errno));
}

static void enter_pid_namespace(void) {
  int status;
  CHECK(unshare(CLONE_NEWPID) == 0, "unshare: %s", strerror(errno));
  const pid_t child = fork();
  CHECK(child >= 0, "fork: %s", strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return;
  }
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static enum {
  FREE,
  NO_PTRACE,
  ONE_NO_PTRACE,
  NOT_DUMPABLE,
  FILTERED,
  ONE_FILTERED,
  NAMESPACE
} treatment;
static void treat(int rank, int ranks) {
  (void)ranks;
  if (treatment == NO_PTRACE || treatment == NOT_DUMPABLE) drop_ptrace();
  if (treatment == ONE_NO_PTRACE && rank == 0) drop_ptrace();
  if (treatment == NOT_DUMPABLE && rank == 1) prctl(PR_SET_DUMPABLE, 0);
  if (treatment == FILTERED || (treatment == ONE_FILTERED && rank == 0)) filter_call();
  if (treatment == NAMESPACE && rank == 0) enter_pid_namespace();
}

/* ---- collectives ---- */

/* The text stays valid until the next call. */
static const char *dump_of(dfcclContext_t ctx) {
  static char text[65536];
  FILE *file = tmpfile();
  CHECK(file != NULL, "no temporary file");
  OK(dfcclDump(ctx, fileno(file)));
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void read_counts(dfcclContext_t ctx, unsigned long long *reads,
                        unsigned long long *refused) {
  unsigned long long readable;
  const char *line = strstr(dump_of(ctx), "single copy: ");
  *reads = *refused = 0;
  if (line == NULL) return;
  CHECK(sscanf(line,
               "single copy: the memory of %llu peers can be read by calls, that of %llu cannot; "
               "read by calls: %llu",
               &readable, refused, reads) == 3,
        "\"%s\"", line);
}

static void take_part_in_all(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  scene *s = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
    static const dfcclDataType_t types[] = {dfcclInt32, dfcclFloat64, dfcclUint8};
    df_collective coll = {.kind = (df_kind)kind,
                          .type = types[kind % 3],
                          .op = dfcclSum,
                          .root = 1,
                          .count = COUNT + (size_t)kind,
                          .members = ranks,
                          .seed = 7};
    if (df_send_elements(&coll) == 0 && df_recv_elements(&coll) == 0) continue;
    coll.op = df_kind_operator(coll.kind, coll.type, coll.op);
    if (df_register(ctx, (dfcclCollId_t)kind, &coll) != dfcclSuccess) continue;
    for (uint64_t run = 0; run < RUNS; run++)
      df_take_part(ctx, (dfcclCollId_t)kind, &coll, rank, run, run == 1 ? DF_IN_PLACE : 0);
  }
  OK(dfcclWaitAll(ctx));
  read_counts(ctx, &s->reads[rank], &s->refused[rank]);
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, 0, &c));
  s->says_refused[rank] = strstr(c.why, "it may not read other memory by calls") != NULL;
  df_finish(ctx);
}

static scene *play(int how, const char *way) {
  scene *s = df_shared(sizeof *s);
  df_family family;
  treatment = how;
  df_tune("way", way);
  df_tune("lend_in_place_min", "0");
  df_on_rank_start(treat);
  df_fork(&family, RANKS, 50, take_part_in_all, s);
  df_join(&family);
  return s;
}

/* Whether a process can read its child, which has the same rights. */
static bool is_permitted(void) {
  static uint64_t word = 5;
  int status;
  const pid_t parent = getpid(), child = fork();
  CHECK(child >= 0, "fork: %s", strerror(errno));
  if (child == 0) {
    uint64_t read = 0;
    struct iovec here = {&read, sizeof read}, there = {&word, sizeof word};
    _exit(process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof read && read == 5 ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
  return status == 0;
}

static void expect_reads(const scene *s, int rank, bool reads) {
  CHECK((s->reads[rank] != 0) == reads, "rank %d has read %llu buffers by calls", rank,
        s->reads[rank]);
}

DF_TEST(single_copy, all_operations_have_the_same_results, 300) {
  static const char *const ways[] = {"1", "2", "3", "4", "5", NULL};
  const bool permitted = is_permitted();
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    const scene *s = play(FREE, ways[i]);
    const int lends = ways[i] != NULL && ways[i][0] >= '4';
    for (int rank = 0; rank < RANKS && ways[i]; rank++) {
      expect_reads(s, rank, permitted && lends);
      CHECK(!permitted || !s->says_refused[rank], "rank %d says that calls are refused", rank);
    }
  }
}

DF_TEST(single_copy, never_if_it_is_switched_off, 60) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  df_tune("call_min", "0");
  const scene *s = play(FREE, "4");
  df_tune("call_min", NULL);
  for (int rank = 0; rank < RANKS; rank++) expect_reads(s, rank, false);
}

DF_TEST(single_copy, calls_that_are_filtered, 120) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  if (prctl(PR_GET_SECCOMP) < 0) DF_SKIP("no seccomp");
  static const int errors[] = {EPERM, ENOSYS};
  for (int i = 0; i < 2; i++) {
    filter_error = errors[i];
    const scene *s = play(FILTERED, "4");
    for (int rank = 0; rank < RANKS; rank++) {
      expect_reads(s, rank, false);
      CHECK(s->refused[rank] == RANKS - 1, "%llu peers", s->refused[rank]);
      CHECK(s->says_refused[rank], "dfcclGetConfiguration of rank %d does not say it", rank);
    }
  }
  const bool permitted = is_permitted();
  const scene *s = play(ONE_FILTERED, "4");
  for (int rank = 0; rank < RANKS; rank++) expect_reads(s, rank, permitted && rank != 0);
}

DF_TEST(single_copy, processes_that_must_not_be_read, 120) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  const bool permitted = is_permitted();
  const scene *s = play(NOT_DUMPABLE, "4");
  CHECK(s->refused[0] >= 1 && s->refused[2] >= 1, "rank 1 can be read");
  if (geteuid() != 0 || !permitted) DF_SKIP("the rest needs CAP_SYS_PTRACE");
  s = play(ONE_NO_PTRACE, "4");
  for (int rank = 0; rank < RANKS; rank++) expect_reads(s, rank, rank != 0);
  CHECK(s->refused[0] == RANKS - 1 && s->refused[1] == 0, "rank 0 has fewer rights");
}

DF_TEST(single_copy, another_pid_namespace, 60) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  const pid_t child = fork();
  int status;
  if (child == 0) _exit(unshare(CLONE_NEWPID) != 0);
  CHECK(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
  if (status != 0) DF_SKIP("no namespace can be made");
  const bool permitted = is_permitted();
  const scene *s = play(NAMESPACE, "4");
  CHECK(s->refused[0] == RANKS - 1, "rank 0 has read processes that it does not see");
  expect_reads(s, 0, false);
  for (int rank = 1; rank < RANKS; rank++) expect_reads(s, rank, permitted);
}

/* ---- memory that calls cannot read ---- */

enum { BYTES = 1 << 18 };

static void *map_secret(void) {
#ifdef SYS_memfd_secret
  const int fd = (int)syscall(SYS_memfd_secret, 0);
  if (fd < 0 || ftruncate(fd, BYTES) != 0) return NULL;
  void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? NULL : memory;
#else
  return NULL;
#endif
}
static void *map_device(void) {
  FILE *zero = fopen("/dev/zero", "r+");
  if (zero == NULL) return NULL;
  void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(zero), 0);
  fclose(zero);
  return memory == MAP_FAILED ? NULL : memory;
}

static void *(*map_memory)(void);
static void broadcast_mapped(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  scene *s = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  uint8_t *memory = map_memory();
  CHECK(memory != NULL, "no memory");
  OK(dfcclRegisterBroadcast(ctx, 1, BYTES, dfcclUint8, 0, NULL));
  for (int run = 0; run < 5; run++) {
    memset(memory, rank == 0 ? run + 1 : 0, BYTES);
    OK(dfcclRunBroadcast(ctx, 1, memory, memory, NULL, NULL));
    OK(dfcclWait(ctx, 1));
    for (int i = 0; i < BYTES; i++) CHECK(memory[i] == run + 1, "byte %d is %d", i, memory[i]);
  }
  read_counts(ctx, &s->reads[rank], &s->refused[rank]);
  df_finish(ctx);
}

static const scene *play_mapped(void *(*map)(void)) {
  scene *s = df_shared(sizeof *s);
  df_family family;
  map_memory = map;
  treatment = FREE;
  df_tune("way", "4");
  df_fork(&family, 2, 50, broadcast_mapped, s);
  df_join(&family);
  return s;
}

DF_TEST(single_copy, mappings_of_devices, 60) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  void *memory = map_device();
  if (memory == NULL) DF_SKIP("no /dev/zero");
  expect_reads(play_mapped(map_device), 1, is_permitted());
}

DF_TEST(single_copy, secret_memory, 60) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  if (map_secret() == NULL) DF_SKIP("no memfd_secret");
  expect_reads(play_mapped(map_secret), 1, false);
}

/* ---- reads that fail ---- */

static void expect_sentence(dfcclContext_t ctx, dfcclCollId_t id, const char *reason) {
  dfcclResult_t status;
  char text[512];
  OK(dfcclGetRunError(ctx, id, 1, &status, text, sizeof text));
  CHECK(status == dfcclRemoteError, "%s", df_test_result_name(status));
  CHECK(df_mentions(text, "rank 1 cannot read") && df_mentions(text, "rank 0 lent at 0x") &&
            df_mentions(text, reason),
        "\"%s\"", text);
}

static void await_step(scene *s, int step) { EVENTUALLY(atomic_load(&s->step) == step); }

static bool waits_for_readers(dfcclContext_t ctx) {
  return strstr(dump_of(ctx), "waits until its peers have read its buffers") != NULL;
}

/* Rank 0's memory becomes unreadable after it was lent, and before rank 1 reads it. */
static bool by_permission;
static void fail_in_between(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  scene *s = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  uint8_t *memory = map_device();
  for (dfcclCollId_t coll = 1; coll < 3; coll++)
    OK(dfcclRegisterBroadcast(ctx, coll, BYTES, dfcclUint8, 0, NULL));
  for (dfcclCollId_t coll = 1; coll < 3; coll++) {
    OK(dfcclRunBroadcast(ctx, coll, memory, memory, NULL, NULL));
    OK(dfcclWait(ctx, coll));
  }
  if (rank == 0) {
    OK(dfcclRunBroadcast(ctx, 1, memory, memory, NULL, NULL));
    EVENTUALLY(waits_for_readers(ctx));
    if (by_permission)
      CHECK(prctl(PR_SET_DUMPABLE, 0) == 0, "prctl");
    else
      CHECK(mprotect(memory, BYTES, PROT_NONE) == 0, "mprotect");
    atomic_store(&s->step, 1);
  } else {
    await_step(s, 1);
    OK(dfcclRunBroadcast(ctx, 1, memory, memory, NULL, NULL));
  }
  RESULT(dfcclWait(ctx, 1), dfcclRemoteError);
  expect_sentence(ctx, 1, by_permission ? "not permitted" : "Bad address");
  /* Other links with the peer lend nothing more by calls, and work. */
  CHECK(mprotect(memory, BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
  for (dfcclCollId_t coll = 2; coll < 4; coll++) {
    unsigned long long before, reads, refused;
    read_counts(ctx, &before, &refused);
    if (coll == 3) OK(dfcclRegisterBroadcast(ctx, coll, BYTES, dfcclUint8, 0, NULL));
    memset(memory, rank == 0 ? (int)coll : 0, BYTES);
    OK(dfcclRunBroadcast(ctx, coll, memory, memory, NULL, NULL));
    OK(dfcclWait(ctx, coll));
    for (int i = 0; i < BYTES; i++) CHECK(memory[i] == coll, "byte %d is %d", i, memory[i]);
    read_counts(ctx, &reads, &refused);
    CHECK(reads == before, "it was lent by calls");
  }
  df_finish(ctx);
}

static void play_failure(bool permission) {
  scene *s = df_shared(sizeof *s);
  df_family family;
  treatment = permission ? NO_PTRACE : FREE;
  by_permission = permission;
  df_tune("way", "4");
  df_on_rank_start(treat);
  df_fork(&family, 2, 50, fail_in_between, s);
  df_join(&family);
}

DF_TEST(single_copy, memory_that_cannot_be_read_any_more, 60) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  if (!is_permitted()) DF_SKIP("the system forbids such calls");
  play_failure(false);
}

DF_TEST(single_copy, a_permission_that_ends, 60) {
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  if (!is_permitted()) DF_SKIP("the system forbids such calls");
  play_failure(true);
}

/* ---- deaths ---- */

static void run_until_failure(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  static uint8_t send[1 << 20], recv[1 << 20];
  scene *s = arg;
  char other[16];
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  dfcclResult_t result = dfcclSuccess;
  OK(dfcclRegisterAllToAll(ctx, 1, sizeof send / (size_t)ranks, dfcclUint8, NULL));
  while (result == dfcclSuccess) {
    result = dfcclRunAllToAll(ctx, 1, send, recv, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, 1);
    atomic_fetch_add(&s->step, 1);
  }
  snprintf(other, sizeof other, "rank %d", !rank);
  RESULT(result, dfcclRemoteError);
  CHECK(df_mentions(dfcclGetLastError(ctx), other), "\"%s\"", dfcclGetLastError(ctx));
  df_finish(ctx);
}

DF_TEST(single_copy, a_process_that_dies, 120) {
  df_random random = {11};
  if (df_on_cuda()) DF_SKIP("a GPU's memory is not read by calls");
  treatment = FREE;
  df_tune("way", "4");
  for (int i = 0; i < 10; i++) {
    scene *s = df_shared(sizeof *s);
    df_family family;
    df_fork(&family, 2, 60, run_until_failure, s);
    EVENTUALLY(atomic_load(&s->step) > 20);
    usleep((useconds_t)df_random_below(&random, 3000));
    kill(family.pids[i % 2], SIGKILL);
    const int killed = df_reap(&family, i % 2), status = df_reap(&family, !(i % 2));
    CHECK(WIFSIGNALED(killed), "wait status %d", killed);
    CHECK(status == 0, "the survivor ended with wait status %d", status);
  }
}
