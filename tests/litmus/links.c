/* Links: messages, credits, lent buffers, and the windows in which these must lie. */
#include "litmus.h"
#include "primitives/step.h"

#include "transports/shm/sharing.c"

typedef struct link_state {
  df_link sender, receiver;
  DF_ALIGNED(64) uint8_t slot[64 + sizeof(litmus_payload)];
  DF_ALIGNED(64) uint64_t credit, hold; /* the hold word lies behind the credit */
  litmus_payload lent;
  DF_ALIGNED(64) uint64_t plain; /* the content of a slot, or of a lent buffer */
  DF_ALIGNED(64) uint32_t received, whole;
  uint64_t read;
  DF_ALIGNED(64) uint32_t sent;
} link_state;

static litmus_payload *payload_of(link_state *s) {
  return (litmus_payload *)(s->slot + DF_LINK_STAGED_OFFSET);
}
static uint64_t *address_in(link_state *s) {
  return (uint64_t *)(s->slot + DF_LINK_FLAGGED_OFFSET);
}
static void link_prepare(void *state) {
  link_state *s = state;
  s->sender = (df_link){.slots = s->slot, .credit = &s->credit, .stride = sizeof s->slot};
  s->receiver = s->sender;
}
static litmus_outcome link_judge(const void *state) {
  const link_state *s = state;
  if (!s->received) return LITMUS_NOTHING;
  return s->whole ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- 3: a message's payload; and a lent buffer's address and content */

static void link_send(void *state) {
  link_state *s = state;
  litmus_fill(payload_of(s), 1);
  df_link_publish(&s->sender, 1, 0);
}
static void link_receive(void *state) {
  link_state *s = state;
  int direct;
  s->received = (uint32_t)df_link_has_message(&s->receiver, 1, &direct);
  if (s->received) s->whole = !direct && litmus_holds(payload_of(s), 1);
}
static void link_lend(void *state) {
  link_state *s = state;
  litmus_fill(&s->lent, 2);
  df_store_relaxed_u64(address_in(s), (uint64_t)(uintptr_t)&s->lent);
  df_link_publish(&s->sender, 1, 1);
}
static void link_pull(void *state) {
  link_state *s = state;
  int direct;
  s->received = (uint32_t)df_link_has_message(&s->receiver, 1, &direct);
  if (!s->received) return;
  const litmus_payload *lent = (const void *)(uintptr_t)df_load_relaxed_u64(address_in(s));
  s->whole = direct && lent != NULL && litmus_holds(lent, 2);
}

/* ---- 4: the payload has been read when its slot, or the lent buffer, is written again */

static void credit_prepare(void *state) {
  link_state *s = state;
  link_prepare(state);
  s->plain = 1;
  df_link_publish(&s->sender, 1, 0);
}
static void credit_receive(void *state) {
  link_state *s = state;
  s->read = s->plain;
  df_link_release(&s->receiver, 1);
}
static void credit_send(void *state) {
  link_state *s = state;
  s->sent = (uint32_t)df_link_may_send(&s->sender, 2);
  if (s->sent) s->plain = 2;
}
static void credit_drain(void *state) {
  link_state *s = state;
  s->sent = (uint32_t)df_link_is_drained(&s->sender, 1);
  if (s->sent) s->plain = 2;
}
static litmus_outcome credit_judge(const void *state) {
  const link_state *s = state;
  if (s->read != 1) return LITMUS_FORBIDDEN;
  return s->sent ? LITMUS_SEEN : LITMUS_NOTHING;
}

/* ---- 4h: a lent buffer is either being read, or taken back */

static void hold_prepare(void *state) {
  link_state *s = state;
  link_prepare(state);
  s->plain = 1;
}
static void hold_receive(void *state) {
  link_state *s = state;
  s->received = (uint32_t)df_link_borrow(&s->receiver);
  if (!s->received) return;
  s->read = s->plain;
  df_link_return(&s->receiver);
}
static void hold_revoke(void *state) {
  link_state *s = state;
  s->sent = (uint32_t)df_link_revoke(&s->sender);
  if (s->sent) s->plain = 2;
}
static litmus_outcome hold_judge(const void *state) {
  const link_state *s = state;
  if (s->received && s->read != 1) return LITMUS_FORBIDDEN;
  return s->received && s->sent ? LITMUS_SEEN : LITMUS_NOTHING;
}

/* The buffer of another process is seized during a read: then the data that was read does not
 * count. */
static void seize_prepare(void *state) {
  link_state *s = state;
  link_prepare(state);
  litmus_fill(&s->lent, 1);
}
static void seize_receive(void *state) {
  link_state *s = state;
  if (!df_link_borrow(&s->receiver)) return;
  s->whole = (uint32_t)litmus_holds(&s->lent, 1);
  s->received = (uint32_t)df_link_return(&s->receiver);
}
static void seize_take_back(void *state) { /* df_step_take_back, then the application */
  link_state *s = state;
  s->sent = df_link_revoke(&s->sender) || df_link_seize(&s->sender);
  if (s->sent) litmus_fill(&s->lent, 2);
}

/* ---- 4w: who sees that a window was opened sees the window */

typedef struct window_state {
  df_mapped_ranges mapped_ranges;
  DF_ALIGNED(64) uint64_t used;
  uint32_t covers, covers_more;
} window_state;

enum { WINDOW_AT = 16 * DF_PAGE, WINDOW_BYTES = 2 * DF_PAGE };

static void window_prepare(void *state) { (void)state; }
static void window_open(void *state) {
  window_state *s = state;
  df_mapped_ranges_open(&s->mapped_ranges, (const void *)(uintptr_t)WINDOW_AT, WINDOW_BYTES);
}
static void window_look(void *state) {
  window_state *s = state;
  s->used = df_observe_u64(&s->mapped_ranges.used);
  s->covers = (uint32_t)df_mapped_ranges_cover(&s->mapped_ranges, WINDOW_AT, WINDOW_BYTES);
  s->covers_more = (uint32_t)df_mapped_ranges_cover(&s->mapped_ranges, WINDOW_AT, WINDOW_BYTES + 1);
}
static litmus_outcome window_judge(const void *state) {
  const window_state *s = state;
  if (s->covers_more || (s->used && !s->covers)) return LITMUS_FORBIDDEN;
  return s->used ? LITMUS_SEEN : LITMUS_NOTHING;
}

/* ---- 14: what is lent to another process lies where that process has mapped it. The reader maps
 * (and its message passes the kernel), the owner lends, the reader's block follows. */

typedef struct mapping_state {
  df_rank_mutex lock; /* the owner's, as are its control and its endpoint */
  df_control control;
  df_shm_endpoint endpoint;
  df_shared shared;
  df_segment segment;
  uint64_t mapping[1];
  const uint64_t *mappings[2];
  df_mapped_ranges mapped_ranges; /* the reader's, of the owner */
  df_link sender, receiver;
  df_descriptor descriptor;
  df_cursor cursor;
  DF_ALIGNED(64) uint8_t slot[64];
  DF_ALIGNED(64) uint32_t received, whole;
} mapping_state;

enum { MAPPING_OWNED_AT = 64 * DF_PAGE, MAPPING_SEGMENT = 9 };

static void mapping_prepare(void *state) {
  mapping_state *s = state;
  s->segment = (df_segment){
      .id = MAPPING_SEGMENT, .base = (void *)(uintptr_t)MAPPING_OWNED_AT, .bytes = WINDOW_BYTES};
  s->mapping[0] = DF_NOT_MAPPED;
  s->shared.segment = &s->segment;
  s->shared.mapping = s->mapping;
  s->endpoint.shared = &s->shared;
  df_rank_mutex_init(&s->lock);
  s->control.lock = &s->lock;
  s->endpoint.base.owner.control = &s->control;
  s->cursor.send_mapping = 1;
  s->mappings[1] = s->mapping;
  s->descriptor = (df_descriptor){.element_bytes = 4, .mappings = s->mappings};
  s->sender = (df_link){.slots = s->slot, .stride = sizeof s->slot};
  s->receiver = s->sender;
  s->receiver.mapped_ranges = &s->mapped_ranges;
}
/* handle_segment, and the owner's handle_mapped. The lock encloses both: it orders nothing
 * between. */
static void mapping_map(void *state) {
  mapping_state *s = state;
  df_rank_lock(&s->lock);
  df_mapped_ranges_open(&s->mapped_ranges, (const void *)(uintptr_t)WINDOW_AT, WINDOW_BYTES);
  df_shm_mapped(&s->endpoint, 0, MAPPING_SEGMENT, WINDOW_AT);
  df_rank_unlock(&s->lock);
}
static void mapping_lend(void *state) {
  mapping_state *s = state;
  uint64_t there = 0;
  if (!df_step_may_lend(&s->descriptor, &s->cursor, &s->sender, DF_BUFFER_INPUT, s->segment.base,
                        WINDOW_BYTES, &there))
    return;
  df_store_relaxed_u64((uint64_t *)(s->slot + DF_LINK_FLAGGED_OFFSET), there);
  df_link_publish(&s->sender, 1, 1);
}
static void mapping_follow(void *state) {
  mapping_state *s = state;
  df_move move = {.count = WINDOW_BYTES / 4};
  int direct;
  s->received = (uint32_t)df_link_has_message(&s->receiver, 1, &direct);
  if (!s->received) return;
  s->whole = direct && df_step_may_follow(&s->descriptor, &s->receiver, 1, move.count, &move) &&
             move.lent == (const void *)(uintptr_t)WINDOW_AT;
}
static litmus_outcome mapping_judge(const void *state) {
  const mapping_state *s = state;
  if (!s->received) return LITMUS_NOTHING;
  return s->whole ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

/* ---- */

static const litmus_test tests[] = {
    {"3",
     "link",
     "a message is seen, and its payload is not",
     sizeof(link_state),
     link_prepare,
     {link_send, link_receive},
     link_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"3",
     "link_lends",
     "a message is seen, and the lent buffer's address or content is not",
     sizeof(link_state),
     link_prepare,
     {link_lend, link_pull},
     link_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"4",
     "credit",
     "a slot is written again while its message is read",
     sizeof(link_state),
     credit_prepare,
     {credit_receive, credit_send},
     credit_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"4",
     "drained",
     "a lent buffer is given back while it is read",
     sizeof(link_state),
     credit_prepare,
     {credit_receive, credit_drain},
     credit_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"4h",
     "hold",
     "a lent buffer is taken back while it is read",
     sizeof(link_state),
     hold_prepare,
     {hold_receive, hold_revoke},
     hold_judge,
     {{0, LITMUS_PUBLISH}, {0, LITMUS_MODIFY}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"4h",
     "seize",
     "what was read of a lent buffer counts, and its owner had it back meanwhile",
     sizeof(link_state),
     seize_prepare,
     {seize_receive, seize_take_back},
     link_judge,
     {{0, LITMUS_MODIFY}},
     {{0}}},
    {"4w",
     "window",
     "a window is counted, and it is not there; or more than it is covered",
     sizeof(window_state),
     window_prepare,
     {window_open, window_look},
     window_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}},
     {{0}}},
    {"14",
     "reach",
     "a buffer is lent, and its reader does not find it where it has mapped it",
     sizeof(mapping_state),
     mapping_prepare,
     {mapping_map, mapping_lend, mapping_follow},
     mapping_judge,
     {{0, LITMUS_PUBLISH}, {1, LITMUS_OBSERVE}, {1, LITMUS_PUBLISH}, {2, LITMUS_OBSERVE}},
     {{0}}},
};
const litmus_tests litmus_links = {tests, DF_COUNT_OF(tests)};
