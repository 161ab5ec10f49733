#include "support/leftovers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Shared memory of programs that may run beside us: the test framework's, and two MPI libraries'.
 */
static const char *const foreign_prefixes[] = {"bxf_arena_", "vader_segment", "mpich", NULL};

static int has_prefix(const char *name, const char *const *prefixes) {
  for (; prefixes != NULL && *prefixes != NULL; prefixes++)
    if (strncmp(name, *prefixes, strlen(*prefixes)) == 0) return 1;
  return 0;
}

static int count_entries(const char *path, const char *const *except_prefixes) {
  DIR *directory = opendir(path);
  if (directory == NULL) return 0;
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    if (has_prefix(entry->d_name, except_prefixes)) continue;
    count++;
  }
  closedir(directory);
  return count;
}

int df_thread_count(void) { return count_entries("/proc/self/task", NULL); }

int df_descriptor_count(void) { return count_entries("/proc/self/fd", NULL); }

int df_shm_entry_count(void) { return count_entries("/dev/shm", foreign_prefixes); }

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

void df_unix_socket_names(char *names, size_t bytes) {
  FILE *file = fopen("/proc/net/unix", "r");
  char line[512];
  size_t used = 0;
  names[0] = '\0';
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    const char *name = strrchr(line, ' ');
    if (name == NULL || strcasestr(name, "dfccl") == NULL) continue;
    size_t length = strlen(name);
    if (used + length + 1 > bytes) break;
    memcpy(names + used, name, length + 1); /* with its line end */
    used += length;
  }
  fclose(file);
}

int df_unix_sockets_left(const char *before, const char *during) {
  static char now[1 << 17];
  char name[512];
  int left = 0;
  df_unix_socket_names(now, sizeof now);
  for (const char *line = during; *line != '\0';) {
    size_t length = strcspn(line, "\n") + 1;
    if (length < sizeof name) {
      memcpy(name, line, length);
      name[length] = '\0';
      left += strstr(before, name) == NULL && strstr(now, name) != NULL;
    }
    line += line[length - 1] == '\n' ? length : length - 1;
  }
  return left;
}

int df_unix_socket_count(void) {
  static char names[1 << 17];
  int count = 0;
  df_unix_socket_names(names, sizeof names);
  for (const char *at = names; (at = strchr(at, '\n')) != NULL; at++) count++;
  return count;
}
