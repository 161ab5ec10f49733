/*
 * Lanes: the threads that execute one block. A CPU block has one and no barrier; a CUDA block has
 * many. One, the leader, decides; all of them move data.
 */
#ifndef DF_PRIMITIVES_LANES_H
#define DF_PRIMITIVES_LANES_H

#include "base/atomic.h"
#include "context/descriptor.h"
#include "primitives/link.h"
#include "primitives/prepared.h"
#include "primitives/timers.h"

/* What one step decided: the movement to execute and what to announce after it. */
typedef struct df_move {
  uint32_t kind;       /* df_move_kind */
  uint32_t decided[2]; /* df_step_result, for the other lanes: of every other step */
  uint32_t committed;  /* df_step_result of a step that moved something */
  void *store;         /* first destination, or NULL */
  void *slot;          /* second destination (a link's slot), or NULL */
  const void *a;       /* received, or the only source */
  const void *b;       /* local source of a reduction */
  const void *lent;    /* the lent buffer that was received */
  uint64_t count;      /* elements */
  uint8_t type, op, stream, element_bytes;
  uint32_t divisor;
  df_link *recv_link, *send_link; /* NULL: the primitive has none */
  uint64_t recv_sequence, send_sequence;
  uint32_t lends;     /* the message lends a buffer */
  uint32_t announces; /* 0: an empty message, which is not sent */
  uint32_t borrows;   /* what was received is a lent buffer */
  uint32_t attends;   /* across steps: the host has given up a collective */
  /* CUDA: the received slot, if its words have flags, and their flag; the flag for the words to be
   * sent, 0: none. */
  const void *recv_flagged;
  uint32_t recv_flag, send_flag;
  df_prepared worked_out; /* the leader's: the primitive's record, if none is kept */
} df_move;

#if defined(__CUDACC__)

typedef struct df_lanes {
  uint32_t index, count;
  df_move *move;      /* in shared memory */
  df_timers *timers;  /* NULL: nothing is timed. A constant of each kernel */
  uint32_t alternate; /* 0 or 1, the same for all lanes */
  uint64_t held;      /* payload of the first pair of words that this lane has found */
} df_lanes;

/* All lanes, first of all. Index and count are set. */
DF_CORE void df_lanes_begin(df_lanes *lanes, df_move *move) {
  lanes->move = move;
  lanes->alternate = 0;
  lanes->held = 0;
}
DF_CORE int df_lanes_leads(const df_lanes *lanes) { return lanes->index == 0; }
DF_CORE uint32_t df_lanes_index(const df_lanes *lanes) { return lanes->index; }
DF_CORE uint32_t df_lanes_count(const df_lanes *lanes) { return lanes->count; }
/* 0 and 1 in turn. All lanes call it equally often. */
DF_CORE uint32_t df_lanes_alternate(df_lanes *lanes) { return lanes->alternate ^= 1; }
DF_CORE void df_lanes_sync(df_lanes *lanes) {
  (void)lanes;
#if DF_ON_DEVICE
  __syncthreads();
#elif defined(DF_LANES_MEET)
  DF_LANES_MEET(); /* a test executes lanes as threads of the host */
#endif
}
/* All lanes meet. Does the fact hold for each of them? */
DF_CORE int df_lanes_all(df_lanes *lanes, int fact) {
  (void)lanes;
#if DF_ON_DEVICE
  return __syncthreads_and(fact);
#elif defined(DF_LANES_AGREE)
  return DF_LANES_AGREE(fact);
#else
  return fact; /* one lane after the other */
#endif
}
DF_CORE uint32_t df_lanes_flag(const df_link *link, uint64_t sequence) {
  return link && df_link_has_words(link) ? df_link_flag(sequence) : 0;
}
/* Leader, once the links are ready: what is in words? */
DF_CORE void df_lanes_note_flags(df_move *move) {
  const df_link *from = move->announces ? move->recv_link : NULL;
  const df_link *to = move->announces ? move->send_link : NULL;
  move->recv_flag = df_lanes_flag(from, move->recv_sequence);
  move->send_flag = df_lanes_flag(to, move->send_sequence);
  move->recv_flagged = move->recv_flag ? df_link_slot(from, move->recv_sequence) : NULL;
}
/* Will the leader announce anything by df_publish_fenced? */
DF_CORE int df_lanes_announces(const df_move *move) {
  return (move->send_link && move->announces && !move->send_flag) ||
         (move->recv_link && df_link_releases(move->recv_link, move->recv_sequence));
}
/* After a move, before the leader announces it by df_publish_fenced. One fence is enough for all
 * lanes: the barrier orders their accesses before it, and a fence of system scope is cumulative.
 * Words need none. */
DF_CORE void df_lanes_complete_move(df_lanes *lanes) {
  df_lanes_sync(lanes);
  if (df_lanes_leads(lanes) && df_lanes_announces(lanes->move)) df_release_fence();
}
DF_CORE int df_lanes_interrupted(const df_lanes *lanes) {
  (void)lanes;
  return 0;
}
DF_CORE int df_lanes_told_to_leave(const df_lanes *lanes) {
  (void)lanes;
  return 0;
}
/* Is a look at the cancel word worth while? It is across the bus: only if the host has given up
 * some collective. */
DF_CORE int df_lanes_attend(const df_lanes *lanes) { return lanes->move->attends != 0; }
DF_CORE void df_lanes_pause(df_lanes *lanes, uint32_t polls) {
  (void)lanes;
  (void)polls;
  df_pause();
}
DF_CORE void df_lanes_note_bell(df_lanes *lanes, df_bell *bell) {
  (void)lanes;
  (void)bell; /* a device's peers poll: they do not sleep */
}
DF_CORE void df_lanes_ring_bells(df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_note_stuck(df_lanes *lanes) { (void)lanes; }
/* Leader: begins to take a time; notes it for what was done n times (0: not at all). */
DF_CORE void df_lanes_start_timer(const df_lanes *lanes) {
  if (lanes->timers) df_timers_start(lanes->timers);
}
DF_CORE void df_lanes_note_time(const df_lanes *lanes, df_timed kind, uint64_t n) {
  if (lanes->timers) df_timers_note(lanes->timers, kind, n);
}
/* Leader: at the beginning of a launch; when the block begins to wait, or leaves. */
DF_CORE void df_lanes_open_times(const df_lanes *lanes, df_time_log *logs, uint32_t block) {
  if (lanes->timers) df_timers_enter(lanes->timers, &logs[block]);
}
DF_CORE void df_lanes_publish_times(const df_lanes *lanes) {
  if (lanes->timers) df_timers_publish(lanes->timers);
}

#else

#include "base/cpu.h"
#include "primitives/mover_cpu.h"

enum { DF_NOTED_BELLS = 8, DF_RING_POLLS = 16 };

/* What ends a turn before the collective's polls are at their end. */
typedef enum {
  DF_INTERRUPT_DRIVES = 1, /* another thread wants to drive, and goes on with the collective */
  DF_INTERRUPT_LEAVES = 2  /* this or more: the block is to leave: sets the collective aside */
} df_interrupt;

typedef struct df_lanes {
  df_move *move;
  const df_mover_cpu *mover;
  const uint32_t *interrupt; /* 0: nothing; else df_interrupt */
  uint32_t yield_polls;      /* polls of one primitive between two yields of the core */
  uint32_t n_noted;
  uint64_t waits_on; /* bits, modulo 64: where peers that we wait for were last seen */
  const void *late;  /* what the step stores once its message is announced; NULL: nothing */
  df_bell *noted[DF_NOTED_BELLS]; /* peers to wake once we have nothing better to do */
} df_lanes;

DF_CORE void df_lanes_begin(df_lanes *lanes, df_move *move) { lanes->move = move; }
DF_CORE int df_lanes_leads(const df_lanes *lanes) {
  (void)lanes;
  return 1;
}
DF_CORE uint32_t df_lanes_index(const df_lanes *lanes) {
  (void)lanes;
  return 0;
}
DF_CORE uint32_t df_lanes_count(const df_lanes *lanes) {
  (void)lanes;
  return 1;
}
DF_CORE uint32_t df_lanes_alternate(df_lanes *lanes) {
  (void)lanes;
  return 0;
}
DF_CORE void df_lanes_sync(df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_note_flags(df_move *move) { (void)move; }
DF_CORE void df_lanes_complete_move(df_lanes *lanes) { (void)lanes; }
DF_CORE int df_lanes_interrupted(const df_lanes *lanes) {
  return df_load_relaxed_u32(lanes->interrupt) != 0;
}
DF_CORE int df_lanes_told_to_leave(const df_lanes *lanes) {
  return df_load_relaxed_u32(lanes->interrupt) >= DF_INTERRUPT_LEAVES;
}
DF_CORE int df_lanes_attend(const df_lanes *lanes) {
  (void)lanes;
  return 1;
}

/* Wakes the peers that sleep, once this block waits, completes or changes its collective: a message
 * between two awake ranks costs no fence. */
DF_CORE void df_lanes_ring_bells(df_lanes *lanes) {
  if (lanes->n_noted == 0) return;
  df_wake_fence();
  for (uint32_t i = 0; i < lanes->n_noted; i++)
    if (DF_UNLIKELY(df_load_relaxed_u32(&lanes->noted[i]->sleepers) != 0))
      df_bell_wake(lanes->noted[i]);
  lanes->n_noted = 0;
}
DF_CORE void df_lanes_note_bell(df_lanes *lanes, df_bell *bell) {
  for (uint32_t i = 0; i < lanes->n_noted; i++)
    if (lanes->noted[i] == bell) return;
  if (lanes->n_noted == DF_NOTED_BELLS) df_lanes_ring_bells(lanes);
  lanes->noted[lanes->n_noted++] = bell;
}
DF_CORE void df_lanes_pause(df_lanes *lanes, uint32_t polls) {
  if (polls == DF_RING_POLLS) df_lanes_ring_bells(lanes);
  if (polls % lanes->yield_polls == 0)
    df_cpu_yield();
  else
    df_pause();
}
/* The collective is set aside, being stuck: notes on which processor the peer is that could help
 * it. */
DF_CORE void df_lanes_note_stuck(df_lanes *lanes) {
  const df_move *move = lanes->move;
  const df_link *link = move->send_link ? move->send_link : move->recv_link;
  uint32_t cpu = link ? df_load_relaxed_u32(&link->peer_bell->cpu) : 0;
  if (cpu != 0) lanes->waits_on |= 1ull << (cpu - 1) % 64;
}
DF_CORE void df_lanes_start_timer(const df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_note_time(const df_lanes *lanes, df_timed kind, uint64_t n) {
  (void)lanes;
  (void)kind;
  (void)n;
}
DF_CORE void df_lanes_open_times(const df_lanes *lanes, df_time_log *logs, uint32_t block) {
  (void)lanes;
  (void)logs;
  (void)block;
}
DF_CORE void df_lanes_publish_times(const df_lanes *lanes) { (void)lanes; }

#endif
#endif
