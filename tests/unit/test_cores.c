/*
 * Promises of src/devices/cores.c and of the facts that it gets:
 *   - A blocked executor publishes its processor.
 *   - It yields at once when the peer that it waits for was last seen on its own processor,
 *     otherwise when its patience has ended. Progress renews its patience.
 *   - If it yields time to peers on its own processor, it searches for a better one, the less often
 *     the less the search helps.
 *   - A move to another processor pins no thread, even if the set of allowed processors changes
 *     meanwhile.
 *   - Ranks that wait for each other on one processor search for another one; with spread=0 they do
 *     not.
 *   - A blocked step reports the processor of the peer that could help it, and nothing of a
 *     collective that was stepped before.
 */
#include "devices/cores.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "device.h"
#include "two_ranks.h"

/* Replaces the C library's function. The kernel refuses a set without an allowed processor. */
static int refuse_call;     /* number of the call that is refused, from now on; 0: none */
static atomic_int pretends; /* all processors are allowed, and each move is refused */
static atomic_int moves_tried;
int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *set) {
  if (atomic_load(&pretends)) {
    atomic_fetch_add(&moves_tried, 1);
    errno = EINVAL;
    return -1;
  }
  if (refuse_call != 0 && --refuse_call == 0) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_sched_setaffinity, thread, bytes, set);
}

int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set) {
  if (atomic_load(&pretends)) {
    memset(set, 0xff, bytes);
    return 0;
  }
  return syscall(SYS_sched_getaffinity, thread, bytes, set) < 0 ? -1 : 0;
}

/* Keeps this thread on one processor. */
static uint32_t pin(void) {
  cpu_set_t set;
  uint32_t cpu = df_cpu_current();
  CHECK(cpu != DF_NO_CPU && cpu < CPU_SETSIZE, "the processor is not known");
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) return DF_NO_CPU; /* moved and not allowed */
  CHECK(df_cpu_current() == cpu, "on processor %u", df_cpu_current());
  return cpu;
}

static uint64_t bit_of(uint32_t cpu) { return 1ull << cpu % 64; }

DF_TEST(cores, patience, 30) {
  df_bell bell = {0};
  df_cores cores = {.own = &bell, .patience = 5};
  uint32_t cpu = pin();
  for (uint32_t look = 1; look < 5; look++) {
    df_cores_give_way(&cores, cpu == DF_NO_CPU ? 0 : ~bit_of(cpu));
    CHECK(cores.looks == look, "%u looks", cores.looks);
  }
  if (cpu != DF_NO_CPU) CHECK(bell.cpu == cpu + 1, "%u is published", bell.cpu);
  df_cores_give_way(&cores, 0);
  CHECK(cores.looks == 0, "it did not yield after %u looks", cores.looks);
  df_cores_give_way(&cores, 0);
  CHECK(cores.looks == 1, "%u looks", cores.looks);
  df_cores_progressed(&cores);
  CHECK(cores.looks == 0, "%u looks after progress", cores.looks);
}

DF_TEST(cores, a_peer_on_the_same_processor, 30) {
  df_bell bell = {0};
  df_cores cores = {.own = &bell, .patience = UINT32_MAX};
  uint32_t cpu = pin();
  if (cpu == DF_NO_CPU) return;
  df_cores_give_way(&cores, 0);
  CHECK(cores.looks == 1, "%u looks", cores.looks);
  df_cores_give_way(&cores, bit_of(cpu));
  CHECK(cores.looks == 0, "it did not yield");
  df_cores_give_way(&cores, bit_of(cpu + 1));
  CHECK(cores.looks == 1, "it yielded for a peer elsewhere");
}

static int count_allowed(void) {
  uint64_t bits[64];
  int n = 0;
  df_cpu_allowed(bits, 64);
  for (int w = 0; w < 64; w++) n += __builtin_popcountll(bits[w]);
  return n;
}

DF_TEST(cores, moving_pins_no_thread, 30) {
  int before = count_allowed();
  for (int refused = 0; refused <= 2; refused++) {
    refuse_call = refused;
    int moved = df_cpu_move(df_cpu_current());
    CHECK(moved == (refused != 1), "moved: %d, refused call %d", moved, refused);
    CHECK(count_allowed() >= before, "call %d was refused: %d processors are left of %d", refused,
          count_allowed(), before);
  }
  refuse_call = 0;
}

DF_TEST(cores, allowed, 30) {
  uint64_t bits[2] = {0}, folded;
  uint32_t cpu = pin();
  df_cpu_allowed(bits, 2);
  CHECK((bits[0] | bits[1]) != 0, "no processor is allowed");
  if (cpu == DF_NO_CPU) return;
  CHECK(bits[cpu / 64 % 2] == bit_of(cpu) && bits[1 - cpu / 64 % 2] == 0, "only one is allowed");
  df_cpu_allowed(&folded, 1);
  CHECK(folded == bit_of(cpu), "numbers are taken modulo the bits");
}

static void no_ranks(void *host, uint16_t ranks[DF_CORES_SEEN]) {
  (void)ranks;
  ++*(uint32_t *)host;
}

enum { FIRST = DF_CORES_FIRST_LOSS_NS, YIELD = FIRST / DF_CORES_SAMPLE / 2 };

/* Time yielded to peers on the same core makes the executor search for a better one: after 200 us,
 * and each time after twice as long as before, until they have been apart for long. */
DF_TEST(cores, looks_for_a_better_core_when_too_much_is_lost, 30) {
  df_bell bell = {0};
  uint32_t looked = 0, cpu = df_cpu_current();
  uint64_t now = 1000000000, lost = 0, expected = FIRST;
  df_cores cores = {.own = &bell, .loss_ns = FIRST, .host = {&looked, no_ranks}};
  df_cores_met(&cores, now, now + DF_CORES_MEETING_NS - 1, cpu);
  CHECK(cores.lost_ns == 0, "nobody was there");
  for (uint32_t look = 0; look < 12; look++) {
    lost = 0;
    while (looked == look) {
      CHECK(lost < expected, "it has not looked after %llu ns", (unsigned long long)lost);
      df_cores_met(&cores, now, now + YIELD, cpu);
      lost += (uint64_t)YIELD * DF_CORES_SAMPLE;
      now += 2 * YIELD;
    }
    CHECK(lost >= expected, "it looked after %llu ns", (unsigned long long)lost);
    expected = DF_MIN(2 * expected, DF_CORES_LARGEST_LOSS_NS);
  }
  CHECK(expected == DF_CORES_LARGEST_LOSS_NS, "%llu", (unsigned long long)expected);
  now += DF_CORES_APART * expected;
  looked = 0;
  df_cores_met(&cores, now, now + YIELD, cpu);
  CHECK(looked == 0, "it looked at once");
  df_cores_met(&cores, now + 2 * YIELD, now + 3 * YIELD, cpu);
  CHECK(looked == 1, "it was not impatient again after a long time apart");
}

DF_TEST(cores, never_looks_for_a_better_core_if_forbidden, 30) {
  df_bell bell = {0};
  uint32_t looked = 0, cpu = pin();
  df_cores cores = {.own = &bell, .patience = UINT32_MAX, .host = {&looked, no_ranks}};
  if (cpu == DF_NO_CPU) return;
  for (uint32_t i = 0; i < 1000; i++) df_cores_give_way(&cores, bit_of(cpu));
  CHECK(looked == 0 && cores.together_ns == 0, "it looked although it must not");
  cores.loss_ns = cores.patience = 1;
  for (uint32_t i = 0; looked == 0 && i < 1000; i++) df_cores_give_way(&cores, bit_of(cpu + 1));
  CHECK(looked == 0 && cores.yields == 0, "no yield to a peer elsewhere is timed");
}

DF_TEST(cores, better, 30) {
  static uint16_t ranks[DF_CORES_SEEN];
  static uint64_t allowed[DF_CORES_SEEN / 64];
  CHECK(df_cores_better(ranks, allowed, 3) == DF_NO_CPU, "nothing is allowed");
  memset(allowed, 0xff, sizeof allowed);
  ranks[3] = 1;
  CHECK(df_cores_better(ranks, allowed, 3) == DF_NO_CPU, "it is alone");
  ranks[3] = 2;
  CHECK(df_cores_better(ranks, allowed, 3) == 4, "the next empty one");
  for (uint32_t i = 0; i < DF_CORES_SEEN; i++) ranks[i] = 1;
  ranks[3] = 2;
  CHECK(df_cores_better(ranks, allowed, 3) == DF_NO_CPU, "no better than here");
  ranks[3] = 3;
  CHECK(df_cores_better(ranks, allowed, 3) == 4, "from 3 and 1 to 2 and 2");
  ranks[1023] = 0;
  CHECK(df_cores_better(ranks, allowed, 3) == 1023, "the emptiest");
  allowed[15] = 0;
  CHECK(df_cores_better(ranks, allowed, 3) == 4, "it may not go there");
}

/* ---- two ranks on one processor */

typedef struct meeting {
  dfcclContext_t context;
  int rounds;
} meeting;

static void *play_rank(void *argument) {
  const meeting *m = argument;
  int32_t send[4] = {0}, recv[4];
  for (int round = 0; round < m->rounds; round++) {
    OK(dfcclRunAllReduce(m->context, 1, send, recv, NULL, NULL));
    OK(dfcclWait(m->context, 1));
  }
  return NULL;
}

static void in_threads(void *(*body)(void *), void *first, void *second) {
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, body, first) == 0, "no thread");
  CHECK(pthread_create(&threads[1], NULL, body, second) == 0, "no thread");
  for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
}

/* Rounds of a collective on the caller's processor, until a rank has tried to move, or that many.
 * Returns the number of rounds. */
static int meet(const char *spread, int rounds) {
  enum { AT_ONCE = 100 };
  dfcclContext_t ctxs[2];
  int played = 0;
  df_tune("spread", spread);
  two_ranks_open(ctxs);
  for (int r = 0; r < 2; r++) OK(dfcclRegisterAllReduce(ctxs[r], 1, 4, dfcclInt32, dfcclSum, NULL));
  atomic_store(&moves_tried, 0);
  atomic_store(&pretends, 1);
  while (atomic_load(&moves_tried) == 0 && (rounds == 0 || played < rounds)) {
    meeting m[2] = {{ctxs[0], AT_ONCE}, {ctxs[1], AT_ONCE}};
    in_threads(play_rank, &m[0], &m[1]);
    played += AT_ONCE;
  }
  atomic_store(&pretends, 0);
  two_ranks_close(ctxs);
  return played;
}

DF_TEST(cores, ranks_on_one_processor_spread_unless_they_must_not, 60) {
  if (pin() == DF_NO_CPU) DF_SKIP("it cannot stay on one processor");
  int rounds = meet("1", 0);
  meet("0", 5 * rounds);
  CHECK(atomic_load(&moves_tried) == 0, "with spread=0 a rank tried to move");
}

static const df_primitive receive = {
    .flags = DF_PRIM_RECV | DF_PRIM_STORE, .destination = DF_BUFFER_OUTPUT, .recv_link = 0};
static const df_primitive send = {.flags = DF_PRIM_SEND, .source = DF_BUFFER_INPUT, .send_link = 1};

/* Collective c waits for a message of a peer on processor 9, or for a credit of one on 70. */
static void make_stuck(device *d, uint32_t c, df_link links[2], df_bell bells[2], uint8_t *rings,
                       uint8_t *buffer, const df_primitive *primitive) {
  for (uint32_t i = 0; i < 2; i++)
    links[i] = (df_link){.slots = rings + 256 * i,
                         .credit = (uint64_t *)(rings + 256 * i + 128),
                         .peer_bell = &bells[i],
                         .stride = 64,
                         .slot_mask = 1,
                         .messages = i ? 3 : 1, /* more than the ring holds: it waits for credit */
                         .payload_offset = DF_LINK_FLAGGED_OFFSET,
                         .sends = (uint8_t)i};
  df_descriptor *desc = &d->storage[c];
  desc->primitives = primitive;
  desc->n_primitives = 1;
  desc->links = links;
  desc->n_links = 2;
  desc->count = 8;
  desc->pieces = 1;
  desc->element_bytes = 1;
  desc->type = dfcclUint8;
  desc->direct_min = UINT64_MAX;
  desc->parts[0] = (df_part){.elements = 8, .chunk = 8, .loops = 1};
  for (int run = 0; run < DF_RUNS_AHEAD; run++)
    desc->words->runs[run] = (df_run_arguments){.send = buffer, .recv = buffer + 8};
}

DF_TEST(cores, blocked_steps_report_the_peers_processor, 30) {
  const df_tunables tunables = {
      .spin_front = 2, .spin_min = 1, .spin_boost = 1, .fetch_polls = 1, .quit_polls = 1000};
  device *d = device_make(1, tunables);
  df_link links[2];
  df_bell bells[2] = {{.cpu = 9 + 1}, {.cpu = 70 + 1}};
  DF_ALIGNED(64) uint8_t rings[512] = {0}, buffer[16] = {0};
  df_block *block = &d->blocks[0];
  df_lanes *lanes = &d->lanes[0];
  make_stuck(d, 1, links, bells, rings, buffer, &receive);
  device_submit(d, 1);
  df_lifecycle_start(block);
  CHECK(df_daemon_turn(block, lanes) == DF_TURN_WAITED, "it is not stuck");
  CHECK(lanes->waits_on == bit_of(9), "waits for %llx", (unsigned long long)lanes->waits_on);

  df_primitive third = send;
  third.send_ordinal = 2;
  make_stuck(d, 2, links, bells, rings, buffer, &third);
  d->words_of[1].cancel =
      dfcclAborted; /* the first rank leaves the processor, the second one arrives */
  device_submit(d, 2);
  uint32_t turns = 0;
  while (df_daemon_turn(block, lanes) != DF_TURN_COMPLETED)
    CHECK(turns++ < 100, "it was not cancelled");
  lanes->waits_on = 0;
  CHECK(df_daemon_turn(block, lanes) == DF_TURN_WAITED, "it is not stuck");
  CHECK(lanes->waits_on == bit_of(70), "waits for %llx", (unsigned long long)lanes->waits_on);

  lanes->waits_on = 0;
  links[1].same_process = 1;
  d->storage[2].direct_min = 1;
  links[1].messages = 1;
  third.send_ordinal = 0;
  CHECK(df_daemon_turn(block, lanes) == DF_TURN_WORKED, "it has not lent its buffer");
  CHECK(df_daemon_turn(block, lanes) == DF_TURN_WAITED, "its buffer is back");
  CHECK(lanes->waits_on == bit_of(70), "with a buffer lent it waits for %llx",
        (unsigned long long)lanes->waits_on);

  lanes->waits_on = 0;
  bells[1].cpu = 0;
  df_daemon_turn(block, lanes);
  CHECK(lanes->waits_on == 0, "a peer that was never stuck is on no processor");
  free(d);
}
