#include "bootstrap/launcher.h"

#include <limits.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/rendezvous/handshake.h"

enum { PORTS = 8 /* ports that rank 0 tries; others may be in use */ };

/* The list of names ends with NULL. */
static const char *first_set(const char *const *names) {
  for (; *names != NULL; names++)
    if (df_variable(*names) != NULL) return *names;
  return NULL;
}

static bool parse_number(const char *text, int *number) {
  uint64_t value;
  const char *end;
  if (!df_read_digits(text, INT_MAX, &value, &end) || *end != '\0') return false;
  *number = (int)value;
  return true;
}

static dfcclResult_t missing(const char *launcher, const char *name) {
  return df_fail(dfcclInvalidUsage, "%s is not set, though other variables of %s are", name,
                 launcher);
}

static dfcclResult_t read_number(const char *launcher, const char *name, int *number) {
  const char *text = df_variable(name);
  if (text == NULL) return missing(launcher, name);
  if (parse_number(text, number)) return dfcclSuccess;
  return df_fail(dfcclInvalidUsage, "%s (of %s) is \"%.64s\", not a whole number from 0 to %d",
                 name, launcher, text, INT_MAX);
}

static dfcclResult_t read_ranks(const char *launcher, const char *rank_name, const char *size_name,
                                df_launch *launch) {
  dfcclResult_t result = read_number(launcher, size_name, &launch->n_ranks);
  if (result == dfcclSuccess) result = read_number(launcher, rank_name, &launch->rank);
  if (result != dfcclSuccess) return result;
  if (launch->n_ranks < 1 || launch->n_ranks > DF_MAX_RANKS)
    return df_fail(dfcclInvalidUsage, "%s (of %s) is %d, not 1 to %d", size_name, launcher,
                   launch->n_ranks, DF_MAX_RANKS);
  if (launch->rank >= launch->n_ranks)
    return df_fail(dfcclInvalidUsage, "%s (of %s) is %d, not less than %s, which is %d", rank_name,
                   launcher, launch->rank, size_name, launch->n_ranks);
  return dfcclSuccess;
}

/* Reads how many of the ranks of the job are on this host. */
static dfcclResult_t count_hosts(const char *launcher, const char *name, df_launch *launch) {
  int here = 0;
  if (df_variable(name) == NULL) return dfcclSuccess;
  dfcclResult_t result = read_number(launcher, name, &here);
  if (result == dfcclSuccess)
    launch->root.hosts = here == launch->n_ranks ? DF_HOSTS_ONE : DF_HOSTS_SEVERAL;
  return result;
}

/* A multi-node job needs a key that is the same on all its hosts, so it cannot contain an
 * identifier of this host. The address of the root serves as the key. */
static void key_of_root(df_launch *launch, const char *launcher, const char *root) {
  snprintf(launch->key, sizeof launch->key, "%s root=%.200s", launcher, root);
}

/* A text that is too long is replaced by its hash. */
static void set_key(df_launch *launch, const char *launcher, const char *text) {
  int length = snprintf(launch->key, sizeof launch->key, "%s %s", launcher, text);
  if ((size_t)length < sizeof launch->key) return;
  unsigned char hash[32];
  char hex[2 * sizeof hash + 1];
  crypto_generichash(hash, sizeof hash, (const unsigned char *)text, strlen(text), NULL, 0);
  sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
  snprintf(launch->key, sizeof launch->key, "%s %s", launcher, hex);
}

static bool append_variable(char *text, size_t bytes, const char *name) {
  size_t used = strlen(text);
  const char *value = df_variable(name);
  int added = snprintf(text + used, bytes - used, " %s=%s", name, value != NULL ? value : "");
  return (size_t)added < bytes - used;
}

static dfcclResult_t key_of_variables(df_launch *launch, const char *launcher,
                                      const char *const *names) {
  char text[8192] = "";
  for (; *names != NULL; names++)
    if (!append_variable(text, sizeof text, *names))
      return df_fail(dfcclInvalidUsage, "%s (of %s) is too long", *names, launcher);
  set_key(launch, launcher, text + 1);
  return dfcclSuccess;
}

/* Two jobs on a host never have the same address and port at one time, because the job's own
 * store listens there. The run id and the restart count distinguish a restarted job from the one
 * before. */
static dfcclResult_t read_torchrun(df_launch *launch, const char *root) {
  static const char *const names[] = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                      "TORCHELASTIC_RESTART_COUNT", NULL};
  int port = 0;
  dfcclResult_t result = read_ranks("torchrun", "RANK", "WORLD_SIZE", launch);
  if (result == dfcclSuccess) result = count_hosts("torchrun", "LOCAL_WORLD_SIZE", launch);
  const char *address = df_variable("MASTER_ADDR");
  if (result == dfcclSuccess && root[0] && address == NULL) {
    key_of_root(launch, "torchrun", root);
    return result;
  }
  if (result == dfcclSuccess && address == NULL) result = missing("torchrun", "MASTER_ADDR");
  if (result == dfcclSuccess) result = read_number("torchrun", "MASTER_PORT", &port);
  if (result != dfcclSuccess) return result;
  if (port > 65535)
    return df_fail(dfcclInvalidUsage, "MASTER_PORT (of torchrun) is %d, not a port", port);
  /* The store of torchrun itself listens at the port; without torchrun a store of the program may
   * do so. */
  const int first = df_variable("TORCHELASTIC_RUN_ID") ? port + 1 : port;
  snprintf(launch->root.host, sizeof launch->root.host, "%s", address);
  launch->root.port = (uint16_t)(first <= 65535 ? first : 0);
  launch->root.n_ports = PORTS;
  return key_of_variables(launch, "torchrun", names);
}

/* Derives a port from the key for launchers that do not provide one: all ranks compute the same
 * port. */
static uint16_t port_of_key(const df_launch *launch) {
  enum { FIRST = 20000, COUNT = 10000 };
  uint32_t hash = 0;
  for (const char *at = launch->key; *at; at++) hash = hash * 31 + (uint8_t)*at;
  return (uint16_t)(FIRST + hash % COUNT);
}

/* In Open MPI 4 two mpiruns can choose the same name space, so the key also contains the address of
 * mpirun. */
static dfcclResult_t read_open_mpi(df_launch *launch, const char *root) {
  static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                                      "OMPI_MCA_orte_hnp_uri", NULL};
  dfcclResult_t result =
      read_ranks("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", launch);
  if (result == dfcclSuccess)
    result = count_hosts("Open MPI", "OMPI_COMM_WORLD_LOCAL_SIZE", launch);
  if (result != dfcclSuccess) return result;
  if (root[0] && launch->root.hosts != DF_HOSTS_ONE) {
    key_of_root(launch, "Open MPI", root);
    return dfcclSuccess;
  }
  if (first_set(names) == NULL) return missing("Open MPI", "PMIX_NAMESPACE");
  return key_of_variables(launch, "Open MPI", names);
}

typedef struct {
  char name[64];
  int parent;
  unsigned long long start; /* clock ticks since boot: unique with the pid */
} process_facts;

static bool look_up_process(int pid, process_facts *facts) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  size_t bytes = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[bytes] = '\0';
  /* "pid (name) state parent ...": a name may contain parentheses. */
  char *open = strchr(line, '('), *close = strrchr(line, ')');
  if (open == NULL || close == NULL || close < open) return false;
  snprintf(facts->name, sizeof facts->name, "%.*s", (int)(close - open - 1), open + 1);
  return sscanf(close + 1,
                " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                &facts->parent, &facts->start) == 2;
}

/* Hydra has no variable that names the job. But all ranks of a job on one host descend from one
 * hydra_pmi_proxy, which belongs to this job alone: its pid and start time are the key. For other
 * process managers with PMI the parent process is used. */
static int find_proxy(void) {
  enum { GENERATIONS_MAX = 64 };
  process_facts facts;
  int pid = getppid();
  for (int i = 0; i < GENERATIONS_MAX && pid > 1 && look_up_process(pid, &facts); i++) {
    if (strcmp(facts.name, "hydra_pmi_proxy") == 0) return pid;
    pid = facts.parent;
  }
  return getppid();
}

static dfcclResult_t key_of_proxy(df_launch *launch) {
  process_facts facts;
  char text[128];
  int pid = find_proxy();
  if (pid < 1 || !look_up_process(pid, &facts))
    return df_fail(dfcclInvalidUsage,
                   "PMI_RANK (of MPICH) is set, but process %d, which launched this one, is not in "
                   "/proc: the job's ranks have nothing to recognise each other by",
                   pid);
  snprintf(text, sizeof text, "process=%d started=%llu", pid, facts.start);
  set_key(launch, "MPICH", text);
  return dfcclSuccess;
}

static dfcclResult_t read_mpich(df_launch *launch, const char *root) {
  dfcclResult_t result = read_ranks("MPICH", "PMI_RANK", "PMI_SIZE", launch);
  if (result == dfcclSuccess) result = count_hosts("MPICH", "MPI_LOCALNRANKS", launch);
  if (result != dfcclSuccess) return result;
  if (root[0] && launch->root.hosts != DF_HOSTS_ONE) {
    key_of_root(launch, "MPICH", root);
    return dfcclSuccess;
  }
  return key_of_proxy(launch);
}

/* Task 0 is on the first node: for "node[07-09,12],other" that is node07. */
static void first_node(char *host, size_t bytes, const char *list) {
  const size_t name = strcspn(list, "[,");
  size_t number = 0;
  if (list[name] == '[') number = strcspn(list + name + 1, "-,]");
  snprintf(host, bytes, "%.*s%.*s", (int)name, list, (int)number, list + name + 1);
}

/* The restart count distinguishes a requeued job from the one before. */
static dfcclResult_t read_slurm(df_launch *launch, const char *root) {
  (void)root; /* Slurm provides the job id on all hosts */
  static const char *const size_names[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", NULL};
  static const char *const node_names[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", NULL};
  static const char *const list_names[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                                           "SLURM_NODELIST", NULL};
  static const char *const key_names[] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
                                          NULL};
  const char *size_name = first_set(size_names), *nodes_name = first_set(node_names);
  if (size_name == NULL) size_name = "SLURM_NTASKS";
  int nodes = 1;
  dfcclResult_t result = read_ranks("Slurm", "SLURM_PROCID", size_name, launch);
  if (result == dfcclSuccess && nodes_name != NULL)
    result = read_number("Slurm", nodes_name, &nodes);
  if (result != dfcclSuccess) return result;
  if (nodes_name) launch->root.hosts = nodes == 1 ? DF_HOSTS_ONE : DF_HOSTS_SEVERAL;
  if (df_variable("SLURM_JOB_ID") == NULL) return missing("Slurm", "SLURM_JOB_ID");
  if (df_variable("SLURM_STEP_ID") == NULL) return missing("Slurm", "SLURM_STEP_ID");
  result = key_of_variables(launch, "Slurm", key_names);
  const char *list_name = first_set(list_names);
  if (result == dfcclSuccess && list_name && launch->root.hosts == DF_HOSTS_SEVERAL) {
    first_node(launch->root.host, sizeof launch->root.host, df_variable(list_name));
    launch->root.port = port_of_key(launch);
    launch->root.n_ports = PORTS;
  }
  return result;
}

/* The root has the form HOST:PORT or [IPV6]:PORT; its form was checked before. */
static void use_root(df_launch *launch, const char *root) {
  const char *colon = strrchr(root, ':');
  const int brackets = root[0] == '[' && colon > root + 1 && colon[-1] == ']';
  snprintf(launch->root.host, sizeof launch->root.host, "%.*s", (int)(colon - root) - 2 * brackets,
           root + brackets);
  launch->root.port = (uint16_t)strtoul(colon + 1, NULL, 10);
  launch->root.n_ports = 1;
}

/* The innermost launcher is checked first: torchrun may run under mpirun or srun, and mpirun under
 * Slurm. */
dfcclResult_t df_launcher_read(df_launch *launch, const char *root) {
  static const struct {
    const char *names[3];
    dfcclResult_t (*read)(df_launch *launch, const char *root);
  } launchers[] = {
      {{"RANK", "WORLD_SIZE", NULL}, read_torchrun},
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL}, read_open_mpi},
      {{"PMI_RANK", "PMI_SIZE", NULL}, read_mpich},
      {{"SLURM_PROCID", NULL, NULL}, read_slurm},
  };
  dfcclResult_t result = df_handshake_ready();
  if (result != dfcclSuccess) return result;
  for (size_t i = 0; i < DF_COUNT_OF(launchers); i++) {
    if (first_set(launchers[i].names) == NULL) continue;
    df_launch found = {0};
    result = launchers[i].read(&found, root);
    if (result != dfcclSuccess) return result;
    if (root[0]) use_root(&found, root);
    *launch = found;
    return dfcclSuccess;
  }
  return df_fail(dfcclInvalidUsage,
                 "no launcher's variables are set: neither RANK (torchrun), OMPI_COMM_WORLD_RANK "
                 "(Open MPI), PMI_RANK (MPICH) nor SLURM_PROCID (Slurm)");
}
