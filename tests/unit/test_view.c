/* Promises of src/control/view.h:
 *
 * - The rules of the quorum decide which view_members may go on.
 * - A death leads to a view without the dead rank, by one-way messages in five steps, and with the
 *   least count of runs as base.
 * - A rank that must stop has a sentence with both counts, who excluded it, and why.
 * - Messages keep their contents, also in parts. Malformed ones are refused, and their sender is
 *   suspected.
 * - No bytes lead a machine out of its memory or its rules. */
#include "view_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/view_parts.h"

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
  view_begin(&view_plain, MEMBERS);
  for (uint32_t rank = 0; rank < MEMBERS; rank++) {
    view_members[rank].runs[0] = (df_view_runs){7, 1, 3, 5 - rank, 6};
    view_members[rank].n_runs = 1;
  }
  view_dies(3, MEMBERS);
  CHECK(view_members[0].freezes == 1 && view_members[0].view.phase == DF_VIEW_FROZEN, "frozen");
  view_deliver(1u << 3);
  for (uint32_t rank = 0; rank < 3; rank++) {
    const df_view_content *content = &view_members[rank].view.installed;
    view_check(rank, 2, 7);
    CHECK(content->n_lost == 1 && content->lost[0].rank == 3 &&
              df_view_evidence(content->lost[0]) == DF_EVIDENCE_CERTAIN,
          "who is lost");
    CHECK(content->n_outcomes == 1 && content->outcomes[0].base == 3 &&
              content->outcomes[0].fails_below == 3,
          "base");
    CHECK(!view_members[rank].refusals, "%s", view_members[rank].why);
  }
  CHECK(view_sent_of_type[DF_VIEW_PROPOSAL] == 2 && view_sent_of_type[DF_VIEW_ACCEPT] == 2 &&
            view_sent_of_type[DF_VIEW_STATE] == 2 && view_sent_of_type[DF_VIEW_INSTALL] >= 2,
        "messages");
}

DF_TEST(view, runs_fail_below_the_highest_submitted, 30) {
  df_view_config config = view_plain;
  config.reruns = 0;
  view_begin(&config, 3);
  view_members[0].runs[0] = (df_view_runs){7, 1, 2, 2, 4};
  view_members[0].runs[1] = (df_view_runs){8, 1, 2, 1, 1};
  view_members[0].n_runs = 2;
  view_members[1].runs[0] = (df_view_runs){7, 1, 2, 3, 3}; /* it has not registered 8 */
  view_members[1].runs[1] = (df_view_runs){9, 2, 2, DF_VIEW_TAKEN_BACK, 0};
  view_members[0].runs[2] = (df_view_runs){9, 2, 2, 6, 6};
  view_members[0].n_runs = 3;
  view_members[1].n_runs = 2;
  view_dies(2, 3);
  view_deliver(1u << 2);
  const df_view_content *content = &view_members[1].view.installed;
  CHECK(content->n_outcomes == 3, "%u outcomes", content->n_outcomes);
  CHECK(content->outcomes[0].base == 2 && content->outcomes[0].fails_below == 4, "both have it");
  CHECK(content->outcomes[1].base == 0 && content->outcomes[1].fails_below == 1, "not registered");
  CHECK(content->outcomes[2].base == 6 && content->outcomes[2].fails_below == 6, "deregistered");
}

DF_TEST(view, the_coordinator_dies_after_one_INSTALL, 30) {
  view_begin(&view_plain, MEMBERS);
  view_dies(3, MEMBERS);
  view_deliver(1u << 3);
  view_check(1, 2, 7);
  view_begin(&view_plain, MEMBERS);
  view_dies(3, MEMBERS);
  while (view_first < view_last ||
         df_view_awaits_report(&view_members[0].view)) { /* rank 2 gets no INSTALL */
    df_view_header header;
    if (view_first == view_last)
      for (uint32_t rank = 0; rank < 3; rank++)
        df_view_report(&view_members[rank].view, NULL, 0, 0);
    for (; view_first < view_last; view_first++) {
      memcpy(&header, view_queue[view_first].payload, sizeof header);
      if (view_queue[view_first].to == 3 ||
          (header.type == DF_VIEW_INSTALL && view_queue[view_first].to == 2))
        continue;
      df_view_receive(&view_members[view_queue[view_first].to].view, view_queue[view_first].from,
                      view_queue[view_first].payload, view_queue[view_first].bytes, 0);
    }
  }
  view_check(1, 2, 7);
  CHECK(view_members[2].view.number == 1, "rank 2 is in view %d", (int)view_members[2].view.number);
  view_dies(0, 3);
  view_deliver(1u | 1u << 3);
  view_check(1, 3, 6);
  view_check(2, 3, 6);
}

DF_TEST(view, a_silent_lower_rank_is_held_back, 30) {
  view_begin(&view_plain, MEMBERS);
  df_view_suspect(&view_members[2].view, 0, DF_EVIDENCE_SILENT, 1000);
  CHECK(view_members[2].view.phase == DF_VIEW_CURRENT, "at once");
  CHECK(df_view_deadline(&view_members[2].view) == 1100, "deadline");
  df_view_tick(&view_members[2].view, 1099);
  CHECK(view_members[2].view.phase == DF_VIEW_CURRENT, "early");
  df_view_tick(&view_members[2].view, 1100);
  CHECK(view_members[2].view.phase == DF_VIEW_FROZEN, "late");
  CHECK(view_members[2].cut == 1, "rank 0 was not cut");
  df_view_suspect(&view_members[2].view, 0, DF_EVIDENCE_CERTAIN, 1200);
  CHECK(view_members[2].view.peers[0].suspected == DF_EVIDENCE_SILENT, "a late proof counts");
  df_view_suspect(&view_members[1].view, 3, DF_EVIDENCE_SILENT, 1000); /* a higher one */
  CHECK(view_members[1].view.phase == DF_VIEW_FROZEN, "a higher rank is held back");
}

DF_TEST(view, sentences, 30) {
  view_begin(&view_plain, MEMBERS);
  df_view_suspect(&view_members[0].view, 2, DF_EVIDENCE_ASKED, 0);
  view_deliver(0);
  view_check(0, 2, 11);
  view_member *two = &view_members[2];
  CHECK(two->ended && !two->left, "rank 2 goes on");
  CHECK(strstr(two->sentence, "rank 2 can reach 2 of the 4 members of view 0") &&
            strstr(two->sentence, "not a majority") && strstr(two->sentence, "rank 1"),
        "%s", two->sentence);

  df_view_config config = view_plain;
  config.on_one_host = 0;
  view_begin(&config, 2);
  df_view_suspect(&view_members[0].view, 1, DF_EVIDENCE_SILENT, 0);
  view_deliver(0);
  view_check(0, 2, 1);
  CHECK(view_members[1].ended &&
            strstr(view_members[1].sentence, "rank 0 has excluded this rank (it did not "
                                             "answer) in view 0"),
        "%s", view_members[1].sentence);
  CHECK(strstr(view_members[1].sentence, "1 of the 2 members"), "%s", view_members[1].sentence);
}

DF_TEST(view, all_leave, 30) {
  view_begin(&view_plain, MEMBERS);
  for (uint32_t rank = 0; rank < MEMBERS; rank++) {
    df_view_leave(&view_members[rank].view, 0);
    if (rank == 1) view_deliver(0);
  }
  view_deliver(0);
  for (uint32_t rank = 0; rank < MEMBERS; rank++)
    CHECK(view_members[rank].left, "rank %u: %s", rank, view_members[rank].sentence);
}

DF_TEST(view, a_leaving_rank_is_gone_before_INSTALL, 30) {
  df_view_config config = view_plain;
  config.on_one_host = 0;
  view_begin(&config, 2);
  df_view_leave(&view_members[0].view, 0);
  df_view_receive(&view_members[1].view, 0, view_queue[0].payload, view_queue[0].bytes, 0);
  df_view_disconnected(&view_members[1].view, 0, 0, 0);
  CHECK(!view_members[1].ended, "rank 1 stops at once: %s", view_members[1].sentence);
  CHECK(df_view_deadline(&view_members[1].view) == 100, "it waits for INSTALL");
}

/* Rank 5 joins with the number of nobody, later another process with the number of the dead rank
 * 1. */
DF_TEST(view, joins, 30) {
  view_begin(&view_plain, 3);
  for (uint32_t incarnation = 1, rank = 5; incarnation <= 2; incarnation++, rank = 1) {
    df_view_config config = view_plain;
    config.incarnation = incarnation;
    if (rank == 1) {
      view_dies(1, 6);
      view_deliver(1u << 1);
    }
    view_open_member(rank, &config);
    for (uint32_t other = 0; other < RANKS; other++) {
      if (other == rank || !view_members[other].memory) continue;
      CHECK(df_view_connected(&view_members[other].view, rank), "an old incarnation is a member");
      df_view_connected(&view_members[rank].view, other);
      df_view_admit(&view_members[other].view, rank, incarnation, 0);
      df_view_admit(&view_members[other].view, rank, incarnation, 0); /* once */
    }
    view_deliver(0);
    CHECK(view_members[rank].view.peers[rank].incarnation == incarnation, "incarnation");
    view_check(rank, rank == 5 ? 2 : 4, rank == 5 ? 0x27 : 0x27);
    view_check(0, rank == 5 ? 2 : 4, 0x27);
    CHECK(!view_members[0].view.admits, "the admit has not ended");
  }
  CHECK(!df_view_connected(&view_members[0].view, 1), "a member connects again");
}

DF_TEST(view, an_admit_is_cancelled, 30) {
  view_begin(&view_plain, 3);
  for (uint32_t rank = 0; rank < 3; rank++) {
    df_view_connected(&view_members[rank].view, 4);
    if (rank == 1) df_view_disconnected(&view_members[1].view, 4, 1, 0);
    df_view_admit(&view_members[rank].view, 4, 1, 0);
  }
  view_deliver(1u << 4);
  view_check(2, 2, 7);
  CHECK(view_members[0].view.installed.flags == DF_VIEW_CANCELLED && !view_members[0].view.admits,
        "flags");
}

DF_TEST(view, long_lists_go_in_parts, 30) {
  df_view_config config = view_plain;
  config.part_entries = 5;
  view_begin(&config, 3);
  for (uint32_t rank = 0; rank < 2; rank++)
    for (view_members[rank].n_runs = 0; view_members[rank].n_runs < MOST;
         view_members[rank].n_runs++)
      view_members[rank].runs[view_members[rank].n_runs] =
          (df_view_runs){3 + view_members[rank].n_runs / 2, view_members[rank].n_runs % 2, 2,
                         4 + rank + view_members[rank].n_runs, 100};
  view_dies(2, 3);
  view_deliver(1u << 2);
  for (uint32_t rank = 0; rank < 2; rank++) {
    const df_view_content *content = &view_members[rank].view.installed;
    view_check(rank, 2, 3);
    CHECK(content->n_outcomes == MOST, "%u outcomes", content->n_outcomes);
    for (uint32_t i = 0; i < MOST; i++)
      CHECK(content->outcomes[i].base == 4 + i && content->outcomes[i].collective == 3 + i / 2,
            "outcome %u", i);
  }
  CHECK(view_sent_of_type[DF_VIEW_STATE] == 13, "%u parts", view_sent_of_type[DF_VIEW_STATE]);
}

/* ---- messages that no correct member sends */

/* A PROPOSAL of rank 0 to rank 1, which suspects rank 3. */
static df_view_message proposal(df_view_item *items, df_view_outcome *outcome) {
  view_begin(&view_plain, MEMBERS);
  view_members[1].runs[0] = (df_view_runs){7, 1, 3, 5, 6};
  df_view_suspect(&view_members[1].view, 3, DF_EVIDENCE_CERTAIN, 0);
  df_view_report(&view_members[1].view, view_members[1].runs, 1, 0);
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
  df_view_receive(&view_members[1].view, 0, bytes, length, 0);
  CHECK(!view_members[1].refusals && view_sent_of_type[DF_VIEW_ACCEPT] == 1, "%s",
        view_members[1].why);

  m = proposal(items, &outcome);
  m.header.ballot.attempt = (uint64_t)1 << 63;
  view_refuse(1, 0, &m, "header");
  m = proposal(items, &outcome);
  m.header.ballot.attempt = 2;
  view_refuse(1, 0, &m, "promised");
  m = proposal(items, &outcome);
  outcome.base = outcome.fails_below = 6;
  view_refuse(1, 0, &m, "data");
  m = proposal(items, &outcome);
  outcome.fails_below = 6;
  view_refuse(1, 0, &m, "executed again");
  m = proposal(items, &outcome);
  items[3].rank = 40;
  view_refuse(1, 0, &m, "unknown rank");
  m = proposal(items, &outcome);
  m.header.n_lost = 0;
  view_refuse(1, 0, &m, "without a reason");
  m = proposal(items, &outcome);
  items[1] = (df_view_item){2, 0};
  items[2] = (df_view_item){1, df_view_reason(DF_EVIDENCE_SILENT, 0)};
  m.header.n_members = m.header.n_lost = 2;
  m.lost = items + 2;
  view_refuse(1, 0, &m, "leaves out this rank");
  m = proposal(items, &outcome);
  const df_view_item all[MEMBERS] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  m.header.n_members = MEMBERS;
  m.header.n_lost = 0;
  m.members = all;
  view_refuse(1, 0, &m, "changes nothing");
  m = proposal(items, &outcome);
  items[2].value = 1;
  view_refuse(1, 0, &m, "incarnation");
  m = proposal(items, &outcome);
  m.header.type = DF_VIEW_INSTALL;
  m.header.view = 9;
  view_refuse(1, 0, &m, "missing");
  m = proposal(items, &outcome);
  m.header.first = 1;
  m.header.n_outcomes = 2;
  df_view_outcome two[2] = {outcome, {8, 1, 0, 0, 0}};
  m.outcomes = two;
  view_refuse(1, 0, &m, "part");

  view_begin(&view_plain, MEMBERS);
  m = (df_view_message){.header = {.type = DF_VIEW_SUSPECT,
                                   .n_suspects = 1,
                                   .view = 1,
                                   .ballot = {.rank = DF_NOBODY},
                                   .accepted = {.rank = DF_NOBODY}},
                        .suspects = items};
  items[0] = (df_view_item){1, df_view_reason(DF_EVIDENCE_SILENT, 0)};
  view_refuse(1, 0, &m, "without a notice");
  items[0].rank = 5;
  view_refuse(1, 2, &m, "no member");
}

/* Changes of real messages: bits, lengths, repetitions, order. The machine may suspect anybody, but
 * it stays within its memory (sanitizers) and never leaves a member out of its own view. */
DF_TEST(view, mutated_messages, 60) {
  df_random random = {1};
  static uint8_t bytes[ROOM + 64];
  const int rounds = 1500 / df_slowdown();
  df_view_config config = view_plain;
  for (int round = 0; round < rounds; round++) {
    config.part_entries = df_random_chance(&random, 50) ? 1 : 0;
    config.reruns = df_random_chance(&random, 50);
    view_begin(&config, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
      view_members[rank].runs[0] = (df_view_runs){7, 1, 3, rank, 4};
      view_members[rank].runs[1] = (df_view_runs){7, 2, 3, 2, 2};
      view_members[rank].n_runs = 2;
      df_view_connected(&view_members[rank].view, 4);
    }
    if (df_random_chance(&random, 70)) view_dies(3, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
      if (df_random_chance(&random, 30)) df_view_admit(&view_members[rank].view, 4, 1, 0);
    for (int step = 0; step < 60 && view_last + 40 < QUEUE; step++) {
      for (uint32_t rank = 0; rank < MEMBERS; rank++)
        df_view_report(&view_members[rank].view, view_members[rank].runs, view_members[rank].n_runs,
                       0);
      if (view_last == 0) break;
      const view_note *n = &view_queue[df_random_chance(&random, 70) && view_first < view_last
                                           ? view_first++
                                           : (uint32_t)df_random_below(&random, (int)view_last)];
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
      df_view_receive(&view_members[n->to].view, n->from, exact, length, 0);
      free(exact);
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
      const df_view *view = &view_members[rank].view;
      CHECK(df_view_has_ended(view) || view->peers[rank].member, "rank %u is no member", rank);
    }
  }
}
