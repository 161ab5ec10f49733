#include "support/places.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/processes.h"

enum { HOSTS_MAX = 16 };

static struct {
  int count, keeper[HOSTS_MAX];
  bool apart;
} places;

int places_host_of(int rank, int ranks) {
  return places.apart ? rank % places.count : rank * places.count / ranks;
}

int places_keeper(int host) { return places.keeper[host]; }

/* A host, as the library sees it, is a network namespace and an IPC namespace. It also has a name
 * for sentences. */
static void enter(int rank, int ranks) {
  static const struct {
    const char *name;
    int kind;
  } parts[] = {{"net", CLONE_NEWNET}, {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}};
  const int host = places_host_of(rank, ranks);
  for (int i = 0; i < 3; i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", places.keeper[host], parts[i].name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && setns(fd, parts[i].kind) == 0, "%s: %s", path, strerror(errno));
    close(fd);
  }
}

bool places_read(const char *processes) {
  const char *at = processes;
  places.count = 0;
  do {
    char *end = NULL;
    long process = strtol(at, &end, 10);
    if (end == at || process <= 0 || places.count == HOSTS_MAX) return false;
    places.keeper[places.count++] = (int)process;
    at = end;
  } while (*at++ == ',');
  df_on_rank_start(enter);
  return at[-1] == '\0' && places.count > 1;
}

int places_count(void) { return places.count; }

void places_arrange(bool apart) { places.apart = apart; }
