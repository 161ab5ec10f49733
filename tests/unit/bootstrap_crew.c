#include "bootstrap_crew.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/net/sockets.h"
#include "support/leftovers.h"
#include "support/rest.h"

#if defined(__SANITIZE_ADDRESS__)
#define LEAK_CHECK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAK_CHECK 1
#endif
#endif
#ifdef LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif

/* Zeroed memory that forked children share; never freed. */
void *shared_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap: %s", strerror(errno));
  return memory;
}

crew *make_crew(bool by_key, int n, int per_process) {
  static int jobs;
  crew *c = shared_memory(sizeof *c);
  c->n = n;
  c->per_process = per_process;
  if (by_key) snprintf(c->key, sizeof c->key, "test %d of process %d", ++jobs, (int)getpid());
  for (int i = 0; i < n; i++)
    c->members[i] =
        (member){.n_ranks = n, .rank = i, .timeout_ms = LONG_MS, .code = NOT_YET, .sentence = ""};
  return c;
}

df_peer_info info_of(int rank) {
  df_peer_info info;
  memset(&info, 'a' + rank % 26, sizeof info);
  memcpy(info.bytes, &rank, sizeof rank);
  return info;
}

static dfcclResult_t join_crew(const crew *c, const member *m, df_mesh *mesh) {
  df_peer_info info = info_of(m->rank);
  if (c->key[0] != '\0')
    return df_bootstrap_join_key(NULL, NULL, c->key, m->n_ranks, m->rank, &info, m->timeout_ms,
                                 mesh);
  return df_bootstrap_join(NULL, &c->id, m->n_ranks, m->rank, &info, m->timeout_ms, mesh);
}

static void check_socket(int fd, int rank) {
  int type, domain;
  socklen_t bytes = sizeof type;
  CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK, "the socket to rank %d blocks", rank);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "the socket to rank %d survives exec", rank);
  CHECK(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0, "%s", strerror(errno));
  CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0, "%s", strerror(errno));
  CHECK(type == SOCK_SEQPACKET && domain == AF_UNIX, "type %d, domain %d", type, domain);
}

/* Each rank sends its rank to each other one: each socket leads to the right rank, and has no other
 * data. */
static void talk(const df_mesh *mesh) {
  for (int rank = 0; rank < mesh->n_ranks; rank++)
    if (mesh->sockets[rank] >= 0)
      CHECK(send(mesh->sockets[rank], &mesh->rank, sizeof(int), 0) == sizeof(int), "to rank %d: %s",
            rank, strerror(errno));
  for (int rank = 0; rank < mesh->n_ranks; rank++) {
    if (mesh->sockets[rank] < 0) continue;
    int said[2] = {-1, -1};
    ssize_t got;
    EVENTUALLY((got = recv(mesh->sockets[rank], said, sizeof said, 0)) >= 0 || errno != EAGAIN);
    CHECK(got == sizeof(int) && said[0] == rank, "%zd bytes, rank %d instead of %d", got, said[0],
          rank);
  }
}

static void check_mesh(const crew *c, const member *m, const df_mesh *mesh) {
  CHECK(mesh->n_ranks == m->n_ranks && mesh->rank == m->rank, "rank %d of %d", mesh->rank,
        mesh->n_ranks);
  for (int rank = 0; rank < mesh->n_ranks; rank++) {
    df_peer_info info = info_of(rank);
    bool here = rank / c->per_process == m->rank / c->per_process;
    CHECK(memcmp(&mesh->peer_info[rank], &info, sizeof info) == 0, "the card of rank %d", rank);
    CHECK(mesh->local[rank] == here, "rank %d: local is %d", rank, mesh->local[rank]);
    CHECK((mesh->sockets[rank] < 0) == here, "rank %d: socket %d", rank, mesh->sockets[rank]);
    if (mesh->sockets[rank] >= 0) check_socket(mesh->sockets[rank], rank);
  }
  if (!m->mute) talk(mesh);
}

static const crew *current_crew; /* members in this process */

/* Waits for the members of earlier turns, and for the root in the parent's process. */
static void await_turn(const crew *c, const member *m) {
  pid_t pids[CREW_MAX + 1] = {getppid()};
  int count = 1;
  for (int i = 0; i < c->n; i++) {
    if (c->members[i].turn >= m->turn || c->pids[i] == 0) continue;
    EVENTUALLY(__atomic_load_n(&c->members[i].started, __ATOMIC_ACQUIRE) == 1);
    pids[count++] = c->pids[i];
  }
  df_await_rest(pids, count, 20);
}

void await_rest_of_crew(const crew *c) {
  pid_t pids[CREW_MAX + 1] = {getpid()};
  int count = 1;
  for (int i = 0; i < c->n; i++)
    if (c->pids[i] != 0) pids[count++] = c->pids[i];
  df_await_rest(pids, count, 20);
}

static void *run_member(void *argument) {
  member *m = argument;
  df_mesh mesh;
  memset(&mesh, 0, sizeof mesh);
  if (m->turn > 0) await_turn(current_crew, m);
  __atomic_store_n(&m->started, 1, __ATOMIC_RELEASE);
  dfcclResult_t code = join_crew(current_crew, m, &mesh);
  if (code == dfcclSuccess) {
    check_mesh(current_crew, m, &mesh);
    memcpy(m->job, mesh.job, sizeof m->job);
  } else {
    CHECK(mesh.sockets == NULL && mesh.peer_info == NULL, "a mesh in spite of the failure");
    snprintf(m->sentence, sizeof m->sentence, "%s", df_last_sentence());
  }
  df_mesh_close(&mesh);
  df_mesh_close(&mesh);
  __atomic_store_n(&m->code, (int)code, __ATOMIC_RELEASE);
  return NULL;
}

/* The limit that leaves that many free descriptors. */
static rlim_t descriptors_up_to(int count) {
  int taken[64], last = 0;
  CHECK(count <= 64, "%d descriptors", count);
  for (int i = 0; i < count; i++) {
    taken[i] = dup(0);
    CHECK(taken[i] >= 0, "%s", strerror(errno));
    last = taken[i];
  }
  for (int i = 0; i < count; i++) close(taken[i]);
  return (rlim_t)last + 1;
}

static void run_process(crew *c, int first) {
  pthread_t threads[CREW_MAX];
  int end = first + c->per_process < c->n ? first + c->per_process : c->n;
  current_crew = c;
  EVENTUALLY(__atomic_load_n(&c->gate, __ATOMIC_ACQUIRE) == 1);
  int descriptors = df_descriptor_count();
  if (c->members[first].descriptors > 0) {
    rlim_t most = descriptors_up_to(c->members[first].descriptors);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0, "%s", strerror(errno));
  }
  for (int i = first; i < end; i++)
    CHECK(pthread_create(&threads[i], NULL, run_member, &c->members[i]) == 0, "no thread");
  for (int i = first; i < end; i++) pthread_join(threads[i], NULL);
  if (c->members[first].descriptors == 0)
    CHECK(df_descriptor_count() == descriptors, "%d descriptors before, %d after", descriptors,
          df_descriptor_count());
}

pid_t start_process(crew *c, int first, double seconds) {
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid == 0) {
    df_watchdog_start("a process of the crew", seconds);
    run_process(c, first);
    df_watchdog_stop();
#ifdef LEAK_CHECK
    if (__lsan_do_recoverable_leak_check() != 0) _exit(2);
#endif
    _exit(0);
  }
  df_watch_child(pid);
  for (int i = first; i < first + c->per_process && i < c->n; i++) c->pids[i] = pid;
  return pid;
}

/* Creates the id, if the crew needs one, only now: its root's thread must not run during a fork. */
void open_gate(crew *c) {
  if (c->key[0] == '\0' && c->id.internal[0] == '\0') OK(df_bootstrap_create_id(&c->id, NULL));
  __atomic_store_n(&c->gate, 1, __ATOMIC_RELEASE);
}

void start_crew(crew *c) {
  df_quiet_before_fork();
  for (int first = 0; first < c->n; first += c->per_process) start_process(c, first, 60);
  open_gate(c);
}

int reap(pid_t pid) {
  int status = 0;
  df_waiting_for("a process of the crew");
  CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
  df_waiting_for(NULL);
  df_unwatch_child(pid);
  return status;
}

void reap_crew(crew *c) {
  for (int first = 0; first < c->n; first += c->per_process)
    CHECK(reap(c->pids[first]) == 0, "the process of member %d failed", first);
}

int code_of(const member *m) { return __atomic_load_n(&m->code, __ATOMIC_ACQUIRE); }

void check_code(const crew *c, int index, dfcclResult_t expected) {
  const member *m = &c->members[index];
  CHECK(m->code == (int)expected, "member %d: %s instead of %s: %s", index,
        m->code == NOT_YET ? "nothing" : df_result_name((dfcclResult_t)m->code),
        df_result_name(expected), m->sentence);
}

bool is_late(const member *m) {
  static const char *const words[] = {" did not ", " within ", " was silent for "};
  bool found = false;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    found |= strstr(m->sentence, words[i]) != NULL;
  return code_of(m) > dfcclSuccess && found;
}

void check_mentions(const member *m, const char *words) {
  CHECK(strstr(m->sentence, words) != NULL, "rank %d does not mention \"%s\": %s", m->rank, words,
        m->sentence);
}

/* Runs prepare in a process that then lives until it is killed; returns when prepare has
 * returned. */
pid_t start_other_process(void (*prepare)(crew *c), crew *c) {
  int ready[2];
  char byte;
  CHECK(pipe(ready) == 0, "%s", strerror(errno));
  fflush(NULL);
  df_quiet_before_fork();
  pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid == 0) {
    df_watchdog_start("the process of a test", 60);
    prepare(c);
    CHECK(write(ready[1], "", 1) == 1, "%s", strerror(errno));
    for (;;) pause();
  }
  df_watch_child(pid);
  CHECK(read(ready[0], &byte, 1) == 1, "the other process failed");
  close(ready[0]);
  close(ready[1]);
  return pid;
}

void address_of(const crew *c, unsigned char key[DF_KEY_BYTES], unsigned char name[DF_NAME_BYTES]) {
  df_key_from_text(key, c->key, (uint32_t)geteuid());
  df_derive(name, DF_NAME_BYTES, key, "dfccl address", NULL, 0, NULL, 0);
}

/* A process that joins the rendezvous as that rank and then does nothing, with its listener
 * open. */
pid_t start_still_rank(crew *c, int rank) {
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid > 0) {
    df_watch_child(pid);
    return pid;
  }
  df_watchdog_start("a rank that sits still", 60);
  EVENTUALLY(__atomic_load_n(&c->gate, __ATOMIC_ACQUIRE) == 1);
  df_rendezvous r = {.n_ranks = c->n, .rank = rank, .fd = -1, .timeout_ms = LONG_MS};
  r.deadline_ns = UINT64_MAX;
  r.own.pid = getpid();
  r.by_key = c->key[0] != '\0';
  r.is_near = true;
  r.own.machine = df_machine_identity();
  r.own.host = df_host_identity();
  if (r.by_key) df_tag_from_text(r.tag, c->key);
  OK(df_handshake_ready());
  if (r.by_key) {
    address_of(c, r.key, r.name);
  } else {
    df_id_content content;
    OK(df_id_read(&c->id, &content));
    r.port = content.port;
    df_key_from_secret(r.key, content.secret);
  }
  memcpy(r.own.name, &r.own.pid, sizeof r.own.pid);
  CHECK(df_listen_abstract(SOCK_SEQPACKET, r.own.name) >= 0, "no listener");
  dfcclResult_t result;
  EVENTUALLY((result = df_rendezvous_enter(&r)) != dfcclInProgress);
  OK(result);
  __atomic_store_n(&c->entered, 1, __ATOMIC_RELEASE);
  for (;;) pause();
}
