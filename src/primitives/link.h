/* Link: joins two ranks for one collective, one block, one direction. So a preempted collective
 * never shares a slot. It is a ring of slots in the receiver's memory and a credit word. Slot:
 * [commit word][payload]. The payload is in the same line (flagged), at the next line (staged), or
 * an address (direct: the credit gives the buffer back). Varying collectives have no flagged
 * messages: the run's count lies behind the address. */
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
  uint64_t *credit; /* latest released message */
  df_bell *peer_bell;
  uint64_t credit_seen; /* never ahead of *credit */
  uint32_t stride;      /* bytes */
  uint32_t slot_mask;
  uint32_t messages; /* Messages of one loop. */
  uint32_t peer;     /* rank in the context */
  uint8_t payload_offset;
  uint8_t same_process; /* the peer sees all our memory; CUDA: it is on the same GPU, too */
  uint8_t sends;
  uint8_t far_looks; /* a bit for each look; 1: from afar */
  /* Not 0: slots are given back so many and one at a time; nothing is lent. Below the depth. */
  uint16_t release_mask;
  uint16_t far_ns; /* a slower line is from afar; 0: not timed */
  union {
    const struct df_mapped_ranges
        *mapped_ranges; /* receiving: where lent buffers must lie; NULL: anywhere */
    uint64_t lend_min;  /* sending: nothing is lent below, nor below the descriptor's direct_min */
  };
} df_link;
DF_STATIC_ASSERT(sizeof(df_link) == 64, "a link's local end is one cache line");

enum {
  DF_LINK_LL = 1, /* The payload travels in words with a flag each. */
  DF_LINK_FLAGGED_OFFSET = 8,
  DF_LINK_COUNT_OFFSET = 16,
  DF_LINK_STAGED_OFFSET = 64
};

/* In place of a reach; reaches are multiples of a page. */
#define DF_NOT_MAPPED 1ull
#define DF_SEQUENCE_MASK (~(uint64_t)0 >> 1)

/* Words (CUDA, small payloads): 4 bytes below a flag made of the sequence number. Each tells of its
 * own arrival, so words need no order. A longer, older message's word is rewritten within loops *
 * messages * slots messages: fewer than there are flags. */
enum {
  DF_LINK_WORD_PAYLOAD = 4,
  DF_LINK_LL_LOOPS = 64 /* Most loops of a collective whose payload is in words. */
};
#define DF_LINK_FLAG 0x80000000u /* a cleared word has none */
DF_STATIC_ASSERT((uint64_t)DF_LINK_LL_LOOPS *(UINT16_MAX + 1) * DF_MAX_LINK_SLOTS < DF_LINK_FLAG,
                 "a flag comes back only when the word has been written anew");

DF_CORE uint32_t df_link_flag(uint64_t sequence) { return (uint32_t)sequence | DF_LINK_FLAG; }

#if defined(__CUDACC__)
DF_CORE int df_link_has_ll(const df_link *link) { return link->payload_offset == DF_LINK_LL; }
#else /* the CPU has none */
DF_CORE int df_link_has_ll(const df_link *link) {
  (void)link;
  return 0;
}
#endif

DF_CORE uint8_t *df_link_slot(const df_link *link, uint64_t sequence) {
  return link->slots + (sequence & link->slot_mask) * (uint64_t)link->stride;
}

/* Far: no common cache, so slots are written past the caches. The sender times looks that find the
 * credit changed: these fetch its line. */
DF_CORE int df_link_is_far(const df_link *link) {
  enum { LOOKS = 7 }; /* two of the last three: one may have been interrupted */
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

DF_CORE uint8_t *df_link_payload(const df_link *link, uint64_t sequence) {
  uint8_t *slot = df_link_slot(link, sequence);
  return df_link_has_ll(link) ? slot : slot + link->payload_offset;
}

/* Sender: is the slot's former message done with? */
DF_CORE int df_link_may_send(df_link *link, uint64_t sequence) {
  uint64_t depth = (uint64_t)link->slot_mask + 1;
  if (((sequence - link->credit_seen) & DF_SEQUENCE_MASK) <= depth) return 1;
  /* Pairs with df_link_release: its reads precede our writes. */
  link->credit_seen = df_link_look_at_credit(link);
  return ((sequence - link->credit_seen) & DF_SEQUENCE_MASK) <= depth;
}

DF_CORE int df_link_is_drained(df_link *link, uint64_t sequence) {
  if (((link->credit_seen - sequence) & DF_SEQUENCE_MASK) < DF_SEQUENCE_MASK / 2) return 1;
  link->credit_seen = df_observe_u64(link->credit);
  return ((link->credit_seen - sequence) & DF_SEQUENCE_MASK) < DF_SEQUENCE_MASK / 2;
}

DF_CORE void df_link_publish(df_link *link, uint64_t sequence, int is_direct) {
  if (df_link_has_ll(link)) return; /* words publish themselves */
  /* Publishes what precedes df_lanes_complete_move: the payload or lent buffer. */
  df_publish_fenced_u64((uint64_t *)df_link_slot(link, sequence),
                        sequence << 1 | (is_direct ? 1 : 0));
}

/* Receiver. Of words it looks at the first only; df_move_has_arrived at all. */
DF_CORE int df_link_has_message(const df_link *link, uint64_t sequence, int *is_direct) {
  if (df_link_has_ll(link)) {
    *is_direct = 0;
    return df_load_relaxed_u64((const uint64_t *)df_link_slot(link, sequence)) >> 32 ==
           df_link_flag(sequence);
  }
  uint64_t commit = df_observe_u64((const uint64_t *)df_link_slot(link, sequence));
  *is_direct = (int)(commit & 1);
  return commit >> 1 == (sequence & DF_SEQUENCE_MASK);
}

/* Receiver. Deep rings tell the sender seldom: the credit's line travels less. Returns 1 when
 * told. */
DF_CORE int df_link_releases(const df_link *link, uint64_t sequence) {
  return !(sequence & link->release_mask);
}
DF_CORE int df_link_release(df_link *link, uint64_t sequence) {
  if (!df_link_releases(link, sequence)) return 0;
  /* Our reads of the payload precede the sender's next write. */
  df_publish_fenced_u64(link->credit, sequence & DF_SEQUENCE_MASK);
  return 1;
}

/* The hold word, behind the credit. The receiver holds it while it reads a lent buffer; the sender
 * revokes it before a failed run's buffers go back. Free: 0. */
enum { DF_HOLD_READING = 1, DF_HOLD_REVOKED = 2 };

DF_CORE int df_link_borrow(const df_link *link) {
#if defined(__CUDACC__)
  if (link->same_process) return df_device_claim_u64(link->credit + 1, 0, DF_HOLD_READING);
#endif
  return df_system_claim_u64(link->credit + 1, 0, DF_HOLD_READING);
}
/* Receiver. 0: seized meanwhile; what was read counts for nothing. */
DF_CORE int df_link_return(const df_link *link) {
#if defined(__CUDACC__)
  if (link->same_process) return df_device_claim_u64(link->credit + 1, DF_HOLD_READING, 0);
#endif
  return df_system_claim_u64(link->credit + 1, DF_HOLD_READING, 0);
}
DF_CORE int df_link_is_revoked(const df_link *link) {
  return df_observe_u64(link->credit + 1) == DF_HOLD_REVOKED;
}
/* Sender. 0: it is being read now. */
DF_CORE int df_link_revoke(const df_link *link) {
  return df_link_is_revoked(link) || df_system_claim_u64(link->credit + 1, 0, DF_HOLD_REVOKED);
}
/* Sender. Does not wait: the receiver may be dead, and harms nothing by reading on. 0: the word
 * just changed. */
DF_CORE int df_link_seize(const df_link *link) {
  uint64_t held = df_observe_u64(link->credit + 1);
  return df_system_claim_u64(link->credit + 1, held, DF_HOLD_REVOKED);
}

static inline uint32_t df_link_stride(uint64_t payload_bytes, uint32_t payload_offset) {
  if (payload_offset == DF_LINK_LL) /* pairs */
    return (uint32_t)DF_ALIGN_UP(2 * DF_ALIGN_UP(payload_bytes, 2u * DF_LINK_WORD_PAYLOAD),
                                 DF_CACHE_LINE);
  return (uint32_t)DF_ALIGN_UP(payload_bytes + payload_offset, DF_CACHE_LINE);
}
/* Small slots share lines. DF_PACKED_SLOTS of them end a line, so that the credit begins one. */
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
