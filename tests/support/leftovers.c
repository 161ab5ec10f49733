#include "support/leftovers.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int count_entries(const char *path) {
  DIR *directory = opendir(path);
  if (directory == NULL) return 0;
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
    count += entry->d_name[0] != '.';
  closedir(directory);
  return count;
}

int df_thread_count(void) { return count_entries("/proc/self/task"); }

int df_descriptor_count(void) { return count_entries("/proc/self/fd"); }

static long field_of(const char *path, const char *field) {
  FILE *file = fopen(path, "r");
  char line[512];
  long value = -1;
  if (file == NULL) return value;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, field, strlen(field)) == 0) value = strtol(line + strlen(field), NULL, 10);
  fclose(file);
  return value;
}

long df_resident_kb(void) { return field_of("/proc/self/status", "VmRSS:"); }

long df_available_mb(void) { return field_of("/proc/meminfo", "MemAvailable:") / 1024; }

int df_child_count(void) {
  DIR *processes = opendir("/proc");
  if (processes == NULL) return 0;
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(processes)) != NULL;) {
    char path[300];
    if (atoi(entry->d_name) <= 0) continue;
    snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
    if (field_of(path, "PPid:") == (long)getpid()) count++;
  }
  closedir(processes);
  return count;
}

/* Appends name, with or without a line end, as a line; false: no room. */
static bool add_line(char *names, size_t bytes, size_t *used, const char *name) {
  size_t length = strcspn(name, "\n");
  if (*used + length + 2 > bytes) return false;
  memcpy(names + *used, name, length);
  memcpy(names + *used + length, "\n", 2);
  *used += length + 1;
  return true;
}

void df_shm_names(char *names, size_t bytes) {
  DIR *directory = opendir("/dev/shm");
  size_t used = 0;
  names[0] = '\0';
  if (directory == NULL) return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (entry->d_name[0] != '.' && !add_line(names, bytes, &used, entry->d_name)) break;
  closedir(directory);
}

/* The sockets that processes of this session hold, by inode. A socket without a name in a file
 * system exists as long as a process holds it, so one that no process of this session holds is
 * foreign: the programs of other tests are in sessions of their own. */
typedef struct inode_set {
  unsigned long inodes[1 << 16];
  size_t count;
} inode_set;

static void add_sockets_of(inode_set *set, const char *process) {
  char path[300], target[64];
  snprintf(path, sizeof path, "/proc/%s/fd", process);
  DIR *descriptors = opendir(path);
  if (descriptors == NULL) return; /* the process has just ended */
  for (const struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
    ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    if (sscanf(target, "socket:[%lu]", &set->inodes[set->count]) == 1 &&
        set->count < sizeof set->inodes / sizeof *set->inodes - 1)
      set->count++;
  }
  closedir(descriptors);
}

static void sockets_of_this_session(inode_set *set) {
  set->count = 0;
  DIR *processes = opendir("/proc");
  if (processes == NULL) return;
  for (const struct dirent *entry; (entry = readdir(processes)) != NULL;)
    if (atoi(entry->d_name) > 0 && getsid(atoi(entry->d_name)) == getsid(0))
      add_sockets_of(set, entry->d_name);
  closedir(processes);
}

static bool holds(const inode_set *set, unsigned long inode) {
  for (size_t i = 0; i < set->count; i++)
    if (set->inodes[i] == inode) return true;
  return false;
}

void df_unix_socket_names(char *names, size_t bytes) {
  static inode_set ours;
  FILE *file = fopen("/proc/net/unix", "r");
  char line[512];
  size_t used = 0;
  names[0] = '\0';
  if (file == NULL) return;
  sockets_of_this_session(&ours);
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned long inode = 0;
    const char *name = strrchr(line, ' ');
    if (name == NULL || strcasestr(name, "dfccl") == NULL) continue;
    if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode) != 1 || !holds(&ours, inode)) continue;
    if (!add_line(names, bytes, &used, name)) break;
  }
  fclose(file);
}

static int names_left(const char *before, const char *during, const char *now) {
  char name[512];
  int left = 0;
  for (const char *line = during; *line != '\0';) {
    size_t length = strcspn(line, "\n") + 1;
    if (length < sizeof name) {
      memcpy(name, line, length);
      name[length] = '\0';
      left += strstr(before, name) == NULL && strstr(now, name) != NULL;
    }
    line += length;
  }
  return left;
}

static char now[1 << 17];

int df_shm_names_left(const char *before, const char *during) {
  df_shm_names(now, sizeof now);
  return names_left(before, during, now);
}

int df_unix_sockets_left(const char *before, const char *during) {
  df_unix_socket_names(now, sizeof now);
  return names_left(before, during, now);
}
