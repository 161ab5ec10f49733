#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

world current;
char world_failure[600];
int world_traces;
int survival_planted_number;
static uint8_t buffer[DF_VIEW_MESSAGE_BYTES]; /* all machines write into it */

/* During an event: messages sent so far, and the number after which the process dies; -1: never. */
static int sends, dies_after, died;

int survival_planted(int number) { return number == survival_planted_number; }

uint32_t world_rank(int p) {
  if (!current.shape.joins || !current.shape.newcomer_is_lowest) return (uint32_t)p;
  return p == current.shape.members ? 0 : (uint32_t)p + 1;
}

int world_process(uint32_t rank) {
  for (int p = 0; p < world_processes(); p++)
    if (world_rank(p) == rank) return p;
  return -1;
}

void world_fail(const char *format, ...) {
  va_list list;
  if (world_failure[0]) return;
  va_start(list, format);
  vsnprintf(world_failure, sizeof world_failure, format, list);
  va_end(list);
}

void world_trace(const char *format, ...) {
  va_list list;
  if (!world_traces) return;
  va_start(list, format);
  vprintf(format, list);
  va_end(list);
}

/* ---- connections: messages in order; an end after the last one */

static void drop(int from, int to) {
  int kept = 0;
  for (int i = 0; i < current.n_messages; i++)
    if (current.messages[i].from != from || current.messages[i].to != to)
      current.messages[kept++] = current.messages[i];
  current.n_messages = kept;
}

static message *push(int from, int to) {
  const process *receiver = &current.processes[to];
  if (current.broken[from] >> to & 1 || receiver->fate != LIVES || !(receiver->open >> from & 1))
    return NULL;
  if (current.n_messages == MESSAGES) {
    world_fail("more than %d messages are under way", MESSAGES);
    return NULL;
  }
  /* Sorted by connection, so that equal states look equal. */
  int at = current.n_messages++;
  while (at > 0 && (current.messages[at - 1].from > from ||
                    (current.messages[at - 1].from == from && current.messages[at - 1].to > to))) {
    current.messages[at] = current.messages[at - 1];
    at--;
  }
  message *added = &current.messages[at];
  memset(added, 0, sizeof *added);
  added->from = (uint8_t)from;
  added->to = (uint8_t)to;
  return added;
}

static void push_end(int from, int to) {
  message *added = push(from, to);
  if (added) added->is_end = 1;
}

static void end_process(int p, fate how) {
  process *self = &current.processes[p];
  for (int q = 0; q < world_processes(); q++) {
    if (q == p) continue;
    if (self->open >> q & 1) push_end(p, q);
    drop(q, p);
  }
  self->open = 0;
  self->fate = (uint8_t)how;
}

/* ---- events of the machines */

static const char *const type_names[] = {"?",      "SUSPECT", "STATE", "PROPOSAL",
                                         "ACCEPT", "INSTALL", "NOTICE"};

static int process_of(const void *owner) {
  return (int)((const process *)owner - current.processes);
}

static int dies_now(void) {
  if (!died && dies_after >= 0 && sends >= dies_after) died = 1;
  return died;
}

static int says_left(const void *payload) {
  df_view_item item = df_view_item_at((const df_view_header *)payload + 1, 0);
  return df_view_evidence(item) == DF_EVIDENCE_LEFT;
}

static void sent(void *owner, uint32_t rank, const void *payload, uint32_t bytes) {
  const int p = process_of(owner), to = world_process(rank);
  const df_view_header *header = payload;
  if (to < 0 || dies_now()) return;
  sends++;
  if (bytes > MESSAGE_BYTES) {
    world_fail("a message has %u bytes", bytes);
    return;
  }
  if (header->type == DF_VIEW_NOTICE && current.shape.full_sockets && !says_left(payload)) return;
  message *added = push(p, to);
  if (!added) return;
  added->bytes = (uint16_t)bytes;
  memcpy(added->payload, payload, bytes);
}

static void was_cut(void *owner, uint32_t rank) {
  const int p = process_of(owner), q = world_process(rank);
  if (q < 0 || died) return;
  current.word[p] |= (uint8_t)(1 << q);
  push_end(p, q);
  current.processes[p].open &= (uint8_t) ~(1 << q);
  drop(q, p);
}

static void must_freeze(void *owner) { (void)owner; }

static uint64_t hash_bytes(uint64_t hash, const void *from, size_t bytes) {
  const uint8_t *byte = from;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return hash;
}

static void installed(void *owner, const df_view_content *content) {
  process *self = owner;
  const int p = process_of(owner);
  uint64_t hash = hash_bytes(0xcbf29ce484222325u, &content->flags, sizeof content->flags);
  if (died) return;
  hash = hash_bytes(hash, &content->newcomer, sizeof content->newcomer);
  hash = hash_bytes(hash, content->members, content->n_members * sizeof *content->members);
  hash = hash_bytes(hash, content->lost, content->n_lost * sizeof *content->lost);
  hash = hash_bytes(hash, content->outcomes, content->n_outcomes * sizeof *content->outcomes);
  if (content->number >= VIEWS) {
    world_fail("more than %d views", VIEWS);
    return;
  }
  int is_first = 1;
  for (int v = 0; v < VIEWS; v++) is_first &= self->history[v] == 0;
  if (p < current.shape.members) is_first = 0;
  self->history[content->number] = hash ? hash : 1;
  runs_install(p, content, is_first);
}

static void ended(void *owner, int left, const char *sentence) {
  const int p = process_of(owner);
  if (died) return;
  world_trace("    %d ends: %s\n", p, sentence);
  memset(current.processes[p].view.sentence, 0, sizeof current.processes[p].view.sentence);
  end_process(p, left ? GONE : STOPPED);
}

static void refused(void *owner, uint32_t from, const char *why) {
  world_fail("%d refuses a message of %d: %s", process_of(owner), world_process(from), why);
}

static const df_view_events events_of_machine = {sent,      was_cut, must_freeze,
                                                 installed, ended,   refused};

/* ---- a world */

static void open_process(int p) {
  const world_shape *shape = &current.shape;
  process *self = &current.processes[p];
  const int joins = p == shape->members;
  df_view_config config = {.rank = world_rank(p),
                           .incarnation = joins ? 1 : 0,
                           .n_ranks = (uint32_t)world_processes(),
                           .max_collectives = COLLECTIVES,
                           .part_entries = shape->parts ? 1 : 0,
                           .quorum = shape->strict ? DF_QUORUM_STRICT : DF_QUORUM_DEFAULT,
                           .on_one_host = !shape->several_hosts,
                           .reruns = shape->reruns,
                           .grace_ns = 1};
  CHECK(df_view_memory(&config) <= MEMORY, "a machine has %zu bytes", df_view_memory(&config));
  df_view_open(&self->view, &config, &events_of_machine, self, self->memory, buffer);
}

void world_begin(const world_shape *shape) {
  df_view_item members[PROCESSES];
  memset(&current, 0, sizeof current);
  world_failure[0] = 0;
  current.shape = *shape;
  current.crashes = shape->crashes;
  current.silences = shape->silences;
  current.excludes = shape->excludes;
  current.breaks = shape->breaks;
  current.leaves = shape->leaves;
  current.deregisters = shape->deregisters;
  current.proofs = shape->proofs;
  int n = 0;
  for (uint32_t rank = 0; rank < (uint32_t)world_processes(); rank++)
    if (world_process(rank) != shape->members) members[n++] = (df_view_item){(uint16_t)rank, 0};
  for (int p = 0; p < world_processes(); p++) {
    process *self = &current.processes[p];
    open_process(p);
    self->open = (uint8_t)(((1 << world_processes()) - 1) & ~(1 << p));
    if (p < shape->members) df_view_start(&self->view, 1, members, (uint32_t)n);
    for (int q = 0; q < world_processes(); q++)
      if (q != p && (p == shape->members || q == shape->members))
        df_view_connected(&self->view, world_rank(q));
    if (p == shape->members) continue;
    self->runs[0].registered = 1;
    self->runs[2].registered = shape->part >> p & 1;
    for (int c = 0; c < COLLECTIVES; c++) self->runs[c].changed = 1;
  }
}

/* ---- the events that may happen */

static int n_listed;
static void list(event *events, event_kind kind, int p, int q) {
  CHECK(n_listed < EVENTS, "more than %d events are possible", EVENTS);
  events[n_listed++] =
      (event){.kind = (uint8_t)kind, .p = (uint8_t)p, .q = (uint8_t)q, .dies_after = -1};
}

static int under_way(int p, int q) {
  int n = 0;
  for (int i = 0; i < current.n_messages; i++)
    n += current.messages[i].from == p && current.messages[i].to == q;
  return n;
}

static int is_member(int p) {
  const process *self = &current.processes[p];
  return self->fate == LIVES && self->view.phase != DF_VIEW_JOINING;
}

static void list_steps(event *events, int p) {
  const process *self = &current.processes[p];
  for (int c = 0; c < COLLECTIVES; c++) {
    if (runs_may_submit(p, c)) list(events, EVENT_SUBMIT, p, c);
    if (runs_may_have_data(p, c)) list(events, EVENT_DATA, p, c);
    if (runs_may_complete(p, c)) list(events, EVENT_COMPLETE, p, c);
  }
  if (self->admitted && current.shape.runs_of_all && !self->runs[1].registered && !self->leaves)
    list(events, EVENT_REGISTER, p, 1);
  if (current.shape.joins && !self->admitted && !self->admits && !self->leaves &&
      self->runs[0].completed >= current.shape.before_admit &&
      self->runs[0].submitted >= current.shape.before_admit)
    list(events, EVENT_ADMIT, p, 0);
  if (df_view_awaits_report(&self->view)) list(events, EVENT_REPORT, p, 0);
}

static void list_faults_of(event *events, int p) {
  const process *self = &current.processes[p];
  const int admit_is_pending = self->admits && !self->admitted;
  if (current.leaves && !self->leaves && !admit_is_pending && runs_are_complete(p))
    list(events, EVENT_LEAVE, p, 0);
  for (int c = 0; current.deregisters && c < COLLECTIVES; c += 2)
    if (self->runs[c].registered == 1 && !self->leaves &&
        self->runs[c].completed >= (c ? current.shape.runs_of_part : current.shape.runs))
      list(events, EVENT_DEREGISTER, p, c);
  for (int q = 0; q < world_processes(); q++) {
    const df_view_peer *peer = &self->view.peers[world_rank(q)];
    if (current.proofs && peer->member && current.processes[q].fate == CRASHED)
      list(events, EVENT_PROOF, p, q);
    if (q == p || !peer->member || peer->suspected) continue;
    if (current.silences && !peer->held && current.processes[q].fate == LIVES)
      list(events, EVENT_SILENCE, p, q);
    if (current.excludes) list(events, EVENT_EXCLUDE, p, q);
  }
}

static void list_breaks(event *events) {
  for (int p = 0; p < world_processes(); p++)
    for (int q = p + 1; q < world_processes(); q++) {
      if (current.processes[p].fate != LIVES || current.processes[q].fate != LIVES ||
          !(current.processes[p].open >> q & 1) || !(current.processes[q].open >> p & 1) ||
          current.broken[p] >> q & 1)
        continue;
      const int there = under_way(p, q), back = under_way(q, p);
      for (int a = 0; a <= there && a < 8; a++)
        for (int b = 0; b <= back && b < 8 && n_listed < EVENTS - 40; b++) {
          list(events, EVENT_BREAK, p, q);
          events[n_listed - 1].kept = (uint8_t)a;
          events[n_listed - 1].kept_back = (uint8_t)b;
        }
    }
}

int world_events(event *events, int *quiet) {
  n_listed = 0;
  for (int i = 0; i < current.n_messages; i++) {
    const message *m = &current.messages[i];
    if (i == 0 || m[-1].from != m->from || m[-1].to != m->to)
      list(events, EVENT_READ, m->to, m->from);
  }
  for (int p = 0; p < world_processes(); p++)
    if (is_member(p)) list_steps(events, p);
  *quiet = n_listed == 0;
  for (int p = 0; p < world_processes(); p++)
    if (current.processes[p].fate == LIVES && (*quiet || !current.shape.prompt) &&
        df_view_deadline(&current.processes[p].view) != UINT64_MAX)
      list(events, EVENT_TICK, p, 0);
  const int without_faults = n_listed;
  for (int p = 0; p < world_processes(); p++)
    if (is_member(p)) list_faults_of(events, p);
  if (current.breaks) list_breaks(events);
  for (int p = 0; current.crashes && p < world_processes(); p++)
    if (current.processes[p].fate == LIVES) list(events, EVENT_DIE, p, 0);
  if (without_faults == 0) *quiet = 2; /* the world has come to its end */
  return n_listed;
}

/* ---- playing an event */

/* The word of a notice is read before the end of a process counts as certain. */
static int is_excluded(int p, int from) {
  return !current.shape.several_hosts && current.word[from] >> p & 1;
}

/* The kernel reports the end of a process, perhaps before its messages have been read. */
static void prove_death(int p, int q) {
  df_view *view = &current.processes[p].view;
  if (is_excluded(p, q)) df_view_noticed(view, world_rank(q), 0);
  df_view_suspect(view, world_rank(q), DF_EVIDENCE_CERTAIN, 0);
}

static void read_next(int p, int from) {
  process *self = &current.processes[p];
  int at = 0;
  while (current.messages[at].from != from || current.messages[at].to != p) at++;
  const message m = current.messages[at];
  memmove(&current.messages[at], &current.messages[at + 1],
          (size_t)(--current.n_messages - at) * sizeof m);
  memset(&current.messages[current.n_messages], 0, sizeof m);
  if (!m.is_end) {
    df_view_receive(&self->view, world_rank(from), m.payload, m.bytes, 0);
    return;
  }
  self->open &= (uint8_t) ~(1 << from);
  drop(from, p);
  if (is_excluded(p, from))
    df_view_noticed(&self->view, world_rank(from), 0);
  else
    df_view_disconnected(&self->view, world_rank(from), current.processes[from].fate == CRASHED, 0);
}

static void break_connection(const event *what) {
  const int p = what->p, q = what->q;
  int kept = 0, there = 0, back = 0;
  for (int i = 0; i < current.n_messages; i++) {
    const message *m = &current.messages[i];
    if (m->from == p && m->to == q && there++ >= what->kept) continue;
    if (m->from == q && m->to == p && back++ >= what->kept_back) continue;
    current.messages[kept++] = *m;
  }
  current.n_messages = kept;
  push_end(p, q);
  push_end(q, p);
  current.broken[p] |= (uint8_t)(1 << q);
  current.broken[q] |= (uint8_t)(1 << p);
  current.breaks--;
}

static void report(int p) {
  df_view_runs runs[COLLECTIVES];
  df_view *view = &current.processes[p].view;
  const uint32_t n = runs_report(p, runs);
  df_view_report(view, runs, n, 0);
}

static void play(const event *what) {
  process *self = &current.processes[what->p];
  const uint32_t newcomer = world_rank(current.shape.members);
  switch ((event_kind)what->kind) {
  case EVENT_READ:
    read_next(what->p, what->q);
    break;
  case EVENT_SUBMIT:
    runs_submit(what->p, what->q);
    break;
  case EVENT_DATA:
    runs_have_data(what->p, what->q);
    break;
  case EVENT_COMPLETE:
    runs_complete(what->p, what->q);
    break;
  case EVENT_REGISTER:
    self->runs[1].registered = 1;
    break;
  case EVENT_DEREGISTER:
    self->runs[what->q].registered = 2;
    current.deregisters--;
    break;
  case EVENT_ADMIT:
    self->admits = 1;
    df_view_admit(&self->view, newcomer, 1, 0);
    break;
  case EVENT_LEAVE:
    self->leaves = 1;
    current.leaves--;
    df_view_leave(&self->view, 0);
    break;
  case EVENT_REPORT:
    report(what->p);
    break;
  case EVENT_TICK:
    df_view_tick(&self->view, 1);
    self->view.now_ns = 0;
    break;
  case EVENT_SILENCE:
    current.silences--;
    df_view_suspect(&self->view, world_rank(what->q), DF_EVIDENCE_SILENT, 0);
    break;
  case EVENT_EXCLUDE:
    current.excludes--;
    df_view_suspect(&self->view, world_rank(what->q), DF_EVIDENCE_ASKED, 0);
    break;
  case EVENT_PROOF:
    current.proofs--;
    prove_death(what->p, what->q);
    break;
  case EVENT_BREAK:
    break_connection(what);
    break;
  default:
    current.crashes--;
    end_process(what->p, CRASHED);
  }
}

/* (a) and, after each step, (b). */
static void check(void) {
  for (int a = 0; a < world_processes(); a++)
    for (int b = a + 1; b < world_processes(); b++) {
      const process *x = &current.processes[a], *y = &current.processes[b];
      if (x->fate != LIVES || y->fate != LIVES) continue;
      for (int v = 0; v < VIEWS; v++)
        if (x->history[v] && y->history[v] && x->history[v] != y->history[v])
          world_fail("(a) %d and %d have installed different views %d", a, b, v);
    }
  runs_check();
}

int world_play(const event *what) {
  sends = died = 0;
  dies_after = what->dies_after;
  play(what);
  if (died) {
    current.crashes--;
    end_process(what->p, CRASHED);
  }
  const int n = sends;
  dies_after = -1;
  for (int again = 1; current.shape.prompt && again && !died;) {
    again = 0;
    for (int p = 0; p < world_processes(); p++)
      if (is_member(p) && df_view_awaits_report(&current.processes[p].view)) again = 1, report(p);
  }
  check();
  return n;
}

/* ---- the end of a world, and its description */

void world_check_end(void) {
  int living = 0, dead = 0;
  for (int p = 0; p < world_processes(); p++) {
    const process *self = &current.processes[p];
    if (self->fate != LIVES) dead += self->fate != STOPPED;
    if (!is_member(p)) continue;
    living++;
    if (self->view.phase != DF_VIEW_CURRENT || self->leaves) {
      world_fail("(c) %d waits forever: %s in view %d", p, df_view_phase_name(self->view.phase),
                 (int)self->view.number);
      return;
    }
    for (int q = 0; q < world_processes(); q++) {
      const process *other = &current.processes[q];
      const int member = self->view.peers[world_rank(q)].member;
      if (member && other->fate != LIVES) world_fail("(c) %d goes on with %d, which is gone", p, q);
      if (member && is_member(q) && other->view.number != self->view.number)
        world_fail("(c) %d is in view %d and %d in view %d forever", p, (int)self->view.number, q,
                   (int)other->view.number);
      if (!member && is_member(q)) world_fail("(d) %d lives on outside the view of %d", q, p);
    }
    runs_check_end(p);
  }
  if (!current.shape.may_all_stop && !living && dead < current.shape.members)
    world_fail("(c) no member goes on, and not all have died");
}

static const char *const kind_names[EVENT_KINDS] = {"reads a message of",
                                                    "submits a run of collective",
                                                    "has the data of a run of collective",
                                                    "completes a run of collective",
                                                    "registers collective",
                                                    "deregisters collective",
                                                    "calls admit",
                                                    "leaves",
                                                    "reports its runs",
                                                    "has waited long enough",
                                                    "gets no answer from",
                                                    "excludes",
                                                    "gets a proof of the death of",
                                                    "loses its connection to",
                                                    "dies"};

void world_describe(const event *what, char *text, int bytes) {
  const int takes_other = what->kind <= EVENT_DEREGISTER || what->kind == EVENT_SILENCE ||
                          what->kind == EVENT_EXCLUDE || what->kind == EVENT_PROOF ||
                          what->kind == EVENT_BREAK;
  int n = snprintf(text, (size_t)bytes, "%d %s", what->p, kind_names[what->kind]);
  if (takes_other) n += snprintf(text + n, (size_t)(bytes - n), " %d", what->q);
  if (what->kind == EVENT_READ) {
    for (int i = 0; i < current.n_messages; i++) {
      const message *m = &current.messages[i];
      if (m->from != what->q || m->to != what->p) continue;
      const df_view_header *header = (const void *)m->payload;
      if (m->is_end)
        n += snprintf(text + n, (size_t)(bytes - n), ": the end of the connection");
      else
        n += snprintf(text + n, (size_t)(bytes - n), ": %s, view %d", type_names[header->type],
                      (int)header->view);
      break;
    }
  }
  if (what->kind == EVENT_BREAK)
    n += snprintf(text + n, (size_t)(bytes - n), ", of which %d and %d messages still arrive",
                  what->kept, what->kept_back);
  if (what->dies_after >= 0)
    snprintf(text + n, (size_t)(bytes - n), ", and dies after %d messages", what->dies_after);
}

void world_print(void) {
  static const char *const fates[] = {"lives", "has died", "has stopped", "has left"};
  for (int p = 0; p < world_processes(); p++) {
    const process *self = &current.processes[p];
    printf("    %d (rank %u) %s, %s, view %d, members", p, world_rank(p), fates[self->fate],
           df_view_phase_name(self->view.phase), (int)self->view.number);
    for (int q = 0; q < world_processes(); q++) {
      const df_view_peer *peer = &self->view.peers[world_rank(q)];
      if (peer->member)
        printf(" %d%s%s%s", q, peer->suspected ? " (suspected)" : "", peer->held ? " (held)" : "",
               peer->leaving ? " (leaving)" : "");
    }
    for (int c = 0; c < COLLECTIVES; c++)
      printf("; %d: submitted %d data %d completed %d", c, self->runs[c].submitted,
             self->runs[c].done, self->runs[c].completed);
    printf("\n");
  }
}
