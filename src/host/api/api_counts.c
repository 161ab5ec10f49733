#include "host/api/api_counts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "host/settings/abi_struct.h"
#include "host/registration/register.h"
#include "host/registration/check_arguments.h"

/* One side (sends or receives) of this rank's exchange. */
typedef struct side {
  const char *counts_name, *displs_name;
  const size_t *counts, *displs;
  df_list_item *items; /* [n] in the order of members; there is room for all */
  uint32_t n;
  uint64_t end; /* offset of the next packed piece, in elements */
} side;

/* Items without elements are left out. `i`: the entry in the caller's arrays. */
static dfcclResult_t add_item(side *s, uint32_t i, uint32_t peer) {
  const uint64_t count = s->counts[i], at = s->displs ? s->displs[i] : s->end;
  if (count > DF_MAX_COUNT || s->end + count > DF_MAX_COUNT || at > DF_MAX_COUNT)
    return df_fail(dfcclInvalidArgument,
                   "%s[%u] is %" PRIu64 ", at element %" PRIu64 ": at most %" PRIu64
                   " elements are possible",
                   s->counts_name, i, count, at, DF_MAX_COUNT);
  s->end += count;
  if (count > 0) s->items[s->n++] = (df_list_item){.peer = peer, .at = at, .count = count};
  return dfcclSuccess;
}

static dfcclResult_t add_all(side *s, uint32_t n) {
  if (s->counts == NULL) return df_fail(dfcclInvalidArgument, "%s is NULL", s->counts_name);
  for (uint32_t i = 0; i < n; i++) {
    dfcclResult_t result = add_item(s, i, i);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}

static void add_one(side *s, uint32_t peer, uint64_t at, uint64_t count) {
  if (count > 0) s->items[s->n++] = (df_list_item){.peer = peer, .at = at, .count = count};
}

static dfcclResult_t add_neighbours(side *s, const int *peers, int n_peers, uint32_t n,
                                    const char *what) {
  if (n_peers < 0 || (uint32_t)n_peers > n)
    return df_fail(dfcclInvalidArgument, "%d entries in %s; a group of %u has 0 to %u", n_peers,
                   what, n, n);
  if (n_peers > 0 && (peers == NULL || s->counts == NULL))
    return df_fail(dfcclInvalidArgument, "%s is NULL", peers ? s->counts_name : what);
  for (int i = 0; i < n_peers; i++) {
    if (peers[i] < 0 || (uint32_t)peers[i] >= n)
      return df_fail(dfcclInvalidArgument, "%s[%d] is %d; it is a position in the group, 0 to %u",
                     what, i, peers[i], n - 1);
    for (int k = 0; k < i; k++)
      if (peers[k] == peers[i])
        return df_fail(dfcclInvalidArgument, "%s[%d] names %d a second time", what, i, peers[i]);
    dfcclResult_t result = add_item(s, (uint32_t)i, (uint32_t)peers[i]);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}

static const df_list_item *of_peer(const side *s, uint32_t peer) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->items[i].peer == peer) return &s->items[i];
  return NULL;
}

/* A member that sends to all others begins with the member behind itself, so that the members do
 * not all begin with the same one. */
static void turn(side *s, uint32_t position) {
  uint32_t first = 0;
  while (first < s->n && s->items[first].peer <= position) first++;
  for (uint32_t step = 0; step < first; step++) {
    const df_list_item item = s->items[0];
    for (uint32_t i = 1; i < s->n; i++) s->items[i - 1] = s->items[i];
    s->items[s->n - 1] = item;
  }
}

static dfcclResult_t fill_sides(const df_registration *r, const df_vector *given, uint32_t n,
                                uint32_t position, side *sends, side *receives) {
  const uint32_t root = (uint32_t)r->root;
  dfcclResult_t result = dfcclSuccess;
  switch (r->operation) {
  case DF_OP_ALL_GATHER_V:
    result = add_all(receives, n);
    for (uint32_t i = 0; result == dfcclSuccess && i < n; i++)
      add_one(sends, i, 0, given->recv_counts[position]);
    return result;
  case DF_OP_REDUCE_SCATTER_V:
    result = add_all(sends, n);
    for (uint32_t i = 0; result == dfcclSuccess && i < n; i++)
      add_one(receives, i, 0, given->send_counts[position]);
    return result;
  case DF_OP_GATHER_V:
    add_one(sends, root, 0, given->count);
    return position == root ? add_all(receives, n) : dfcclSuccess;
  case DF_OP_SCATTER_V:
    add_one(receives, root, 0, given->count);
    return position == root ? add_all(sends, n) : dfcclSuccess;
  case DF_OP_ALL_TO_ALL_V:
    result = add_all(sends, n);
    return result == dfcclSuccess ? add_all(receives, n) : result;
  default:
    result = add_neighbours(sends, given->send_to, given->n_sends, n, "sendTo");
    if (result != dfcclSuccess) return result;
    return add_neighbours(receives, given->recv_from, given->n_receives, n, "recvFrom");
  }
}

static dfcclResult_t check_own(const side *sends, const side *receives, uint32_t position) {
  const df_list_item *from = of_peer(sends, position), *to = of_peer(receives, position);
  const uint64_t sent = from ? from->count : 0, received = to ? to->count : 0;
  if (sent == received) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument,
                 "position %u sends %" PRIu64 " elements to itself, and receives %" PRIu64,
                 position, sent, received);
}

/* Finds this rank's position in the group. The group itself is checked later. */
static dfcclResult_t find_position(dfcclContext_t context, const dfcclCollOptions_t *options,
                                   uint32_t n, uint32_t *position) {
  *position = context->rank;
  if (options->ranks == NULL) return dfcclSuccess;
  for (*position = 0; *position < n; ++*position)
    if (options->ranks[*position] == (int)context->rank) return dfcclSuccess;
  return df_fail(dfcclInvalidArgument, "options.ranks does not contain this rank, %u",
                 context->rank);
}

static dfcclResult_t register_lists(dfcclContext_t context, const df_registration *given,
                                    const df_vector *vector, uint32_t n, df_list_item *items) {
  df_registration registration = *given;
  side sends = {"sendCounts", "sendDispls", vector->send_counts, vector->send_displs, items, 0, 0};
  side receives = {
      "recvCounts", "recvDispls", vector->recv_counts, vector->recv_displs, items + n, 0, 0};
  uint32_t position;
  dfcclResult_t result = find_position(context, given->options, n, &position);
  if (result == dfcclSuccess && (given->root < 0 || (uint32_t)given->root >= n))
    result = df_fail(dfcclInvalidArgument, "root is %d; it is a position in the group, 0 to %u",
                     given->root, n - 1);
  if (result == dfcclSuccess) result = fill_sides(given, vector, n, position, &sends, &receives);
  if (result == dfcclSuccess) result = check_own(&sends, &receives, position);
  if (result != dfcclSuccess) return result;
  turn(&sends, position);
  const df_lists lists = {.sends = sends.items,
                          .receives = receives.items,
                          .n_sends = sends.n,
                          .n_receives = receives.n};
  registration.lists = &lists;
  /* In these two operations all members have all counts, so slots need not be longer than the
   * longest piece. */
  const size_t *known = given->operation == DF_OP_ALL_GATHER_V       ? vector->recv_counts
                        : given->operation == DF_OP_REDUCE_SCATTER_V ? vector->send_counts
                                                                     : NULL;
  for (uint32_t i = 0; known && i < n; i++)
    registration.longest = DF_MAX(registration.longest, known[i]);
  return df_register(context, &registration);
}

dfcclResult_t df_register_vector(dfcclContext_t context, const df_registration *given,
                                 const df_vector *vector) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  df_registration registration = *given;
  if (given->options) {
    dfcclResult_t result = df_growing_read(&df_growing_options, given->options, &options);
    if (result != dfcclSuccess) return result;
  }
  registration.options = &options;
  if (options.ranks && (options.nRanks < 1 || (uint32_t)options.nRanks > context->n_ranks))
    return df_fail(dfcclInvalidArgument, "options.nRanks is %d; a group has 1 to %u ranks here",
                   options.nRanks, context->n_ranks);
  const uint32_t n = df_group_size(context, &options);
  df_list_item *items = calloc(2 * (size_t)n, sizeof *items);
  if (items == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the counts of collective %" PRIu64, given->id);
  dfcclResult_t result = register_lists(context, &registration, vector, n, items);
  free(items);
  return result;
}
