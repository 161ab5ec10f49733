/*
 * Promises of src/primitives/link.h:
 *   - A message may be written only when the receiver is done with the slot's former message; so at
 *     most as many are under way as there are slots.
 *   - A message is there once it is published, not before, and no other is taken for it.
 *   - Everything goes on where sequence numbers, which have 60 bits, wrap around.
 *   - Where slots are given back several at a time, the sender still finds room once the receiver
 *     has read all, and never writes to a slot that was not read.
 *   - No word that another message has left in a slot has the flag of the message that is waited
 * for, nor has a cleared one, however often flags begin again.
 *   - A lent buffer is being read or taken back; taken back while another process reads it, that
 *     process is notified.
 *   - Data written before publishing is visible to the reader that saw the message, and data read
 *     before releasing was read before it is overwritten (race build).
 */
#include "primitives/link.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { PAYLOAD_WORDS = 6, PACKED = 1 /* in place of an offset: slots share lines */ };

typedef struct pair {
  df_link sender, receiver;
  uint8_t *ring;
} pair;

/* As if `before` messages had gone through. */
static void make(pair *p, uint32_t n_slots, uint32_t offset, uint64_t before) {
  int is_packed = offset == PACKED;
  if (is_packed) offset = DF_LINK_FLAGGED_OFFSET;
  uint32_t stride = is_packed ? df_link_packed_stride(PAYLOAD_WORDS * 8)
                              : df_link_stride(PAYLOAD_WORDS * 8, offset);
  uint64_t bytes = df_link_ring_bytes(stride, n_slots);
  CHECK(is_packed || stride % DF_CACHE_LINE == 0, "stride %u", stride);
  CHECK(stride >= PAYLOAD_WORDS * 8 + offset, "stride %u", stride);
  p->ring = aligned_alloc(DF_CACHE_LINE, bytes);
  CHECK(p->ring != NULL, "no memory");
  memset(p->ring, 0, bytes);
  df_link link = {.slots = p->ring,
                  .credit = (uint64_t *)(p->ring + (uint64_t)stride * n_slots),
                  .stride = stride,
                  .slot_mask = n_slots - 1,
                  .payload_offset = (uint8_t)offset};
  p->sender = p->receiver = link;
  CHECK((uint8_t *)(link.credit + 1) <= p->ring + bytes, "the credit word is outside of the ring");
  for (uint64_t k = 0; k < n_slots && k < before; k++)
    *(uint64_t *)df_link_slot(&link, before - k) = (before - k) << 1;
  *link.credit = p->sender.credit_seen = before & DF_SEQUENCE_MASK;
}

static void go_through(uint32_t n_slots, uint32_t offset, uint64_t before, uint64_t messages) {
  pair p;
  int direct;
  df_random random = {n_slots + before};
  uint64_t sent = before, received = before;
  make(&p, n_slots, offset, before);
  while (received - before < messages) {
    CHECK(df_link_may_send(&p.sender, sent + 1) == (sent - received < n_slots),
          "%llu under way, %u slots", (unsigned long long)(sent - received), n_slots);
    CHECK(df_link_is_drained(&p.sender, sent) == (sent == received), "%llu under way",
          (unsigned long long)(sent - received));
    CHECK(df_link_has_message(&p.receiver, received + 1, &direct) == (received < sent),
          "%llu sent, %llu received", (unsigned long long)sent, (unsigned long long)received);
    if (received < sent) {
      CHECK(direct == (int)((received + 1) % 3 == 0), "message %llu: direct %d",
            (unsigned long long)received + 1, direct);
      uint64_t payload;
      memcpy(&payload, df_link_payload(&p.receiver, received + 1), 8);
      CHECK(payload == (received + 1) * 5, "another payload");
    }
    if (df_random_chance(&random, 50) && sent - received < n_slots) {
      uint64_t payload = ++sent * 5;
      memcpy(df_link_payload(&p.sender, sent), &payload, 8);
      CHECK(!df_link_has_message(&p.receiver, sent, &direct), "seen before it is published");
      df_link_publish(&p.sender, sent, sent % 3 == 0);
    } else if (received < sent) {
      df_link_release(&p.receiver, ++received);
    }
  }
  free(p.ring);
}

DF_TEST(link, slots_and_credit, 30) {
  for (uint32_t n_slots = 1; n_slots <= DF_MAX_LINK_SLOTS; n_slots *= 2) {
    go_through(n_slots, DF_LINK_FLAGGED_OFFSET, 0, 10 * n_slots);
    go_through(n_slots, DF_LINK_STAGED_OFFSET, 0, 10 * n_slots);
    if (n_slots >= DF_PACKED_SLOTS) go_through(n_slots, PACKED, 0, 10 * n_slots);
  }
}

DF_TEST(link, sequence_numbers_wrap_around, 30) {
  for (uint32_t n_slots = 1; n_slots <= DF_MAX_LINK_SLOTS; n_slots *= 2) {
    go_through(n_slots, DF_LINK_FLAGGED_OFFSET, DF_SEQUENCE_MASK - n_slots, 4 * n_slots);
    go_through(n_slots, DF_LINK_STAGED_OFFSET, DF_SEQUENCE_MASK - 3 * n_slots, 6 * n_slots);
    go_through(n_slots, DF_LINK_STAGED_OFFSET, UINT64_MAX / 4, 3 * n_slots);
    if (n_slots >= DF_PACKED_SLOTS)
      go_through(n_slots, PACKED, DF_SEQUENCE_MASK - 3 * n_slots, 6 * n_slots);
  }
}

/* A receiver releases numbers of messages that were empty and never sent, too. */
DF_TEST(link, gaps_are_released_like_messages, 30) {
  pair p;
  make(&p, 2, DF_LINK_FLAGGED_OFFSET, 0);
  df_link_publish(&p.sender, 1, 0);
  CHECK(!df_link_may_send(&p.sender, 4), "message 1 may still be there");
  df_link_release(&p.receiver, 1);
  CHECK(!df_link_may_send(&p.sender, 4), "the receiver has not passed number 2");
  df_link_release(&p.receiver, 2);
  CHECK(df_link_may_send(&p.sender, 4), "it has");
  CHECK(!df_link_is_drained(&p.sender, 3), "not all");
  df_link_release(&p.receiver, 5);
  CHECK(df_link_is_drained(&p.sender, 3) && df_link_is_drained(&p.sender, 5), "all");
  CHECK(!df_link_is_drained(&p.sender, 6), "and no more");
  free(p.ring);
}

/* Slots that share lines share no word, and the credit has a line of its own. */
DF_TEST(link, slots_that_share_lines, 30) {
  for (uint64_t payload = 8; payload <= DF_PACKED_MAX; payload++) {
    uint32_t stride = df_link_packed_stride(payload);
    CHECK(stride >= payload + DF_LINK_FLAGGED_OFFSET, "%llu bytes in a slot of %u",
          (unsigned long long)payload, stride);
    if (payload <= DF_PACKED_WHOLE_MAX)
      CHECK(DF_CACHE_LINE % stride == 0, "%llu bytes in two lines", (unsigned long long)payload);
    else
      CHECK(stride < payload + DF_LINK_FLAGGED_OFFSET + 8, "%llu bytes in a slot of %u",
            (unsigned long long)payload, stride);
    CHECK(stride % 8 == 0, "commit words of 8 bytes lie at multiples of 8");
    for (uint32_t n_slots = DF_PACKED_SLOTS; n_slots <= DF_MAX_LINK_SLOTS; n_slots *= 2)
      CHECK((uint64_t)stride * n_slots % DF_CACHE_LINE == 0, "%u slots of %u bytes", n_slots,
            stride);
  }
}

/* The receiver, which reads as long as there are messages, has acknowledged all but the last few.
 * */
DF_TEST(link, slots_are_given_back_several_at_a_time, 30) {
  for (uint32_t n_slots = 8; n_slots <= DF_MAX_LINK_SLOTS; n_slots *= 2) {
    pair p;
    uint64_t sent = DF_SEQUENCE_MASK - 2 * n_slots, received = sent, notices = 0;
    uint64_t last = sent + 20 * n_slots;
    df_random random = {n_slots};
    make(&p, n_slots, DF_LINK_FLAGGED_OFFSET, sent);
    p.sender.release_mask = p.receiver.release_mask = (uint16_t)(n_slots / 4 - 1);
    while (received < last) {
      while (df_link_may_send(&p.sender, sent + 1)) df_link_publish(&p.sender, ++sent, 0);
      CHECK(sent - received <= n_slots, "%llu under way, %u slots",
            (unsigned long long)(sent - received), n_slots);
      CHECK(sent - received > n_slots - n_slots / 4, "%llu under way, %u slots: not enough",
            (unsigned long long)(sent - received), n_slots);
      int n = 1 + df_random_below(&random, (int)(sent - received));
      for (; n > 0; n--) notices += (uint64_t)df_link_release(&p.receiver, ++received);
    }
    CHECK(notices <= 4 * (received + 2 * n_slots - DF_SEQUENCE_MASK) / n_slots + 1,
          "told %llu times", (unsigned long long)notices);
    free(p.ring);
  }
}

/* ---- threads ---- */

static pair shared;
static uint64_t shared_messages;

static void *receive(void *unused) {
  (void)unused;
  for (uint64_t s = 1; s <= shared_messages; s++) {
    int direct;
    while (!df_link_has_message(&shared.receiver, s, &direct)) sched_yield();
    const uint8_t *slot = df_link_slot(&shared.receiver, s);
    for (uint64_t i = 0; i < PAYLOAD_WORDS; i++) {
      uint64_t word;
      memcpy(&word, slot + shared.receiver.payload_offset + 8 * i, 8);
      CHECK(word == s * 7 + i, "message %llu word %llu: %llu", (unsigned long long)s,
            (unsigned long long)i, (unsigned long long)word);
    }
    df_link_release(&shared.receiver, s);
  }
  return NULL;
}

DF_TEST(link, lent_buffers_are_held_revoked_or_seized, 30) {
  pair p;
  make(&p, 2, DF_LINK_FLAGGED_OFFSET, 0);
  CHECK(df_link_borrow(&p.receiver) && !df_link_borrow(&p.receiver), "held twice");
  CHECK(!df_link_revoke(&p.sender), "revoked while it is read");
  CHECK(df_link_return(&p.receiver), "nobody has seized it");
  CHECK(df_link_borrow(&p.receiver) && df_link_seize(&p.sender), "not seized");
  CHECK(!df_link_return(&p.receiver), "the receiver was not notified");
  CHECK(df_link_is_revoked(&p.receiver) && df_link_revoke(&p.sender), "not revoked for good");
  CHECK(!df_link_borrow(&p.receiver), "borrowed after it was seized");
  p.sender.credit[1] = 7;
  CHECK(!df_link_revoke(&p.sender) && df_link_seize(&p.sender), "what a peer left there is kept");
  free(p.ring);
}

DF_TEST(link, two_threads, 60) {
  shared_messages = (uint64_t)(40000 / df_slowdown());
  for (uint32_t n_slots = 1; n_slots <= 4; n_slots *= 2) {
    pthread_t thread;
    make(&shared, n_slots, DF_LINK_FLAGGED_OFFSET, 0);
    CHECK(pthread_create(&thread, NULL, receive, NULL) == 0, "no thread");
    for (uint64_t s = 1; s <= shared_messages; s++) {
      while (!df_link_may_send(&shared.sender, s)) sched_yield();
      uint8_t *slot = df_link_slot(&shared.sender, s);
      for (uint64_t i = 0; i < PAYLOAD_WORDS; i++) {
        uint64_t word = s * 7 + i;
        memcpy(slot + shared.sender.payload_offset + 8 * i, &word, 8);
      }
      df_link_publish(&shared.sender, s, 0);
    }
    pthread_join(thread, NULL);
    free(shared.ring);
  }
}

/* Lengths that repeat with each period, 0 for messages that are not sent: what is left in a slot's
 * words is followed through the end of flags. */
static void follow_flags(df_random *random, uint32_t period, uint32_t n_slots, uint64_t first) {
  enum { WORDS = 8, MOST_PERIOD = 64, MOST_SLOTS = 16 };
  uint32_t lengths[MOST_PERIOD], words[MOST_SLOTS][WORDS];
  for (uint32_t i = 0; i < period; i++) lengths[i] = (uint32_t)df_random_below(random, WORDS + 1);
  memset(words, 0, sizeof words);
  for (uint64_t k = 0; k < 4 * MOST_PERIOD * MOST_SLOTS; k++) {
    const uint64_t sequence = first + k;
    uint32_t *slot = words[sequence & (n_slots - 1)];
    for (uint32_t i = 0; i < lengths[sequence % period]; i++) {
      CHECK(slot[i] != df_link_flag(sequence), "message %llu is seen before it is sent",
            (unsigned long long)sequence);
      slot[i] = df_link_flag(sequence);
      CHECK(slot[i] != 0, "a cleared word would be taken for it");
    }
  }
}

DF_TEST(link, flags_of_words, 30) {
  df_random random = {31};
  const uint64_t ends[] = {1, DF_LINK_FLAG, 2ull * DF_LINK_FLAG, DF_SEQUENCE_MASK};
  for (uint32_t n_slots = 2; n_slots <= 16; n_slots *= 2)
    for (size_t end = 0; end < DF_COUNT_OF(ends); end++)
      for (uint32_t period = 1; period <= 64; period += 1 + period / 4)
        follow_flags(&random, period, n_slots, ends[end] > 2000 ? ends[end] - 2000 : ends[end]);
  for (uint64_t payload = 1; payload <= 70000; payload += 1 + payload / 7) {
    const uint32_t stride = df_link_stride(payload, DF_LINK_LL);
    CHECK(stride % DF_CACHE_LINE == 0 && stride >= 2 * payload, "a slot of %u bytes for %llu",
          stride, (unsigned long long)payload);
  }
}
