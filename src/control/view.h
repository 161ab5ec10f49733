/*
 * The agreement of a job's members on who they are. A *view* is a number, members, and for each
 * collective that has lost a member the runs that still complete. This is one member's state
 * machine: messages, evidence and the time come in, messages go out. It is pure: no clock, no
 * input or output, no lock, and no memory but what the caller gives, so that tests play it in
 * virtual time (tests/survival). host/membership is its owner.
 *
 *   current     no rank is suspected
 *   frozen      a rank is suspected or leaves: the caller stops the collectives that lose a member,
 *               and reports their runs (df_view_report)
 *   stopped     this rank must not go on; the reason is in the sentence
 *   left        this rank has left in order
 *   joining     a newcomer, until the first view that it is a member of
 *
 *   suspicion:  SUSPECT  to all        all merge it, freeze, and cut the connection after a NOTICE
 *               STATE    to the coordinator, the lowest rank that is not suspected
 *               PROPOSAL to all        when the STATEs of all are there, and they are a quorum
 *               ACCEPT   to the coordinator
 *               INSTALL  to all        when all have accepted
 *
 * A ballot is (attempt, rank of the coordinator). Each new suspicion makes a higher attempt. The
 * coordinator proposes content that a member has accepted before, so all living members install
 * the same views. docs/design/membership.md has the reasons.
 *
 * Sources: Lamport, "The part-time parliament" (1998), for ballots and promises; Oki and Liskov,
 * "Viewstamped replication" (1988), for views; Bland et al., "Post-failure recovery of MPI
 * communication capability" (2013, ULFM), for the agreement of survivors; AdapCC (2024) for going
 * on without the failed members. The notice and the held-back suspicions are additions.
 */
#ifndef DF_CONTROL_VIEW_H
#define DF_CONTROL_VIEW_H

#include "base/result.h"
#include "control/view_message.h"
#include "control/view_quorum.h"

typedef struct df_view_config {
  uint32_t rank, incarnation;
  uint32_t n_ranks;         /* ranks are below this number, also those that may join */
  uint32_t max_collectives; /* most collectives that all members together report */
  uint32_t part_entries;    /* most entries in one message; 0: as many as there is room for */
  df_quorum quorum;
  int on_one_host;    /* 1: all ranks, also those that may join */
  int reruns;         /* runs without a result: 1: are executed again; 0: fail */
  int memory_is_zero; /* the caller has cleared the machine's memory */
  /* How long a suspicion of a lower rank is held back: longer than a message and its handling. */
  uint64_t grace_ns;
} df_view_config;

/* The result of an agreement. The lists are in ascending order. */
typedef struct df_view_content {
  uint64_t number;
  df_view_ballot ballot;
  uint16_t flags;        /* DF_VIEW_ADMITTED, DF_VIEW_CANCELLED */
  df_view_item newcomer; /* with one of the flags */
  uint32_t n_members, n_lost, n_outcomes;
  uint32_t have; /* outcomes that have arrived; n_outcomes: all */
  df_view_item *members, *lost;
  df_view_outcome *outcomes;
} df_view_content;

/* The machine calls these functions in the middle of a call to it. They must not call it. Pointers
 * are valid during the call. */
typedef struct df_view_events {
  void (*send)(void *owner, uint32_t to, const void *payload, uint32_t bytes);
  /* Ends the connection after everything that was sent on it, and reads nothing more from it. On
   * one host it must first set a word that the other rank maps, and that means the same as the
   * NOTICE, since that may not fit into a full socket. */
  void (*cut)(void *owner, uint32_t rank);
  /* Stop the collectives that have a suspect or a leaving rank among their members, then call
   * df_view_report. */
  void (*freeze)(void *owner);
  void (*install)(void *owner, const df_view_content *content);
  /* The last event. left: the rank has left in order; otherwise it must give up its runs. */
  void (*end)(void *owner, int left, const char *sentence);
  /* A message was refused, and its sender is suspected. */
  void (*refused)(void *owner, uint32_t from, const char *why);
} df_view_events;

typedef enum {
  DF_VIEW_JOINING,
  DF_VIEW_CURRENT,
  DF_VIEW_FROZEN,
  DF_VIEW_STOPPED,
  DF_VIEW_LEFT
} df_view_phase;

/* Why a suspicion is held back. */
typedef enum {
  DF_HELD_NOT,
  DF_HELD_SILENCE, /* an answer ends it */
  DF_HELD_CUT,     /* the connection of a lower rank has ended, or a notice was read */
  DF_HELD_LEAVER   /* a rank that leaves is gone before INSTALL has arrived */
} df_view_held;

/* Progress of a member's STATE on the coordinator. */
typedef enum { DF_STATE_NONE, DF_STATE_PART, DF_STATE_WHOLE } df_view_state_progress;

typedef struct df_view_peer {
  uint64_t held_until;
  uint64_t since;           /* number of the view that admitted it */
  uint64_t last_collective; /* key of the latest entry of its STATE */
  uint32_t last_registration;
  uint32_t next; /* number of entries of its STATE that have arrived */
  uint16_t incarnation, accuser;
  uint8_t member, open;  /* open: the connection is usable */
  uint8_t suspected;     /* df_evidence, without LEFT */
  uint8_t leaving;       /* agreed like an admit: it has a vote until then */
  uint8_t held;          /* df_view_held */
  uint8_t held_evidence; /* df_evidence */
  uint8_t relayed;       /* it has been sent INSTALL of the current view, or has sent it */
  uint8_t state;         /* df_view_state_progress */
  uint8_t accepted;      /* it has sent ACCEPT for the proposed ballot */
} df_view_peer;

typedef struct df_view_merged {
  df_view_runs runs;
  uint32_t reporters, reserved;
} df_view_merged;

typedef struct df_view {
  df_view_config config;
  const df_view_events *events;
  void *owner;
  uint64_t now_ns;
  df_view_phase phase;
  uint64_t number;
  uint32_t n_members, n_suspects, n_leaving;
  int awaits_report, reported; /* in this attempt */
  int admits, newcomer_gone;
  df_view_item newcomer;
  df_view_ballot promised;
  int proposing; /* coordinator: the accepted content is proposed by its own ballot */
  uint32_t best_from;
  int newcomers_differ, reported_gone, has_reported_newcomer;
  df_view_item reported_newcomer;
  df_view_item refusal; /* a member that has a reason (value) to take nobody in; value 0: none */
  df_view_content accepted, installed;
  df_view_content offered, arriving; /* parts of PROPOSAL, and of INSTALL */
  df_view_content best;              /* coordinator: the accepted content with the highest ballot */
  df_view_runs *own;                 /* the latest report */
  uint32_t n_own;
  df_view_merged *merged; /* coordinator: sums of the STATEs */
  uint32_t n_merged;
  df_view_peer *peers;
  uint8_t *buffer; /* for the message that is being written */
  char sentence[DF_SENTENCE_BYTES];
} df_view;

/* Returns the bytes of memory that a machine needs. */
size_t df_view_memory(const df_view_config *config);
/* memory: aligned as malloc does; it belongs to the machine until its end. buffer: of
 * DF_VIEW_MESSAGE_BYTES, used only during a call, so several machines of a thread may share it. No
 * other rank is connected. */
void df_view_open(df_view *view, const df_view_config *config, const df_view_events *events,
                  void *owner, void *memory, void *buffer);

/* The members of the first view, with which the job begins. Each is connected. A newcomer does not
 * call it. */
void df_view_start(df_view *view, uint64_t number, const df_view_item *members, uint32_t n);

/* A connection to this rank was made. Returns 0 if an earlier incarnation of the rank is still a
 * member, or its connection is open: the caller refuses the connection, and the rank calls again.
 * The caller reports the end of the earlier process, and its word of a notice, before. */
int df_view_connected(df_view *view, uint32_t rank);

/* In all of the following, now_ns is the time of a steady clock. */

/* The connection has ended, after everything that had arrived on it was given to df_view_receive.
 * gone: the kernel has reported the end of the process, and the word of a notice in shared memory
 * was read afterwards and is not set. */
void df_view_disconnected(df_view *view, uint32_t rank, int gone, uint64_t now_ns);
/* The rank does not answer (DF_EVIDENCE_SILENT), is excluded by the application (_ASKED), or its
 * process has ended (_CERTAIN, after the word of a notice was read as above). */
void df_view_suspect(df_view *view, uint32_t rank, df_evidence evidence, uint64_t now_ns);
/* The word of a notice in shared memory is set. */
void df_view_noticed(df_view *view, uint32_t rank, uint64_t now_ns);
/* This rank leaves. All its runs have completed. It stays connected until the event end. */
void df_view_leave(df_view *view, uint64_t now_ns);
/* This rank's part of an admit, which all members call between the same runs: all runs before it
 * have completed on this rank. It ends with a view that has ADMITTED or CANCELLED. rank: of the
 * newcomer; or of this rank, which takes nobody in: incarnation is then 0, or a reason that the
 * content of the view has as its newcomer's value, whatever other members say. */
void df_view_admit(df_view *view, uint32_t rank, uint32_t incarnation, uint64_t now_ns);

/* Whether the caller must report runs. */
int df_view_awaits_report(const df_view *view);
/* The runs of each collective that has a suspect or a leaving rank among its members, in ascending
 * order of id and registration, after they were stopped. A collective that this rank has
 * deregistered is reported until all members have done so. */
void df_view_report(df_view *view, const df_view_runs *runs, uint32_t n, uint64_t now_ns);

/* The payload of a message of this rank, in the order in which it has sent them. A message that is
 * malformed or contradicts the protocol makes its sender suspected. */
void df_view_receive(df_view *view, uint32_t from, const void *payload, size_t bytes,
                     uint64_t now_ns);

/* The next time at which df_view_tick has something to do; UINT64_MAX: none. */
uint64_t df_view_deadline(const df_view *view);
void df_view_tick(df_view *view, uint64_t now_ns);

/* Whether the rank neither is lost for the next view nor leaves. */
int df_view_survives(const df_view *view, uint32_t rank);
const char *df_view_phase_name(df_view_phase phase);
const char *df_evidence_words(uint32_t evidence);

#endif
