/* Members of a job with config.survive that send arbitrary messages of the agreement on members to
 * a rank (control/view_message.h). Whatever the messages are, the rank neither dies nor waits for
 * ever, each of its runs ends once, and its state is that of a member: it is a member of its views,
 * each view loses a rank, no ballot is higher than all ranks can make it, no view completes more
 * runs than the rank has submitted, and no run succeeds while it has other members, which send no
 * data. The input is a list of actions. Most messages are those of a correct member in the present
 * state, so that later states are reached, or differ from them in one or two numbers. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutex.h"
#include "host/membership/membership_parts.h"
#include "host/state/context.h"
#include "host/state/peer_info.h"
#include "host/state/registry.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 4, COLLECTIVES = 3, COUNT = 100, MOST_MESSAGES = 64 };

static const int groups[COLLECTIVES][RANKS] = {{0, 1, 2, 3}, {2, 0, 3}, {0, 2}};
static const int group_sizes[COLLECTIVES] = {4, 3, 2};

typedef struct stage {
  dfcclContext_t context;
  uint32_t rank;   /* 0 is the coordinator at first, 2 is not */
  int ends[RANKS]; /* the peers' ends of connections; -1: closed */
  uint64_t number; /* number of the latest view */
  int8_t *buffers;
} stage;

/* ---- the rank under test ---- */

static void open_rank(stage *s, uint8_t choice) {
  df_settings settings;
  df_mesh mesh = {.n_ranks = RANKS};
  DF_ASSERT(df_settings_read(&settings, NULL) == dfcclSuccess);
  s->rank = choice & 1 ? 2 : 0;
  settings.survive = choice & 2 ? 2 : 1;
  settings.quorum = choice >> 2 & 3 ? DF_QUORUM_DEFAULT : DF_QUORUM_STRICT;
  mesh.peer_info = calloc(RANKS, sizeof *mesh.peer_info);
  mesh.sockets = calloc(RANKS, sizeof *mesh.sockets);
  mesh.local = calloc(RANKS, 1);
  DF_ASSERT(mesh.peer_info != NULL && mesh.sockets != NULL && mesh.local != NULL);
  mesh.local[s->rank] = 1;
  mesh.n_local = 1;
  for (uint32_t r = 0; r < RANKS; r++) {
    int pair[2] = {-1, -1};
    mesh.peer_info[r] = df_make_peer_info(&settings);
    if (r != s->rank)
      DF_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    mesh.sockets[r] = pair[0];
    s->ends[r] = pair[1];
  }
  DF_ASSERT(df_context_open(&s->context, RANKS, s->rank, &settings, &mesh) == dfcclSuccess);
  s->number = 1;
}

static stage *now;
static uint32_t callbacks;

static int is_left(int rank) {
  dfcclMembership_t membership = DFCCL_MEMBERSHIP_INITIALIZER;
  DF_ASSERT(dfcclGetMembership(now->context, &membership) == dfcclSuccess);
  for (int i = 0; i < membership.nMembers; i++)
    if (membership.members[i] == rank) return 1;
  return 0;
}

static void call_back(dfcclCollId_t coll, dfcclResult_t status, void *argument) {
  (void)argument;
  for (int i = 0; status == dfcclSuccess && i < group_sizes[coll]; i++)
    DF_ASSERT(groups[coll][i] == (int)now->rank || !is_left(groups[coll][i]));
  df_system_add_u32(&callbacks, 1);
}

static uint32_t submit_some(stage *s) {
  uint32_t accepted = 0;
  for (dfcclCollId_t id = 0; id < COLLECTIVES; id++) {
    int8_t *buffer = s->buffers + id * COUNT;
    dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
    options.ranks = groups[id];
    options.nRanks = group_sizes[id];
    if (dfcclRegisterAllReduce(s->context, id, COUNT, dfcclInt8, dfcclSum, &options) !=
        dfcclSuccess)
      continue;
    for (int run = 0; run < 2; run++)
      accepted +=
          dfcclRunAllReduce(s->context, id, buffer, buffer, call_back, NULL) == dfcclSuccess;
  }
  return accepted;
}

/* ---- invariants ---- */

static void check(stage *s) DF_RANK_LOCKED {
  const df_view *view = &df_membership_of(s->context)->view;
  const int has_ended = view->phase == DF_VIEW_STOPPED;
  uint32_t members = 0, suspects = 0;
  DF_ASSERT(view->phase == DF_VIEW_CURRENT || view->phase == DF_VIEW_FROZEN || has_ended);
  DF_ASSERT(view->number >= s->number && view->number <= RANKS); /* each loses a rank */
  s->number = view->number;
  for (uint32_t r = 0; r < RANKS; r++) {
    members += view->peers[r].member;
    suspects += view->peers[r].member && view->peers[r].suspected;
  }
  DF_ASSERT(members == view->n_members && suspects == view->n_suspects);
  DF_ASSERT(view->peers[s->rank].member && !view->peers[s->rank].suspected);
  if (df_view_ballot_is_set(&view->promised)) DF_ASSERT(view->promised.attempt <= 2 * RANKS);
  if (df_view_ballot_is_set(&view->accepted.ballot)) {
    DF_ASSERT(df_view_ballot_compare(&view->accepted.ballot, &view->promised) <= 0);
    DF_ASSERT(view->accepted.number == view->number + 1);
  }
  for (uint32_t i = 0; i < view->installed.n_outcomes; i++) {
    const df_coll *coll = df_find(s->context, view->installed.outcomes[i].collective);
    const uint64_t base = view->installed.outcomes[i].base;
    if (coll && coll->survival->registration == view->installed.outcomes[i].registration)
      DF_ASSERT(base <= coll->runs.submitted || has_ended);
  }
}

/* ---- messages ---- */

typedef struct draft {
  df_view_message message;
  df_view_item suspects[RANKS], members[RANKS], lost[RANKS];
  df_view_runs runs[COLLECTIVES];
  df_view_outcome outcomes[COLLECTIVES];
} draft;

/* wrong: how many numbers may differ from those of a correct member. */
static uint64_t number(input *in, uint8_t *wrong, uint64_t right) {
  if (*wrong == 0 || next_byte(in) % 4 != 0) return right;
  (*wrong)--;
  switch (next_byte(in) % 5) {
  case 0:
    return (uint64_t)1 << 63;
  case 1:
    return UINT64_MAX - next_byte(in) % 3;
  case 2:
    return right + 1 + next_byte(in) % 3;
  case 3:
    return right - 1;
  default:
    return next_byte(in);
  }
}

static void list(input *in, uint8_t *wrong, const df_view *view, uint8_t also, draft *d) {
  df_view_header *header = &d->message.header;
  for (uint32_t r = 0; r < RANKS; r++) {
    const df_view_peer *peer = &view->peers[r];
    const int is_suspect = peer->suspected || also >> r & 1;
    uint32_t evidence = peer->suspected ? peer->suspected : (uint32_t)DF_EVIDENCE_CERTAIN;
    if (!peer->member && number(in, wrong, 0) == 0) continue;
    evidence = (uint32_t)number(in, wrong, evidence) & 15;
    const uint16_t rank = (uint16_t)number(in, wrong, r);
    const df_view_item reason = {rank, df_view_reason(evidence, peer->accuser)};
    if (is_suspect) {
      d->suspects[header->n_suspects++] = reason;
      d->lost[header->n_lost++] = reason;
    } else {
      d->members[header->n_members++] =
          (df_view_item){rank, (uint16_t)number(in, wrong, peer->incarnation)};
    }
  }
}

/* The collectives of the rank under test, as a member of each would name them. */
static void count_runs(input *in, uint8_t *wrong, const stage *s, draft *d) DF_RANK_LOCKED {
  df_view_header *header = &d->message.header;
  const int reruns = s->context->survival->reruns;
  for (uint32_t id = 0; id < COLLECTIVES; id++) {
    const df_coll *coll = df_find(s->context, id);
    if (coll == NULL) continue;
    const uint64_t submitted = number(in, wrong, coll->runs.submitted);
    const uint32_t registration = (uint32_t)number(in, wrong, coll->survival->registration);
    const uint64_t base = number(in, wrong, 0);
    d->runs[id] = (df_view_runs){id, registration, 1 + id % 2, base, submitted};
    d->outcomes[id] =
        (df_view_outcome){id, registration, 0, base, number(in, wrong, reruns ? base : submitted)};
    header->n_runs++;
    header->n_outcomes++;
  }
}

/* Takes away what a message of its type does not have. */
static void shape(df_view_header *header, int has_accepted) {
  const int has_content = header->type == DF_VIEW_PROPOSAL || header->type == DF_VIEW_INSTALL ||
                          (header->type == DF_VIEW_STATE && has_accepted);
  if (!has_content) header->n_members = header->n_lost = 0, header->n_outcomes = 0;
  if (header->type != DF_VIEW_STATE) header->n_runs = 0;
  if (header->type != DF_VIEW_STATE && header->type != DF_VIEW_SUSPECT) header->n_suspects = 0;
  if (header->type == DF_VIEW_SUSPECT || header->type == DF_VIEW_NOTICE)
    header->ballot = (df_view_ballot){.rank = DF_NOBODY};
}

static void fill(input *in, uint8_t *wrong, const stage *s, uint32_t peer,
                 draft *d) DF_RANK_LOCKED {
  const df_view *view = &df_membership_of(s->context)->view;
  df_view_header *header = &d->message.header;
  const uint8_t choice = next_byte(in);
  const uint8_t others = (uint8_t) ~(1u << s->rank | 1u << peer);
  memset(d, 0, sizeof *d);
  *header = (df_view_header){.type = (uint16_t)(DF_VIEW_SUSPECT + choice % 6),
                             .view = view->number,
                             .ballot = view->promised,
                             .accepted = {.rank = DF_NOBODY}};
  list(in, wrong, view, choice & 8 ? next_byte(in) & others : 0, d);
  if (header->type == DF_VIEW_PROPOSAL) header->ballot.rank = peer;
  if (header->type == DF_VIEW_INSTALL) header->view++;
  if (header->type == DF_VIEW_INSTALL || !df_view_ballot_is_set(&header->ballot))
    header->ballot = (df_view_ballot){.attempt = header->n_lost, .rank = peer};
  count_runs(in, wrong, s, d);
  shape(header, choice & 16);
  if (header->type == DF_VIEW_STATE && choice & 16)
    header->accepted = (df_view_ballot){number(in, wrong, 1), (uint32_t)number(in, wrong, 1), 0};
  if (header->type == DF_VIEW_NOTICE) { /* the receiver is the suspect */
    d->suspects[0] = (df_view_item){(uint16_t)number(in, wrong, s->rank),
                                    df_view_reason(DF_EVIDENCE_SILENT, peer)};
    header->n_suspects = 1;
  }
  header->type = (uint16_t)number(in, wrong, header->type);
  header->view = number(in, wrong, header->view);
  header->flags = (uint16_t)number(in, wrong, 0) & 31;
  header->ballot.attempt = number(in, wrong, header->ballot.attempt);
  header->ballot.rank = (uint32_t)number(in, wrong, header->ballot.rank);
  d->message.suspects = d->suspects;
  d->message.members = d->members;
  d->message.lost = d->lost;
  d->message.runs = d->runs;
  d->message.outcomes = d->outcomes;
}

static void say(stage *s, input *in, uint32_t peer) {
  union {
    df_message message;
    uint8_t bytes[DF_MAX_MESSAGE_BYTES];
  } out = {.message = {.magic = DF_MESSAGE_MAGIC, .kind = DF_MESSAGE_VIEW}};
  draft d;
  uint8_t wrong = next_byte(in) % 3, *payload = (uint8_t *)(&out.message + 1);
  uint32_t count;
  df_rank_lock(&s->context->lock);
  fill(in, &wrong, s, peer, &d);
  const uint32_t all = d.message.header.n_runs + d.message.header.n_outcomes;
  const uint8_t form = next_byte(in); /* 1 to 5: how a part is malformed or out of order */
  const uint32_t most = form & 64 ? 1 : UINT32_MAX;
  for (uint32_t first = form % 16 == 5 && all > 1; first == 0 || first < all; first += count) {
    out.message.payload_bytes = df_view_message_write(&d.message, first, most, payload, &count);
    if (form % 16 == 1) payload[next_byte(in) % out.message.payload_bytes] ^= next_byte(in);
    if (form % 16 == 2) out.message.payload_bytes -= 1 + next_byte(in) % 64;
    if (form % 16 == 3) out.message.payload_bytes += next_byte(in);
    for (int times = form % 16 == 4 ? 3 : 1; times > 0; times--) {
      df_messenger_deliver(&s->context->control, peer, &out.message, -1);
      check(s);
    }
    if (count == 0) break;
  }
  df_rank_unlock(&s->context->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  stage s = {.buffers = calloc(COLLECTIVES, COUNT)};
  DF_ASSERT(s.buffers != NULL);
  now = &s;
  callbacks = 0;
  open_rank(&s, next_byte(&in));
  const uint32_t accepted = submit_some(&s);
  for (int i = 0; i < MOST_MESSAGES && in.size > 0; i++) {
    const uint8_t what = next_byte(&in);
    const uint32_t peer = (s.rank + 1 + what / 16u % (RANKS - 1)) % RANKS;
    if (what % 16 == 15 && s.ends[peer] >= 0) {
      close(s.ends[peer]);
      s.ends[peer] = -1;
    } else if (what % 16 == 14) {
      const int excluded = (int)peer;
      dfcclExclude(s.context, &excluded, 1);
    } else {
      say(&s, &in, peer);
    }
  }
  /* Whatever was sent, an abort ends everything, each accepted run once. */
  DF_ASSERT(dfcclAbort(s.context) == dfcclSuccess);
  DF_ASSERT(dfcclDestroy(s.context) == dfcclSuccess);
  DF_ASSERT(df_load_relaxed_u32(&callbacks) == accepted);
  for (uint32_t r = 0; r < RANKS; r++)
    if (s.ends[r] >= 0) close(s.ends[r]);
  free(s.buffers);
  return 0;
}
