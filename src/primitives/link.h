/* A link joins two ranks for one collective, one block and one direction, so a preempted collective
 * never shares a slot. It is a ring of slots in the receiver's memory and a credit word. A slot is
 * [commit word][payload]. The payload is in the same line (flagged), begins at the next line
 * (staged), or is an address (direct, a lent buffer; the credit returns the buffer). Varying
 * collectives have no flagged messages, because the run's count is stored behind the address. */
#ifndef DF_PRIMITIVES_LINK_H
#define DF_PRIMITIVES_LINK_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/bell.h"
#include "base/limits.h"
#if !defined(__CUDACC__)
#include "base/clock.h"
#include "primitives/ways.h"
#endif

struct df_ways;

typedef struct DF_ALIGNED(64) df_link {
  uint8_t *slots;
  uint64_t *credit; /* number of the latest message that the receiver has released */
  df_bell *peer_bell;
  uint64_t credit_seen; /* value of *credit that was last read; never ahead of it */
  union {
    /* Sending: chooses the ways of messages (primitives/ways.h); NULL: they go to slots through the
     * caches, and are lent if they can be. */
    struct df_ways *ways;
    uint32_t *ways_read; /* receiving: this end's words of each way; NULL: it measures nothing */
  };
  union {
    /* receiving: ranges in which lent buffers must be; NULL: anywhere */
    struct df_mapped_ranges *mapped_ranges;
    uint64_t lend_min; /* sending: messages below this number of bytes are not lent, nor those
                           below the descriptor's direct_min */
  };
  uint32_t stride;   /* bytes from slot to slot */
  uint32_t messages; /* number of messages of one loop */
  uint16_t peer;     /* rank number in the context */
  uint8_t slot_mask;
  /* Not 0: the receiver releases release_mask + 1 slots at a time, and nothing is lent. Less than
   * the depth. */
  uint8_t release_mask;
  uint8_t payload_offset;
  uint8_t same_process; /* 1: the peer can read all memory of this process; CUDA: it is also on the
                           same GPU */
  uint8_t sends;
} df_link;
DF_STATIC_ASSERT(sizeof(df_link) == 64, "a link's local end is one cache line");
DF_STATIC_ASSERT(DF_MAX_LINK_SLOTS <= UINT8_MAX + 1 && DF_MAX_RANKS <= UINT16_MAX,
                 "the masks and the peer fit their members");

enum {
  DF_LINK_LL = 1, /* LL protocol: each word of the payload has a flag */
  DF_LINK_FLAGGED_OFFSET = 8,
  DF_LINK_COUNT_OFFSET = 16,
  DF_LINK_STAGED_OFFSET = 64
};

/* Value in place of the difference of a mapping; real differences are multiples of a page. */
#define DF_NOT_MAPPED 1ull
/* A commit word is the message's sequence number and a tag. */
enum { DF_COMMIT_BITS = 4 };
#define DF_SEQUENCE_MASK (~(uint64_t)0 >> DF_COMMIT_BITS)
typedef enum {
  DF_COMMIT_DIRECT = 1, /* the slot has the address of a lent buffer */
  DF_COMMIT_WAY = 2,    /* times df_way: CPU */
  DF_COMMIT_TIMED = 8   /* the receiver measures its move, too: CPU */
} df_commit_tag;

/* LL protocol (CUDA, small payloads): a word has 4 bytes of payload below a flag that is made of
 * the sequence number. Each word shows its own arrival, so words need no order. The word of an
 * older, longer message is rewritten within loops * messages * slots messages, which are fewer than
 * there are flags. */
enum {
  DF_LINK_WORD_PAYLOAD = 4,
  DF_LINK_LL_LOOPS = 64 /* most loops of a collective that uses the LL protocol */
};
#define DF_LINK_FLAG 0x80000000u /* a cleared word has no flag */
DF_STATIC_ASSERT((uint64_t)DF_LINK_LL_LOOPS *(UINT16_MAX + 1) * DF_MAX_LINK_SLOTS < DF_LINK_FLAG,
                 "a flag comes back only when the word has been written anew");

DF_CORE uint32_t df_link_flag(uint64_t sequence) { return (uint32_t)sequence | DF_LINK_FLAG; }

#if defined(__CUDACC__)
DF_CORE int df_link_has_ll(const df_link *link) { return link->payload_offset == DF_LINK_LL; }
#else /* the CPU has no LL protocol */
DF_CORE int df_link_has_ll(const df_link *link) {
  (void)link;
  return 0;
}
#endif

DF_CORE uint8_t *df_link_slot(const df_link *link, uint64_t sequence) {
  return link->slots + (sequence & link->slot_mask) * (uint64_t)link->stride;
}

/* A look that finds the credit changed fetches the credit's line from the receiver's cache, so its
 * time shows how far away the receiver is. */
DF_CORE uint64_t df_link_look_at_credit(df_link *link) {
#if !defined(__CUDACC__)
  if (link->ways && df_ways_wants_look(link->ways)) {
    const uint64_t before = df_clock_ns();
    const uint64_t credit = df_observe_u64(link->credit), ns = df_clock_ns() - before;
    if (credit != link->credit_seen) df_ways_look(link->ways, ns);
    return credit;
  }
#endif
  return df_observe_u64(link->credit);
}

DF_CORE uint8_t *df_link_payload(const df_link *link, uint64_t sequence) {
  uint8_t *slot = df_link_slot(link, sequence);
  return df_link_has_ll(link) ? slot : slot + link->payload_offset;
}

/* Called by the sender. Returns 1 if the slot's former message has been released. */
DF_CORE int df_link_may_send(df_link *link, uint64_t sequence) {
  uint64_t depth = (uint64_t)link->slot_mask + 1;
  if (((sequence - link->credit_seen) & DF_SEQUENCE_MASK) <= depth) return 1;
  /* Pairs with df_link_release: the receiver's reads precede the writes that follow here. */
  link->credit_seen = df_link_look_at_credit(link);
  return ((sequence - link->credit_seen) & DF_SEQUENCE_MASK) <= depth;
}

DF_CORE int df_link_is_drained(df_link *link, uint64_t sequence) {
  if (((link->credit_seen - sequence) & DF_SEQUENCE_MASK) < DF_SEQUENCE_MASK / 2) return 1;
  link->credit_seen = df_observe_u64(link->credit);
  return ((link->credit_seen - sequence) & DF_SEQUENCE_MASK) < DF_SEQUENCE_MASK / 2;
}

/* tag: bits df_commit_tag */
DF_CORE void df_link_publish(df_link *link, uint64_t sequence, uint32_t tag) {
  if (df_link_has_ll(link)) return; /* in the LL protocol the words publish themselves */
  /* Publishes the accesses before df_lanes_complete_move: the payload or the lent buffer. */
  df_publish_fenced_u64((uint64_t *)df_link_slot(link, sequence), sequence << DF_COMMIT_BITS | tag);
}

/* Called by the receiver. In the LL protocol it checks only the first word; df_move_has_arrived
 * checks all. */
DF_CORE int df_link_has_message(const df_link *link, uint64_t sequence, int *is_direct) {
  if (df_link_has_ll(link)) {
    *is_direct = 0;
    return df_load_relaxed_u64((const uint64_t *)df_link_slot(link, sequence)) >> 32 ==
           df_link_flag(sequence);
  }
  uint64_t commit = df_observe_u64((const uint64_t *)df_link_slot(link, sequence));
  *is_direct = (int)(commit & DF_COMMIT_DIRECT);
  return commit >> DF_COMMIT_BITS == (sequence & DF_SEQUENCE_MASK);
}

/* Called by the receiver. Deep rings update the credit seldom, so that its line moves less often
 * between caches. df_link_release returns 1 if it has updated the credit. */
DF_CORE int df_link_releases(const df_link *link, uint64_t sequence) {
  return !(sequence & link->release_mask);
}
DF_CORE int df_link_release(df_link *link, uint64_t sequence) {
  if (!df_link_releases(link, sequence)) return 0;
  /* The receiver's reads of the payload precede the sender's next write. */
  df_publish_fenced_u64(link->credit, sequence & DF_SEQUENCE_MASK);
  return 1;
}

/* The hold word is behind the credit. The receiver sets it while it reads a lent buffer. The sender
 * revokes it before the buffers of a failed run return to the application. 0: free. */
enum { DF_HOLD_READING = 1, DF_HOLD_REVOKED = 2 };
enum { DF_LINK_CREDIT_WORDS = 2 }; /* number of words behind the slots that ends read: both */

DF_CORE int df_link_borrow(const df_link *link) {
#if defined(__CUDACC__)
  if (link->same_process) return df_device_claim_u64(link->credit + 1, 0, DF_HOLD_READING);
#endif
  return df_system_claim_u64(link->credit + 1, 0, DF_HOLD_READING);
}
/* Called by the receiver. 0: the sender has seized the buffer meanwhile, so the data that was read
 * is invalid. */
DF_CORE int df_link_return(const df_link *link) {
#if defined(__CUDACC__)
  if (link->same_process) return df_device_claim_u64(link->credit + 1, DF_HOLD_READING, 0);
#endif
  return df_system_claim_u64(link->credit + 1, DF_HOLD_READING, 0);
}
DF_CORE int df_link_is_revoked(const df_link *link) {
  return df_observe_u64(link->credit + 1) == DF_HOLD_REVOKED;
}
/* Called by the sender. 0: the receiver is reading the buffer. */
DF_CORE int df_link_revoke(const df_link *link) {
  return df_link_is_revoked(link) || df_system_claim_u64(link->credit + 1, 0, DF_HOLD_REVOKED);
}
/* Called by the sender. It does not wait, because the receiver may be dead, and a receiver that
 * continues to read does no harm. 0: the word has changed meanwhile. */
DF_CORE int df_link_seize(const df_link *link) {
  uint64_t held = df_observe_u64(link->credit + 1);
  return df_system_claim_u64(link->credit + 1, held, DF_HOLD_REVOKED);
}

#if !defined(__CUDACC__)
/* The receiver's words of each way, behind the hold word: the sender fetches that line for the
 * credit anyway. */
static inline uint32_t *df_link_read_words(const df_link *link) {
  return (uint32_t *)(link->credit + 2);
}
#endif

static inline uint32_t df_link_stride(uint64_t payload_bytes, uint32_t payload_offset) {
  if (payload_offset == DF_LINK_LL) /* the LL protocol stores pairs of words */
    return (uint32_t)DF_ALIGN_UP(2 * DF_ALIGN_UP(payload_bytes, 2u * DF_LINK_WORD_PAYLOAD),
                                 DF_CACHE_LINE);
  return (uint32_t)DF_ALIGN_UP(payload_bytes + payload_offset, DF_CACHE_LINE);
}
/* Small slots share lines. A line ends after each DF_PACKED_SLOTS of them, so the credit is at the
 * beginning of a line. */
enum { DF_PACKED_SLOTS = DF_CACHE_LINE / 8 };
static inline uint32_t df_link_packed_stride(uint64_t payload_bytes) {
  const uint64_t bytes = DF_ALIGN_UP(payload_bytes + DF_LINK_FLAGGED_OFFSET, (uint64_t)8);
  if (payload_bytes > DF_PACKED_WHOLE_MAX) return (uint32_t)bytes;
  return bytes > DF_CACHE_LINE / 4 ? DF_CACHE_LINE / 2 : DF_CACHE_LINE / 4;
}
DF_CORE uint64_t df_link_ring_bytes(uint32_t stride, uint32_t n_slots) {
  return (uint64_t)stride * n_slots + 2 * DF_CACHE_LINE;
}

#endif
