/* One block of one rank that executes a plan of a few primitives step by step, with its records
 * kept and not kept, for tests of single steps. The test plays the peers. */
#ifndef DF_TESTS_UNIT_STEPPER_H
#define DF_TESTS_UNIT_STEPPER_H

#include "primitives/step.h"

#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { ELEMENTS = 8, SLOTS = 2, STRIDE = 128 };

/* One block of one rank with a link in (0) and a link out (1); the test holds both remote ends. */
typedef struct fixture {
  df_descriptor desc;
  df_run_words words;
  df_run_counters counters;
  df_part part;
  df_cursor cursor;
  df_link links[2];
  df_bell bells[2];
  df_lanes lanes;
  df_move move;
  uint64_t progress;
  df_prepared records[DF_PREPARED_MOST];
  DF_ALIGNED(64) uint8_t in_ring[SLOTS * STRIDE + 64], out_ring[SLOTS * STRIDE + 64];
  int32_t input[ELEMENTS], output[ELEMENTS], scratch[ELEMENTS];
} fixture;

static const uint32_t never;
static int keeps; /* records are kept */

/* Executed with records kept, and without. */
#define STEP_TEST(suite, name)                                                                     \
  static void name(void);                                                                          \
  DF_TEST(suite, name, 30) {                                                                       \
    for (keeps = 0; keeps < 2; keeps++) name();                                                    \
  }                                                                                                \
  static void name(void)

static inline void make(fixture *f, const df_primitive *primitives, uint32_t n) {
  memset(f, 0, sizeof *f);
  for (int i = 0; i < ELEMENTS; i++) f->input[i] = i + 1;
  for (int i = 0; i < ELEMENTS; i++) f->output[i] = f->scratch[i] = -1;
  f->part = (df_part){.elements = ELEMENTS, .chunk = ELEMENTS, .loops = 1};
  df_descriptor *d = &f->desc;
  d->primitives = primitives;
  d->n_primitives = n;
  d->links = f->links;
  d->n_links = 2;
  d->parts = &f->part;
  d->progress = &f->progress;
  d->scratch = (uint8_t *)f->scratch;
  d->count = ELEMENTS;
  d->pieces = 1;
  d->n_blocks = 1;
  d->divisor = 4;
  d->type = dfcclInt32;
  d->op = dfcclSum;
  d->element_bytes = 4;
  d->direct_min = UINT64_MAX;
  d->lends = DF_LENDS_IN_PLACE | DF_LENDS_STREAMED;
  d->words = &f->words;
  d->counters = &f->counters;
  f->words.runs[0] = (df_run_arguments){.send = f->input, .recv = f->output};
  for (int i = 0; i < 2; i++) {
    uint8_t *ring = i ? f->out_ring : f->in_ring;
    f->links[i] = (df_link){.slots = ring,
                            .credit = (uint64_t *)(ring + SLOTS * STRIDE),
                            .peer_bell = &f->bells[i],
                            .stride = STRIDE,
                            .slot_mask = SLOTS - 1,
                            .messages = 1,
                            .peer = (uint32_t)i,
                            .payload_offset = DF_LINK_STAGED_OFFSET,
                            .same_process = 1,
                            .sends = (uint8_t)i};
  }
  f->lanes = (df_lanes){.move = &f->move,
                        .mover = df_mover_cpu_best(),
                        .interrupt = &never,
                        .yield_polls = UINT32_MAX};
}

static inline df_step_result step(fixture *f) {
  if (keeps && !f->desc.prepared && df_prepared_is_kept(&f->desc))
    df_prepared_keep(&f->desc, f->records);
  return df_coll_step(&f->desc, 0, &f->cursor, &f->lanes);
}

/* The peers' sides. */
static inline void arrive(fixture *f, uint64_t sequence, int32_t value) {
  int32_t *payload = (int32_t *)(df_link_slot(&f->links[0], sequence) + f->links[0].payload_offset);
  for (int i = 0; i < ELEMENTS; i++) payload[i] = value + i;
  df_link_publish(&f->links[0], sequence, 0);
}
static inline const int32_t *sent(fixture *f, uint64_t sequence) {
  int direct;
  CHECK(df_link_has_message(&f->links[1], sequence, &direct), "message %llu is not there",
        (unsigned long long)sequence);
  const uint8_t *slot = df_link_slot(&f->links[1], sequence);
  if (!direct) return (const int32_t *)(slot + f->links[1].payload_offset);
  return (const int32_t *)(uintptr_t) * (const uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET);
}
static inline int is_sent(const fixture *f, uint64_t sequence) {
  int direct;
  return df_link_has_message(&f->links[1], sequence, &direct);
}
static inline uint64_t released(const fixture *f) { return df_observe_u64(f->links[0].credit); }

static inline void expect_values(const int32_t *got, int32_t first, int32_t slope,
                                 const char *what) {
  for (int i = 0; i < ELEMENTS; i++)
    CHECK(got[i] == first + slope * i, "%s: element %d is %d instead of %d", what, i, got[i],
          first + slope * i);
}
static inline void expect_untouched(const fixture *f) {
  expect_values(f->output, -1, 0, "the output");
  expect_values(f->scratch, -1, 0, "the scratch memory");
  CHECK(!is_sent(f, 1), "something was sent");
  CHECK(released(f) == 0, "something was released");
}

static inline df_primitive primitive(uint32_t flags, df_buffer source, df_buffer destination) {
  return (df_primitive){.flags = (uint8_t)flags,
                        .source = (uint8_t)source,
                        .destination = (uint8_t)destination,
                        .recv_link = 0,
                        .send_link = 1};
}

#endif
