#include "base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static int write_bytes(int fd, const char *bytes, size_t length) {
  for (size_t at = 0; at < length;) {
    const ssize_t n = df_write(fd, bytes + at, length - at); /* no signal ends the process */
    if (n == -EINTR) continue;
    if (n <= 0) return n < 0 ? (int)-n : ENOSPC;
    at += (size_t)n;
  }
  return 0;
}

int df_write_whole_file(const char *path, const char *bytes, size_t length) {
  char *early = malloc(strlen(path) + sizeof ".XXXXXX");
  if (early == NULL) return ENOMEM;
  strcpy(early, path);
  strcat(early, ".XXXXXX");
  const int fd = mkostemp(early, O_CLOEXEC);
  int error = fd < 0 ? errno : write_bytes(fd, bytes, length);
  if (fd >= 0 && error == 0 && fchmod(fd, 0644) != 0) error = errno;
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(early, path) != 0) error = errno;
  if (error && fd >= 0) unlink(early);
  free(early);
  return error;
}
