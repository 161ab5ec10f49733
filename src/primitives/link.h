/*
 * Link: joins two ranks for one collective, one block, one direction. So a preempted, half-finished
 * collective never shares a slot with another one. A link is a ring of slots in the receiver's
 * memory, and one credit word beside it.
 *
 * Slot: [commit word][payload]. The commit word carries the message's sequence number, hence its
 * lap. The payload
 *   - begins right behind it (flagged: small payloads; data and flag share the line that is polled,
 *     and the smallest slots share lines), or
 *   - begins at the next line (staged: slots stay in cache while they travel), or
 *   - is an address (direct: the receiver reads the sender's buffer; the credit gives it back).
 *
 * On a CUDA device small payloads travel in words: the slot has no commit word, and each of its
 * 8-byte words is 4 bytes of payload below a flag of 4, which follows from the sequence number. A
 * word tells of its own arrival, in whatever order words come: payload and announcement need no
 * order, and one crossing brings both.
 *
 * Sequence numbers follow from the cursor: ((run * loops + loop) * messages + ordinal) + 1, modulo
 * 2^63.
 */
#ifndef DF_PRIMITIVES_LINK_H
#define DF_PRIMITIVES_LINK_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/bell.h"
#include "base/limits.h"
#if !defined(__CUDACC__)
#include "base/clock.h"
#endif

typedef struct DF_ALIGNED(64) df_link {
  uint8_t *slots;
  uint64_t *credit;     /* the last message that the receiver is done with */
  df_bell *peer_bell;   /* rung when the peer may be asleep */
  uint64_t credit_seen; /* the sender's copy of *credit, never ahead of it */
  uint32_t stride;      /* bytes from slot to slot */
  uint32_t slot_mask;
  uint32_t messages; /* in each loop */
  uint32_t peer;     /* rank in the context */
  uint8_t payload_offset;
  uint8_t same_process; /* the peer can read any address of ours */
  uint8_t sends;        /* 1: this end is the sender's */
  uint8_t far_looks;    /* the latest looks at the credit, a bit each: 1: its line came from afar */
  /* Not 0: the receiver gives slots back so many and one at a time, and nothing is lent. Less than
   * the ring's depth (df_link_release). */
  uint16_t release_mask;
  uint16_t far_ns; /* a line that takes so long comes from afar; 0: not looked at */
  const struct df_windows *windows; /* where the peer's lent buffers must lie; NULL: anywhere */
} df_link;
DF_STATIC_ASSERT(sizeof(df_link) == 64, "a link's local end is one cache line");

enum {
  DF_LINK_WORDS = 1,          /* in place of an offset: payload in words */
  DF_LINK_FLAGGED_OFFSET = 8, /* payload behind the commit word */
  DF_LINK_STAGED_OFFSET = 64  /* payload at the next line */
};

/* A reach (else a multiple of a page): the peer cannot see that memory. */
#define DF_OUT_OF_REACH 1ull
#define DF_SEQUENCE_MASK (~(uint64_t)0 >> 1)

/*
 * An older, longer message than the slot's latest may have written a word. Lengths repeat with each
 * run, so such a word is written again within loops * messages * slots messages. As long as these
 * are fewer than there are flags, no old word has a later message's flag.
 */
enum {
  DF_LINK_WORD_PAYLOAD = 4,
  DF_LINK_WORDS_LOOPS = 64 /* most loops of a collective whose payload travels in words */
};
#define DF_LINK_FLAG 0x80000000u /* in every flag: a cleared word has none */
DF_STATIC_ASSERT((uint64_t)DF_LINK_WORDS_LOOPS *(UINT16_MAX + 1) * DF_MAX_LINK_SLOTS < DF_LINK_FLAG,
                 "a flag comes back only when the word has been written anew");

DF_CORE uint32_t df_link_flag(uint64_t sequence) { return (uint32_t)sequence | DF_LINK_FLAG; }

#if defined(__CUDACC__)
DF_CORE int df_link_has_words(const df_link *link) { return link->payload_offset == DF_LINK_WORDS; }
#else /* the CPU device has none: it publishes by a release, which is no fence */
DF_CORE int df_link_has_words(const df_link *link) {
  (void)link;
  return 0;
}
#endif

DF_CORE uint8_t *df_link_slot(const df_link *link, uint64_t sequence) {
  return link->slots + (sequence & link->slot_mask) * (uint64_t)link->stride;
}

/*
 * Distance. If two ranks' processors have no cache in common, each line of a slot crosses between
 * their caches twice: such slots are better written past the caches (move_cpu.h). The sender learns
 * the distance from the credit: the receiver has written its line, and the look that finds it
 * changed has fetched it.
 */
DF_CORE int df_link_is_far(const df_link *link) {
  enum { LOOKS = 7 }; /* the latest three; two of them tell: one may have been interrupted */
  uint32_t far = link->far_looks & LOOKS;
  return (far & (far - 1)) != 0;
}

#if !defined(__CUDACC__)
static inline uint64_t df_link_time_credit(df_link *link) {
  uint64_t before = df_clock_ns();
  uint64_t credit = df_observe_u64(link->credit);
  uint64_t ns = df_clock_ns() - before;
  if (credit != link->credit_seen)
    link->far_looks = (uint8_t)(link->far_looks << 1 | (ns >= link->far_ns));
  return credit;
}
#endif

DF_CORE uint64_t df_link_look_at_credit(df_link *link) {
#if !defined(__CUDACC__)
  if (link->far_ns != 0) return df_link_time_credit(link);
#endif
  return df_observe_u64(link->credit);
}

/* The slot's payload, or its words. */
DF_CORE uint8_t *df_link_payload(const df_link *link, uint64_t sequence) {
  uint8_t *slot = df_link_slot(link, sequence);
  return df_link_has_words(link) ? slot : slot + link->payload_offset;
}

/* Sender: may message `sequence` be written? Then the receiver is done with the slot's former
 * message. */
DF_CORE int df_link_may_send(df_link *link, uint64_t sequence) {
  uint64_t depth = (uint64_t)link->slot_mask + 1;
  if (((sequence - link->credit_seen) & DF_SEQUENCE_MASK) <= depth) return 1;
  /* Pairs with df_link_release: its reads precede our writes. */
  link->credit_seen = df_link_look_at_credit(link);
  return ((sequence - link->credit_seen) & DF_SEQUENCE_MASK) <= depth;
}

/* Sender: has the receiver released everything up to and including `sequence`? */
DF_CORE int df_link_is_drained(df_link *link, uint64_t sequence) {
  if (((link->credit_seen - sequence) & DF_SEQUENCE_MASK) < DF_SEQUENCE_MASK / 2) return 1;
  link->credit_seen = df_observe_u64(link->credit);
  return ((link->credit_seen - sequence) & DF_SEQUENCE_MASK) < DF_SEQUENCE_MASK / 2;
}

DF_CORE void df_link_publish(df_link *link, uint64_t sequence, int is_direct) {
  if (df_link_has_words(link)) return; /* each word has published itself */
  /* Publishes the payload (or the lent buffer) written before df_lanes_complete_move. */
  df_publish_fenced_u64((uint64_t *)df_link_slot(link, sequence),
                        sequence << 1 | (is_direct ? 1 : 0));
}

/* Receiver: is message `sequence` there? *is_direct: it lends a buffer. In words only the first one
 * is looked at; df_move_has_arrived looks at the rest. */
DF_CORE int df_link_has_message(const df_link *link, uint64_t sequence, int *is_direct) {
  if (df_link_has_words(link)) {
    *is_direct = 0;
    return df_load_relaxed_u64((const uint64_t *)df_link_slot(link, sequence)) >> 32 ==
           df_link_flag(sequence);
  }
  uint64_t commit = df_observe_u64((const uint64_t *)df_link_slot(link, sequence));
  *is_direct = (int)(commit & 1);
  return commit >> 1 == (sequence & DF_SEQUENCE_MASK);
}

/* Receiver: is done with message `sequence`. In deep rings of small messages it tells the sender
 * once in so many messages, so that the credit's line does not go to and fro at each. Returns 1
 * when the sender was told. */
DF_CORE int df_link_releases(const df_link *link, uint64_t sequence) {
  return !(sequence & link->release_mask);
}
DF_CORE int df_link_release(df_link *link, uint64_t sequence) {
  if (!df_link_releases(link, sequence)) return 0;
  /* Our reads of the payload, before df_lanes_complete_move, come before the sender's next write of
   * it. */
  df_publish_fenced_u64(link->credit, sequence & DF_SEQUENCE_MASK);
  return 1;
}

/*
 * The hold word, behind the credit, guards lent buffers when a run fails. The receiver holds it
 * while it reads. The sender takes it away for good before its buffers go back to the application.
 * Free: 0.
 */
enum { DF_HOLD_READING = 1, DF_HOLD_REVOKED = 2 };

/* Receiver: may the lent buffer be read? df_link_return gives it back. */
DF_CORE int df_link_borrow(const df_link *link) {
  return df_system_claim_u64(link->credit + 1, 0, DF_HOLD_READING);
}
/* Receiver: has read it. 0: it was seized meanwhile, and what was read counts for nothing. */
DF_CORE int df_link_return(const df_link *link) {
  return df_system_claim_u64(link->credit + 1, DF_HOLD_READING, 0);
}
DF_CORE int df_link_is_revoked(const df_link *link) {
  return df_observe_u64(link->credit + 1) == DF_HOLD_REVOKED;
}
/* Sender: 1: nothing that it has lent is read any more. 0: it is being read at the moment. */
DF_CORE int df_link_revoke(const df_link *link) {
  return df_link_is_revoked(link) || df_system_claim_u64(link->credit + 1, 0, DF_HOLD_REVOKED);
}
/* Sender, after df_link_revoke returned 0: does not wait for the receiver, which may have died, and
 * can do no harm by reading on. 0: the word changes just now. */
DF_CORE int df_link_seize(const df_link *link) {
  uint64_t held = df_observe_u64(link->credit + 1);
  return df_system_claim_u64(link->credit + 1, held, DF_HOLD_REVOKED);
}

/* Bytes of one slot, and of a whole ring with its credit line, for payloads of at most
 * payload_bytes. */
static inline uint32_t df_link_stride(uint64_t payload_bytes, uint32_t payload_offset) {
  if (payload_offset == DF_LINK_WORDS) /* pairs of words */
    return (uint32_t)DF_ALIGN_UP(2 * DF_ALIGN_UP(payload_bytes, 2u * DF_LINK_WORD_PAYLOAD),
                                 DF_CACHE_LINE);
  return (uint32_t)DF_ALIGN_UP(payload_bytes + payload_offset, DF_CACHE_LINE);
}
/* Slots that share lines: a receiver some messages behind its sender finds several in a line. The
 * smallest lie within a line each. DF_PACKED_SLOTS of them end where a line ends, so that the
 * credit begins one. */
enum { DF_PACKED_SLOTS = DF_CACHE_LINE / 8 };
static inline uint32_t df_link_packed_stride(uint64_t payload_bytes) {
  const uint64_t bytes = DF_ALIGN_UP(payload_bytes + DF_LINK_FLAGGED_OFFSET, (uint64_t)8);
  if (payload_bytes > DF_PACKED_WHOLE_MAX) return (uint32_t)bytes;
  return bytes > DF_CACHE_LINE / 4 ? DF_CACHE_LINE / 2 : DF_CACHE_LINE / 4;
}
static inline uint64_t df_link_ring_bytes(uint32_t stride, uint32_t n_slots) {
  return (uint64_t)stride * n_slots + 2 * DF_CACHE_LINE;
}

#endif
