/* Promises of src/control/view.h about reports, and about late messages and other processes:
 *
 * - An admit goes through whichever member calls it first.
 * - A message of an older view does not concern the newcomer that has taken the number of its
 *   suspect.
 * - Accepted content counts only if it is whole and each of its parts is possible.
 * - Reports of too many collectives stop the member that collects them.
 * - A process that is no member changes nothing.
 */
#include <string.h>

#include "control/view_parts.h"
#include "view_stage.h"

static void admit_on(uint32_t rank, uint32_t newcomer, uint32_t incarnation) {
  df_view_admit(&view_members[rank].view, newcomer, incarnation, 0);
  view_deliver(0);
}

static void connect_newcomer(uint32_t newcomer, uint32_t incarnation, uint32_t n) {
  df_view_config config = view_plain;
  config.incarnation = incarnation;
  view_open_member(newcomer, &config);
  for (uint32_t rank = 0; rank < n; rank++) {
    if (rank == newcomer) continue;
    view_members[rank].cut &= ~(1u << newcomer);
    CHECK(df_view_connected(&view_members[rank].view, newcomer), "rank %u", rank);
    df_view_connected(&view_members[newcomer].view, rank);
  }
}

DF_TEST(view_reports, any_member_may_call_admit_first, 30) {
  for (uint32_t order = 0; order < 3; order++) {
    view_begin(&view_plain, 3);
    connect_newcomer(4, 1, 3);
    for (uint32_t i = 0; i < 3; i++) admit_on((order + i) % 3, 4, 1);
    CHECK(view_members[0].view.installed.flags == DF_VIEW_ADMITTED, "flags %u",
          view_members[0].view.installed.flags);
    for (uint32_t rank = 0; rank < 3; rank++) view_check(rank, 2, 0x17);
    view_check(4, 2, 0x17);
  }
}

static void give(uint32_t to, uint32_t from, const df_view_message *message) {
  uint8_t bytes[DF_VIEW_MESSAGE_BYTES];
  uint32_t count = 0;
  const uint32_t length = df_view_message_write(message, message->header.first, 100, bytes, &count);
  df_view_receive(&view_members[to].view, from, bytes, length, 0);
}

/* Rank 0 dies, and another process takes its number. Two ranks leave, so that the latest view is
 * not the one that admitted it. */
DF_TEST(view_reports, late_messages_do_not_concern_a_newcomer, 30) {
  view_begin(&view_plain, MEMBERS);
  view_dies(0, MEMBERS);
  view_deliver(1);
  connect_newcomer(0, 1, MEMBERS);
  for (uint32_t rank = 1; rank < MEMBERS; rank++) df_view_admit(&view_members[rank].view, 0, 1, 0);
  view_deliver(0);
  view_check(0, 3, 0xf);
  df_view_leave(&view_members[1].view, 0);
  df_view_leave(&view_members[3].view, 0);
  view_deliver(0);
  view_check(2, 4, 5);
  df_view_item dead = {0, df_view_reason(DF_EVIDENCE_CERTAIN, 3)};
  const df_view_message late = {.header = {.type = DF_VIEW_SUSPECT,
                                           .n_suspects = 1,
                                           .view = 1,
                                           .ballot = {0, DF_NOBODY, 0},
                                           .accepted = {0, DF_NOBODY, 0}},
                                .suspects = &dead};
  give(2, 0, &late);
  CHECK(!view_members[2].view.peers[0].suspected, "the newcomer is suspected");
  view_check(2, 4, 5);
}

/* A STATE of rank 1 to rank 0 with accepted content, both having lost rank 2. */
static df_view_message state_of_1(df_view_item *dead, df_view_item *two, df_view_outcome *outcomes,
                                  uint32_t n) {
  view_begin(&view_plain, 3);
  view_members[0].runs[0] = (df_view_runs){7, 1, 2, 1, 9};
  view_members[0].runs[1] = (df_view_runs){8, 1, 2, 1, 9};
  df_view_disconnected(&view_members[0].view, 2, 1, 0);
  df_view_report(&view_members[0].view, view_members[0].runs, 2, 0);
  *dead = (df_view_item){2, df_view_reason(DF_EVIDENCE_CERTAIN, 0)};
  two[0] = (df_view_item){0, 0};
  two[1] = (df_view_item){1, 0};
  return (df_view_message){.header = {.type = DF_VIEW_STATE,
                                      .n_suspects = 1,
                                      .n_members = 2,
                                      .n_lost = 1,
                                      .n_outcomes = n,
                                      .view = 1,
                                      .ballot = {1, 0, 0},
                                      .accepted = {1, 0, 0}},
                           .suspects = dead,
                           .members = two,
                           .lost = dead,
                           .outcomes = outcomes};
}

static void give_part(const df_view_message *message, uint32_t at) {
  uint8_t bytes[DF_VIEW_MESSAGE_BYTES];
  uint32_t count = 0;
  const uint32_t length = df_view_message_write(message, at, 1, bytes, &count);
  df_view_receive(&view_members[0].view, 1, bytes, length, 0);
}

DF_TEST(view_reports, each_part_of_accepted_content_is_checked, 30) {
  df_view_item dead, two[2];
  df_view_outcome outcomes[2] = {{7, 1, 0, 1, 1}, {8, 1, 0, 99, 99}};
  const df_view_message state = state_of_1(&dead, two, outcomes, 2);
  give_part(&state, 0);
  CHECK(view_members[0].refusals == 0, "\"%s\"", view_members[0].why);
  give_part(&state, 1);
  CHECK(view_members[0].refusals == 1, "a base above its own data");
}

DF_TEST(view_reports, accepted_content_is_whole, 30) {
  df_view_item dead, two[2];
  df_view_outcome outcomes[5] = {{7, 1, 0, 1, 1}};
  df_view_runs runs[2] = {{7, 1, 2, 1, 9}, {8, 1, 2, 1, 9}};
  const df_view_message state = state_of_1(&dead, two, outcomes, 5);
  give_part(&state, 0);
  const df_view_message other = {.header = {.type = DF_VIEW_STATE,
                                            .n_suspects = 1,
                                            .n_runs = 2,
                                            .view = 1,
                                            .ballot = {1, 0, 0},
                                            .accepted = {0, DF_NOBODY, 0}},
                                 .suspects = &dead,
                                 .runs = runs};
  give_part(&other, 1);
  CHECK(view_members[0].refusals == 1 &&
            strstr(view_members[0].why, "a part of its content is missing"),
        "\"%s\"", view_members[0].why);
}

DF_TEST(view_reports, too_many_collectives_stop_the_coordinator, 30) {
  df_view_config config = view_plain;
  config.max_collectives = 1;
  view_begin(&config, MEMBERS);
  df_view_disconnected(&view_members[0].view, 3, 1, 0);
  df_view_item dead = {3, df_view_reason(DF_EVIDENCE_CERTAIN, 0)};
  df_view_runs theirs = {5, 1, 2, 1, 1}, own = {7, 1, 2, 1, 1};
  const df_view_message state = {.header = {.type = DF_VIEW_STATE,
                                            .n_suspects = 1,
                                            .n_runs = 1,
                                            .view = 1,
                                            .ballot = {1, 0, 0},
                                            .accepted = {0, DF_NOBODY, 0}},
                                 .suspects = &dead,
                                 .runs = &theirs};
  give(0, 1, &state);
  df_view_report(&view_members[0].view, &own, 1, 0);
  CHECK(view_members[0].ended && strstr(view_members[0].sentence, "more than 1 collectives"),
        "\"%s\"", view_members[0].sentence);
}

DF_TEST(view_reports, other_processes_change_nothing, 30) {
  view_begin(&view_plain, MEMBERS);
  CHECK(df_view_connected(&view_members[1].view, 5), "a newcomer connects");
  df_view_item three[3] = {{0, 0}, {1, 0}, {2, 0}}, dead = {3, df_view_reason(1, 0)};
  const df_view_message install = {.header = {.type = DF_VIEW_INSTALL,
                                              .n_members = 3,
                                              .n_lost = 1,
                                              .view = 2,
                                              .ballot = {1, 0, 0},
                                              .accepted = {0, DF_NOBODY, 0}},
                                   .members = three,
                                   .lost = &dead};
  give(1, 5, &install);
  view_check(1, 1, 0xf);
  CHECK(view_members[1].refusals == 1, "it is not refused");
}

DF_TEST(view_reports, a_number_is_free_when_its_connection_has_ended, 30) {
  view_begin(&view_plain, 3);
  df_view_leave(&view_members[2].view, 0);
  view_deliver(0);
  if (view_members[0].view.peers[2].open)
    CHECK(!df_view_connected(&view_members[0].view, 2), "the leaver's connection is open");
  df_view_disconnected(&view_members[0].view, 2, 1, 0);
  CHECK(df_view_connected(&view_members[0].view, 2), "it has ended");
}
