#include "transports/net/pump/pump_links.h"

#include <stdlib.h>
#include <string.h>

#include "primitives/prepared.h"

/* The number of a link consists of its entry and of a generation that counts how often the entry
 * was used. Late frames therefore do not match the next link in the entry. */
enum { ENTRY_BITS = 20, ENTRIES_MOST = 1 << ENTRY_BITS, GENERATIONS = 1 << (32 - ENTRY_BITS) };

/* Messages in larger slots are bulk: other messages need not wait for them. */
#if defined(DF_SIMULATION)
#define BULK_STRIDE sim_bulk_stride
#else
enum { BULK_STRIDE = 4096 };
#endif

static int grow(df_pump_links *all) {
  uint32_t capacity = all->capacity ? 2 * all->capacity : 16;
  if (capacity > ENTRIES_MOST) return 0;
  df_pump_link **links = realloc(all->links, capacity * sizeof(df_pump_link *));
  if (links) all->links = links;
  uint32_t *generations = realloc(all->generations, capacity * sizeof *generations);
  if (generations) all->generations = generations;
  if (links == NULL || generations == NULL) return 0;
  all->capacity = capacity;
  return 1;
}

static int enter(df_pump_links *all, df_pump_link *link) {
  uint32_t entry = 0;
  while (entry < all->n && all->links[entry]) entry++;
  if (entry == all->n) {
    if (entry == all->capacity && !grow(all)) return 0;
    all->generations[entry] = 0;
    all->n++;
  }
  all->links[entry] = link;
  link->id = all->generations[entry] << ENTRY_BITS | entry;
  return 1;
}

df_pump_link *df_pump_links_find(const df_pump_links *all, uint32_t id, int *is_known) {
  const uint32_t entry = id % ENTRIES_MOST;
  *is_known = entry < all->n;
  df_pump_link *link = *is_known ? all->links[entry] : NULL;
  return link && link->id == id ? link : NULL;
}

static uint32_t loop_of(const df_pump_link *link, const df_pump_ring *ring, uint64_t sequence) {
  return (uint32_t)((sequence - 1) / link->messages % ring->part.loops);
}

static const df_pump_pieces *pieces_of(const df_pump_link *link, uint64_t sequence) {
  return &link->piece_of[(sequence - 1) % link->messages];
}

uint32_t df_pump_message_bytes(const df_pump_link *link, const df_pump_ring *ring,
                               uint64_t sequence) {
  const df_pump_pieces *message = pieces_of(link, sequence);
  if (message->piece == DF_PIECE_NONE) return 0;
  /* A settling message has no elements. Here it has one, of any value, so that it is sent, and sent
   * again after a loss, like others. */
  if (message->piece == DF_PIECE_SETTLES)
    return loop_of(link, ring, sequence) + 1 == ring->run.loops ? link->element_bytes : 0;
  if (link->elements_of)
    return link->element_bytes * link->elements_of[(sequence - 1) % link->messages];
  return link->element_bytes * df_message_elements(link->geometry, link->pieces, &ring->run,
                                                   loop_of(link, ring, sequence), message->piece,
                                                   message->pieces, message->stride);
}

int df_pump_brings_count(const df_pump_link *link, const df_pump_ring *ring, uint64_t sequence) {
  return link->varying &&
         df_brings_count(loop_of(link, ring, sequence), (uint32_t)((sequence - 1) % link->messages),
                         pieces_of(link, sequence)->piece);
}

void df_pump_take_up_run(const df_pump_link *link, df_pump_ring *ring, uint64_t count) {
  const uint32_t pieces = df_pieces_of_loop(link->geometry, link->pieces);
  ring->run = df_part_of_run(&ring->part, count, pieces, link->element_bytes);
  ring->has_count = 1;
}

static int is_empty(const df_pump_link *link, const df_pump_ring *ring, uint64_t sequence) {
  return df_pump_message_bytes(link, ring, sequence) == 0 &&
         !df_pump_brings_count(link, ring, sequence);
}

static void pass_empty(const df_pump_link *link, df_pump_ring *ring) {
  while (is_empty(link, ring, ring->next)) ring->next++;
}

void df_pump_pass_to(const df_pump_link *link, df_pump_ring *ring, uint64_t sequence) {
  ring->at = 0;
  ring->has_count = 0;
  ring->next = sequence + 1;
  pass_empty(link, ring);
  ring->most = DF_MAX(ring->most, ring->next);
}

void df_pump_pass(const df_pump_link *link, df_pump_ring *ring) {
  df_pump_pass_to(link, ring, ring->next);
}

/* A credit for fewer slots waits for other frames. Together with the slots that the block has not
 * released yet, as many are withheld as the plan can do without. */
static uint32_t due_slots(const df_pump_route *route, uint32_t block) {
  const uint32_t n_slots = route->ends[block].slot_mask + 1;
  const uint32_t needed = route->ends[block].release_mask + DF_MAX(route->least_slots, 1u);
  return DF_MIN(DF_MAX(n_slots / 2, 1u), n_slots > needed ? n_slots - needed + 1 : 1u);
}

static void begin_ring(df_pump_link *link, const df_pump_route *route, uint32_t block) {
  df_pump_ring *ring = &link->rings[block];
  const uint32_t n_slots = route->ends[block].slot_mask + 1;
  *ring = (df_pump_ring){.end = route->ends[block],
                         .part = route->parts[block],
                         .run = route->parts[block],
                         .next = 1,
                         .due = due_slots(route, block),
                         .have = link->have + (size_t)block * n_slots};
  ring->end.ways = NULL;
  ring->end.release_mask = 0; /* the block of the remote end decides how often it releases */
  if (ring->part.loops == 0) return;
  /* No later loop has more messages with elements than the first one. */
  for (uint32_t i = 0; i < link->messages && !ring->has_messages; i++)
    ring->has_messages =
        link->piece_of[i].piece == DF_PIECE_SETTLES || !is_empty(link, ring, i + 1);
  if (ring->has_messages) pass_empty(link, ring);
  ring->most = ring->next;
}

/* The slot size of a vector collective does not show how long the messages of this link are: they
 * may be shorter. */
static int is_bulk(const df_pump_route *route, const uint32_t *elements_of) {
  uint64_t longest = 0;
  if (elements_of == NULL) return route->ends[0].stride > BULK_STRIDE;
  for (uint32_t i = 0; i < route->messages; i++)
    longest = DF_MAX(longest, (uint64_t)elements_of[i] * route->element_bytes);
  return longest + DF_LINK_STAGED_OFFSET > BULK_STRIDE;
}

/* Divides the longest message into equal parts. No later loop has longer messages than the first
 * one, but a run of fewer elements may have, so a varying link has full frames. */
static uint32_t part_bytes(const df_pump_link *link, uint32_t frame_bytes) {
  uint32_t longest = 1;
  if (link->varying) return frame_bytes;
  for (uint32_t block = 0; block < link->n_blocks; block++)
    for (uint32_t i = 0; i < link->messages && link->rings[block].part.loops; i++)
      longest = DF_MAX(longest, df_pump_message_bytes(link, &link->rings[block], i + 1));
  const uint32_t each = DF_DIV_UP(longest, DF_DIV_UP(longest, frame_bytes));
  return DF_MIN(DF_ALIGN_UP(each, (uint32_t)DF_CACHE_LINE), frame_bytes);
}

dfcclResult_t df_pump_links_add(df_pump_links *all, const df_pump_route *route,
                                uint32_t frame_bytes, df_pump_link **out) {
  const size_t rings = route->n_blocks * sizeof(df_pump_ring);
  const size_t slots = (size_t)route->n_blocks * (route->ends[0].slot_mask + 1);
  df_pump_link *link = aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(sizeof *link + rings, (size_t)64));
  df_pump_pieces *piece_of = malloc((route->messages + 1) * sizeof *piece_of);
  uint64_t *have = calloc(slots, sizeof *have);
  uint32_t *elements_of = route->extents ? malloc(route->messages * sizeof *elements_of) : NULL;
  if (link == NULL || piece_of == NULL || have == NULL || (route->extents && elements_of == NULL))
    goto no_memory;
  for (uint32_t i = 0; route->extents && i < route->messages; i++) {
    const uint32_t piece = route->piece_of[i].piece;
    elements_of[i] = piece < DF_PIECE_SETTLES ? route->extents[piece].elements : 0;
  }
  memcpy(piece_of, route->piece_of, route->messages * sizeof *piece_of);
  *link = (df_pump_link){.is_bulk = is_bulk(route, elements_of),
                         .messages = route->messages,
                         .n_blocks = route->n_blocks,
                         .peer = route->peer,
                         .collective = route->collective,
                         .piece_of = piece_of,
                         .elements_of = elements_of,
                         .have = have,
                         .pieces = route->pieces,
                         .geometry = route->geometry,
                         .element_bytes = route->element_bytes,
                         .varying = route->varying};
  for (uint32_t block = 0; block < route->n_blocks; block++) {
    begin_ring(link, route, block);
    DF_ASSERT((uint64_t)route->parts[block].chunk * route->element_bytes <=
              (uint64_t)frame_bytes * DF_PUMP_PARTS);
  }
  link->part_bytes = part_bytes(link, frame_bytes);
  if (!enter(all, link)) goto no_memory;
  *out = link;
  return dfcclSuccess;
no_memory:
  free(link);
  free(piece_of);
  free(elements_of);
  free(have);
  return df_fail(dfcclOutOfMemory, "no memory for a link of a connection");
}

static void free_link(df_pump_link *link) {
  free(link->piece_of);
  free(link->elements_of);
  free(link->have);
  free(link);
}

void df_pump_links_remove(df_pump_links *all, df_pump_link *link) {
  const uint32_t entry = link->id % ENTRIES_MOST;
  all->links[entry] = NULL;
  all->generations[entry] = (all->generations[entry] + 1) % GENERATIONS;
  free_link(link);
}

void df_pump_links_free(df_pump_links *all) {
  for (uint32_t i = 0; i < all->n; i++)
    if (all->links[i]) free_link(all->links[i]);
  free(all->links);
  free(all->generations);
}
