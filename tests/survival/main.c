/*
 * Promise: whatever dies, is silent, or loses messages, the members of a job that go on agree.
 *   (a) Two living members never have installed different views of one number.
 *   (b) A run ends in the same way on all members: with the same contributions, or failed. No run
 *       that a member has completed is executed again, and none completes without its data.
 *   (c) When nothing can happen any more, no member waits, all members of a living member's view
 *       live and have installed it, and all runs have ended.
 *   (d) No member lives on outside of another living member's view.
 * No message of a correct member is refused.
 *
 * The program plays the state machines of src/control/view.h in worlds of 2 to 6 members and a
 * newcomer: all states of small worlds, and walks at random by seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "search.h"

typedef struct {
  const char *name;
  world_shape shape;
} small_world;

static const small_world worlds[] = {
    {"two_members", {.members = 2, .reruns = 1, .runs = 1, .crashes = 1, .silences = 1}},
    {"three_crashes", {.members = 3, .reruns = 1, .runs = 1, .crashes = 2}},
    {"three_silences", {.members = 3, .reruns = 0, .runs = 1, .crashes = 1, .silences = 1}},
    {"three_leave", {.members = 3, .reruns = 1, .runs = 1, .crashes = 1, .leaves = 1}},
    {"three_hosts",
     {.members = 3, .reruns = 1, .runs = 1, .crashes = 1, .breaks = 1, .several_hosts = 1}},
    {"three_join",
     {.members = 3,
      .joins = 1,
      .reruns = 1,
      .runs = 1,
      .before_admit = 1,
      .crashes = 1,
      .silences = 1}},
    {"four_crashes", {.members = 4, .reruns = 1, .runs = 1, .crashes = 2}},
    {"four_pair", {.members = 4, .reruns = 1, .runs = 0, .breaks = 1, .several_hosts = 1}},
    {"join_pair",
     {.members = 3,
      .joins = 1,
      .newcomer_is_lowest = 1,
      .reruns = 1,
      .breaks = 1,
      .several_hosts = 1}},
    {"join_silence",
     {.members = 3, .joins = 1, .newcomer_is_lowest = 1, .reruns = 1, .silences = 1}},
};
enum { WORLDS = sizeof worlds / sizeof *worlds };

static const char usage[] =
    "Plays the agreement on views in simulated worlds.\n"
    "\n"
    "  survival [OPTION...]\n"
    "\n"
    "  --seeds N         walks at random, one for each seed (default 0)\n"
    "  --first SEED      the first seed (default 1)\n"
    "  --trace           prints each event; with --seeds 1 it shows a failure\n"
    "  --all             searches all states of the small worlds\n"
    "  --world NAME      only of this world\n"
    "  --states N        stops a search after N states (default 100000000)\n"
    "  --seconds S       stops each search, and the walks, after S seconds\n"
    "  --set NAME=VALUE  changes a number of the searched world, or of all walks\n"
    "  --planted N       activates fault N of plant.py (only in survival_planted)\n"
    "  --list            prints the small worlds and the numbers of a world\n"
    "  --help            prints this text\n";

static const struct {
  const char *name;
  size_t offset;
} numbers[] = {
#define NUMBER(name)                                                                               \
  { #name, offsetof(world_shape, name) }
    NUMBER(members),  NUMBER(joins),         NUMBER(newcomer_is_lowest),
    NUMBER(reruns),   NUMBER(several_hosts), NUMBER(strict),
    NUMBER(runs),     NUMBER(before_admit),  NUMBER(runs_of_part),
    NUMBER(part),     NUMBER(runs_of_all),   NUMBER(crashes),
    NUMBER(silences), NUMBER(excludes),      NUMBER(breaks),
    NUMBER(leaves),   NUMBER(deregisters),   NUMBER(full_sockets),
    NUMBER(parts),    NUMBER(prompt),        NUMBER(may_all_stop),
    NUMBER(proofs),
};

static struct {
  uint64_t seeds, first, states;
  double seconds;
  int all, sets;
  const char *world, *set[32];
} options = {.first = 1, .states = 100000000, .seconds = 1e9};

static int set_number(world_shape *shape, const char *text) {
  const char *value = strchr(text, '=');
  for (size_t i = 0; value && i < sizeof numbers / sizeof *numbers; i++)
    if (strlen(numbers[i].name) == (size_t)(value - text) &&
        strncmp(numbers[i].name, text, (size_t)(value - text)) == 0) {
      const int number = atoi(value + 1);
      memcpy((char *)shape + numbers[i].offset, &number, sizeof number);
      return 1;
    }
  return 0;
}

static void print_list(void) {
  for (int i = 0; i < WORLDS; i++) printf("%s\n", worlds[i].name);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) printf("  %s\n", numbers[i].name);
}

static int search_worlds(void) {
  int failed = 0, found = 0;
  for (int i = 0; i < WORLDS; i++) {
    if (options.world && strcmp(options.world, worlds[i].name) != 0) continue;
    world_shape shape = worlds[i].shape;
    shape.prompt = 1;
    shape.may_all_stop = 1;
    for (int s = 0; s < options.sets; s++) set_number(&shape, options.set[s]);
    search_result result = search_all(&shape, options.seconds, options.states);
    printf("%s %d - %s: %llu states, %s, %.1f s\n", result.failed ? "not ok" : "ok", ++found,
           worlds[i].name, (unsigned long long)result.states,
           result.incomplete ? "not all"
           : result.failed   ? "a failure"
                             : "all",
           result.seconds);
    failed |= result.failed;
  }
  if (!found) fprintf(stderr, "unknown world \"%s\"; see --list\n", options.world);
  return failed || !found;
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int walk_seeds(void) {
  world_shape fixed = {.members = 3, .reruns = 1, .runs = 1, .may_all_stop = 1, .prompt = 1};
  uint64_t steps = 0, n = 0;
  const double begin = now_s();
  for (int s = 0; s < options.sets; s++) set_number(&fixed, options.set[s]);
  for (; n < options.seeds && now_s() - begin < options.seconds; n++) {
    if (!search_walk(options.first + n, options.sets ? &fixed : NULL, &steps)) continue;
    printf("FAILED: %s\n", world_failure);
    world_print();
    printf("after %llu seeds; to repeat: survival --first %llu --seeds 1 --trace",
           (unsigned long long)n + 1, (unsigned long long)(options.first + n));
    for (int s = 0; s < options.sets; s++) printf(" --set %s", options.set[s]);
    if (survival_planted_number) printf(" --planted %d", survival_planted_number);
    printf("\n");
    return 1;
  }
  const double seconds = now_s() - begin;
  printf("ok - %llu seeds, %llu events, %.1f s, %.0f seeds a second\n", (unsigned long long)n,
         (unsigned long long)steps, seconds, (double)n / (seconds > 0 ? seconds : 1));
  return 0;
}

static int read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    world_shape unused;
    if (strcmp(name, "--trace") == 0) {
      world_traces = 1;
      continue;
    }
    if (strcmp(name, "--all") == 0) {
      options.all = 1;
      continue;
    }
    if (!value) return 0;
    i++;
    if (strcmp(name, "--seeds") == 0)
      options.seeds = strtoull(value, NULL, 10);
    else if (strcmp(name, "--first") == 0)
      options.first = strtoull(value, NULL, 10);
    else if (strcmp(name, "--states") == 0)
      options.states = strtoull(value, NULL, 10);
    else if (strcmp(name, "--seconds") == 0)
      options.seconds = atof(value);
    else if (strcmp(name, "--world") == 0)
      options.world = value, options.all = 1;
    else if (strcmp(name, "--planted") == 0)
      survival_planted_number = atoi(value);
    else if (strcmp(name, "--set") == 0 && options.sets < 32 && set_number(&unused, value))
      options.set[options.sets++] = value;
    else
      return 0;
  }
  return 1;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    fputs(usage, stdout);
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    print_list();
    return 0;
  }
  if (!read_options(argc, argv)) {
    fputs(usage, stderr);
    return 2;
  }
  int failed = options.all ? search_worlds() : 0;
  if (options.seeds) failed |= walk_seeds();
  return failed;
}
