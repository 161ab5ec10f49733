/* dfccl-top --flight: the flight recorder's files of the ranks of this host. Each rank answers with
 * a descriptor of memory that has the text, so a rank never waits for this program or its disk. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cli.h"
#include "top/top.h"

enum { ANSWER_MS = 3000 };

typedef struct df_flight_answer {
  df_snapshot snapshot;
  int fd; /* -1: the rank has no memory for the text */
} df_flight_answer;

static bool ask(int fd) {
  df_snapshot_question question = {.header = {.magic = DF_SNAPSHOT_MAGIC,
                                              .version = DF_SNAPSHOT_VERSION,
                                              .bytes = sizeof question},
                                   .wants_own = DF_SNAPSHOT_WANTS_FLIGHT};
  return send(fd, &question, sizeof question, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         (ssize_t)sizeof question;
}

/* Returns false if the rank does not answer in time, or with something else. */
static bool receive(int fd, df_flight_answer *answer) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {&answer->snapshot, sizeof answer->snapshot};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  answer->fd = -1;
  if (poll(&wait, 1, ANSWER_MS) <= 0) return false;
  const ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *passed = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (passed && passed->cmsg_level == SOL_SOCKET && passed->cmsg_type == SCM_RIGHTS)
    memcpy(&answer->fd, CMSG_DATA(passed), sizeof answer->fd);
  return length > 0 && df_snapshot_is_valid(&answer->snapshot, (size_t)length) &&
         answer->snapshot.kind == DF_SNAPSHOT_FLIGHT;
}

/* Returns 0, or the number of the error. */
static int copy(int from, int to) {
  static char piece[1 << 16];
  off_t at = 0;
  for (ssize_t n; (n = pread(from, piece, sizeof piece, at)) != 0; at += n) {
    if (n < 0) return errno;
    for (ssize_t done = 0, written; done < n; done += written)
      if ((written = write(to, piece + done, (size_t)(n - done))) < 0) return errno;
  }
  return 0;
}

static bool save(const char *directory, uint32_t rank, int from) {
  char path[4096], early[4096 + 8];
  snprintf(path, sizeof path, "%s/rank-%u.flight.json", directory, rank);
  snprintf(early, sizeof early, "%s.XXXXXX", path);
  const int fd = mkstemp(early);
  int error = fd < 0 ? errno : copy(from, fd);
  if (fd >= 0 && error == 0 && fchmod(fd, 0644) != 0) error = errno;
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(early, path) != 0) error = errno;
  if (error && fd >= 0) unlink(early);
  if (error) df_tool_error("cannot write %s: %s", path, strerror(error));
  return error == 0;
}

/* Returns false after an error message. *n_ranks: of the job. */
static bool save_one(const df_found_socket *socket, const char *directory, uint32_t *n_ranks) {
  df_flight_answer answer = {.fd = -1};
  const int fd = df_snapshot_connect(socket->path);
  const bool answers = fd >= 0 && df_top_belongs_to_user(fd) && ask(fd) && receive(fd, &answer);
  bool fine = false;
  if (!answers) {
    df_tool_error("rank %u (process %u) does not answer", socket->name.rank, socket->name.process);
  } else if (answer.fd < 0) {
    df_tool_error("rank %u has no text: %s", socket->name.rank, answer.snapshot.sentence);
  } else {
    *n_ranks = answer.snapshot.n_ranks;
    fine = save(directory, socket->name.rank, answer.fd);
  }
  if (answer.fd >= 0) close(answer.fd);
  if (fd >= 0) close(fd);
  return fine;
}

int df_top_flight(const df_found *found, const df_found_job *job, const char *directory) {
  uint32_t n = 0, n_ranks = 0;
  for (uint32_t i = 0; i < job->n; i++)
    n += save_one(&found->sockets[job->first + i], directory, &n_ranks);
  if (n > 0) printf("%u of %u ranks: %s/rank-*.flight.json\n", n, n_ranks, directory);
  if (n == job->n && n < n_ranks)
    printf("the other ranks have no socket here: run dfccl-top --flight on their hosts\n");
  return n == job->n ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
