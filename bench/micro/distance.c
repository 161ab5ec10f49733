/*
 * How far two processors are from each other, measured repeatedly: a host may move the
 * processors of a virtual machine at any time. Each measurement prints the time of a cache line to
 * the other processor and back (least of 20 batches). Then the bandwidth of messages of 128 KB
 * through a ring of 2 MB in shared memory, with slots written through the caches and past the
 * caches (docs/PERFORMANCE.md); medians of 21. Other programs on the two processors disturb the
 * figures.
 */
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "primitives/movers/mover_cpu.h"

enum {
  SLOT_BYTES = 128 << 10,
  SLOTS = 16,
  BATCHES = 20,
  TRIPS = 25, /* round trips of a batch */
  TRANSFERS = 21
};
#define OWN_BYTES ((size_t)SLOTS / 2 * SLOT_BYTES)

typedef struct shared {
  DF_ALIGNED(128) uint32_t ping;
  DF_ALIGNED(128) uint32_t pong;
  DF_ALIGNED(128) uint32_t filled;
  DF_ALIGNED(128) uint32_t emptied;
  DF_ALIGNED(4096) uint8_t ring[SLOTS * SLOT_BYTES];
} shared;

static shared *world;
static uint8_t *own; /* the line that is sent, and the line that is received */
static uint32_t trips, messages;

typedef void (*copy_fn)(void *dst, const void *src, size_t bytes);

static uint64_t least_round_trip(int is_first) {
  uint64_t least = UINT64_MAX;
  for (int batch = 0; batch < BATCHES; batch++) {
    uint64_t start = df_clock_ns();
    for (int trip = 0; trip < TRIPS; trip++) {
      trips++;
      if (is_first) df_publish_u32(&world->ping, trips);
      while (df_observe_u32(is_first ? &world->pong : &world->ping) != trips) continue;
      if (!is_first) df_publish_u32(&world->pong, trips);
    }
    least = DF_MIN(least, (df_clock_ns() - start) / TRIPS);
  }
  return least;
}

/* One transfer of a ring's capacity; GB/s. */
static double transfer(int is_first, copy_fn fill, copy_fn empty) {
  uint64_t start = df_clock_ns();
  for (uint32_t i = 0; i < SLOTS; i++, messages++) {
    uint8_t *slot = world->ring + (size_t)(messages % SLOTS) * SLOT_BYTES;
    uint8_t *mine = own + (size_t)(i % (SLOTS / 2)) * SLOT_BYTES;
    if (is_first) {
      while (messages - df_observe_u32(&world->emptied) >= SLOTS) continue;
      fill(slot, mine, SLOT_BYTES);
      df_publish_u32(&world->filled, messages + 1);
    } else {
      while (df_observe_u32(&world->filled) <= messages) continue;
      empty(mine, slot, SLOT_BYTES);
      df_publish_u32(&world->emptied, messages + 1);
    }
  }
  while (df_observe_u32(&world->emptied) != messages) continue;
  return (double)SLOTS * SLOT_BYTES / (double)(df_clock_ns() - start);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_transfer(int is_first, copy_fn fill, copy_fn empty) {
  double speeds[TRANSFERS];
  for (int i = 0; i < TRANSFERS; i++) speeds[i] = transfer(is_first, fill, empty);
  qsort(speeds, TRANSFERS, sizeof *speeds, compare);
  return speeds[TRANSFERS / 2];
}

static void print_line(uint64_t round_trip, double through, double past) {
  time_t now = time(NULL);
  char text[16];
  strftime(text, sizeof text, "%H:%M:%S", gmtime(&now));
  printf("%s %12llu %16.1f %16.1f\n", text, (unsigned long long)round_trip, through, past);
  fflush(stdout);
}

static void measure(int is_first, int times) {
  const df_mover_cpu *mover = df_mover_cpu_best();
  for (int i = 0; i < times; i++) {
    uint64_t round_trip = least_round_trip(is_first);
    double through = median_transfer(is_first, mover->copy, mover->copy);
    double past = median_transfer(is_first, mover->copy_stream, mover->copy);
    if (is_first) print_line(round_trip, through, past);
    if (i + 1 < times) sleep(1);
  }
}

static int stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

static int usage(void) {
  fprintf(stderr, "usage: bench-distance [--cpus A,B] [--times N]    (0,1 and 10)\n");
  return 2;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"cpus", required_argument, NULL, 'c'}, {"times", required_argument, NULL, 't'}, {0}};
  int cpus[2] = {0, 1}, times = 10, option;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (option == 'c' && sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) == 2 && cpus[0] >= 0 &&
        cpus[1] >= 0 && cpus[0] < CPU_SETSIZE && cpus[1] < CPU_SETSIZE && cpus[0] != cpus[1])
      continue;
    if (option == 't' && (times = atoi(optarg)) > 0) continue;
    return usage();
  }
  if (optind != argc) return usage();
  world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  own = aligned_alloc(4096, OWN_BYTES);
  if (world == MAP_FAILED || own == NULL) {
    fprintf(stderr, "no memory\n");
    return 1;
  }
  memset(own, 1, OWN_BYTES);
  memset(world->ring, 1, sizeof world->ring);
  if (!stay_on(cpus[0]) || !stay_on(cpus[1])) {
    fprintf(stderr, "processor %d or %d may not be used\n", cpus[0], cpus[1]);
    return 1;
  }
  pid_t other = fork();
  if (other < 0) {
    perror("fork");
    return 1;
  }
  if (other == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it would spin without the other one */
  } else {
    stay_on(cpus[0]);
    printf("%-8s %12s %16s %16s\n", "time", "there+back ns", "through GB/s", "past GB/s");
  }
  measure(other > 0, times);
  if (other == 0) _exit(0);
  int status;
  return waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
}
