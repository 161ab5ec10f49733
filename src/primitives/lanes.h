/* Lanes: the threads that execute one block, one on a CPU, many on CUDA. The leader lane decides;
 * all lanes move data. */
#ifndef DF_PRIMITIVES_LANES_H
#define DF_PRIMITIVES_LANES_H

#include "base/atomic.h"
#include "context/descriptor.h"
#include "primitives/link.h"
#include "primitives/prepared.h"
#include "primitives/timers.h"

typedef struct df_move {
  uint32_t kind;       /* df_move_kind */
  uint32_t decided[2]; /* df_step_result; steps use the two words alternately */
  uint32_t committed;  /* df_step_result */
  void *store;         /* where the result is stored; or NULL */
  void *slot;          /* where the message is written, in a link's slot; or NULL */
  const void *a;       /* operands: a (op) b, or only a */
  const void *b;
  const void *lent; /* the borrowed buffer of the peer */
  uint64_t count;   /* number of elements */
  uint8_t type, op, stream, element_bytes;
  /* CPU only; on CUDA they are unused, so that both compilers have one layout. */
  uint8_t way;      /* df_way of the message that is sent */
  uint8_t tag;      /* its tag (df_commit_tag) */
  uint8_t measures; /* bits: the messages whose times are taken (measure.h) */
  uint32_t divisor;
  df_link *recv_link, *send_link; /* links of this step; NULL: none */
  uint64_t recv_sequence, send_sequence;
  uint32_t lends;
  uint32_t announces; /* bits df_prepared_messages */
  uint32_t borrows;   /* 1: the received message is a lent buffer */
  uint32_t attends;   /* across steps: not 0 if a collective has been given up */
  uint32_t stop;      /* CUDA, across steps: df_stop, published with the next decision */
  uint64_t notified;  /* CUDA, across turns: bits of ranks to which something was sent or
                         returned */
  /* CUDA, LL protocol: the received slot and its flag; the flag to send. 0: not LL. */
  const void *recv_flagged;
  uint32_t recv_flag, send_flag;
  df_prepared worked_out; /* the primitive, if the collective keeps no prepared ones */
  uint32_t is_prepared;   /* CUDA: worked_out and the sequence numbers belong to this primitive */
} df_move;

#if defined(__CUDACC__)

/* The reasons to end a turn. They are the upper bits of a decision, so that one barrier passes both
 * to all lanes. */
typedef enum {
  DF_STOP_LIMIT = 1 << 8, /* the spin threshold has run out */
  DF_STOP_LEAVE = 1 << 9, /* the launch has ended for this block, or a transfer is due */
  DF_STOP_INPUT = 1 << 10 /* the run's input is not there yet, so the block does not spin for it */
} df_stop;
enum { DF_STOP_MASK = DF_STOP_LIMIT | DF_STOP_LEAVE | DF_STOP_INPUT };

typedef struct df_lanes {
  uint32_t index, count;
  df_move *move;      /* in shared memory */
  df_timers *timers;  /* NULL: no timers; constant in a kernel */
  uint32_t alternate; /* the same in all lanes */
  uint64_t held;      /* the lane's first payload in the LL protocol */
  uint32_t stop;      /* df_stop of the latest decision, the same in all lanes */
} df_lanes;

DF_CORE void df_lanes_begin(df_lanes *lanes, df_move *move) {
  lanes->move = move;
  lanes->alternate = 0;
  lanes->held = 0;
  lanes->stop = 0;
}
DF_CORE int df_lanes_leads(const df_lanes *lanes) { return lanes->index == 0; }
DF_CORE uint32_t df_lanes_index(const df_lanes *lanes) { return lanes->index; }
DF_CORE uint32_t df_lanes_count(const df_lanes *lanes) { return lanes->count; }
/* All lanes must call it equally often. */
DF_CORE uint32_t df_lanes_alternate(df_lanes *lanes) { return lanes->alternate ^= 1; }
DF_CORE void df_lanes_sync(df_lanes *lanes) {
  (void)lanes;
#if DF_ON_DEVICE
  __syncthreads();
#elif defined(DF_LANES_MEET)
  DF_LANES_MEET(); /* the lanes of a test are threads */
#endif
}
DF_CORE int df_lanes_all(df_lanes *lanes, int fact) {
  (void)lanes;
#if DF_ON_DEVICE
  return __syncthreads_and(fact);
#elif defined(DF_LANES_AGREE)
  return DF_LANES_AGREE(fact);
#else
  return fact;
#endif
}
DF_CORE uint32_t df_lanes_flag(const df_link *link, uint64_t sequence) {
  return link && df_link_has_ll(link) ? df_link_flag(sequence) : 0;
}
/* Called by the leader, when the links are ready. */
DF_CORE void df_lanes_note_flags(df_move *move) {
  const df_link *from = move->announces & DF_MESSAGE_COMES ? move->recv_link : NULL;
  const df_link *to = move->announces & DF_MESSAGE_GOES ? move->send_link : NULL;
  move->recv_flag = df_lanes_flag(from, move->recv_sequence);
  move->send_flag = df_lanes_flag(to, move->send_sequence);
  move->recv_flagged = move->recv_flag ? df_link_slot(from, move->recv_sequence) : NULL;
}
/* Messages in the LL protocol need no announcement: their words have flags. */
DF_CORE int df_lanes_announces(const df_move *move) {
  return (move->send_link && move->announces & DF_MESSAGE_GOES && !move->send_flag) ||
         (move->recv_link && df_link_releases(move->recv_link, move->recv_sequence));
}
/* Returns 1 if all ranks that read the message or the credit are on this GPU. */
DF_CORE int df_lanes_stays_near(const df_move *move) {
  return (!move->send_link || move->send_link->same_process) &&
         (!move->recv_link || move->recv_link->same_process);
}
/* One fence is enough: the barrier orders all lanes' accesses before it, and a fence of system
 * scope is cumulative. */
DF_CORE void df_lanes_complete_move(df_lanes *lanes) {
  df_lanes_sync(lanes);
  if (!df_lanes_leads(lanes) || !df_lanes_announces(lanes->move)) return;
  if (df_lanes_stays_near(lanes->move))
    df_device_release_fence();
  else
    df_release_fence();
}
/* Called by the leader when the cursor moves or another cursor is used. */
DF_CORE void df_lanes_forget_prepared(df_lanes *lanes) { lanes->move->is_prepared = 0; }
/* Called by the leader. */
DF_CORE uint32_t df_lanes_with_stop(const df_move *move, uint32_t decision) {
  return decision | move->stop;
}
/* Called by the leader while it decides. */
DF_CORE void df_lanes_note_no_input(const df_lanes *lanes) { lanes->move->stop |= DF_STOP_INPUT; }
/* Returns 1 if the latest decision was that the run's input is missing. */
DF_CORE int df_lanes_miss_input(const df_lanes *lanes) {
  return (lanes->stop & DF_STOP_INPUT) != 0;
}
DF_CORE int df_lanes_are_timed(const df_lanes *lanes) { return lanes->timers != NULL; }
/* Called by all lanes. */
DF_CORE uint32_t df_lanes_take_stop(df_lanes *lanes, uint32_t word) {
  lanes->stop = word & DF_STOP_MASK;
  return word & ~(uint32_t)DF_STOP_MASK;
}
/* The cancel words are across the bus, so they are read only if some collective has been given up.
 * */
DF_CORE int df_lanes_attend(const df_lanes *lanes) { return lanes->move->attends != 0; }
DF_CORE void df_lanes_pause(df_lanes *lanes, uint32_t polls) {
  (void)lanes;
  (void)polls;
  df_pause();
}
/* Peers on a running daemon poll, so they need no bell. The host rings for daemons that may have
 * left, and reads the ranks from df_block.notified. */
DF_CORE void df_lanes_note_peer(df_lanes *lanes, const df_link *link) {
  lanes->move->notified |= 1ull << link->peer % DF_NOTIFIED_RANKS;
}
DF_CORE void df_lanes_ring_bells(df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_note_stuck(df_lanes *lanes) { (void)lanes; }
/* Called by the leader. Starts a time that n actions share. */
DF_CORE void df_lanes_start_timer(const df_lanes *lanes) {
  if (lanes->timers) df_timers_start(lanes->timers);
}
DF_CORE void df_lanes_note_time(const df_lanes *lanes, df_timed kind, uint64_t n) {
  if (lanes->timers) df_timers_note(lanes->timers, kind, n);
}
/* generation: the collective's. pending: its runs in the block. length: of the task queue. */
DF_CORE void df_lanes_note_event(const df_lanes *lanes, df_event_kind kind, uint32_t collective,
                                 uint32_t generation, uint32_t pending, uint32_t length) {
  (void)generation;
  if (lanes->timers) df_timers_note_event(lanes->timers, kind, collective, pending, length);
}
/* Turns are recorded on the CPU only. */
DF_CORE int df_lanes_log_turns(const df_lanes *lanes) {
  (void)lanes;
  return 0;
}
DF_CORE void df_lanes_begin_turn(const df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_log_wait(const df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_log_step(const df_lanes *lanes) { (void)lanes; }
DF_CORE void df_lanes_open_times(const df_lanes *lanes, df_time_log *logs, uint32_t block) {
  if (lanes->timers) df_timers_enter(lanes->timers, &logs[block]);
}
DF_CORE void df_lanes_publish_times(const df_lanes *lanes) {
  if (lanes->timers) df_timers_publish(lanes->timers);
}

#else

#include "base/cpu.h"
#include "primitives/movers/mover_cpu.h"
#include "primitives/turn_log.h"

enum { DF_NOTED_BELLS = 8, DF_RING_POLLS = 16 };

typedef enum {
  DF_INTERRUPT_DRIVES = 1, /* another thread wants to become the driver */
  DF_INTERRUPT_LEAVES = 2  /* this value or more: set the collective aside */
} df_interrupt;

typedef struct df_lanes {
  df_move *move;
  const df_mover_cpu *mover;
  const uint32_t *interrupt; /* 0, or a df_interrupt */
  uint32_t yield_polls;      /* number of polls between yields of the processor */
  uint32_t n_noted;
  uint64_t waits_on;              /* bits of the processors (modulo 64) of awaited peers */
  const void *late;               /* source of a store that follows the announcement; or NULL */
  df_bell *noted[DF_NOTED_BELLS]; /* bells to ring later */
  const df_carrier *carrier;      /* links of this step; NULL: none */
  df_turn_log *turns;             /* NULL: turns are not recorded */
  int unread; /* error number with which the borrowed buffer could not be read; 0: none */
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
DF_CORE void df_lanes_forget_prepared(df_lanes *lanes) { (void)lanes; }
DF_CORE uint32_t df_lanes_with_stop(const df_move *move, uint32_t decision) {
  (void)move;
  return decision;
}
DF_CORE uint32_t df_lanes_take_stop(df_lanes *lanes, uint32_t word) {
  (void)lanes;
  return word;
}
DF_CORE void df_lanes_note_no_input(const df_lanes *lanes) { (void)lanes; }
DF_CORE int df_lanes_miss_input(const df_lanes *lanes) {
  (void)lanes;
  return 0;
}
DF_CORE int df_lanes_are_timed(const df_lanes *lanes) { return DF_UNLIKELY(lanes->turns != NULL); }
DF_CORE int df_lanes_interrupted(const df_lanes *lanes) {
  return df_load_relaxed_u32(lanes->interrupt) != 0;
}
DF_CORE int df_lanes_must_leave(const df_lanes *lanes) {
  return df_load_relaxed_u32(lanes->interrupt) >= DF_INTERRUPT_LEAVES;
}
DF_CORE int df_lanes_attend(const df_lanes *lanes) {
  (void)lanes;
  return 1;
}

/* Called as late as possible, so that messages between ranks that are awake cost no fence. */
DF_CORE void df_lanes_ring_bells(df_lanes *lanes) {
  if (lanes->n_noted == 0) return;
  df_wake_fence();
  for (uint32_t i = 0; i < lanes->n_noted; i++)
    if (DF_UNLIKELY(df_load_relaxed_u32(&lanes->noted[i]->sleepers) != 0))
      df_carrier_wake(lanes->carrier, lanes->noted[i]);
  lanes->n_noted = 0;
}
DF_CORE void df_lanes_note_bell(df_lanes *lanes, df_bell *bell) {
  for (uint32_t i = 0; i < lanes->n_noted; i++)
    if (lanes->noted[i] == bell) return;
  if (lanes->n_noted == DF_NOTED_BELLS) df_lanes_ring_bells(lanes);
  lanes->noted[lanes->n_noted++] = bell;
}
DF_CORE void df_lanes_note_peer(df_lanes *lanes, const df_link *link) {
  df_lanes_note_bell(lanes, link->peer_bell);
}
DF_CORE void df_lanes_pause(df_lanes *lanes, uint32_t polls) {
  if (polls == DF_RING_POLLS) df_lanes_ring_bells(lanes);
  if (polls % lanes->yield_polls == 0)
    df_cpu_yield();
  else
    df_pause();
}
/* Records the processor of the awaited peer. */
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
DF_CORE void df_lanes_note_event(const df_lanes *lanes, df_event_kind kind, uint32_t collective,
                                 uint32_t generation, uint32_t pending, uint32_t length) {
  if (DF_UNLIKELY(lanes->turns != NULL))
    df_turn_log_note(lanes->turns, kind, collective, generation, pending, length);
}
DF_CORE int df_lanes_log_turns(const df_lanes *lanes) { return DF_UNLIKELY(lanes->turns != NULL); }
DF_CORE void df_lanes_begin_turn(const df_lanes *lanes) {
  if (DF_UNLIKELY(lanes->turns != NULL)) df_turn_log_begin(lanes->turns);
}
/* Called after each poll without success. */
DF_CORE void df_lanes_log_wait(const df_lanes *lanes) {
  const df_move *move = lanes->move;
  if (DF_UNLIKELY(lanes->turns != NULL))
    df_turn_log_wait(lanes->turns, move->send_link ? move->send_link : move->recv_link);
}
/* Called after each success. */
DF_CORE void df_lanes_log_step(const df_lanes *lanes) {
  if (DF_UNLIKELY(lanes->turns != NULL)) df_turn_log_step(lanes->turns);
}
DF_CORE void df_lanes_open_times(const df_lanes *lanes, df_time_log *logs, uint32_t block) {
  (void)lanes;
  (void)logs;
  (void)block;
}
DF_CORE void df_lanes_publish_times(const df_lanes *lanes) { (void)lanes; }

#endif
#endif
