#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli.h"
#include "top/top.h"

/* ---- sockets ---- */

static bool add_socket(df_found_socket **sockets, uint32_t *n, const df_found_socket *one) {
  df_found_socket *more = realloc(*sockets, (*n + 1) * sizeof *more);
  if (more == NULL) return false;
  more[(*n)++] = *one;
  *sockets = more;
  return true;
}

static bool find_in(df_found *found, const char *directory) {
  DIR *entries = opendir(directory);
  bool fine = true;
  if (entries == NULL) return true;
  for (const struct dirent *entry; fine && (entry = readdir(entries)) != NULL;) {
    df_found_socket one;
    struct stat status;
    if (!df_snapshot_parse_name(entry->d_name, &one.name)) continue;
    const int length = snprintf(one.path, sizeof one.path, "%s/%s", directory, entry->d_name);
    if (length >= (int)sizeof one.path || lstat(one.path, &status) != 0 ||
        !S_ISSOCK(status.st_mode) || one.name.rank >= DF_MAX_RANKS)
      continue;
    one.user = status.st_uid;
    if (one.user != geteuid())
      fine = add_socket(&found->foreign, &found->n_foreign, &one);
    else if (!df_snapshot_remove_stale(one.path))
      fine = add_socket(&found->sockets, &found->n_sockets, &one);
  }
  closedir(entries);
  return fine;
}

static int compare_sockets(const void *a, const void *b) {
  const df_snapshot_name *x = &((const df_found_socket *)a)->name,
                         *y = &((const df_found_socket *)b)->name;
  if (x->job != y->job) return x->job < y->job ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The caller of the socket sees the process by its number in this namespace. */
static void name_program(const df_found_socket *socket, df_found_job *job) {
  char path[64];
  struct ucred peer = {0};
  socklen_t bytes = sizeof peer;
  const int fd = df_snapshot_connect(socket->path);
  if (fd >= 0) {
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    close(fd);
  }
  snprintf(path, sizeof path, "/proc/%d/comm",
           peer.pid ? (int)peer.pid : (int)socket->name.process);
  FILE *file = fopen(path, "r");
  if (file == NULL) return;
  if (fgets(job->program, sizeof job->program, file) == NULL) job->program[0] = '\0';
  job->program[strcspn(job->program, "\n")] = '\0';
  fclose(file);
}

static bool group_jobs(df_found *found) {
  if (found->n_sockets == 0) return true;
  qsort(found->sockets, found->n_sockets, sizeof *found->sockets, compare_sockets);
  found->jobs = calloc(found->n_sockets, sizeof *found->jobs);
  if (found->jobs == NULL) return false;
  for (uint32_t i = 0; i < found->n_sockets; i++) {
    const uint64_t job = found->sockets[i].name.job;
    if (found->n_jobs == 0 || found->jobs[found->n_jobs - 1].job != job)
      found->jobs[found->n_jobs++] = (df_found_job){.job = job, .first = i};
    found->jobs[found->n_jobs - 1].n++;
  }
  for (uint32_t i = 0; i < found->n_jobs; i++)
    name_program(&found->sockets[found->jobs[i].first], &found->jobs[i]);
  return true;
}

bool df_top_find(df_found *found) {
  *found = (df_found){0};
  const char *directory = getenv("XDG_RUNTIME_DIR");
  bool fine = true;
  if (directory && directory[0] == '/' && strcmp(directory, "/tmp") != 0)
    fine = find_in(found, directory);
  fine = fine && find_in(found, "/tmp") && group_jobs(found);
  if (!fine) df_tool_error("no memory for the jobs of this host");
  return fine;
}

void df_top_found_free(df_found *found) {
  free(found->sockets);
  free(found->jobs);
  free(found->foreign);
  *found = (df_found){0};
}

/* ---- the choice of a job ---- */

typedef bool fits(const df_found *found, const df_found_job *job, const char *word);

static bool fits_everything(const df_found *found, const df_found_job *job, const char *word) {
  (void)found, (void)job, (void)word;
  return true;
}

static bool fits_digest(const df_found *found, const df_found_job *job, const char *word) {
  char digest[24];
  (void)found;
  snprintf(digest, sizeof digest, "%016" PRIx64, job->job);
  return strcmp(digest, word) == 0;
}

static bool fits_process(const df_found *found, const df_found_job *job, const char *word) {
  for (uint32_t i = 0; i < job->n; i++)
    if (found->sockets[job->first + i].name.process == strtoul(word, NULL, 10)) return true;
  return false;
}

/* The system keeps 15 characters of a program's name. */
static bool fits_name(const df_found *found, const df_found_job *job, const char *word) {
  (void)found;
  return job->program[0] && (strcmp(job->program, word) == 0 ||
                             (strlen(job->program) == 15 && strncmp(job->program, word, 15) == 0));
}

static bool is_number(const char *word) {
  return word[0] && strspn(word, "0123456789") == strlen(word) && strlen(word) < 10;
}

static bool is_digest(const char *word) {
  return strlen(word) == 16 && strspn(word, "0123456789abcdef") == 16;
}

static void say_user(uid_t user, char *text, size_t bytes) {
  const struct passwd *entry = getpwuid(user);
  if (entry)
    snprintf(text, bytes, "%s (%u)", entry->pw_name, (unsigned)user);
  else
    snprintf(text, bytes, "%u", (unsigned)user);
}

static void refuse_process(const df_found *found, const char *word) {
  char path[64], user[64];
  struct stat status;
  uid_t owner = geteuid();
  const uint32_t process = (uint32_t)strtoul(word, NULL, 10);
  snprintf(path, sizeof path, "/proc/%u", process);
  const bool exists = stat(path, &status) == 0;
  if (exists) owner = status.st_uid;
  for (uint32_t i = 0; i < found->n_foreign; i++)
    if (found->foreign[i].name.process == process) owner = found->foreign[i].user;
  say_user(owner, user, sizeof user);
  if (owner != geteuid())
    df_tool_error("process %s belongs to user %s; only that user can watch its job", word, user);
  else if (!exists)
    df_tool_error("there is no process %s on this host", word);
  else
    df_tool_error("process %s has no DFCCL job, or was started with DFCCL_VIEW=0", word);
}

static void refuse(const df_found *found, const char *word) {
  char user[64];
  if (word == NULL && found->n_foreign) {
    say_user(found->foreign[0].user, user, sizeof user);
    df_tool_error("no DFCCL job of this user runs on this host; one of user %s does", user);
  } else if (word == NULL) {
    df_tool_error("no DFCCL job of this user runs on this host");
  } else if (is_number(word)) {
    refuse_process(found, word);
  } else {
    for (uint32_t i = 0; is_digest(word) && i < found->n_foreign; i++)
      if (found->foreign[i].name.job == strtoull(word, NULL, 16)) {
        say_user(found->foreign[i].user, user, sizeof user);
        df_tool_error("job %s belongs to user %s; only that user can watch it", word, user);
        return;
      }
    df_tool_error("no DFCCL job of this user is named '%s' (dfccl-top without a word lists all)",
                  word);
  }
}

/* ---- lists of jobs ---- */

static void say_processes(const df_found *found, const df_found_job *job, char *text,
                          size_t bytes) {
  size_t used = 0;
  uint32_t last = 0;
  text[0] = '\0';
  for (uint32_t i = 0; i < job->n && used + 16 < bytes; i++) {
    const uint32_t process = found->sockets[job->first + i].name.process;
    if (i > 0 && process == last) continue;
    used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? " " : "", process);
    last = process;
  }
  if (used + 16 >= bytes) snprintf(text + used, bytes - used, " ...");
}

static void list_as_table(const df_found *found, fits *is_wanted, const char *word) {
  char processes[80];
  printf("%-16s  %-15s  %5s  %s\n", "job", "name", "ranks", "processes");
  for (uint32_t i = 0; i < found->n_jobs; i++) {
    const df_found_job *job = &found->jobs[i];
    if (!is_wanted(found, job, word)) continue;
    say_processes(found, job, processes, sizeof processes);
    printf("%016" PRIx64 "  %-15s  %5u  %s\n", job->job, job->program, job->n, processes);
  }
}

static bool list_as_json(const df_found *found, fits *is_wanted, const char *word) {
  cJSON *object = cJSON_CreateObject();
  cJSON *jobs = cJSON_AddArrayToObject(object, "jobs");
  for (uint32_t i = 0; i < found->n_jobs; i++) {
    const df_found_job *job = &found->jobs[i];
    char digest[24];
    if (!is_wanted(found, job, word)) continue;
    snprintf(digest, sizeof digest, "%016" PRIx64, job->job);
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "job", digest);
    cJSON_AddStringToObject(entry, "name", job->program);
    cJSON *processes = cJSON_AddArrayToObject(entry, "processes");
    for (uint32_t j = 0, last = 0; j < job->n; j++) {
      const uint32_t process = found->sockets[job->first + j].name.process;
      if (process != last) cJSON_AddItemToArray(processes, cJSON_CreateNumber(process));
      last = process;
    }
    cJSON_AddItemToArray(jobs, entry);
  }
  return df_tool_print_json(object);
}

const df_found_job *df_top_choose(const df_found *found, const char *word, bool json) {
  fits *is_wanted = word == NULL      ? fits_everything
                    : is_number(word) ? fits_process
                    : is_digest(word) ? fits_digest
                                      : fits_name;
  const df_found_job *chosen = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < found->n_jobs; i++)
    if (is_wanted(found, &found->jobs[i], word)) {
      chosen = &found->jobs[i];
      n++;
    }
  if (n == 1) return chosen;
  if (n == 0) {
    refuse(found, word);
    return NULL;
  }
  if (!json)
    list_as_table(found, is_wanted, word);
  else if (!list_as_json(found, is_wanted, word))
    return NULL;
  if (!df_tool_flush_or_say()) return NULL;
  df_tool_error("%u jobs fit: name one by its digest or by one of its processes", n);
  return NULL;
}
