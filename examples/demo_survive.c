/* The launcher of `dfccl-demo survive`. */
#include "demo_survive.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cjson/cJSON.h>

#include "common/barrier.h"
#include "common/cli.h"
#include "common/clock.h"
#include "common/random.h"

/* Nothing in the demo waits this long; what does is reported instead of hanging. */
enum { PATIENCE_SECONDS = 90 };

typedef struct {
  survive_shared *shared;
  const survive_options *options;
  pid_t pids[SURVIVE_MAX_RANKS]; /* 0: the process is gone, and waited for */
  int n_left, n_lost, n_joined;
  pid_t joining; /* a process without a rank so far; 0: none */
  uint64_t views;
  double worst_view_ms, worst_run_ms, worst_join_ms;
} launcher;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL); }

/* false, after a message: the process has ended, and nobody has killed it. */
static bool lives(pid_t *pid, const char *name) {
  int status;
  if (*pid == 0 || waitpid(*pid, &status, WNOHANG) != *pid) return true;
  *pid = 0;
  if (WIFSIGNALED(status))
    df_tool_error("%s was killed by signal %d (%s), not by the demo", name, WTERMSIG(status),
                  strsignal(WTERMSIG(status)));
  else
    df_tool_error("%s ended with status %d", name, WEXITSTATUS(status));
  return false;
}

static bool all_live(launcher *self) {
  for (int r = 0; r < self->options->n_ranks; r++) {
    char name[32];
    snprintf(name, sizeof name, "rank %d", r);
    if (!lives(&self->pids[r], name)) return false;
  }
  return lives(&self->joining, "the process that joins");
}

static bool start(launcher *self) {
  const pid_t parent = getpid();
  fflush(stdout);
  for (int r = 0; r < self->options->n_ranks; r++) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives its launcher */
      if (getppid() != parent) _exit(DF_TOOL_FAILED);
      demo_survive_rank(self->shared, r);
    }
    if (pid < 0) {
      df_tool_error("no process for rank %d: %s", r, strerror(errno));
      return false;
    }
    self->pids[r] = pid;
    self->n_left++;
  }
  const dfcclResult_t result = dfcclGetUniqueId(&self->shared->id);
  if (result != dfcclSuccess) {
    df_tool_error("dfcclGetUniqueId: %s (%s)", dfcclGetErrorString(result),
                  dfcclGetLastError(NULL));
    return false;
  }
  atomic_store(&self->shared->has_id, 1);
  return true;
}

/* Waits until the condition holds; false, after a message: it will not. */
static bool wait_until(launcher *self, bool (*holds)(const launcher *), const char *what) {
  const double begin = df_tool_now_seconds();
  while (!holds(self)) {
    if (!all_live(self)) return false;
    if (df_tool_now_seconds() - begin > PATIENCE_SECONDS) {
      df_tool_error("after %d s not all ranks have %s", PATIENCE_SECONDS, what);
      return false;
    }
    nap();
  }
  return true;
}

static bool pause_for_interval(launcher *self) {
  const double end = df_tool_now_seconds() + self->options->interval_ms * 1e-3;
  while (df_tool_now_seconds() < end) {
    if (!all_live(self)) return false;
    nap();
  }
  return true;
}

static bool all_are_ready(const launcher *self) {
  return atomic_load(&self->shared->ready) == self->options->n_ranks;
}

/* Whether all ranks that are left have gone on without the victim: they were notified, a run has
 * ended well after that, and all runs have ended that were under way. */
static bool all_went_on(const launcher *self) {
  const int victim = atomic_load(&self->shared->victim);
  for (int r = 0; r < self->options->n_ranks; r++) {
    survive_notice *notice = &self->shared->ranks[r].lost[victim];
    if (self->pids[r] == 0) continue;
    if (atomic_load(&notice->next_ns) == 0 || atomic_load(&notice->open) != 0) return false;
  }
  return true;
}

static const char *reason_text(int reason) {
  switch (reason) {
  case dfcclSuccess:
    return "it has left";
  case dfcclRemoteError:
    return "its process ended";
  case dfcclTimeout:
    return "it did not answer";
  case dfcclAborted:
    return "it was excluded";
  default:
    return "unknown";
  }
}

static uint64_t all_wrong(const survive_shared *shared) {
  uint64_t wrong = 0;
  for (int r = 0; r < shared->options.n_ranks; r++) wrong += atomic_load(&shared->ranks[r].wrong);
  return wrong;
}

static bool has_joined(const launcher *self) { return atomic_load(&self->shared->newcomer) >= 0; }

static bool all_run_together(const launcher *self) {
  const int newcomer = atomic_load(&self->shared->newcomer);
  for (int r = 0; r < self->options->n_ranks; r++)
    if (self->pids[r] != 0 && atomic_load(&self->shared->ranks[r].joined[newcomer].next_ns) == 0)
      return false;
  return true;
}

static void keep_worst(double *worst, double ms) {
  if (ms > *worst) *worst = ms;
}

/* Adds up what the members have seen of a loss, or of a newcomer, prints it, and compares it. */
static bool report_view(launcher *self, int rank, bool joins, uint64_t begin_ns) {
  uint64_t view = 0, view_ns = 0, next_ns = 0, kept = 0, repeated = 0, failed = 0;
  int reason = 0;
  for (int r = 0; r < self->options->n_ranks; r++) {
    survive_record *record = &self->shared->ranks[r];
    survive_notice *notice = joins ? &record->joined[rank] : &record->lost[rank];
    if (self->pids[r] == 0) continue;
    const uint64_t number = atomic_load(&notice->view);
    if (view != 0 && number != view) {
      df_tool_error("rank %d %s in view %llu of rank %d, and in view %llu of others", rank,
                    joins ? "joins" : "is lost", (unsigned long long)number, r,
                    (unsigned long long)view);
      return false;
    }
    view = number;
    reason = atomic_load(&notice->reason);
    if (atomic_load(&notice->view_ns) > view_ns) view_ns = atomic_load(&notice->view_ns);
    if (atomic_load(&notice->next_ns) > next_ns) next_ns = atomic_load(&notice->next_ns);
    kept += atomic_load(&notice->kept);
    repeated += atomic_load(&notice->repeated);
    failed += atomic_load(&notice->failed);
  }
  const double view_ms = (double)(view_ns - begin_ns) * 1e-6;
  const double run_ms = (double)(next_ns - begin_ns) * 1e-6;
  self->views = view;
  if (!joins) keep_worst(&self->worst_view_ms, view_ms);
  keep_worst(joins ? &self->worst_join_ms : &self->worst_run_ms, run_ms);
  if (self->options->json) return true;
  printf("%4llu  %4d  %-17s  %10.2f  %9.2f  %5llu  %5llu  %6llu  %5llu\n", (unsigned long long)view,
         rank, joins ? "it has joined" : reason_text(reason), view_ms, run_ms,
         (unsigned long long)kept, (unsigned long long)repeated, (unsigned long long)failed,
         (unsigned long long)all_wrong(self->shared));
  return df_tool_flush_or_say();
}

static bool kill_one(launcher *self, df_tool_random *random) {
  int victim;
  do victim = (int)df_tool_random_below(random, (uint32_t)self->options->n_ranks);
  while (self->pids[victim] == 0);
  atomic_store(&self->shared->victim, victim);
  const uint64_t killed_ns = df_tool_now_ns();
  kill(self->pids[victim], SIGKILL);
  waitpid(self->pids[victim], NULL, 0);
  self->pids[victim] = 0;
  self->n_left--;
  self->n_lost++;
  return wait_until(self, all_went_on, "gone on without the one that was killed") &&
         report_view(self, victim, false, killed_ns);
}

/* The lowest rank that is left, by whose id a process joins. */
static int choose_host(const launcher *self) {
  int host = 0;
  while (self->pids[host] == 0) host++;
  return host;
}

static bool start_again(launcher *self) {
  survive_shared *shared = self->shared;
  const pid_t parent = getpid();
  const int host = choose_host(self);
  fflush(stdout);
  atomic_store(&shared->victim, -1);
  atomic_store(&shared->newcomer, -1);
  /* No rank that has begun this round begins a later one before the process has joined. */
  const uint64_t gate = atomic_fetch_add(&shared->gate, SURVIVE_GENERATION);
  shared->first_round = gate % SURVIVE_GENERATION + 1;
  const uint64_t begin_ns = df_tool_now_ns();
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(DF_TOOL_FAILED);
    demo_survive_newcomer(shared, host);
  }
  if (pid < 0) {
    df_tool_error("no process to join the job: %s", strerror(errno));
    return false;
  }
  self->joining = pid;
  if (!wait_until(self, has_joined, "taken a process in")) return false;
  const int rank = atomic_load(&shared->newcomer);
  self->pids[rank] = pid;
  self->joining = 0;
  self->n_left++;
  self->n_joined++;
  return wait_until(self, all_run_together, "run with the one that joins") &&
         report_view(self, rank, true, begin_ns);
}

/* Lets the ranks that are left end after the same round. */
static bool finish(launcher *self) {
  const double begin = df_tool_now_seconds();
  bool fine = true;
  atomic_fetch_or(&self->shared->gate, SURVIVE_STOP);
  for (int r = 0; r < self->options->n_ranks; r++) {
    int status = 0;
    while (self->pids[r] != 0 && waitpid(self->pids[r], &status, WNOHANG) == 0) {
      nap();
      if (df_tool_now_seconds() - begin < PATIENCE_SECONDS) continue;
      df_tool_error("after %d s rank %d has not ended", PATIENCE_SECONDS, r);
      return false;
    }
    if (status != 0) df_tool_error("rank %d ended with wait status %d", r, status);
    fine = fine && status == 0;
    self->pids[r] = 0;
  }
  return fine;
}

static void print_head(const survive_options *options) {
  printf("%d ranks (processes) run %d all-reduces of 256 B to 256 KB in random orders.\n"
         "Every %d ms one is killed (config.survive is %d, seed %llu), until two are left.\n"
         "Then each is started again and joins. Times are those of the last rank. Counts are\n"
         "runs of the ranks that are left: they were kept, with the contribution of the lost\n"
         "rank, executed again without it, or failed.\n\n"
         "view  rank  why                ms to view  ms to run   kept  again  failed  wrong\n",
         options->n_ranks, SURVIVE_COLLECTIVES, options->interval_ms, options->survive,
         (unsigned long long)options->seed);
}

static bool print_end(const launcher *self, uint64_t runs, uint64_t failed, uint64_t wrong) {
  printf("\n%llu runs ended well on %d ranks, %llu failed; %llu result elements were wrong.\n"
         "%d ranks were lost, %d joined; %d are members.\n",
         (unsigned long long)runs, self->options->n_ranks, (unsigned long long)failed,
         (unsigned long long)wrong, self->n_lost, self->n_joined, self->n_left);
  return df_tool_flush_or_say();
}

static bool print_json(const launcher *self, uint64_t runs, uint64_t repeated, uint64_t failed,
                       uint64_t wrong) {
  const struct {
    const char *key;
    double value;
  } members[] = {{"ranks", self->options->n_ranks},
                 {"views", (double)self->views},
                 {"lost", self->n_lost},
                 {"joined", self->n_joined},
                 {"runs", (double)runs},
                 {"repeated", (double)repeated},
                 {"failed", (double)failed},
                 {"wrong", (double)wrong},
                 {"ms_to_view_max", self->worst_view_ms},
                 {"ms_to_run_max", self->worst_run_ms},
                 {"ms_to_join_max", self->worst_join_ms}};
  cJSON *object = cJSON_CreateObject();
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
    cJSON_AddNumberToObject(object, members[i].key, members[i].value);
  return df_tool_print_json(object);
}

static bool conclude(const launcher *self) {
  const survive_shared *shared = self->shared;
  const uint64_t wrong = all_wrong(shared);
  uint64_t runs = 0, repeated = 0, failed = 0;
  for (int r = 0; r < self->options->n_ranks; r++) {
    runs += atomic_load(&shared->ranks[r].runs);
    repeated += atomic_load(&shared->ranks[r].repeated);
    failed += atomic_load(&shared->ranks[r].failed);
  }
  const bool printed = self->options->json ? print_json(self, runs, repeated, failed, wrong)
                                           : print_end(self, runs, failed, wrong);
  if (wrong != 0) df_tool_error("%llu result elements were wrong", (unsigned long long)wrong);
  return printed && wrong == 0;
}

static bool play(launcher *self) {
  df_tool_random random = {df_tool_mix(self->options->seed)};
  if (!self->options->json) print_head(self->options);
  if (!df_tool_flush_or_say() || !start(self)) return false;
  if (!wait_until(self, all_are_ready, "joined the job")) return false;
  while (self->n_left > SURVIVE_LEFT)
    if (!pause_for_interval(self) || !kill_one(self, &random)) return false;
  while (self->n_left < self->options->n_ranks)
    if (!pause_for_interval(self) || !start_again(self)) return false;
  return pause_for_interval(self) && finish(self) && conclude(self);
}

int demo_survive(const survive_options *options) {
  launcher self = {.shared = df_tool_shared_alloc(sizeof *self.shared), .options = options};
  if (self.shared == NULL) {
    df_tool_error("out of memory");
    return DF_TOOL_FAILED;
  }
  self.shared->options = *options;
  atomic_store(&self.shared->victim, -1);
  const bool fine = play(&self);
  if (self.joining != 0) {
    kill(self.joining, SIGKILL);
    waitpid(self.joining, NULL, 0);
  }
  for (int r = 0; r < options->n_ranks; r++) {
    if (self.pids[r] == 0) continue;
    kill(self.pids[r], SIGKILL);
    waitpid(self.pids[r], NULL, 0);
  }
  df_tool_shared_free(self.shared, sizeof *self.shared);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
