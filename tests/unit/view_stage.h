/* Members of a view, whose messages a test delivers. */
#ifndef DF_TESTS_UNIT_VIEW_STAGE_H
#define DF_TESTS_UNIT_VIEW_STAGE_H

#include "control/view.h"
#include "support/harness.h"

enum { MEMBERS = 4, RANKS = 6, MOST = 64, QUEUE = 400, ROOM = 512 };

typedef struct {
  uint32_t from, to, bytes;
  uint8_t payload[ROOM];
} view_note;

typedef struct {
  df_view view;
  void *memory;
  int ended, left, freezes, refusals;
  uint32_t cut; /* mask */
  char sentence[DF_SENTENCE_BYTES], why[DF_SENTENCE_BYTES];
  df_view_runs runs[MOST];
  uint32_t n_runs;
  uint64_t installed;
} view_member;

extern view_member view_members[RANKS];
extern view_note view_queue[QUEUE];
extern uint32_t view_first, view_last, view_sent_of_type[DF_VIEW_MESSAGES];
extern const df_view_config view_plain; /* one host, runs are executed again */

void view_open_member(uint32_t rank, const df_view_config *base);
/* Opens n members, in view 1. */
void view_begin(const df_view_config *config, uint32_t n);
/* Delivers everything, to all but the ranks of this mask, and reports runs. */
void view_deliver(uint32_t dead);
void view_dies(uint32_t rank, uint32_t n);
void view_check(uint32_t rank, uint64_t number, uint32_t mask);
/* Gives a message to a member: it must refuse it for this reason, and suspect the sender. */
void view_refuse(uint32_t to, uint32_t from, const df_view_message *message, const char *why);

#endif
