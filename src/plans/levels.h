/*
 * Levels describe which members of a group are close to each other. The groups of the outermost
 * level are the hosts. Each further level divides the groups of the level before (sockets, dies).
 * Groups may have different sizes, and their members need not be neighbours. Hierarchical plans are
 * made from levels.
 *
 * A *host channel* is a share of a host's members. The first member of host channel k communicates
 * with the first members of host channel k of other hosts.
 */
#ifndef DF_PLANS_LEVELS_H
#define DF_PLANS_LEVELS_H

#include "base/attributes.h"

enum { DF_LEVELS_MOST = 8, DF_HOST_CHANNELS_MOST = 64 };

typedef struct df_levels {
  uint32_t n, depth;
  uint32_t host_channels; /* number of channels of each host; at most the number of members of the
                             smallest host */
  uint16_t group[];       /* [depth][n], numbered in the order in which they appear */
} df_levels;

/* All members are in one group at each level. The caller frees the result. NULL: out of memory. */
df_levels *df_levels_new(uint32_t n, uint32_t depth);
df_levels *df_levels_copy(const df_levels *levels);
static inline void df_levels_put(df_levels *levels, uint32_t level, uint32_t member,
                                 uint32_t group) {
  levels->group[level * levels->n + member] = (uint16_t)group;
}
/* Called when all members have been put: numbers the groups again, so that the groups of a level
 * divide those of the level before. host_channels: 0 counts as 1, and too large a number as the
 * largest possible. */
void df_levels_finish(df_levels *levels, uint32_t host_channels);
/* Two levels, with this number of neighbours on each host. */
df_levels *df_levels_of_neighbours(uint32_t n, uint32_t neighbours, uint32_t host_channels);

int df_levels_equal(const df_levels *a, const df_levels *b);
uint32_t df_levels_digest(const df_levels *levels);

/* ---- for builders */

typedef struct df_members {
  const uint32_t *at;
  uint32_t n;
} df_members;

typedef struct df_level_view {
  const df_levels *levels;
  uint32_t n_hosts;
  uint32_t *members;  /* [depth][n], group by group */
  uint32_t *first;    /* [depth][n + 1] index in `members` at which a group begins */
  uint32_t *children; /* [n + 32] room for the children of one family */
} df_level_view;

/* Returns 0 if out of memory. df_level_view_close must be called in any case. */
int df_level_view_open(df_level_view *view, const df_levels *levels);
void df_level_view_close(df_level_view *view);

static inline uint32_t df_host_of(const df_level_view *view, uint32_t member) {
  return view->levels->group[member];
}
df_members df_host_members(const df_level_view *view, uint32_t host);
/* The members of one host channel. The first one, its leader, communicates with other hosts. */
df_members df_host_channel_members(const df_level_view *view, uint32_t host, uint32_t host_channel);
uint32_t df_host_channel_leader(const df_level_view *view, uint32_t host, uint32_t host_channel);
uint32_t df_host_channel_of(const df_level_view *view, uint32_t member);

/*
 * A tree over the members of one host. Each group of each level is entered through one member: the
 * root's groups through the root, the others by host channel, so that the channels load different
 * members.
 */
typedef struct df_family {
  uint32_t parent;     /* UINT32_MAX for the root */
  df_members children; /* ordered from the outermost level; valid until the next call */
} df_family;
df_family df_family_of(const df_level_view *view, uint32_t host_channel, uint32_t root,
                       uint32_t member);

#endif
