#include "support/rest.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/harness.h"

/* The state of one thread: R, S, D, ...; Z when it does not exist. */
static char state_of(const char *path) {
  char line[512] = "";
  FILE *file = fopen(path, "r");
  if (file == NULL) return 'Z';
  size_t length = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[length] = '\0';
  const char *name_end = strrchr(line, ')'); /* the name may hold anything */
  return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 'Z';
}

static bool process_asleep(pid_t pid) {
  char path[320];
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL) return true;
  long self = syscall(SYS_gettid);
  bool asleep = true;
  for (const struct dirent *task; asleep && (task = readdir(tasks)) != NULL;) {
    if (atol(task->d_name) <= 0 || atol(task->d_name) == self) continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, task->d_name);
    char state = state_of(path);
    asleep = state == 'S' || state == 'Z' || state == 'X';
  }
  closedir(tasks);
  return asleep;
}

bool df_asleep(const pid_t *pids, int count) {
  for (int i = 0; i < count; i++)
    if (!process_asleep(pids[i])) return false;
  return true;
}

void df_await_rest(const pid_t *pids, int count, int looks) {
  df_waiting_for("other processes to come to rest");
  for (int in_a_row = 0; in_a_row < looks;) {
    df_sleep_ms(10);
    in_a_row = df_asleep(pids, count) ? in_a_row + 1 : 0;
  }
  df_waiting_for(NULL);
}

void df_quiet_before_fork(void) {
  pid_t self = getpid();
  if (df_slowdown() == 1) return;
  df_waiting_for("this process's other threads to sleep");
  for (int in_a_row = 0; in_a_row < 10;) {
    df_sleep_ms(1);
    in_a_row = df_asleep(&self, 1) ? in_a_row + 1 : 0;
  }
  df_waiting_for(NULL);
}
