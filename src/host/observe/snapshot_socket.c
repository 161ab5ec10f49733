#include "host/observe/snapshot_socket.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/attributes.h"
#include "bootstrap/net/fork_guard.h"
#include "host/observe/snapshot.h"

enum { BACKLOG = 16 };

int df_snapshot_parse_name(const char *text, df_snapshot_name *name) {
  int length = 0;
  return sscanf(text, DF_SNAPSHOT_PREFIX "%16" SCNx64 "-%" SCNu32 "-%" SCNu32 "%n", &name->job,
                &name->process, &name->rank, &length) == 3 &&
         text[length] == '\0';
}

static int set_address(struct sockaddr_un *address, const char *path) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  const int length = snprintf(address->sun_path, sizeof address->sun_path, "%s", path);
  return length < (int)sizeof address->sun_path;
}

static int make_socket(void) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return fd >= 0 ? fd : -errno;
}

/* A socket refuses callers until it listens, and would be taken for that of a dead process. So it
 * gets its name when it listens. */
static int listen_at(int fd, const char *path) {
  struct sockaddr_un address;
  char early[DF_SNAPSHOT_PATH];
  const int length = snprintf(early, sizeof early, "%s.new", path);
  if (length >= (int)sizeof early || !set_address(&address, early)) return ENAMETOOLONG;
  unlink(early);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) return errno;
  if (chmod(early, 0600) == 0 && listen(fd, BACKLOG) == 0 && rename(early, path) == 0) return 0;
  const int error = errno;
  unlink(early);
  return error;
}

int df_snapshot_listen(const char *directory, const df_snapshot_name *name,
                       char path[DF_SNAPSHOT_PATH]) {
  const int length =
      snprintf(path, DF_SNAPSHOT_PATH, "%s/" DF_SNAPSHOT_PREFIX "%016" PRIx64 "-%u-%u", directory,
               name->job, name->process, name->rank);
  if (length >= DF_SNAPSHOT_PATH) return -ENAMETOOLONG;
  const int fd = make_socket();
  if (fd < 0) return fd;
  const int error = listen_at(fd, path);
  if (error == 0) return fd;
  close(fd);
  return -error;
}

int df_snapshot_connect(const char *path) {
  struct sockaddr_un address;
  if (!set_address(&address, path)) return -ENAMETOOLONG;
  const int fd = make_socket();
  if (fd < 0) return fd;
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  const int error = errno;
  close(fd);
  return -error;
}

int df_snapshot_remove_stale(const char *path) {
  struct stat status;
  if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
    return 0;
  df_forks_hold(); /* no child inherits the connection */
  const int fd = df_snapshot_connect(path);
  if (fd >= 0) close(fd);
  df_forks_release();
  return fd == -ECONNREFUSED && unlink(path) == 0;
}

/* A process of another namespace may look dead, so the socket itself decides. Living processes of
 * this namespace are not called. */
void df_snapshot_sweep(const char *directory) {
  DIR *entries = opendir(directory);
  if (entries == NULL) return;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    df_snapshot_name name;
    char path[DF_SNAPSHOT_PATH + sizeof entry->d_name];
    if (!df_snapshot_parse_name(entry->d_name, &name)) continue;
    if (kill((pid_t)name.process, 0) == 0 || errno != ESRCH) continue;
    if (snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < DF_SNAPSHOT_PATH)
      df_snapshot_remove_stale(path);
  }
  closedir(entries);
}
