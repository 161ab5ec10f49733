/* Messages by which the members of a job agree on its next view (view.h). Each is the payload of a
 * control message. A message has a header, lists of ranks, and a list of counts of runs. If that
 * list is longer than the room of a message, it is sent in parts: each part repeats header and
 * ranks. */
#ifndef DF_CONTROL_VIEW_MESSAGE_H
#define DF_CONTROL_VIEW_MESSAGE_H

#include "base/limits.h"
#include "control/message.h"

typedef enum {
  DF_VIEW_SUSPECT = 1, /* to all members: ranks that are lost or leave */
  DF_VIEW_STATE,       /* to the coordinator: runs, and a promise to accept nothing lower */
  DF_VIEW_PROPOSAL,    /* from the coordinator: content of the next view */
  DF_VIEW_ACCEPT,      /* to the coordinator */
  DF_VIEW_INSTALL,     /* to all: all members have accepted the content */
  DF_VIEW_NOTICE,      /* to a lost rank, before its connection is cut: who excludes it, and why */
  DF_VIEW_MESSAGES
} df_view_message_type;

/* Why a rank is suspected. If two members differ, the lower one counts. */
typedef enum {
  DF_EVIDENCE_NONE,
  DF_EVIDENCE_SILENT,   /* questions were not answered, or a connection ended without a proof */
  DF_EVIDENCE_ASKED,    /* the application excluded it */
  DF_EVIDENCE_CERTAIN,  /* the kernel has reported the end of its process; this and the following
                           two are proofs that the rank takes part in nothing any more */
  DF_EVIDENCE_GAVE_UP,  /* its context is broken, as it has said */
  DF_EVIDENCE_BYE,      /* it has called dfcclDestroy, as it has said */
  DF_EVIDENCE_LEFT = 8, /* it leaves in order, and takes part in the agreement until then */
} df_evidence;

/* A rank with its incarnation (members) or with evidence and accuser (suspects, lost members). */
typedef struct df_view_item {
  uint16_t rank, value;
} df_view_item;
static inline uint16_t df_view_reason(uint32_t evidence, uint32_t accuser) {
  return (uint16_t)(evidence << 12 | accuser);
}
static inline uint32_t df_view_evidence(df_view_item item) { return item.value >> 12; }
static inline uint32_t df_view_accuser(df_view_item item) { return item.value & 0xfff; }
DF_STATIC_ASSERT(DF_MAX_RANKS <= 4096, "a rank has 12 bits beside the evidence");

/* The runs of a collective that loses a member, on the sender. */
typedef struct df_view_runs {
  uint64_t collective;   /* id */
  uint32_t registration; /* ordinal number of this registration of the id */
  uint32_t survivors;    /* members of its group that neither are suspected nor leave */
  uint64_t done;         /* runs whose data the sender has, or DF_VIEW_TAKEN_BACK */
  uint64_t submitted;    /* runs that have been submitted, without those behind a pending admit */
} df_view_runs;
#define DF_VIEW_TAKEN_BACK UINT64_MAX /* the sender has deregistered the collective */

/* The fate of the runs of such a collective, on all members of the next view: those below base
 * complete; those from base to fails_below fail; later ones are runs of the new view. Without an
 * outcome no survivor had begun a run of the collective. */
typedef struct df_view_outcome {
  uint64_t collective;
  uint32_t registration, reserved;
  uint64_t base, fails_below;
} df_view_outcome;
DF_STATIC_ASSERT(sizeof(df_view_runs) == 32 && sizeof(df_view_outcome) == 32,
                 "part of the protocol between processes");

/* Ballots are ordered by attempt, then by rank. */
typedef struct df_view_ballot {
  uint64_t attempt; /* number of suspects and of leaving members, so at most two for each member */
  uint32_t rank;    /* the coordinator; DF_NOBODY: no ballot */
  uint32_t reserved;
} df_view_ballot;
static inline int df_view_ballot_is_set(const df_view_ballot *ballot) {
  return ballot->rank != DF_NOBODY;
}
/* Returns a number below, equal to, or above 0. No ballot is below all others. */
int df_view_ballot_compare(const df_view_ballot *a, const df_view_ballot *b);

enum {
  DF_VIEW_ADMITS = 1,        /* STATE: the sender is in a call that admits the newcomer */
  DF_VIEW_NEWCOMER_GONE = 2, /* STATE: the newcomer's connection has ended */
  DF_VIEW_ADMITTED = 4,      /* content: the newcomer is a member of the next view */
  DF_VIEW_CANCELLED = 8,     /* content: the newcomer is gone, and the admit has ended */
  DF_VIEW_FLAGS = 15
};

typedef struct df_view_header {
  uint16_t type, flags;
  df_view_item newcomer; /* with one of the flags */
  uint16_t n_suspects, n_members, n_lost, reserved;
  /* Entries of the whole list, runs before outcomes, and the range of it in this message. */
  uint32_t n_runs, n_outcomes, first, count;
  uint64_t view;           /* the sender's view; INSTALL: the number of the view in the message */
  df_view_ballot ballot;   /* STATE: promised; else of the content */
  df_view_ballot accepted; /* STATE: of the accepted content in the message */
} df_view_header;
DF_STATIC_ASSERT(sizeof(df_view_header) == 72, "part of the protocol between processes");

/* A message with its lists. A received one points into its bytes, which need no alignment: read
 * entries by the functions below. */
typedef struct df_view_message {
  df_view_header header;
  const void *suspects, *members, *lost;
  const void *runs, *outcomes; /* to send: the whole lists; received: unused */
  const void *entries;         /* received: the entries of this part */
} df_view_message;

df_view_item df_view_item_at(const void *items, uint32_t i);
/* The i-th entry of a received part, which is one of the runs if first + i < n_runs. */
df_view_runs df_view_runs_at(const df_view_message *message, uint32_t i);
df_view_outcome df_view_outcome_at(const df_view_message *message, uint32_t i);

/* The longest payload. */
enum { DF_VIEW_MESSAGE_BYTES = DF_MAX_MESSAGE_BYTES - (int)sizeof(df_message) };

/* Writes the part that begins with entry `first`, with at most `most` entries. bytes has room for
 * DF_VIEW_MESSAGE_BYTES. Returns the length, and stores the number of entries in *count. */
uint32_t df_view_message_write(const df_view_message *message, uint32_t first, uint32_t most,
                               void *bytes, uint32_t *count);

/* Returns NULL and fills *message, or returns the reason why the bytes are no message of a job of
 * n_ranks ranks: lengths, values, lists in ascending order, the lists of this type. */
const char *df_view_message_read(const void *bytes, size_t length, uint32_t n_ranks,
                                 df_view_message *message);

#endif
