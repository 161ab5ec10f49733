/*
 * Promises of df_shape_make in plans/plan.h: every element of the buffer belongs to exactly one
 * message of one loop of one block, and each message fits its slot.
 */
#include "plans/plan.h"
#include "support/harness.h"

DF_TEST(shape, every_element_is_in_one_message, 30) {
  df_random random = {3};
  uint64_t packed = 0, in_words = 0, lent = 0;
  for (int i = 0; i < 20000; i++) {
    uint64_t count = df_random_next(&random) % (i % 3 ? 300 : 1 << 20);
    uint32_t element = 1u << df_random_below(&random, 4);
    df_plan plan = {.geometry = i % 2 ? DF_GEOMETRY_PARTITION : DF_GEOMETRY_PIECES,
                    .pieces = 1 + (uint32_t)df_random_below(&random, 9),
                    .scratch_pieces = 1};
    plan.longest = i % 4 > 1 ? 1 + (uint32_t)df_random_below(&random, (int)plan.pieces) : 1;
    df_shape_limits limits = {.slot_bytes = 64 + df_random_next(&random) % 5000,
                              .slots = 2u << df_random_below(&random, 5),
                              .flagged_max = (uint32_t)df_random_below(&random, 5000),
                              .packed_max = i % 3 ? (uint32_t)df_random_below(&random, 300) : 0,
                              .words_max = i % 5 ? 0 : (uint32_t)df_random_below(&random, 5000),
                              .block_min = 1 + df_random_next(&random) % 5000,
                              .max_blocks = 1 + (uint32_t)df_random_below(&random, DF_MAX_BLOCKS)};
    if (i % 7 == 0) {
      limits.lent_bytes = df_random_next(&random) % 20000;
      limits.lent_min = 1 + df_random_next(&random) % 3000;
    }
    df_shape s;
    df_shape_make(&s, &plan, count, element, &limits);
    CHECK(s.n_blocks >= 1 && s.n_blocks <= limits.max_blocks, "%u blocks", s.n_blocks);
    uint64_t next = 0;
    for (uint32_t b = 0; b < s.n_blocks; b++) {
      const df_part *part = &s.parts[b];
      uint64_t pieces = i % 2 ? plan.pieces : 1;
      if (part->elements > 0) CHECK(part->first == next, "block %u begins elsewhere", b);
      next += part->elements;
      CHECK((uint64_t)part->loops * part->chunk * pieces >= part->elements, "too few loops");
      CHECK(part->loops == 0 || (uint64_t)(part->loops - 1) * part->chunk * pieces < part->elements,
            "an empty loop");
      const uint64_t longest = DF_MAX(limits.slot_bytes, limits.lent_bytes);
      CHECK(part->chunk * (uint64_t)element <= DF_MAX(longest / plan.longest, 64),
            "chunk beyond a slot");
      uint64_t most = DF_MIN((uint64_t)part->chunk, count) * element * plan.longest;
      if (i % 2) most = DF_MIN(most, count * element);
      lent += limits.lent_bytes && most + s.payload_offset > s.stride;
      if (limits.lent_bytes && s.payload_offset != DF_LINK_LL)
        most = DF_MIN(most, limits.lent_min); /* longer ones are lent */
      if (s.payload_offset == DF_LINK_LL) {
        CHECK(most <= limits.words_max && part->loops <= DF_LINK_LL_LOOPS,
              "%llu bytes in each of %u loops travel in words", (unsigned long long)most,
              part->loops);
        CHECK(DF_ALIGN_UP(most, (uint64_t)8) * 2 <= s.stride, "words that do not fit their slot");
      } else {
        CHECK(most + s.payload_offset <= s.stride, "a message that does not fit its slot");
      }
      CHECK(s.stride % 8 == 0 && (uint64_t)s.stride * s.n_slots % DF_CACHE_LINE == 0,
            "%u slots of %u bytes: words that are not whole, or a credit in a slot's line",
            s.n_slots, s.stride);
      packed += s.stride % DF_CACHE_LINE != 0;
      in_words += s.payload_offset == DF_LINK_LL;
      CHECK((uint64_t)part->chunk * element <= s.scratch_bytes || part->elements == 0,
            "block %u: a chunk of %u elements in %llu bytes of scratch memory", b, part->chunk,
            (unsigned long long)s.scratch_bytes);
    }
    CHECK(next == count, "%llu of %llu elements", (unsigned long long)next,
          (unsigned long long)count);
  }
  CHECK(packed > 1000, "%llu parts have slots that share lines", (unsigned long long)packed);
  CHECK(in_words > 1000, "%llu parts travel in words", (unsigned long long)in_words);
  CHECK(lent > 1000, "%llu parts have messages that exceed a slot", (unsigned long long)lent);
}
