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

/* Appends name, which may end with its line end, as a line; false: no room. */
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

void df_unix_socket_names(char *names, size_t bytes) {
  FILE *file = fopen("/proc/net/unix", "r");
  char line[512];
  size_t used = 0;
  names[0] = '\0';
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    const char *name = strrchr(line, ' ');
    if (name == NULL || strcasestr(name, "dfccl") == NULL) continue;
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
