#include "replay_peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/attributes.h"
#include "common/cli.h"
#include "plans/operation.h"

bool df_replay_peer_operation(int operation, replay_peer_operation *found) {
  static const struct {
    int own;
    replay_peer_operation peer;
  } table[] = {{DF_OP_ALL_REDUCE, REPLAY_PEER_ALL_REDUCE},
               {DF_OP_ALL_GATHER, REPLAY_PEER_ALL_GATHER},
               {DF_OP_REDUCE_SCATTER, REPLAY_PEER_REDUCE_SCATTER},
               {DF_OP_BROADCAST, REPLAY_PEER_BROADCAST},
               {DF_OP_REDUCE, REPLAY_PEER_REDUCE},
               {DF_OP_ALL_TO_ALL, REPLAY_PEER_ALL_TO_ALL},
               {DF_OP_GATHER, REPLAY_PEER_GATHER},
               {DF_OP_SCATTER, REPLAY_PEER_SCATTER},
               {DF_OP_SEND_RECV, REPLAY_PEER_SEND_RECV},
               {DF_OP_BARRIER, REPLAY_PEER_BARRIER}};
  for (size_t i = 0; i < DF_COUNT_OF(table); i++)
    if (table[i].own == operation) {
      *found = table[i].peer;
      return true;
    }
  return false;
}

/* ---- the module ---- */

static bool own_path(char path[512]) {
  const ssize_t length = readlink("/proc/self/exe", path, 511);
  if (length > 0) path[length] = '\0';
  return length > 0;
}

/* The module that was built with this program: the first that exists. */
static const char *find_module(replay_engine engine) {
  static const char *const names[][4] = {{"openmpi", "mpich", "mpi", NULL}, {"gloo", NULL}};
  static char found[640];
  char program[512];
  if (!own_path(program)) return NULL;
  char *slash = strrchr(program, '/');
  if (slash) *slash = '\0';
  for (const char *const *name = names[engine == REPLAY_GLOO]; *name; name++) {
    snprintf(found, sizeof found, "%s/replay/peers/replay-%s.so", program, *name);
    if (access(found, R_OK) == 0) return found;
  }
  return NULL;
}

bool df_replay_peer_load(replay_options *options) {
  const bool is_mpi = options->engine == REPLAY_MPI;
  const char *name = replay_engine_names[options->engine];
  if (!options->peer_file) options->peer_file = find_module(options->engine);
  if (!options->peer_file) {
    df_tool_error("engine %s needs its module, which is built with dfccl-bench where %s is "
                  "installed (Debian: %s); build again, or name a module with --peer",
                  name, is_mpi ? "Open MPI or MPICH" : "Gloo",
                  is_mpi ? "openmpi-bin libopenmpi-dev, or mpich libmpich-dev" : "libgloo-dev");
    return false;
  }
  /* Global: libraries of MPI load parts of their own, which expect its symbols. */
  void *module = dlopen(options->peer_file, RTLD_NOW | RTLD_GLOBAL);
  const replay_peer *peer = module ? dlsym(module, "replay_peer_module") : NULL;
  if (!peer) {
    df_tool_error("engine %s: the module cannot be loaded: %s", name, dlerror());
    return false;
  }
  if (peer->version != REPLAY_PEER_VERSION || (peer->launcher != NULL) != is_mpi) {
    df_tool_error("engine %s: the module %s is of another engine or version", name,
                  options->peer_file);
    return false;
  }
  options->peer = peer;
  return true;
}

/* ---- the start ---- */

void df_replay_peer_exec(const replay_job *job, int argc, char **argv) {
  static char program[512], ranks[16], rate[32];
  const replay_options *options = &job->options;
  cpu_set_t cores;
  const int n_cores = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  const char *const *words = options->peer->launcher(job->plan.n_ranks > n_cores);
  const char **all = calloc((size_t)argc + 64, sizeof *all);
  size_t n = 0;
  if (!all) {
    df_tool_error("engine mpi: out of memory for %d words of the launcher", argc + 64);
    return;
  }
  if (!own_path(program)) {
    df_tool_error("engine mpi: /proc/self/exe, which names the program, cannot be read: %s",
                  strerror(errno));
    free(all);
    return;
  }
  snprintf(ranks, sizeof ranks, "%d", job->plan.n_ranks);
  snprintf(rate, sizeof rate, "%.17g", options->rate > 0 ? options->rate : 1);
  while (words[n] && n < 32) {
    all[n] = words[n];
    n++;
  }
  const char *const own[] = {"-n",     ranks, program,  "replay",          "--env",
                             "--rate", rate,  "--peer", options->peer_file};
  for (size_t i = 0; i < DF_COUNT_OF(own); i++) all[n++] = own[i];
  for (int i = 1; i < argc; i++) all[n++] = argv[i];
  fflush(stdout);
  /* exec does not change the words; its type is older than const. */
  execvp(all[0], (char *const *)(const void *)all);
  df_tool_error("engine mpi: %s cannot be started: %s; it belongs to %s", all[0], strerror(errno),
                options->peer->library);
  free(all);
}

bool df_replay_peer_directory_make(replay_job *job) {
  const char *parent = getenv("TMPDIR");
  snprintf(job->directory, sizeof job->directory, "%.200s/dfccl-replay-XXXXXX",
           parent && *parent ? parent : "/tmp");
  if (mkdtemp(job->directory)) return true;
  df_tool_error("engine gloo: no directory %s for its ranks: %s", job->directory, strerror(errno));
  return false;
}

/* Gloo leaves its files there. */
void df_replay_peer_directory_remove(const replay_job *job) {
  DIR *directory = opendir(job->directory);
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    unlinkat(dirfd(directory), entry->d_name, 0);
  }
  closedir(directory);
  rmdir(job->directory);
}

/* ---- the environment of a rank that another program has started ---- */

static int number_of_environment(const char *name, int least, int most) {
  const char *text = getenv(name);
  char *end = NULL;
  const long value = text ? strtol(text, &end, 10) : -1;
  if (text && *text && *end == '\0' && value >= least && value <= most) return (int)value;
  df_tool_error("option --env: %s must be a number from %d to %d, not '%s'", name, least, most,
                text ? text : "");
  return -1;
}

/* This host's address on its way to the host of rank 0; NULL: a sentence says why there is none. */
static const char *own_address(void) {
  static char text[INET6_ADDRSTRLEN];
  const char *host = getenv("MASTER_ADDR");
  if (!host || !*host) {
    df_tool_error("option --env: MASTER_ADDR must be the address of the host of rank 0, not ''");
    return NULL;
  }
  struct addrinfo *found = NULL, wanted = {.ai_socktype = SOCK_DGRAM};
  const int problem = getaddrinfo(host, "9", &wanted, &found);
  if (problem != 0) {
    df_tool_error("option --env: MASTER_ADDR '%s': %s", host, gai_strerror(problem));
    return NULL;
  }
  struct sockaddr_storage own;
  socklen_t bytes = sizeof own;
  const int end = socket(found->ai_family, SOCK_DGRAM, 0);
  const bool fine =
      end >= 0 && connect(end, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(end, (struct sockaddr *)&own, &bytes) == 0 &&
      getnameinfo((struct sockaddr *)&own, bytes, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0;
  if (!fine)
    df_tool_error("option --env: no address of this host on the way to MASTER_ADDR '%s': %s", host,
                  strerror(errno));
  if (end >= 0) close(end);
  freeaddrinfo(found);
  return fine ? text : NULL;
}

/* Gloo would take the files of an earlier job for those of this one, and wait for its ranks. */
static bool claim_rendezvous(const char *directory, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/dfccl-replay-rank-%d", directory, rank);
  const int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (file >= 0) {
    close(file);
    return true;
  }
  if (errno == EEXIST)
    df_tool_error("option --rendezvous: %s has files of an earlier job: rank %d; name an empty "
                  "directory",
                  directory, rank);
  else
    df_tool_error("option --rendezvous: %s cannot be created: %s", path, strerror(errno));
  return false;
}

bool df_replay_peer_world_of_env(const replay_job *job, replay_peer_world *world) {
  *world = (replay_peer_world){.directory = job->options.rendezvous};
  if (job->options.peer->launcher) return true;
  world->n_ranks = number_of_environment("WORLD_SIZE", 1, DF_TOOL_MAX_RANKS);
  world->rank = world->n_ranks < 0 ? -1 : number_of_environment("RANK", 0, DF_TOOL_MAX_RANKS - 1);
  if (world->n_ranks < 0 || world->rank < 0) return false;
  if (world->rank >= world->n_ranks) {
    df_tool_error("option --env: RANK is %d, and WORLD_SIZE %d; ranks begin with 0", world->rank,
                  world->n_ranks);
    return false;
  }
  if (world->n_ranks != job->plan.n_ranks) {
    df_tool_error("%s has %d ranks, and the job %d", job->options.files[0], job->plan.n_ranks,
                  world->n_ranks);
    return false;
  }
  world->address = own_address();
  return world->address && claim_rendezvous(world->directory, world->rank);
}

/* ---- a rank ---- */

void df_replay_peer_rank_main(df_tool_rank *self) {
  const replay_job *job = self->argument;
  const replay_peer *peer = job->options.peer;
  replay_peer_world world = {.rank = self->rank,
                             .n_ranks = self->n_ranks,
                             .directory = job->directory,
                             .address = "127.0.0.1"};
  if (!peer->open(&world)) {
    df_tool_rank_fail(self, -1, "%s cannot be opened", peer->library);
    return;
  }
  df_replay_rank_main(self);
  if (self->outcome.code == 0) peer->close();
}

static bool play_rank(replay_job *job, df_tool_rank *self, char *reports, size_t report_bytes) {
  const replay_peer *peer = job->options.peer;
  df_replay_rank_main(self);
  if (self->outcome.code != 0) {
    df_tool_error("rank %d failed: %s", self->rank, self->outcome.sentence);
    peer->abort();
    _exit(DF_TOOL_FAILED); /* a thread that is in a call still needs the job's memory */
  }
  const bool fine = peer->gather(self->report, reports, report_bytes);
  peer->name(job->library, sizeof job->library);
  peer->close();
  return fine;
}

int df_replay_peer_play_env(replay_job *job, replay_peer_world *world, char *reports,
                            size_t report_bytes) {
  const replay_peer *peer = job->options.peer;
  if (peer->launcher) {
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives its launcher */
    if (getppid() != parent) _exit(DF_TOOL_FAILED);
  }
  if (!peer->open(world)) return -1;
  df_tool_rank self = {.rank = world->rank,
                       .n_ranks = world->n_ranks,
                       .argument = job,
                       .report = calloc(1, report_bytes)};
  bool fine = self.report != NULL && world->n_ranks == job->plan.n_ranks;
  if (!self.report)
    df_tool_error("rank %d: out of memory for a report of %zu bytes", world->rank, report_bytes);
  else if (!fine)
    df_tool_error("%s has %d ranks, and the job %d", job->options.files[0], job->plan.n_ranks,
                  world->n_ranks);
  if (!fine) peer->abort();
  fine = fine && play_rank(job, &self, reports, report_bytes);
  free(self.report);
  return fine ? world->rank : -1;
}
