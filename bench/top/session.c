#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "top/top.h"

static bool fail(df_top_session *session, const char *sentence) {
  snprintf(session->error, sizeof session->error, "%s", sentence);
  return false;
}

/* ---- opening and closing ---- */

bool df_top_session_open(df_top_session *session, const df_found *found, const df_found_job *job) {
  *session = (df_top_session){.job = job->job};
  memcpy(session->program, job->program, sizeof session->program);
  gethostname(session->host, sizeof session->host - 1);
  session->ranks = calloc(DF_MAX_RANKS, sizeof *session->ranks);
  if (session->ranks == NULL) {
    return fail(session, "no memory for the ranks of a job");
  }
  for (uint32_t r = 0; r < DF_MAX_RANKS; r++) session->ranks[r].fd = -1;
  for (uint32_t i = 0; i < job->n; i++) {
    const df_found_socket *socket = &found->sockets[job->first + i];
    df_top_rank *rank = &session->ranks[socket->name.rank];
    memcpy(rank->path, socket->path, sizeof rank->path);
    rank->process = socket->name.process;
    session->n_ranks = DF_MAX(session->n_ranks, socket->name.rank + 1);
  }
  return true;
}

void df_top_session_close(df_top_session *session) {
  for (uint32_t r = 0; session->ranks && r < DF_MAX_RANKS; r++) {
    df_top_rank *rank = &session->ranks[r];
    if (rank->fd >= 0) close(rank->fd);
    free(rank->now);
    free(rank->before);
  }
  free(session->ranks);
  session->ranks = NULL;
}

/* ---- questions ---- */

static void hang_up(df_top_rank *rank) {
  if (rank->fd >= 0) close(rank->fd);
  rank->fd = -1;
}

/* A socket in /tmp may belong to another user, who pretends to be the job. */
bool df_top_belongs_to_user(int fd) {
  struct ucred peer = {.uid = (uid_t)-1};
  socklen_t bytes = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

static void give_up(df_top_rank *rank, const char *why) {
  hang_up(rank);
  rank->contact = RANK_GONE;
  rank->asked_ns = 0;
  snprintf(rank->absence, sizeof rank->absence, "%s", why);
}

/* A connection that cannot be made because too many callers wait is tried again later. */
static void call(df_top_rank *rank) {
  const int fd = df_snapshot_connect(rank->path);
  if (fd >= 0 && df_top_belongs_to_user(fd)) {
    rank->fd = fd;
    return;
  }
  if (fd >= 0) close(fd);
  if (fd == -ECONNREFUSED || fd == -ENOENT || fd >= 0) give_up(rank, "has ended");
}

static void begin_question(df_top_session *session, df_snapshot_question *question) {
  memset(question, 0, sizeof *question);
  question->header = (df_snapshot_header){
      .magic = DF_SNAPSHOT_MAGIC, .version = DF_SNAPSHOT_VERSION, .bytes = sizeof *question};
  question->number = ++session->number;
  question->n_asked = session->n_asked;
  memcpy(question->asked, session->asked, session->n_asked * sizeof session->asked[0]);
}

static bool is_on_host(const df_top_rank *rank) { return rank->path[0] != '\0'; }

static bool can_ask_others(const df_top_rank *rank) {
  return is_on_host(rank) && rank->fd >= 0 && rank->contact == RANK_ANSWERS;
}

/* Returns false if no rank on this host answers. */
static bool find_gateway(df_top_session *session) {
  if (can_ask_others(&session->ranks[session->gateway])) return true;
  for (uint32_t r = 0; r < session->n_ranks; r++)
    if (can_ask_others(&session->ranks[r])) {
      session->gateway = r;
      return true;
    }
  return false;
}

static bool is_due(const df_top_rank *rank, uint32_t gateway) {
  if (is_on_host(rank) || rank->contact == RANK_GONE) return false;
  return rank->is_requested ? rank->gateway != gateway : !rank->is_done;
}

/* Requests the ranks that have no socket here, once for each df_top_ask. */
static void ask_others(df_top_session *session) {
  df_snapshot_question question;
  uint32_t n = 0;
  if (!find_gateway(session)) return;
  const uint32_t gateway = session->gateway;
  const int fd = session->ranks[gateway].fd;
  begin_question(session, &question);
  for (uint32_t r = 0; r < session->n_ranks; r++)
    if (is_due(&session->ranks[r], gateway)) {
      question.ranks[r / 64] |= UINT64_C(1) << (r % 64);
      n++;
    }
  if (n == 0 || send(fd, &question, sizeof question, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    df_top_rank *rank = &session->ranks[r];
    if (!is_due(rank, gateway)) continue;
    rank->is_requested = rank->is_done = true;
    rank->gateway = gateway;
    rank->asked_ns = 0; /* the gateway reports when it has asked */
  }
}

uint64_t df_top_interval_ms(const df_top_session *session) {
  uint64_t n = 0;
  for (uint32_t r = 0; r < session->n_ranks; r++)
    n += !is_on_host(&session->ranks[r]) && session->ranks[r].contact != RANK_GONE;
  return DF_TOP_INTERVAL_MS + n * 1000 / 64;
}

bool df_top_ask(df_top_session *session) {
  df_snapshot_question question;
  const uint64_t now = df_clock_ns();
  uint32_t n_left = 0;
  begin_question(session, &question);
  question.wants_own = 1;
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    df_top_rank *rank = &session->ranks[r];
    rank->is_done = false;
    if (!is_on_host(rank) || rank->contact == RANK_GONE) continue;
    if (rank->fd < 0) call(rank);
    if (rank->contact == RANK_GONE) continue;
    n_left++;
    if (rank->asked_ns && rank->fd >= 0 && rank->number) continue; /* it owes an answer */
    if (rank->asked_ns == 0) rank->asked_ns = now;
    if (rank->fd < 0) continue;
    if (send(rank->fd, &question, sizeof question, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
      hang_up(rank);
    else
      rank->number = question.number;
  }
  session->has_ended = n_left == 0;
  ask_others(session);
  return true;
}

/* ---- answers ---- */

static bool keep(df_top_session *session, const df_snapshot_buffer *answer) {
  const df_snapshot *s = &answer->snapshot;
  df_top_rank *rank = &session->ranks[s->rank];
  session->n_ranks = s->n_ranks;
  if (s->host[0]) memcpy(rank->host, s->host, sizeof rank->host);
  if (s->kind == DF_SNAPSHOT_SENT) {
    if (rank->asked_ns == 0) rank->asked_ns = df_clock_ns();
    return true;
  }
  rank->asked_ns = rank->number = 0;
  rank->is_requested = false;
  rank->contact = s->kind == DF_SNAPSHOT_OF_RANK  ? RANK_ANSWERS
                  : s->kind == DF_SNAPSHOT_CLOSED ? RANK_CLOSED
                                                  : RANK_GONE;
  if (rank->contact == RANK_GONE) snprintf(rank->absence, sizeof rank->absence, "%s", s->sentence);
  if (rank->contact != RANK_ANSWERS) return true;
  /* Another gateway may bring an old one. */
  if (rank->now && rank->now->snapshot.now_ns >= s->now_ns) return true;
  rank->process = s->process;
  df_snapshot_buffer *oldest = rank->before;
  if (oldest == NULL) oldest = malloc(sizeof *oldest);
  if (oldest == NULL) {
    return fail(session, "no memory for the snapshot of a rank");
  }
  rank->before = rank->now;
  rank->now = oldest;
  memcpy(oldest->bytes, answer->bytes, s->header.bytes);
  return true;
}

static void say_version(uint32_t version, char *text, size_t bytes) {
  const uint32_t code = version & 0xffffff;
  snprintf(text, bytes, "%u.%u.%u (format %u)", code / 10000, code / 100 % 100, code % 100,
           version >> 24);
}

static bool refuse_version(df_top_session *session, uint32_t version) {
  char theirs[48], ours[48];
  say_version(version, theirs, sizeof theirs);
  say_version(DF_SNAPSHOT_VERSION, ours, sizeof ours);
  snprintf(session->error, sizeof session->error,
           "job %016" PRIx64 " uses version %s of the library, and this dfccl-top has %s",
           session->job, theirs, ours);
  return false;
}

static bool is_of_job(const df_top_session *session, const df_snapshot *s) {
  uint64_t job = 0;
  for (int i = 0; i < 8; i++) job = job << 8 | s->job[i];
  return job == session->job;
}

/* Reads all answers that are there. */
static bool read_answers(df_top_session *session, df_top_rank *rank) {
  df_snapshot_buffer answer;
  for (;;) {
    const ssize_t got = recv(rank->fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) break;
    const df_snapshot_header *header = &answer.snapshot.header;
    if ((size_t)got >= sizeof *header && header->magic == DF_SNAPSHOT_MAGIC &&
        header->version != DF_SNAPSHOT_VERSION)
      return refuse_version(session, header->version);
    if ((size_t)got > sizeof answer || !df_snapshot_is_valid(&answer, (size_t)got) ||
        !is_of_job(session, &answer.snapshot))
      break;
    if (!keep(session, &answer)) return false;
  }
  hang_up(rank); /* the next question calls again, and is refused if the process has ended */
  rank->number = 0;
  return true;
}

/* A gateway that has gone or is silent reports nothing about the ranks that it was to ask. */
static void forget_requests(df_top_session *session) {
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    df_top_rank *rank = &session->ranks[r];
    if (!rank->is_requested) continue;
    if (can_ask_others(&session->ranks[rank->gateway])) continue;
    rank->is_requested = false;
    rank->asked_ns = 0;
  }
}

static void mark_silent(df_top_session *session) {
  const uint64_t now = df_clock_ns(), patience_ns = DF_TOP_SILENCE_MS * UINT64_C(1000000);
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    df_top_rank *rank = &session->ranks[r];
    if (rank->asked_ns && rank->contact != RANK_GONE && now - rank->asked_ns >= patience_ns)
      rank->contact = RANK_SILENT;
  }
}

static uint32_t list_awaited(const df_top_session *session, struct pollfd *fds, uint32_t *of) {
  uint32_t n = 0, gateway = UINT32_MAX;
  for (uint32_t r = 0; r < session->n_ranks; r++)
    if (session->ranks[r].is_requested) gateway = session->ranks[r].gateway;
  for (uint32_t r = 0; r < session->n_ranks; r++) {
    if (session->ranks[r].fd < 0 || (session->ranks[r].asked_ns == 0 && r != gateway)) continue;
    fds[n] = (struct pollfd){.fd = session->ranks[r].fd, .events = POLLIN};
    of[n++] = r;
  }
  return n;
}

static bool receive(df_top_session *session, uint64_t deadline_ns, int fd, struct pollfd *fds,
                    uint32_t *of) {
  for (;;) {
    ask_others(session); /* the first answers have the number of ranks */
    const uint64_t now = df_clock_ns();
    const uint32_t n = list_awaited(session, fds, of);
    if (now >= deadline_ns || (n == 0 && fd < 0)) return true;
    fds[n] = (struct pollfd){.fd = fd, .events = POLLIN};
    const int ready = poll(fds, n + 1, (int)((deadline_ns - now) / 1000000 + 1));
    if (ready < 0) return true; /* a signal: the caller looks */
    for (uint32_t i = 0; i < n; i++)
      if (fds[i].revents && !read_answers(session, &session->ranks[of[i]])) return false;
    if (fds[n].revents) return true;
  }
}

bool df_top_receive(df_top_session *session, uint64_t deadline_ns, int fd) {
  struct pollfd *fds = calloc(DF_MAX_RANKS + 1, sizeof *fds);
  uint32_t *of = calloc(DF_MAX_RANKS, sizeof *of);
  bool fine = fds && of;
  if (!fine) fail(session, "no memory for the connections of a job");
  fine = fine && receive(session, deadline_ns, fd, fds, of);
  free(fds);
  free(of);
  mark_silent(session);
  forget_requests(session);
  return fine;
}
