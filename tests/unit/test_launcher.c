/*
 * Promises of src/bootstrap/launcher.h:
 *   - Rank, size and key come from the launcher that started the process: torchrun, Open MPI, MPICH
 *     or Slurm; if there are several, from the innermost one.
 *   - All ranks of a job read the same key; another job, or the same one started again, another
 *     key.
 *   - A missing or invalid variable is an error that names it and its value, and so is a job with
 *     ranks on other hosts. Nothing is guessed.
 */
#include "bootstrap/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/net/sockets.h"
#include "support/harness.h"
#include "support/rest.h"

/* "NAME=value" each; the environment is empty otherwise. */
static void set_environment(const char *const *variables) {
  clearenv();
  for (; *variables != NULL; variables++) {
    char name[64];
    const char *equals = strchr(*variables, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals - *variables), *variables);
    CHECK(setenv(name, equals + 1, 1) == 0, "setenv %s", name);
  }
}

#define ENVIRONMENT(...) set_environment((const char *const[]){__VA_ARGS__, NULL})

static df_launch launch_of(int rank, int n_ranks) {
  df_launch launch;
  memset(&launch, 0xff, sizeof launch);
  OK(df_launcher_read(&launch, ""));
  CHECK(launch.rank == rank && launch.n_ranks == n_ranks, "rank %d of %d", launch.rank,
        launch.n_ranks);
  CHECK(launch.key[0] != '\0', "an empty key");
  CHECK(memchr(launch.key, '\0', sizeof launch.key) != NULL, "a key without an end");
  return launch;
}

static void check_refused(const char *words) {
  df_launch launch = {.rank = 77};
  RESULT(df_launcher_read(&launch, ""), dfcclInvalidUsage);
  CHECK(strstr(df_last_sentence(), words) != NULL, "no mention of \"%s\": %s", words,
        df_last_sentence());
  CHECK(launch.rank == 77, "written in spite of the failure");
}

static void check_same(df_launch a, df_launch b) {
  CHECK(strcmp(a.key, b.key) == 0, "\"%s\" and \"%s\"", a.key, b.key);
}

static void check_different(df_launch a, df_launch b) {
  CHECK(strcmp(a.key, b.key) != 0, "\"%s\" twice", a.key);
}

#define TORCHRUN(rank, size, port)                                                                 \
  "RANK=" rank, "WORLD_SIZE=" size, "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" port
#define OPEN_MPI(rank, size)                                                                       \
  "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size, "OMPI_COMM_WORLD_LOCAL_SIZE=" size
#define MPICH(rank, size) "PMI_RANK=" rank, "PMI_SIZE=" size, "MPI_LOCALNRANKS=" size
#define SLURM(rank, size, job, step)                                                               \
  "SLURM_PROCID=" rank, "SLURM_NTASKS=" size, "SLURM_JOB_ID=" job, "SLURM_STEP_ID=" step

DF_TEST(launcher, no_launcher_is_an_error, 10) {
  ENVIRONMENT("HOME=/");
  check_refused("no launcher's variables are set");
  ENVIRONMENT("RANK=", "PMI_RANK=");
  check_refused("no launcher's variables are set");
}

DF_TEST(launcher, torchruns_variables_are_read, 10) {
  ENVIRONMENT(TORCHRUN("0", "4", "29500"), "LOCAL_WORLD_SIZE=4");
  df_launch first = launch_of(0, 4);
  ENVIRONMENT(TORCHRUN("3", "4", "29500"), "LOCAL_RANK=3");
  check_same(first, launch_of(3, 4));
  ENVIRONMENT(TORCHRUN("0", "4", "29501"));
  check_different(first, launch_of(0, 4));
}

DF_TEST(launcher, a_restart_by_torchrun_is_another_job, 10) {
  ENVIRONMENT(TORCHRUN("1", "2", "29500"), "TORCHELASTIC_RUN_ID=a", "TORCHELASTIC_RESTART_COUNT=0");
  df_launch first = launch_of(1, 2);
  ENVIRONMENT(TORCHRUN("1", "2", "29500"), "TORCHELASTIC_RUN_ID=a", "TORCHELASTIC_RESTART_COUNT=1");
  check_different(first, launch_of(1, 2));
  ENVIRONMENT(TORCHRUN("1", "2", "29500"), "TORCHELASTIC_RUN_ID=b", "TORCHELASTIC_RESTART_COUNT=0");
  check_different(first, launch_of(1, 2));
}

DF_TEST(launcher, invalid_variables_are_named_with_their_values, 10) {
  ENVIRONMENT(TORCHRUN("two", "4", "29500"));
  check_refused("RANK (of torchrun) is \"two\"");
  ENVIRONMENT(TORCHRUN("-1", "4", "29500"));
  check_refused("RANK (of torchrun) is \"-1\"");
  ENVIRONMENT(TORCHRUN("1 ", "4", "29500"));
  check_refused("RANK (of torchrun) is \"1 \"");
  ENVIRONMENT(TORCHRUN("99999999999999999999", "4", "29500"));
  check_refused("RANK (of torchrun) is \"99999999999999999999\"");
  ENVIRONMENT(TORCHRUN("4", "4", "29500"));
  check_refused("RANK (of torchrun) is 4, not less than WORLD_SIZE, which is 4");
  ENVIRONMENT(TORCHRUN("0", "0", "29500"));
  check_refused("WORLD_SIZE (of torchrun) is 0, not 1 to 4096");
  ENVIRONMENT(TORCHRUN("0", "4097", "29500"));
  check_refused("WORLD_SIZE (of torchrun) is 4097, not 1 to 4096");
  ENVIRONMENT(TORCHRUN("0", "4", "http"));
  check_refused("MASTER_PORT (of torchrun) is \"http\"");
  ENVIRONMENT(TORCHRUN("0", "4", "65536"));
  check_refused("MASTER_PORT (of torchrun) is 65536, not a port");
  ENVIRONMENT(TORCHRUN("0", "4", "29500"), "LOCAL_WORLD_SIZE=4x");
  check_refused("LOCAL_WORLD_SIZE (of torchrun) is \"4x\"");
  ENVIRONMENT(OPEN_MPI("x", "4"));
  check_refused("OMPI_COMM_WORLD_RANK (of Open MPI) is \"x\"");
  ENVIRONMENT(MPICH("3", "2"));
  check_refused("PMI_RANK (of MPICH) is 3, not less than PMI_SIZE, which is 2");
  ENVIRONMENT(SLURM("0", "0x2", "1", "0"));
  check_refused("SLURM_NTASKS (of Slurm) is \"0x2\"");
}

DF_TEST(launcher, missing_variables_are_named, 10) {
  ENVIRONMENT("RANK=0");
  check_refused("WORLD_SIZE is not set, though other variables of torchrun are");
  ENVIRONMENT("WORLD_SIZE=2");
  check_refused("RANK is not set");
  ENVIRONMENT("RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1");
  check_refused("MASTER_ADDR is not set");
  ENVIRONMENT("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=");
  check_refused("MASTER_PORT is not set");
  ENVIRONMENT("OMPI_COMM_WORLD_RANK=0");
  check_refused("OMPI_COMM_WORLD_SIZE is not set, though other variables of Open MPI are");
  ENVIRONMENT(OPEN_MPI("0", "2"));
  check_refused("PMIX_NAMESPACE is not set");
  ENVIRONMENT("PMI_SIZE=1");
  check_refused("PMI_RANK is not set");
  ENVIRONMENT("SLURM_PROCID=0");
  check_refused("SLURM_NTASKS is not set");
  ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=1");
  check_refused("SLURM_JOB_ID is not set");
  ENVIRONMENT("SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=9");
  check_refused("SLURM_STEP_ID is not set");
}

static void check_root(df_launch launch, df_hosts hosts, const char *host, int port) {
  CHECK(launch.root.hosts == hosts, "hosts: %d", (int)launch.root.hosts);
  CHECK(strcmp(launch.root.host, host) == 0, "\"%s\"", launch.root.host);
  CHECK(port < 0 || launch.root.port == port, "port %u", launch.root.port);
}

DF_TEST(launcher, hosts_and_the_root_are_reported, 10) {
  ENVIRONMENT(TORCHRUN("0", "8", "29500"));
  check_root(launch_of(0, 8), DF_HOSTS_UNKNOWN, "127.0.0.1", 29500);
  ENVIRONMENT(TORCHRUN("0", "8", "29500"), "LOCAL_WORLD_SIZE=4");
  check_root(launch_of(0, 8), DF_HOSTS_SEVERAL, "127.0.0.1", 29500);
  /* the store uses the port itself */
  ENVIRONMENT(TORCHRUN("0", "8", "29500"), "LOCAL_WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=1");
  check_root(launch_of(0, 8), DF_HOSTS_ONE, "127.0.0.1", 29501);
  ENVIRONMENT("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
              "PMIX_NAMESPACE=1");
  check_root(launch_of(0, 4), DF_HOSTS_SEVERAL, "", 0);
  ENVIRONMENT("PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALNRANKS=1");
  check_root(launch_of(0, 4), DF_HOSTS_SEVERAL, "", 0);
  ENVIRONMENT(SLURM("0", "4", "1", "0"), "SLURM_NNODES=1", "SLURM_JOB_NODELIST=n1");
  check_root(launch_of(0, 4), DF_HOSTS_ONE, "", 0);
  ENVIRONMENT(SLURM("0", "4", "1", "0"), "SLURM_NNODES=3", "SLURM_JOB_NODELIST=n[07-08,11],m");
  check_root(launch_of(0, 4), DF_HOSTS_SEVERAL, "n07", -1);
  ENVIRONMENT(SLURM("0", "4", "1", "0"), "SLURM_NNODES=2", "SLURM_JOB_NODELIST=first,second");
  check_root(launch_of(0, 4), DF_HOSTS_SEVERAL, "first", -1);
}

DF_TEST(launcher, a_given_root_comes_first, 10) {
  df_launch launch;
  ENVIRONMENT("RANK=1", "WORLD_SIZE=2"); /* then no address is needed */
  OK(df_launcher_read(&launch, "host:4000"));
  check_root(launch, DF_HOSTS_UNKNOWN, "host", 4000);
  ENVIRONMENT(TORCHRUN("1", "2", "29500"));
  OK(df_launcher_read(&launch, "[fd77::1]:4000"));
  check_root(launch, DF_HOSTS_UNKNOWN, "fd77::1", 4000);
  CHECK(launch.root.n_ports == 1, "%u ports", launch.root.n_ports);
  ENVIRONMENT("PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALNRANKS=1"); /* hosts have no common proxy */
  OK(df_launcher_read(&launch, "host:4000"));
  CHECK(strstr(launch.key, "host:4000") != NULL, "%s", launch.key);
}

DF_TEST(launcher, the_innermost_launcher_counts, 10) {
  ENVIRONMENT(SLURM("0", "1", "5", "0"), OPEN_MPI("1", "2"), "PMIX_NAMESPACE=1");
  df_launch mpi = launch_of(1, 2);
  ENVIRONMENT(OPEN_MPI("1", "2"), "PMIX_NAMESPACE=1");
  check_same(mpi, launch_of(1, 2));
  ENVIRONMENT(OPEN_MPI("1", "2"), "PMIX_NAMESPACE=1", TORCHRUN("5", "6", "29500"));
  launch_of(5, 6);
}

DF_TEST(launcher, open_mpis_jobs_differ, 10) {
  ENVIRONMENT(OPEN_MPI("0", "2"), "PMIX_NAMESPACE=1", "OMPI_MCA_orte_hnp_uri=1.0;tcp://a:1");
  df_launch first = launch_of(0, 2);
  ENVIRONMENT(OPEN_MPI("1", "2"), "PMIX_NAMESPACE=1", "OMPI_MCA_orte_hnp_uri=1.0;tcp://a:1");
  check_same(first, launch_of(1, 2));
  ENVIRONMENT(OPEN_MPI("1", "2"), "PMIX_NAMESPACE=2", "OMPI_MCA_orte_hnp_uri=1.0;tcp://a:1");
  check_different(first, launch_of(1, 2));
  ENVIRONMENT(OPEN_MPI("1", "2"), "PMIX_NAMESPACE=1", "OMPI_MCA_orte_hnp_uri=1.0;tcp://a:2");
  check_different(first, launch_of(1, 2));
  ENVIRONMENT(OPEN_MPI("1", "2"), "OMPI_MCA_ess_base_jobid=1");
  launch_of(1, 2);
}

DF_TEST(launcher, a_long_value_still_distinguishes_jobs, 10) {
  char uri[3000] = "OMPI_MCA_orte_hnp_uri=";
  memset(uri + strlen(uri), 'a', sizeof uri - 1 - strlen(uri));
  uri[sizeof uri - 1] = '\0';
  ENVIRONMENT(OPEN_MPI("0", "2"), "PMIX_NAMESPACE=1", uri);
  df_launch first = launch_of(0, 2);
  check_same(first, launch_of(0, 2));
  uri[sizeof uri - 2] = 'b';
  ENVIRONMENT(OPEN_MPI("0", "2"), "PMIX_NAMESPACE=1", uri);
  check_different(first, launch_of(0, 2));
}

DF_TEST(launcher, slurms_jobs_and_steps_differ, 10) {
  ENVIRONMENT(SLURM("0", "2", "10", "0"), "SLURM_NNODES=1");
  df_launch first = launch_of(0, 2);
  ENVIRONMENT(SLURM("1", "2", "10", "0"));
  check_same(first, launch_of(1, 2));
  ENVIRONMENT(SLURM("1", "2", "10", "1"));
  check_different(first, launch_of(1, 2));
  ENVIRONMENT(SLURM("1", "2", "11", "0"));
  check_different(first, launch_of(1, 2));
  ENVIRONMENT(SLURM("1", "4", "10", "0"), "SLURM_STEP_NUM_TASKS=2", "SLURM_NNODES=2",
              "SLURM_STEP_NUM_NODES=1");
  check_same(first, launch_of(1, 2)); /* a step may be smaller than its allocation */
}

/* ---- MPICH's key is computed from ancestor processes ---- */

/* Computes the key in a descendant of a process that has the name of hydra's proxy, or another
 * name. */
static void read_below(const char *proxy_name, bool through_a_shell, df_launch *launch) {
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  fflush(NULL);
  df_quiet_before_fork();
  pid_t proxy = fork();
  if (proxy == 0) {
    if (proxy_name != NULL) prctl(PR_SET_NAME, proxy_name);
    for (int rank = 0; rank < 2; rank++) {
      pid_t pid = fork();
      if (pid == 0 && through_a_shell && rank == 1) {
        prctl(PR_SET_NAME, "a ) (shell");
        pid = fork();
        if (pid > 0) _exit(waitpid(pid, NULL, 0) != pid);
      }
      if (pid == 0) {
        ENVIRONMENT("PMI_SIZE=2", rank == 0 ? "PMI_RANK=0" : "PMI_RANK=1");
        df_launch found = launch_of(rank, 2);
        _exit(write(ends[1], &found, sizeof found) != sizeof found);
      }
      CHECK(waitpid(pid, NULL, 0) == pid, "no child");
    }
    _exit(0);
  }
  df_watch_child(proxy);
  close(ends[1]);
  for (int rank = 0; rank < 2; rank++)
    CHECK(read(ends[0], &launch[rank], sizeof *launch) == sizeof *launch, "rank %d failed", rank);
  close(ends[0]);
  CHECK(waitpid(proxy, NULL, 0) == proxy, "no proxy");
  df_unwatch_child(proxy);
}

DF_TEST(launcher, mpichs_ranks_recognise_each_other_by_their_proxy, 20) {
  df_launch first[2], second[2], other[2];
  read_below("hydra_pmi_proxy", false, first);
  check_same(first[0], first[1]);
  read_below("hydra_pmi_proxy", true, second);
  check_same(second[0], second[1]); /* though one has a shell between itself and the proxy */
  check_different(first[0], second[0]);
  read_below("some_launcher", false, other);
  check_same(other[0], other[1]);
  check_different(other[0], first[0]);
}

/* ---- The whole path ---- */

DF_TEST(launcher, torchruns_ranks_meet_though_their_port_is_in_use, 60) {
  enum { RANKS = 4 };
  pid_t pids[RANKS];
  uint16_t port;
  int holder = df_listen_loopback(&port); /* as the store of torchrun holds it */
  CHECK(holder >= 0, "no port");
  fflush(NULL);
  df_quiet_before_fork();
  for (int rank = 0; rank < RANKS; rank++) {
    pids[rank] = fork();
    if (pids[rank] == 0) {
      char rank_is[32], port_is[32];
      df_peer_info info = {{0}};
      df_mesh mesh;
      snprintf(rank_is, sizeof rank_is, "RANK=%d", rank);
      snprintf(port_is, sizeof port_is, "MASTER_PORT=%d", port);
      ENVIRONMENT(rank_is, "WORLD_SIZE=4", "MASTER_ADDR=localhost", port_is, "LOCAL_WORLD_SIZE=4");
      df_launch launch = launch_of(rank, RANKS);
      OK(df_bootstrap_join_key(NULL, NULL, launch.key, launch.n_ranks, launch.rank, &info, 40000,
                               &mesh));
      df_mesh_close(&mesh);
      _exit(0);
    }
    df_watch_child(pids[rank]);
  }
  for (int rank = 0; rank < RANKS; rank++) {
    int status = -1;
    CHECK(waitpid(pids[rank], &status, 0) == pids[rank] && status == 0, "rank %d: %d", rank,
          status);
    df_unwatch_child(pids[rank]);
  }
  close(holder);
}
