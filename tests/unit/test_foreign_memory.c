/*
 * Promises of src/primitives/foreign_memory.h and lend_by_call.h, with a system call that the test
 * replaces:
 *   - A process is read only if it has the number that its rank has announced, and only the process
 *     at the other end of the connection. Why a call is impossible makes no difference.
 *   - Short reads are continued, and data of another process never count as the peer's.
 *   - A buffer that calls cannot read is not lent. Runs after the first one make no call for that.
 *   - Copies and results are those of lent mapped memory.
 *   - If a read fails, nothing of the message is committed, the collective is given up with rank,
 *     address and error, the buffer is returned, and the peer receives a refusal, so that it lends
 *     nothing more by calls. A peer that has died is left to the control connection, but not for
 *     ever.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stepper.h"

/* ---- the replaced call ---- */

typedef struct {
  int calls, error, from_call; /* calls from that number on fail with the error */
  ssize_t most;                /* bytes of one call; 0: no limit */
  int interrupts;              /* so many calls are interrupted first */
} call_plan;

static call_plan plan;

static ssize_t read_short(const struct iovec *here, const struct iovec *there, ssize_t most) {
  ssize_t all = 0;
  for (int i = 0; i < 2; i++) {
    size_t n = here[i].iov_len;
    if (most > 0 && all + (ssize_t)n > most) n = (size_t)(most - all);
    memcpy(here[i].iov_base, there[i].iov_base, n);
    all += (ssize_t)n;
  }
  return all;
}

static ssize_t replaced(pid_t process, const struct iovec *here, unsigned long n_here,
                        const struct iovec *there, unsigned long n_there, unsigned long flags) {
  CHECK(process == getpid() && n_here == 2 && n_there == 2 && flags == 0, "another call");
  for (int i = 0; i < 2; i++)
    CHECK((int64_t)(uintptr_t)there[i].iov_base > 0, "the mark is in the address of a call");
  if (plan.interrupts > 0) {
    plan.interrupts--;
    errno = EINTR;
    return -1;
  }
  plan.calls++;
  if (plan.error && plan.calls > plan.from_call) {
    errno = plan.error;
    return -1;
  }
  return read_short(here, there, plan.most);
}

static void replace(void) {
  memset(&plan, 0, sizeof plan);
  df_read_process_call = replaced;
}

/* ---- cards and reads ---- */

static uint64_t number;
static df_process_identity make_identity(void) {
  df_process_identity identity = {0};
  replace();
  df_process_identify(&identity, &number);
  CHECK(identity.number_at == (uint64_t)(uintptr_t)&number && identity.number == number,
        "it describes another process");
  return identity;
}

DF_TEST(foreign_memory, the_system_permits_or_refuses, 30) {
  const uint64_t self = (uint64_t)getpid();
  df_process_identity identity = make_identity();
  df_read_process_call = process_vm_readv;
  if (!df_process_is_readable(self, &identity)) DF_SKIP("the system forbids such calls");
  identity.number++;
  CHECK(!df_process_is_readable(self, &identity), "another number is enough");
  identity.number--;
  CHECK(!df_process_is_readable(0, &identity), "no process can be read");
}

DF_TEST(foreign_memory, what_is_refused_is_not_read, 30) {
  static const int errors[] = {EPERM, ENOSYS, ESRCH, EFAULT, ENOMEM};
  const uint64_t self = (uint64_t)getpid();
  df_process_identity identity = make_identity();
  CHECK(df_process_is_readable(self, &identity) && plan.calls == 1, "one call of the first probe");
  for (size_t i = 0; i < DF_COUNT_OF(errors); i++) {
    replace();
    plan.error = errors[i];
    CHECK(!df_process_is_readable(self, &identity) && plan.calls == 1, "%s", strerror(errors[i]));
  }
  for (plan = (call_plan){.most = 1}; plan.most < 9; plan.most++)
    CHECK(!df_process_is_readable(self, &identity), "%zd bytes", plan.most);
  plan.most = 0;
  plan.interrupts = 3;
  CHECK(df_process_is_readable(self, &identity), "an interrupted call is repeated");
  number++;
  CHECK(!df_process_is_readable(self, &identity), "another process with the same id");
  identity = (df_process_identity){0};
  CHECK(!df_process_is_readable(self, &identity), "a peer that has no number");
}

static df_foreign_memory memory_of(const df_process_identity *identity, uint32_t *refusal) {
  return (df_foreign_memory){
      .process = (uint64_t)getpid(), .identity = *identity, .refusal = refusal};
}
static const void *marked(const void *at) {
  return (const void *)((uintptr_t)at | DF_LENT_BY_CALL);
}

DF_TEST(foreign_memory, no_third_process_is_read, 30) {
  int ends[2], file[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0 && pipe(file) == 0, "no socket");
  CHECK(df_process_of_socket(ends[0]) == 0, "this process is no peer");
  CHECK(df_process_of_socket(file[0]) == 0 && df_process_of_socket(-1) == 0, "no socket");
}

DF_TEST(foreign_memory, reads_are_complete_or_fail, 30) {
  static uint8_t theirs[3000], mine[3000];
  const df_process_identity identity = make_identity();
  df_foreign_memory memory = memory_of(&identity, NULL);
  for (size_t i = 0; i < sizeof theirs; i++) theirs[i] = (uint8_t)(i * 7);
  for (ssize_t most = 0; most < 1100; most += most < 12 ? 1 : 217) {
    memset(mine, 0, sizeof mine);
    replace();
    plan.most = most;
    const int error = df_foreign_memory_read(&memory, mine, marked(theirs), sizeof mine);
    const int expected = most == 0 || most > 8 ? 0 : most == 8 ? EFAULT : ESRCH;
    CHECK(error == expected, "at most %zd bytes a call: %s", most, strerror(error));
    CHECK(error || memcmp(mine, theirs, sizeof mine) == 0, "wrong data, %zd bytes a call", most);
  }
  replace();
  plan = (call_plan){.most = 1000, .error = EPERM, .from_call = 2};
  CHECK(df_foreign_memory_read(&memory, mine, marked(theirs), sizeof mine) == EPERM,
        "in the middle");
  replace();
  number++;
  CHECK(df_foreign_memory_read(&memory, mine, marked(theirs), sizeof mine) == ESRCH,
        "data of another process count");
  CHECK(memory.reads > 0 && memory.failures == 10, "%llu failures",
        (unsigned long long)memory.failures);
}

DF_TEST(foreign_memory, addresses_are_sane, 30) {
  const df_process_identity identity = make_identity();
  df_foreign_memory memory = memory_of(&identity, NULL);
  const uint64_t all = DF_LENT_BY_CALL;
  CHECK(df_foreign_memory_may_read(&memory, all | 4096, 64, 4), "any address of a program");
  CHECK(!df_foreign_memory_may_read(&memory, all | 4098, 64, 4), "misaligned");
  CHECK(df_foreign_memory_may_read(&memory, all | (all - 128), 64, 4), "the last ones");
  CHECK(!df_foreign_memory_may_read(&memory, all | (all - 64), 128, 4), "beyond the end");
  memory.process = 0;
  CHECK(!df_foreign_memory_may_read(&memory, all | 4096, 64, 4), "nobody may read");
}

DF_TEST(foreign_memory, own_buffers_are_checked_once, 30) {
  static uint8_t buffer[4096], other[64];
  replace();
  CHECK(df_own_memory_is_readable(buffer, buffer + 64, 64) && plan.calls == 1, "checked");
  CHECK(df_own_memory_is_readable(buffer, buffer + 64, 64) && plan.calls == 1, "remembered");
  CHECK(df_own_memory_is_readable(buffer, buffer + 1024, 64) && plan.calls == 2, "further");
  CHECK(df_own_memory_is_readable(buffer, buffer + 512, 64) && plan.calls == 2, "between");
  CHECK(df_own_memory_is_readable(buffer, buffer, 8) && plan.calls == 3, "before");
  plan.error = EFAULT;
  CHECK(!df_own_memory_is_readable(other, other, 64) && plan.calls == 4, "it cannot be read");
  CHECK(!df_own_memory_is_readable(other, other, 64) && plan.calls == 4, "and that is remembered");
  CHECK(df_own_memory_is_readable(buffer, buffer, 8) && plan.calls == 4, "the other one can");
  CHECK(!df_own_memory_is_readable(buffer, buffer + 2048, 8), "no longer");
  CHECK(!df_own_memory_is_readable(NULL, NULL, 8), "nothing");
}

/* ---- steps ---- */

typedef struct scene {
  fixture f;
  df_mapped_ranges ranges;
  uint32_t refusal;
  df_process_identity identity;
  int32_t theirs[ELEMENTS];
} scene;

static void open_scene(scene *s, const df_primitive *p) {
  make(&s->f, p, 1);
  memset(&s->ranges, 0, sizeof s->ranges);
  s->identity = make_identity();
  s->refusal = 0;
  s->ranges.foreign = memory_of(&s->identity, &s->refusal);
  s->f.links[0].same_process = s->f.links[1].same_process = 0;
  s->f.links[0].mapped_ranges = &s->ranges;
  s->f.links[0].peer = 5;
  for (int i = 0; i < ELEMENTS; i++) s->theirs[i] = 1000 + i;
}

static void lend_to(scene *s, uint64_t sequence, const void *at) {
  df_link *link = &s->f.links[0];
  *(uint64_t *)(df_link_slot(link, sequence) + DF_LINK_FLAGGED_OFFSET) =
      (uint64_t)(uintptr_t)marked(at);
  df_link_publish(link, sequence, DF_COMMIT_DIRECT);
}

STEP_TEST(lend_by_call, results_are_those_of_mapped_memory) {
  static scene s;
  static const struct {
    uint32_t flags;
    int first, slope, is_stored, is_sent;
  } cases[] = {
      {DF_PRIM_RECV | DF_PRIM_STORE, 1000, 1, 1, 0},
      {DF_PRIM_RECV | DF_PRIM_SEND, 1000, 1, 0, 1},
      {DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND, 1000, 1, 1, 1},
      {DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE, 1001, 2, 1, 0},
      {DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SOURCE_FIRST | DF_PRIM_STORE, 1001, 2, 1, 0},
      {DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND, 1001, 2, 0, 1},
      {DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE | DF_PRIM_SEND, 1001, 2, 1, 1},
  };
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    const int reduces = (cases[i].flags & DF_PRIM_REDUCE) != 0;
    df_primitive p = primitive(cases[i].flags, reduces ? DF_BUFFER_INPUT : DF_BUFFER_NONE,
                               cases[i].is_stored ? DF_BUFFER_OUTPUT : DF_BUFFER_NONE);
    open_scene(&s, &p);
    lend_to(&s, 1, s.theirs);
    CHECK(step(&s.f) == DF_STEP_DONE && plan.calls == 1, "case %zu: %d calls", i, plan.calls);
    if (cases[i].is_stored) expect_values(s.f.output, cases[i].first, cases[i].slope, "the output");
    if (cases[i].is_sent) expect_values(sent(&s.f, 1), cases[i].first, cases[i].slope, "message");
    CHECK(released(&s.f) == 1 && s.f.links[0].credit[1] == 0, "it is returned");
  }
}

/* Ranks that are forks of one process have their buffers at one address. */
STEP_TEST(lend_by_call, an_address_of_ours_is_not_in_place) {
  static scene s;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  open_scene(&s, &p);
  lend_to(&s, 1, s.f.output);
  CHECK(step(&s.f) == DF_STEP_DONE && plan.calls == 1, "it is read");
}

STEP_TEST(lend_by_call, a_peer_that_cannot_be_read_is_not_followed) {
  static scene s;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  open_scene(&s, &p);
  s.ranges.foreign.process = 0;
  lend_to(&s, 1, s.theirs);
  CHECK(step(&s.f) == DF_STEP_BLOCKED && plan.calls == 0, "it is read");
  expect_untouched(&s.f);
}

STEP_TEST(lend_by_call, a_failed_read_commits_nothing) {
  static scene s;
  static const int errors[] = {EFAULT, EPERM, ENOSYS};
  for (size_t i = 0; i < DF_COUNT_OF(errors); i++) {
    df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE | DF_PRIM_SEND,
                               DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
    open_scene(&s, &p);
    plan = (call_plan){.error = errors[i], .from_call = i == 0, .most = i == 0 ? 16 : 0};
    lend_to(&s, 1, s.theirs);
    CHECK(step(&s.f) == DF_STEP_BLOCKED, "it goes on");
    expect_untouched(&s.f);
    CHECK(s.f.words.cancel == dfcclRemoteError, "the collective is not given up");
    CHECK(s.f.counters.unread_rank == 5 && s.f.counters.unread_error == (uint32_t)errors[i] &&
              s.f.counters.unread_address == (uint64_t)(uintptr_t)s.theirs,
          "the reason");
    CHECK(s.refusal == 1 && s.f.links[0].credit[1] == 0, "refused, and returned");
    CHECK(step(&s.f) == DF_STEP_CANCELLED, "the run ends");
  }
}

STEP_TEST(lend_by_call, the_owners_death_is_reported_by_others) {
  static scene s;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  open_scene(&s, &p);
  lend_to(&s, 1, s.theirs);
  plan.error = ESRCH;
  for (int i = 0; i < 3; i++) CHECK(step(&s.f) == DF_STEP_BLOCKED, "it goes on");
  CHECK(s.f.words.cancel == 0 && s.refusal == 0, "given up at once");
  CHECK(df_coll_is_runnable(&s.f.desc, 0, &s.f.cursor), "it would sleep for ever");
  s.ranges.foreign.gone_ns -= 2000000000; /* time passes */
  CHECK(step(&s.f) == DF_STEP_BLOCKED && s.f.words.cancel == dfcclRemoteError, "it waits for ever");
  CHECK(s.f.counters.unread_error == ESRCH, "the reason");
}

STEP_TEST(lend_by_call, a_buffer_that_was_taken_back_counts_for_nothing) {
  static scene s;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  open_scene(&s, &p);
  lend_to(&s, 1, s.theirs);
  CHECK(df_link_revoke(&s.f.links[0]), "nobody reads");
  CHECK(step(&s.f) == DF_STEP_BLOCKED && plan.calls == 0, "it is read");
  expect_untouched(&s.f);
}

/* ---- senders ---- */

static int lends(scene *s, df_ways *ways) {
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  const uint32_t refusal = s->refusal;
  const int error = plan.error;
  open_scene(s, &p);
  s->refusal = refusal;
  plan.error = error;
  s->f.desc.direct_min = 1;
  s->f.links[1].ways = ways;
  CHECK(step(&s->f) != DF_STEP_BLOCKED, "there is room");
  int direct;
  CHECK(df_link_has_message(&s->f.links[1], 1, &direct), "it is not sent");
  const uint64_t *address =
      (const uint64_t *)(df_link_slot(&s->f.links[1], 1) + DF_LINK_FLAGGED_OFFSET);
  CHECK(!direct || *address == ((uint64_t)(uintptr_t)s->f.input | DF_LENT_BY_CALL), "not marked");
  return direct;
}

STEP_TEST(lend_by_call, what_may_be_lent) {
  static scene s;
  df_ways ways;
  df_ways_open(&ways, (df_ways_terms){.forced = 1 + DF_WAY_LENT}, 0, NULL);
  CHECK(!lends(&s, NULL) && !lends(&s, &ways), "nobody has asked for it");
  ways.calls.refusal = &s.refusal;
  ways.calls.bytes_min = sizeof s.f.input;
  CHECK(lends(&s, &ways), "long enough");
  CHECK(s.f.cursor.phase == DF_PHASE_DRAIN, "and waited for");
  ways.calls.bytes_min++;
  CHECK(!lends(&s, &ways), "too short");
  ways.calls.bytes_min = 1;
  s.refusal = 1;
  CHECK(!lends(&s, &ways), "the reader has refused");
  s.refusal = 0;
  static scene secret; /* another address, which is not remembered */
  plan.error = EFAULT;
  ways.calls.refusal = &secret.refusal;
  CHECK(!lends(&secret, &ways), "it cannot be read");
}

static uint32_t way_of_next(df_ways *ways) {
  int is_timed;
  const df_way_message message = {.bytes = 65536, .may_lend = 1};
  return df_ways_next(ways, &message, &is_timed);
}

/* Lending mapped memory and lending by calls cost different times. */
DF_TEST(lend_by_call, is_learnt_by_itself, 30) {
  const df_ways_terms terms = {0};
  df_ways ways;
  for (int calls = 0; calls < 2; calls++)
    for (int lends = 0; lends < 2; lends++) {
      const df_way_record result = {.lends = (uint8_t)lends}, other = {.lends = (uint8_t)!lends};
      df_ways_memory mapped = {.records = {df_way_record_word(calls ? &other : &result, 16)}};
      df_ways_memory by_calls = {.records = {df_way_record_word(calls ? &result : &other, 16)}};
      df_ways_open(&ways, terms, 0, &mapped);
      ways.calls.ways = &by_calls;
      CHECK(df_ways_lends(&ways, calls ? DF_LENDS_BY_CALL : DF_LENDS_MAPPED), "the first");
      CHECK(df_ways_lends(&ways, DF_LENDS_MAPPED), "mapped memory is always lent");
      CHECK(df_ways_lends(&ways, DF_LENDS_BY_CALL) == calls, "the link is of one kind");
      CHECK((way_of_next(&ways) == DF_WAY_LENT) == lends, "calls %d, lends %d", calls, lends);
      CHECK(ways.memory == (calls ? &by_calls : &mapped), "it would save at another place");
    }
  df_ways_open(&ways, terms, 0, NULL);
  CHECK(df_ways_lends(&ways, DF_LENDS_BY_CALL), "the first");
  CHECK(way_of_next(&ways) != DF_WAY_LENT, "before a trial has won");
}
