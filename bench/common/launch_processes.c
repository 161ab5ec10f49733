#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/clock.h"
#include "common/launch_internal.h"
#include "common/memory.h"

/* How long the others may take to end by themselves after a rank failed. */
enum { GRACE_SECONDS = 10 };

typedef struct {
  pid_t pid;
  int id_pipe;     /* the launcher writes the unique id */
  int report_pipe; /* the child writes its outcome and its report; -1 once it is read */
  size_t received;
  bool reaped;
} child_process;

typedef struct {
  const df_tool_job *job;
  child_process *children;
  df_tool_outcome *outcomes;
  struct pollfd *polls;
  double deadline; /* on the monotonic clock; 0: nobody has failed */
} launcher;

/* Moves exactly bytes through a pipe; false at its end or on an error. */
static bool read_all(int descriptor, void *to, size_t bytes) {
  char *at = to;
  while (bytes > 0) {
    ssize_t got = read(descriptor, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= (size_t)got;
  }
  return true;
}

static bool write_all(int descriptor, const void *from, size_t bytes) {
  const char *at = from;
  while (bytes > 0) {
    ssize_t put = write(descriptor, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= (size_t)put;
  }
  return true;
}

static void join_job(const df_tool_job *job, df_tool_rank *rank, int id_pipe) {
  dfcclConfig_t config = job->config;
  dfcclUniqueId id;
  const char *problem = df_tool_memory_open(config.backend, rank->rank, &config.device);
  if (problem != NULL) {
    df_tool_rank_fail(rank, -1, "%s", problem);
  } else if (!job->without_library) {
    if (!read_all(id_pipe, &id, sizeof id))
      df_tool_rank_fail(rank, -1, "the unique id did not come");
    else
      df_tool_rank_check(rank, dfcclInit(&rank->context, rank->n_ranks, id, rank->rank, &config),
                         "dfcclInit");
  }
}

/* The whole life of a child; does not return. */
static _Noreturn void child_main(const df_tool_job *job, int number, int id_pipe, int report_pipe) {
  df_tool_rank rank = {.rank = number, .n_ranks = job->n_ranks, .argument = job->argument};
  rank.report = calloc(1, job->report_bytes + 1);
  if (rank.report == NULL) _exit(DF_TOOL_FAILED);
  join_job(job, &rank, id_pipe);
  if (rank.outcome.code == 0)
    df_tool_rank_run(job, &rank);
  else if (job->on_failure != NULL)
    job->on_failure(job->argument);
  bool sent = write_all(report_pipe, &rank.outcome, sizeof rank.outcome) &&
              write_all(report_pipe, rank.report, job->report_bytes);
  fflush(stdout);
  _exit(sent && rank.outcome.code == 0 ? DF_TOOL_SUCCESS : DF_TOOL_FAILED);
}

/* Forks rank number; false (with a message) if the system refuses. */
static bool start_child(launcher *self, int number) {
  int id_ends[2], report_ends[2];
  if (pipe(id_ends) != 0) {
    df_tool_error("no pipe for rank %d: %s", number, strerror(errno));
    return false;
  }
  if (pipe(report_ends) != 0) {
    df_tool_error("no pipe for rank %d: %s", number, strerror(errno));
    close(id_ends[0]);
    close(id_ends[1]);
    return false;
  }
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives its launcher */
    if (getppid() != parent) _exit(DF_TOOL_FAILED);
    for (int r = 0; r < number; r++) {
      close(self->children[r].id_pipe);
      close(self->children[r].report_pipe);
    }
    close(id_ends[1]);
    close(report_ends[0]);
    child_main(self->job, number, id_ends[0], report_ends[1]);
  }
  /* Closed at once, so that no later child holds them: a pipe ends when its rank does. */
  close(id_ends[0]);
  close(report_ends[1]);
  if (pid < 0) {
    df_tool_error("no process for rank %d: %s", number, strerror(errno));
    close(id_ends[1]);
    close(report_ends[0]);
    return false;
  }
  self->children[number] =
      (child_process){.pid = pid, .id_pipe = id_ends[1], .report_pipe = report_ends[0]};
  return true;
}

static void someone_failed(launcher *self) {
  if (self->deadline != 0) return;
  self->deadline = df_tool_now_seconds() + GRACE_SECONDS;
  if (self->job->on_failure != NULL) self->job->on_failure(self->job->argument);
}

/* Sends the unique id to all; the launcher made it, and stays until every rank has joined. */
static void send_unique_id(launcher *self) {
  dfcclUniqueId id;
  dfcclResult_t result = self->job->without_library ? dfcclSuccess : dfcclGetUniqueId(&id);
  if (result != dfcclSuccess)
    df_tool_error("dfcclGetUniqueId: %s (%s)", dfcclGetErrorString(result),
                  dfcclGetLastError(NULL));
  for (int r = 0; r < self->job->n_ranks; r++) {
    if (result == dfcclSuccess && !self->job->without_library)
      (void)write_all(self->children[r].id_pipe, &id, sizeof id); /* a dead child shows below */
    close(self->children[r].id_pipe);
  }
}

/* The child's pipe ended before its report was complete: says how the child ended. */
static void child_died(launcher *self, int number) {
  child_process *child = &self->children[number];
  df_tool_outcome *outcome = &self->outcomes[number];
  int status = 0;
  waitpid(child->pid, &status, 0);
  child->reaped = true;
  outcome->code = -1;
  if (WIFSIGNALED(status))
    snprintf(outcome->sentence, sizeof outcome->sentence,
             "its process %d was killed by signal %d (%s)", (int)child->pid, WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    snprintf(outcome->sentence, sizeof outcome->sentence,
             "its process %d ended with status %d and without a report", (int)child->pid,
             WEXITSTATUS(status));
  df_tool_error("rank %d is gone: %s", number, outcome->sentence);
  someone_failed(self);
}

/* Reads what a child has sent so far: the outcome, then the report. */
static void receive(launcher *self, int number) {
  child_process *child = &self->children[number];
  size_t head = sizeof(df_tool_outcome), total = head + self->job->report_bytes;
  char *to = (char *)&self->outcomes[number] + child->received;
  size_t room = head - child->received;
  if (child->received >= head) {
    to = (char *)self->job->reports + (size_t)number * self->job->report_bytes +
         (child->received - head);
    room = total - child->received;
  }
  ssize_t got = read(child->report_pipe, to, room);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got > 0) child->received += (size_t)got;
  if (got > 0 && child->received < total) return;
  close(child->report_pipe);
  child->report_pipe = -1;
  if (child->received < total)
    child_died(self, number);
  else if (self->outcomes[number].code != 0)
    someone_failed(self);
}

/* Kills the processes that have not ended in time after a failure. Their pipes then end, and
 * receive() reports it. */
static void kill_late(launcher *self) {
  for (int r = 0; r < self->job->n_ranks; r++)
    if (self->children[r].report_pipe >= 0) kill(self->children[r].pid, SIGKILL);
}

static void gather_reports(launcher *self) {
  for (;;) {
    int open = 0;
    for (int r = 0; r < self->job->n_ranks; r++) {
      self->polls[r] = (struct pollfd){.fd = self->children[r].report_pipe, .events = POLLIN};
      open += self->children[r].report_pipe >= 0;
    }
    if (open == 0) return;
    int timeout_ms = -1;
    if (self->deadline != 0) {
      double left = self->deadline - df_tool_now_seconds();
      if (left <= 0) kill_late(self);
      timeout_ms = left <= 0 ? -1 : (int)(left * 1000) + 1;
    }
    if (poll(self->polls, (nfds_t)self->job->n_ranks, timeout_ms) <= 0) continue;
    for (int r = 0; r < self->job->n_ranks; r++)
      if (self->polls[r].revents != 0) receive(self, r);
  }
}

/* All have reported; what is left of them is their exit. */
static void reap(launcher *self, int started) {
  double deadline = df_tool_now_seconds() + GRACE_SECONDS;
  for (int r = 0; r < started; r++) {
    child_process *child = &self->children[r];
    while (!child->reaped && waitpid(child->pid, NULL, WNOHANG) == 0) {
      if (df_tool_now_seconds() > deadline) kill(child->pid, SIGKILL);
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
  }
}

static bool run_children(launcher *self) {
  int started = 0;
  while (started < self->job->n_ranks && start_child(self, started)) started++;
  if (started < self->job->n_ranks) {
    for (int r = 0; r < started; r++) {
      kill(self->children[r].pid, SIGKILL);
      close(self->children[r].id_pipe);
      close(self->children[r].report_pipe);
    }
    reap(self, started);
    return false;
  }
  send_unique_id(self);
  gather_reports(self);
  reap(self, started);
  return df_tool_report_failures(self->outcomes, self->job->n_ranks);
}

bool df_tool_launch_processes(const df_tool_job *job) {
  size_t ranks = (size_t)job->n_ranks;
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max; /* two pipes for each rank; a refusal shows in pipe() */
    setrlimit(RLIMIT_NOFILE, &files);
  }
  fflush(stdout); /* otherwise each child would print the text that is still buffered */
  signal(SIGPIPE, SIG_IGN);
  launcher self = {.job = job,
                   .children = calloc(ranks, sizeof(child_process)),
                   .outcomes = calloc(ranks, sizeof(df_tool_outcome)),
                   .polls = calloc(ranks, sizeof(struct pollfd))};
  bool fine = false;
  memset(job->reports, 0, ranks * job->report_bytes);
  if (self.children == NULL || self.outcomes == NULL || self.polls == NULL)
    df_tool_error("out of memory for %d ranks", job->n_ranks);
  else
    fine = run_children(&self);
  free(self.polls);
  free(self.outcomes);
  free(self.children);
  return fine;
}
