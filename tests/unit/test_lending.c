/*
 * Promises of src/primitives/step.h about lent buffers, primitive by primitive, with prepared
 * records of the primitives and without:
 *   - A message lends the buffer only where the receiver may read it for as long as it needs. The
 *     run is complete only when all lent buffers have been returned.
 *   - Lent data is read at its place.
 *   - Results are stored past the caches where no rank reads them there soon.
 */
#include "stepper.h"

STEP_TEST(lending, a_lent_buffer_is_waited_for) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  CHECK(step(&f) == DF_STEP_PROGRESSED && f.move.lends, "it lends");
  CHECK(sent(&f, 1) == f.input, "the buffer itself");
  CHECK(f.cursor.phase == DF_PHASE_DRAIN, "and waits");
  df_cursor before = f.cursor;
  for (int poll = 0; poll < 3; poll++) CHECK(step(&f) == DF_STEP_BLOCKED, "the peer still reads");
  CHECK(memcmp(&before, &f.cursor, sizeof before) == 0, "a blocked step moved the cursor");
  CHECK(!df_coll_is_runnable(&f.desc, 0, &f.cursor), "the peer still reads");
  df_link_release(&f.links[1], 1);
  CHECK(df_coll_is_runnable(&f.desc, 0, &f.cursor), "it has read");
  CHECK(step(&f) == DF_STEP_DONE, "it has read");
}

/* A connection's credits come late if it lends nothing of the collective: nobody waits for them. */
STEP_TEST(lending, links_that_lend_nothing_are_not_waited_for) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  CHECK(step(&f) == DF_STEP_PROGRESSED && f.move.lends, "it lends");
  CHECK(step(&f) == DF_STEP_BLOCKED, "the peer still reads");
  f.links[1].lend_min = UINT64_MAX;
  CHECK(step(&f) == DF_STEP_DONE, "such a link has lent nothing");
}

static int lends(fixture *f) {
  CHECK(step(f) != DF_STEP_BLOCKED, "there is room");
  return (int)f->move.lends;
}

STEP_TEST(lending, what_must_not_be_lent_is_copied) {
  fixture f;
  uint64_t mapping[2] = {0, 4096};
  const uint64_t *const mappings[2] = {NULL, mapping};
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  f.desc.direct_min = ELEMENTS * 4;
  CHECK(lends(&f), "as long as the least");
  make(&f, &p, 1);
  f.desc.direct_min = ELEMENTS * 4 + 1;
  CHECK(!lends(&f), "shorter than the least");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.words.runs[0].recv = f.input;
  CHECK(lends(&f), "in place, and the plan allows it");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.desc.lends = DF_LENDS_STREAMED;
  f.words.runs[0].recv = f.input;
  CHECK(!lends(&f), "in place, and the plan forbids it");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].same_process = 0;
  CHECK(!lends(&f), "another process that does not see this memory");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].same_process = 0;
  f.desc.mappings = mappings;
  f.words.runs[0].send_mapping = 1;
  CHECK(lends(&f), "another process that has mapped this memory");
  CHECK((uintptr_t)sent(&f, 1) == (uintptr_t)f.input + 4096, "where the peer sees it");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].same_process = 0;
  f.desc.mappings = mappings;
  f.words.runs[0].send_mapping = 1;
  mapping[1] = DF_NOT_MAPPED;
  CHECK(!lends(&f), "another process that has not mapped it yet");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].release_mask = 1;
  CHECK(!lends(&f), "slots come back some at a time, and lent buffers must at once");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].lend_min = ELEMENTS * 4 + 1;
  CHECK(!lends(&f), "shorter than the link's own least");
  df_primitive scratch = primitive(DF_PRIM_SEND, DF_BUFFER_SCRATCH, DF_BUFFER_NONE);
  make(&f, &scratch, 1);
  f.desc.direct_min = 1;
  CHECK(!lends(&f), "scratch memory is reused in the next loop");
}

/* Is a received result written past the caches? */
static int streams(uint8_t stream, int in_place, int lent) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.desc.stream = stream;
  if (in_place) f.words.runs[0].recv = f.input;
  if (lent) {
    uint8_t *slot = df_link_slot(&f.links[0], 1);
    *(uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET) = (uint64_t)(uintptr_t)f.scratch;
    df_link_publish(&f.links[0], 1, 1);
  } else {
    arrive(&f, 1, 7);
  }
  CHECK(step(&f) == DF_STEP_DONE, "the message is there");
  expect_values(in_place ? f.input : f.output, lent ? -1 : 7, lent ? 0 : 1, "the result");
  return f.move.stream;
}

STEP_TEST(lending, what_was_read_moments_ago_is_not_written_past_the_caches) {
  for (int in_place = 0; in_place < 2; in_place++)
    for (int lent = 0; lent < 2; lent++) {
      CHECK(!streams(DF_STREAM_NEVER, in_place, lent), "never");
      CHECK(streams(DF_STREAM_ALWAYS, in_place, lent), "always");
      CHECK(streams(DF_STREAM_OUT_OF_PLACE, in_place, lent) == (!in_place || lent),
            "in place, from a slot: no; otherwise: yes");
    }
}

/* A step whose message the peer reads where it is lent from, of a run whose result is large. */
static int lends_large(fixture *f, uint32_t flags, int in_place, int passes) {
  df_primitive p = primitive((uint8_t)flags, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(f, &p, 1);
  f->desc.direct_min = 1;
  f->desc.stream = DF_STREAM_OUT_OF_PLACE;
  if (passes) f->desc.lends = DF_LENDS_IN_PLACE;
  if (in_place) f->words.runs[0].recv = f->input;
  arrive(f, 1, 100);
  return lends(f);
}

STEP_TEST(lending, a_copy_goes_past_the_caches_while_its_source_is_lent) {
  fixture f;
  for (int passes = 0; passes < 2; passes++) {
    CHECK(lends_large(&f, DF_PRIM_STORE | DF_PRIM_SEND, 0, passes), "the input");
    CHECK(sent(&f, 1) == f.input, "the input");
    CHECK(f.move.stream, "the peer does not read the copy");
    expect_values(f.output, 1, 1, "the output");
  }
}

STEP_TEST(lending, results_are_lent_from_the_caches_or_passed_on) {
  fixture f;
  const uint32_t reduces = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE | DF_PRIM_SEND;
  CHECK(lends_large(&f, reduces, 0, 0), "the output");
  CHECK(sent(&f, 1) == f.output && !f.move.stream, "where the peer finds it in a cache");
  CHECK(!lends_large(&f, reduces, 0, 1), "larger than the caches by far");
  CHECK(f.move.stream, "past the caches");
  expect_values(sent(&f, 1), 101, 2, "the message");
  expect_values(f.output, 101, 2, "the output");
  CHECK(lends_large(&f, reduces, 1, 1), "its lines have been read, and are in a cache");
  CHECK(sent(&f, 1) == f.input, "in place");
}

STEP_TEST(lending, store_to_lend) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND | DF_PRIM_STORE_TO_LEND,
                             DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  arrive(&f, 1, 100);
  CHECK(step(&f) == DF_STEP_DONE, "copied");
  expect_values(f.output, -1, 0, "not lent, not stored: the output");
  expect_values(sent(&f, 1), 101, 2, "the message");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  arrive(&f, 1, 100);
  CHECK(step(&f) == DF_STEP_PROGRESSED && sent(&f, 1) == f.output, "lent");
  expect_values(f.output, 101, 2, "the output");
}

STEP_TEST(lending, what_a_peer_lends_is_read_where_it_is) {
  fixture f;
  int32_t theirs[ELEMENTS];
  df_primitive p =
      primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  for (int i = 0; i < ELEMENTS; i++) theirs[i] = 1000;
  *(uint64_t *)(df_link_slot(&f.links[0], 1) + DF_LINK_FLAGGED_OFFSET) =
      (uint64_t)(uintptr_t)theirs;
  df_link_publish(&f.links[0], 1, 1);
  CHECK(step(&f) == DF_STEP_DONE, "a message has come");
  expect_values(f.output, 1001, 1, "the output");
  CHECK(released(&f) == 1, "given back");
}
