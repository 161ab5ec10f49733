/* Promises of src/control/view.h:
 *
 * - The rules of the quorum decide which members may go on.
 * - A death leads to a view without the dead rank, by one-way messages in five steps, and with the
 *   least count of runs as base.
 * - A rank that must stop has a sentence with both counts, who excluded it, and why.
 * - Messages keep their contents, also in parts. Malformed ones are refused, and their sender is
 *   suspected.
 * - No bytes lead a machine out of its memory or its rules. */
#include "control/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/view_parts.h"
#include "support/harness.h"

enum { MEMBERS = 4, RANKS = 6, MOST = 64, QUEUE = 400, ROOM = 512 };

typedef struct {
  uint32_t from, to, bytes;
  uint8_t payload[ROOM];
} note;

typedef struct {
  df_view view;
  void *memory;
  int ended, left, freezes, refusals;
  uint32_t cut; /* mask */
  char sentence[DF_SENTENCE_BYTES], why[DF_SENTENCE_BYTES];
  df_view_runs runs[MOST];
  uint32_t n_runs;
  uint64_t installed;
} member;

static member members[RANKS];
static note queue[QUEUE];
static uint32_t first, last, sent_of_type[DF_VIEW_MESSAGES];
static uint8_t buffer[DF_VIEW_MESSAGE_BYTES];

static uint32_t rank_of(const void *owner) { return (uint32_t)((const member *)owner - members); }

static void take_send(void *owner, uint32_t to, const void *payload, uint32_t bytes) {
  df_view_header header;
  memcpy(&header, payload, sizeof header);
  sent_of_type[header.type]++;
  CHECK(last < QUEUE && bytes <= ROOM, "%u bytes", bytes);
  queue[last] = (note){.from = rank_of(owner), .to = to, .bytes = bytes};
  memcpy(queue[last++].payload, payload, bytes);
}
static void take_cut(void *owner, uint32_t rank) { ((member *)owner)->cut |= 1u << rank; }
static void take_freeze(void *owner) { ((member *)owner)->freezes++; }
static void take_install(void *owner, const df_view_content *content) {
  ((member *)owner)->installed = content->number;
}
static void take_end(void *owner, int left, const char *sentence) {
  member *self = owner;
  self->ended = 1;
  self->left = left;
  snprintf(self->sentence, sizeof self->sentence, "%s", sentence);
}
static void take_refusal(void *owner, uint32_t from, const char *why) {
  member *self = owner;
  (void)from;
  self->refusals++;
  snprintf(self->why, sizeof self->why, "%s", why);
}
static const df_view_events events = {take_send,    take_cut, take_freeze,
                                      take_install, take_end, take_refusal};

static void open_member(uint32_t rank, const df_view_config *base) {
  df_view_config config = *base;
  member *self = &members[rank];
  free(self->memory);
  memset(self, 0, sizeof *self);
  config.rank = rank;
  self->memory = malloc(df_view_memory(&config));
  CHECK(self->memory, "no memory");
  df_view_open(&self->view, &config, &events, self, self->memory, buffer);
}

static const df_view_config plain = {
    .n_ranks = RANKS, .max_collectives = MOST, .grace_ns = 100, .on_one_host = 1, .reruns = 1};

/* Opens n members, in view 1. */
static void begin(const df_view_config *config, uint32_t n) {
  df_view_item items[RANKS];
  first = last = 0;
  memset(sent_of_type, 0, sizeof sent_of_type);
  for (uint32_t rank = 0; rank < n; rank++) items[rank] = (df_view_item){(uint16_t)rank, 0};
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    free(members[rank].memory);
    members[rank].memory = NULL;
  }
  for (uint32_t rank = 0; rank < n; rank++) {
    open_member(rank, config);
    df_view_start(&members[rank].view, 1, items, n);
  }
}

/* Delivers everything, to all but the ranks of this mask, and reports runs. */
static void deliver(uint32_t dead) {
  for (int again = 1; again;) {
    again = 0;
    for (; first < last; first++) {
      const note *n = &queue[first];
      member *to = &members[n->to];
      if (dead >> n->to & 1 || to->cut >> n->from & 1) continue;
      df_view_receive(&to->view, n->from, n->payload, n->bytes, 0);
      again = 1;
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      member *self = &members[rank];
      if (dead >> rank & 1 || !self->memory || !df_view_awaits_report(&self->view)) continue;
      df_view_report(&self->view, self->runs, self->n_runs, 0);
      again = 1;
    }
  }
}

static void dies(uint32_t rank, uint32_t n) {
  for (uint32_t other = 0; other < n; other++)
    if (other != rank && members[other].memory)
      df_view_disconnected(&members[other].view, rank, 1, 0);
}

static uint32_t mask_of(uint32_t rank) {
  uint32_t mask = 0;
  for (uint32_t other = 0; other < RANKS; other++)
    mask |= (uint32_t)members[rank].view.peers[other].member << other;
  return mask;
}

static void check_view(uint32_t rank, uint64_t number, uint32_t mask) {
  const df_view *view = &members[rank].view;
  CHECK(view->phase == DF_VIEW_CURRENT && view->number == number && mask_of(rank) == mask,
        "rank %u is %s in view %d, members %#x", rank, df_view_phase_name(view->phase),
        (int)view->number, mask_of(rank));
}

DF_TEST(view, quorum, 30) {
  static const struct {
    df_quorum quorum;
    int one_host;
    df_view_parts parts;
    int holds;
  } rows[] = {
      {DF_QUORUM_DEFAULT, 0, {3, 2, 1, 0}, 1}, {DF_QUORUM_DEFAULT, 0, {3, 1, 2, 1}, 0},
      {DF_QUORUM_DEFAULT, 0, {4, 2, 2, 1}, 1}, {DF_QUORUM_DEFAULT, 0, {4, 2, 2, 0}, 0},
      {DF_QUORUM_DEFAULT, 0, {4, 1, 0, 1}, 0}, {DF_QUORUM_DEFAULT, 1, {4, 1, 0, 0}, 1},
      {DF_QUORUM_DEFAULT, 1, {4, 1, 1, 1}, 0}, {DF_QUORUM_STRICT, 1, {4, 1, 0, 1}, 0},
      {DF_QUORUM_STRICT, 1, {4, 3, 1, 0}, 1},  {DF_QUORUM_NONE, 0, {4, 1, 3, 0}, 1},
      {DF_QUORUM_DEFAULT, 0, {2, 1, 1, 1}, 1}, {DF_QUORUM_DEFAULT, 0, {2, 1, 1, 0}, 0},
      {DF_QUORUM_DEFAULT, 0, {1, 1, 0, 1}, 1}, {DF_QUORUM_DEFAULT, 0, {5, 3, 2, 0}, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK(df_view_has_quorum(rows[i].quorum, rows[i].one_host, &rows[i].parts) == rows[i].holds,
          "row %zu", i);
}

DF_TEST(view, a_death, 30) {
  begin(&plain, MEMBERS);
  for (uint32_t rank = 0; rank < MEMBERS; rank++) {
    members[rank].runs[0] = (df_view_runs){7, 1, 3, 5 - rank, 6};
    members[rank].n_runs = 1;
  }
  dies(3, MEMBERS);
  CHECK(members[0].freezes == 1 && members[0].view.phase == DF_VIEW_FROZEN, "frozen");
  deliver(1u << 3);
  for (uint32_t rank = 0; rank < 3; rank++) {
    const df_view_content *content = &members[rank].view.installed;
    check_view(rank, 2, 7);
    CHECK(content->n_lost == 1 && content->lost[0].rank == 3 &&
              df_view_evidence(content->lost[0]) == DF_EVIDENCE_CERTAIN,
          "who is lost");
    CHECK(content->n_outcomes == 1 && content->outcomes[0].base == 3 &&
              content->outcomes[0].fails_below == 3,
          "base");
    CHECK(!members[rank].refusals, "%s", members[rank].why);
  }
  CHECK(sent_of_type[DF_VIEW_PROPOSAL] == 2 && sent_of_type[DF_VIEW_ACCEPT] == 2 &&
            sent_of_type[DF_VIEW_STATE] == 2 && sent_of_type[DF_VIEW_INSTALL] >= 2,
        "messages");
}

DF_TEST(view, runs_fail_below_the_highest_submitted, 30) {
  df_view_config config = plain;
  config.reruns = 0;
  begin(&config, 3);
  members[0].runs[0] = (df_view_runs){7, 1, 2, 2, 4};
  members[0].runs[1] = (df_view_runs){8, 1, 2, 1, 1};
  members[0].n_runs = 2;
  members[1].runs[0] = (df_view_runs){7, 1, 2, 3, 3}; /* it has not registered 8 */
  members[1].runs[1] = (df_view_runs){9, 2, 2, DF_VIEW_TAKEN_BACK, 0};
  members[0].runs[2] = (df_view_runs){9, 2, 2, 6, 6};
  members[0].n_runs = 3;
  members[1].n_runs = 2;
  dies(2, 3);
  deliver(1u << 2);
  const df_view_content *content = &members[1].view.installed;
  CHECK(content->n_outcomes == 3, "%u outcomes", content->n_outcomes);
  CHECK(content->outcomes[0].base == 2 && content->outcomes[0].fails_below == 4, "both have it");
  CHECK(content->outcomes[1].base == 0 && content->outcomes[1].fails_below == 1, "not registered");
  CHECK(content->outcomes[2].base == 6 && content->outcomes[2].fails_below == 6, "deregistered");
}

DF_TEST(view, the_coordinator_dies_after_one_INSTALL, 30) {
  begin(&plain, MEMBERS);
  dies(3, MEMBERS);
  deliver(1u << 3);
  check_view(1, 2, 7);
  begin(&plain, MEMBERS);
  dies(3, MEMBERS);
  while (first < last || df_view_awaits_report(&members[0].view)) { /* rank 2 gets no INSTALL */
    df_view_header header;
    if (first == last)
      for (uint32_t rank = 0; rank < 3; rank++) df_view_report(&members[rank].view, NULL, 0, 0);
    for (; first < last; first++) {
      memcpy(&header, queue[first].payload, sizeof header);
      if (queue[first].to == 3 || (header.type == DF_VIEW_INSTALL && queue[first].to == 2))
        continue;
      df_view_receive(&members[queue[first].to].view, queue[first].from, queue[first].payload,
                      queue[first].bytes, 0);
    }
  }
  check_view(1, 2, 7);
  CHECK(members[2].view.number == 1, "rank 2 is in view %d", (int)members[2].view.number);
  dies(0, 3);
  deliver(1u | 1u << 3);
  check_view(1, 3, 6);
  check_view(2, 3, 6);
}

DF_TEST(view, a_silent_lower_rank_is_held_back, 30) {
  begin(&plain, MEMBERS);
  df_view_suspect(&members[2].view, 0, DF_EVIDENCE_SILENT, 1000);
  CHECK(members[2].view.phase == DF_VIEW_CURRENT, "at once");
  CHECK(df_view_deadline(&members[2].view) == 1100, "deadline");
  df_view_tick(&members[2].view, 1099);
  CHECK(members[2].view.phase == DF_VIEW_CURRENT, "early");
  df_view_tick(&members[2].view, 1100);
  CHECK(members[2].view.phase == DF_VIEW_FROZEN, "late");
  CHECK(members[2].cut == 1, "rank 0 was not cut");
  df_view_suspect(&members[2].view, 0, DF_EVIDENCE_CERTAIN, 1200);
  CHECK(members[2].view.peers[0].suspected == DF_EVIDENCE_SILENT, "a late proof counts");
  df_view_suspect(&members[1].view, 3, DF_EVIDENCE_SILENT, 1000); /* a higher one */
  CHECK(members[1].view.phase == DF_VIEW_FROZEN, "a higher rank is held back");
}

DF_TEST(view, sentences, 30) {
  begin(&plain, MEMBERS);
  df_view_suspect(&members[0].view, 2, DF_EVIDENCE_ASKED, 0);
  deliver(0);
  check_view(0, 2, 11);
  member *two = &members[2];
  CHECK(two->ended && !two->left, "rank 2 goes on");
  CHECK(strstr(two->sentence, "rank 2 can reach 2 of the 4 members of view 1") &&
            strstr(two->sentence, "not a majority") && strstr(two->sentence, "rank 1"),
        "%s", two->sentence);

  df_view_config config = plain;
  config.on_one_host = 0;
  begin(&config, 2);
  df_view_suspect(&members[0].view, 1, DF_EVIDENCE_SILENT, 0);
  deliver(0);
  check_view(0, 2, 1);
  CHECK(members[1].ended && strstr(members[1].sentence, "rank 0 has excluded this rank (it did not "
                                                        "answer) in view 1"),
        "%s", members[1].sentence);
  CHECK(strstr(members[1].sentence, "1 of the 2 members"), "%s", members[1].sentence);
}

DF_TEST(view, all_leave, 30) {
  begin(&plain, MEMBERS);
  for (uint32_t rank = 0; rank < MEMBERS; rank++) {
    df_view_leave(&members[rank].view, 0);
    if (rank == 1) deliver(0);
  }
  deliver(0);
  for (uint32_t rank = 0; rank < MEMBERS; rank++)
    CHECK(members[rank].left, "rank %u: %s", rank, members[rank].sentence);
}

DF_TEST(view, a_leaving_rank_is_gone_before_INSTALL, 30) {
  df_view_config config = plain;
  config.on_one_host = 0;
  begin(&config, 2);
  df_view_leave(&members[0].view, 0);
  df_view_receive(&members[1].view, 0, queue[0].payload, queue[0].bytes, 0);
  df_view_disconnected(&members[1].view, 0, 0, 0);
  CHECK(!members[1].ended, "rank 1 stops at once: %s", members[1].sentence);
  CHECK(df_view_deadline(&members[1].view) == 100, "it waits for INSTALL");
}

/* Rank 5 joins with the number of nobody, later another process with the number of the dead rank
 * 1. */
DF_TEST(view, joins, 30) {
  begin(&plain, 3);
  for (uint32_t incarnation = 1, rank = 5; incarnation <= 2; incarnation++, rank = 1) {
    df_view_config config = plain;
    config.incarnation = incarnation;
    if (rank == 1) {
      dies(1, 6);
      deliver(1u << 1);
    }
    open_member(rank, &config);
    for (uint32_t other = 0; other < RANKS; other++) {
      if (other == rank || !members[other].memory) continue;
      CHECK(df_view_connected(&members[other].view, rank), "an old incarnation is a member");
      df_view_connected(&members[rank].view, other);
      df_view_admit(&members[other].view, rank, incarnation, 0);
      df_view_admit(&members[other].view, rank, incarnation, 0); /* once */
    }
    deliver(0);
    CHECK(members[rank].view.peers[rank].incarnation == incarnation, "incarnation");
    check_view(rank, rank == 5 ? 2 : 4, rank == 5 ? 0x27 : 0x27);
    check_view(0, rank == 5 ? 2 : 4, 0x27);
    CHECK(!members[0].view.admits, "the admit has not ended");
  }
  CHECK(!df_view_connected(&members[0].view, 1), "a member connects again");
}

DF_TEST(view, an_admit_is_cancelled, 30) {
  begin(&plain, 3);
  for (uint32_t rank = 0; rank < 3; rank++) {
    df_view_connected(&members[rank].view, 4);
    if (rank == 1) df_view_disconnected(&members[1].view, 4, 1, 0);
    df_view_admit(&members[rank].view, 4, 1, 0);
  }
  deliver(1u << 4);
  check_view(2, 2, 7);
  CHECK(members[0].view.installed.flags == DF_VIEW_CANCELLED && !members[0].view.admits, "flags");
}

DF_TEST(view, long_lists_go_in_parts, 30) {
  df_view_config config = plain;
  config.part_entries = 5;
  begin(&config, 3);
  for (uint32_t rank = 0; rank < 2; rank++)
    for (members[rank].n_runs = 0; members[rank].n_runs < MOST; members[rank].n_runs++)
      members[rank].runs[members[rank].n_runs] =
          (df_view_runs){3 + members[rank].n_runs / 2, members[rank].n_runs % 2, 2,
                         4 + rank + members[rank].n_runs, 100};
  dies(2, 3);
  deliver(1u << 2);
  for (uint32_t rank = 0; rank < 2; rank++) {
    const df_view_content *content = &members[rank].view.installed;
    check_view(rank, 2, 3);
    CHECK(content->n_outcomes == MOST, "%u outcomes", content->n_outcomes);
    for (uint32_t i = 0; i < MOST; i++)
      CHECK(content->outcomes[i].base == 4 + i && content->outcomes[i].collective == 3 + i / 2,
            "outcome %u", i);
  }
  CHECK(sent_of_type[DF_VIEW_STATE] == 13, "%u parts", sent_of_type[DF_VIEW_STATE]);
}

/* ---- messages that no correct member sends */

static void refuse(uint32_t to, uint32_t from, const df_view_message *message, const char *why) {
  uint8_t bytes[DF_VIEW_MESSAGE_BYTES];
  uint32_t count = 0;
  uint32_t length = df_view_message_write(message, message->header.first, 100, bytes, &count);
  const int before = members[to].refusals;
  df_view_receive(&members[to].view, from, bytes, length, 0);
  CHECK(members[to].refusals == before + 1, "it is not refused (%s)", why);
  CHECK(strstr(members[to].why, why), "refused as \"%s\", not \"%s\"", members[to].why, why);
  CHECK(members[to].view.peers[from].suspected == DF_EVIDENCE_SILENT, "its sender is trusted");
}

/* A PROPOSAL of rank 0 to rank 1, which suspects rank 3. */
static df_view_message proposal(df_view_item *items, df_view_outcome *outcome) {
  begin(&plain, MEMBERS);
  members[1].runs[0] = (df_view_runs){7, 1, 3, 5, 6};
  df_view_suspect(&members[1].view, 3, DF_EVIDENCE_CERTAIN, 0);
  df_view_report(&members[1].view, members[1].runs, 1, 0);
  for (uint16_t i = 0; i < 3; i++) items[i] = (df_view_item){i, 0};
  items[3] = (df_view_item){3, df_view_reason(DF_EVIDENCE_CERTAIN, 1)};
  *outcome = (df_view_outcome){7, 1, 0, 5, 5};
  return (df_view_message){.header = {.type = DF_VIEW_PROPOSAL,
                                      .n_members = 3,
                                      .n_lost = 1,
                                      .n_outcomes = 1,
                                      .view = 1,
                                      .ballot = {1, 0, 0},
                                      .accepted = {.rank = DF_NOBODY}},
                           .members = items,
                           .lost = items + 3,
                           .outcomes = outcome};
}

DF_TEST(view, contradictions_are_refused, 30) {
  df_view_item items[6];
  df_view_outcome outcome;
  df_view_message m = proposal(items, &outcome);
  uint8_t bytes[ROOM];
  uint32_t count = 0, length = df_view_message_write(&m, 0, 100, bytes, &count);
  df_view_receive(&members[1].view, 0, bytes, length, 0);
  CHECK(!members[1].refusals && sent_of_type[DF_VIEW_ACCEPT] == 1, "%s", members[1].why);

  m = proposal(items, &outcome);
  m.header.ballot.attempt = (uint64_t)1 << 63;
  refuse(1, 0, &m, "header");
  m = proposal(items, &outcome);
  m.header.ballot.attempt = 2;
  refuse(1, 0, &m, "promised");
  m = proposal(items, &outcome);
  outcome.base = outcome.fails_below = 6;
  refuse(1, 0, &m, "data");
  m = proposal(items, &outcome);
  outcome.fails_below = 6;
  refuse(1, 0, &m, "executed again");
  m = proposal(items, &outcome);
  items[3].rank = 40;
  refuse(1, 0, &m, "unknown rank");
  m = proposal(items, &outcome);
  m.header.n_lost = 0;
  refuse(1, 0, &m, "without a reason");
  m = proposal(items, &outcome);
  items[1] = (df_view_item){2, 0};
  items[2] = (df_view_item){1, df_view_reason(DF_EVIDENCE_SILENT, 0)};
  m.header.n_members = m.header.n_lost = 2;
  m.lost = items + 2;
  refuse(1, 0, &m, "leaves out this rank");
  m = proposal(items, &outcome);
  items[2].value = 1;
  refuse(1, 0, &m, "incarnation");
  m = proposal(items, &outcome);
  m.header.type = DF_VIEW_INSTALL;
  m.header.view = 9;
  refuse(1, 0, &m, "missing");
  m = proposal(items, &outcome);
  m.header.first = 1;
  m.header.n_outcomes = 2;
  df_view_outcome two[2] = {outcome, {8, 1, 0, 0, 0}};
  m.outcomes = two;
  refuse(1, 0, &m, "part");

  begin(&plain, MEMBERS);
  m = (df_view_message){.header = {.type = DF_VIEW_SUSPECT,
                                   .n_suspects = 1,
                                   .view = 1,
                                   .ballot = {.rank = DF_NOBODY},
                                   .accepted = {.rank = DF_NOBODY}},
                        .suspects = items};
  items[0] = (df_view_item){1, df_view_reason(DF_EVIDENCE_SILENT, 0)};
  refuse(1, 0, &m, "without a notice");
  items[0].rank = 5;
  refuse(1, 2, &m, "no member");
}

/* Changes of real messages: bits, lengths, repetitions, order. The machine may suspect anybody, but
 * it stays within its memory (sanitizers) and never leaves a member out of its own view. */
DF_TEST(view, mutated_messages, 60) {
  df_random random = {1};
  static uint8_t bytes[ROOM + 64];
  const int rounds = 1500 / df_slowdown();
  df_view_config config = plain;
  for (int round = 0; round < rounds; round++) {
    config.part_entries = df_random_chance(&random, 50) ? 1 : 0;
    config.reruns = df_random_chance(&random, 50);
    begin(&config, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
      members[rank].runs[0] = (df_view_runs){7, 1, 3, rank, 4};
      members[rank].runs[1] = (df_view_runs){7, 2, 3, 2, 2};
      members[rank].n_runs = 2;
      df_view_connected(&members[rank].view, 4);
    }
    if (df_random_chance(&random, 70)) dies(3, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
      if (df_random_chance(&random, 30)) df_view_admit(&members[rank].view, 4, 1, 0);
    for (int step = 0; step < 60 && last + 40 < QUEUE; step++) {
      for (uint32_t rank = 0; rank < MEMBERS; rank++)
        df_view_report(&members[rank].view, members[rank].runs, members[rank].n_runs, 0);
      if (last == 0) break;
      const note *n = &queue[df_random_chance(&random, 70) && first < last
                                 ? first++
                                 : (uint32_t)df_random_below(&random, (int)last)];
      uint32_t length = n->bytes;
      memcpy(bytes, n->payload, length);
      for (int change = df_random_below(&random, 3); change > 0; change--) {
        const int at = df_random_below(&random, (int)length);
        bytes[at] =
            (uint8_t)(df_random_chance(&random, 50) ? bytes[at] ^ 1 << df_random_below(&random, 8)
                                                    : df_random_below(&random, 256));
      }
      if (df_random_chance(&random, 5))
        length = (uint32_t)df_random_below(&random, (int)length + 1);
      uint8_t *exact = malloc(length ? length : 1); /* so that a sanitizer sees its end */
      CHECK(exact, "no memory");
      memcpy(exact, bytes, length);
      df_view_receive(&members[n->to].view, n->from, exact, length, 0);
      free(exact);
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
      const df_view *view = &members[rank].view;
      CHECK(df_view_has_ended(view) || view->peers[rank].member, "rank %u is no member", rank);
    }
  }
}
