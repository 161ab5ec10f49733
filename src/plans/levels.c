#include "plans/levels.h"

#include <stdlib.h>
#include <string.h>

df_levels *df_levels_new(uint32_t n, uint32_t depth) {
  df_levels *levels = calloc(1, sizeof *levels + sizeof levels->group[0] * n * depth);
  if (levels == NULL) return NULL;
  levels->n = n;
  levels->depth = depth;
  levels->host_channels = 1;
  return levels;
}

df_levels *df_levels_copy(const df_levels *levels) {
  df_levels *copy = df_levels_new(levels->n, levels->depth);
  if (copy == NULL) return NULL;
  copy->host_channels = levels->host_channels;
  memcpy(copy->group, levels->group, sizeof levels->group[0] * levels->n * levels->depth);
  return copy;
}

/* Numbers the groups of a level. Two members stay in one group only if they are in one group of
 * this level and of the level above. */
static void number(df_levels *levels, uint32_t level) {
  const uint32_t n = levels->n;
  uint16_t *group = &levels->group[level * n];
  const uint16_t *above = level ? &levels->group[(level - 1) * n] : NULL;
  uint16_t next = 0;
  for (uint32_t i = 0; i < n; i++) group[i] |= 0x8000; /* not numbered yet */
  for (uint32_t i = 0; i < n; i++) {
    const uint16_t old = group[i];
    if (!(old & 0x8000)) continue;
    for (uint32_t k = i; k < n; k++)
      if (group[k] == old && (above == NULL || above[k] == above[i])) group[k] = next;
    next++;
  }
}

void df_levels_finish(df_levels *levels, uint32_t host_channels) {
  uint32_t smallest = levels->n;
  for (uint32_t level = 0; level < levels->depth; level++) number(levels, level);
  for (uint32_t host = 0, of = 1; of > 0; host++) {
    of = 0;
    for (uint32_t i = 0; i < levels->n; i++) of += levels->group[i] == host;
    if (of) smallest = DF_MIN(smallest, of);
  }
  levels->host_channels =
      DF_MAX(DF_MIN(host_channels, DF_MIN(smallest, (uint32_t)DF_HOST_CHANNELS_MOST)), 1u);
}

df_levels *df_levels_of_neighbours(uint32_t n, uint32_t neighbours, uint32_t host_channels) {
  df_levels *levels = df_levels_new(n, 1);
  if (levels == NULL) return NULL;
  for (uint32_t i = 0; i < n; i++) df_levels_put(levels, 0, i, i / DF_MAX(neighbours, 1u));
  df_levels_finish(levels, host_channels);
  return levels;
}

int df_levels_equal(const df_levels *a, const df_levels *b) {
  if (a == NULL || b == NULL) return a == b;
  return a->n == b->n && a->depth == b->depth && a->host_channels == b->host_channels &&
         memcmp(a->group, b->group, sizeof a->group[0] * a->n * a->depth) == 0;
}

/* FNV-1a */
uint32_t df_levels_digest(const df_levels *levels) {
  uint32_t sum = (2166136261u ^ levels->host_channels) * 16777619u;
  for (uint32_t i = 0; i < levels->n * levels->depth; i++)
    sum = (sum ^ levels->group[i]) * 16777619u;
  return sum;
}

/* ---- for builders */

int df_level_view_open(df_level_view *view, const df_levels *levels) {
  const size_t n = levels->n;
  *view = (df_level_view){.levels = levels};
  view->members = malloc(sizeof *view->members * n * levels->depth);
  view->first = calloc((n + 1) * levels->depth, sizeof *view->first);
  view->children = malloc(sizeof *view->children * (n + 32));
  if (view->members == NULL || view->first == NULL || view->children == NULL) return 0;
  for (uint32_t level = 0; level < levels->depth; level++) {
    const uint16_t *group = &levels->group[level * n];
    uint32_t *first = &view->first[level * (n + 1)], *members = &view->members[level * n];
    for (uint32_t i = 0; i < n; i++) first[group[i] + 1]++;
    for (uint32_t g = 0; g < n; g++) first[g + 1] += first[g];
    for (uint32_t i = 0; i < n; i++) members[first[group[i]]++] = i;
    for (uint32_t g = (uint32_t)n; g > 0; g--) first[g] = first[g - 1]; /* back to the beginnings */
    first[0] = 0;
    for (uint32_t i = 0; i < n && level == 0; i++)
      view->n_hosts = DF_MAX(view->n_hosts, group[i] + 1u);
  }
  return 1;
}

void df_level_view_close(df_level_view *view) {
  free(view->members);
  free(view->first);
  free(view->children);
}

static df_members members_of(const df_level_view *view, uint32_t level, uint32_t group) {
  const uint32_t n = view->levels->n, *first = &view->first[level * (n + 1) + group];
  return (df_members){&view->members[level * n + first[0]], first[1] - first[0]};
}

df_members df_host_members(const df_level_view *view, uint32_t host) {
  return members_of(view, 0, host);
}

df_members df_host_channel_members(const df_level_view *view, uint32_t host,
                                   uint32_t host_channel) {
  const df_members all = members_of(view, 0, host);
  const uint32_t host_channels = view->levels->host_channels;
  const uint32_t first = DF_DIV_UP(host_channel * all.n, host_channels),
                 end = DF_DIV_UP((host_channel + 1) * all.n, host_channels);
  return (df_members){all.at + first, end - first};
}

uint32_t df_host_channel_leader(const df_level_view *view, uint32_t host, uint32_t host_channel) {
  return df_host_channel_members(view, host, host_channel).at[0];
}

uint32_t df_host_channel_of(const df_level_view *view, uint32_t member) {
  const uint32_t host = df_host_of(view, member);
  for (uint32_t host_channel = 0; host_channel + 1 < view->levels->host_channels; host_channel++) {
    const df_members list = df_host_channel_members(view, host, host_channel);
    if (member <= list.at[list.n - 1]) return host_channel;
  }
  return view->levels->host_channels - 1;
}

/* The member through which a group is entered that does not contain the root. The group may have
 * fewer members than there are host channels. */
static uint32_t entry_of(const df_level_view *view, uint32_t level, uint32_t group,
                         uint32_t host_channel) {
  const df_members all = members_of(view, level, group);
  const uint32_t host_channels = view->levels->host_channels;
  return all.at[all.n < host_channels ? host_channel * all.n / host_channels
                                      : DF_DIV_UP(host_channel * all.n, host_channels)];
}

/* At the innermost level each member is its own group. */
static uint32_t group_at(const df_level_view *view, uint32_t level, uint32_t member) {
  return level < view->levels->depth ? view->levels->group[level * view->levels->n + member]
                                     : member;
}

df_family df_family_of(const df_level_view *view, uint32_t host_channel, uint32_t root,
                       uint32_t member) {
  const uint32_t depth = view->levels->depth;
  df_family family = {.parent = UINT32_MAX, .children = {view->children, 0}};
  uint32_t top = root; /* the member that represents the group of the level before */
  for (uint32_t level = 1; level <= depth; level++) {
    const uint32_t own = group_at(view, level, member);
    if (top != member && group_at(view, level, top) != own) {
      const uint32_t entry = level < depth ? entry_of(view, level, own, host_channel) : member;
      if (entry == member) family.parent = top;
      top = entry;
      continue;
    }
    if (top != member) continue;
    const df_members all = members_of(view, level - 1, group_at(view, level - 1, member));
    for (uint32_t i = 0; i < all.n; i++) {
      const uint32_t other = group_at(view, level, all.at[i]);
      if (other != own &&
          (level == depth || entry_of(view, level, other, host_channel) == all.at[i]))
        view->children[family.children.n++] = all.at[i];
    }
  }
  return family;
}
