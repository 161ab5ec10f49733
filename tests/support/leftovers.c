#include "support/leftovers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int count_entries(const char *path, const char *except_prefix) {
  DIR *directory = opendir(path);
  if (directory == NULL) return 0;
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    if (except_prefix != NULL && strncmp(entry->d_name, except_prefix, strlen(except_prefix)) == 0)
      continue;
    count++;
  }
  closedir(directory);
  return count;
}

int df_thread_count(void) { return count_entries("/proc/self/task", NULL); }

int df_descriptor_count(void) { return count_entries("/proc/self/fd", NULL); }

int df_shm_entry_count(void) { return count_entries("/dev/shm", "bxf_arena_"); }

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

int df_unix_socket_count(void) {
  FILE *file = fopen("/proc/net/unix", "r");
  char line[512];
  int count = 0;
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL)
    if (strcasestr(line, "dfccl") != NULL) count++;
  fclose(file);
  return count;
}
