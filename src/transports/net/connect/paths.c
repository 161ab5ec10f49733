#include "transports/net/connect/paths.h"

#include <stdlib.h>

struct df_path_finder {
  uint32_t most;
  df_interfaces interfaces;
};

static int is_used(const df_tcp_path *paths, uint32_t n, const df_address *address) {
  for (uint32_t i = 0; i < n; i++)
    if (df_address_same_host(&paths[i].to, address)) return 1;
  return 0;
}

/* Bridges of containers have the same address on many hosts. */
static int is_own(const df_interfaces *all, const df_address *address) {
  for (int i = 0; i < all->n; i++)
    if (df_address_same_host(&all->of[i].address, address)) return 1;
  return 0;
}

/* The first address of an interface counts: an interface may have an IPv4 and an IPv6 address. */
static int is_taken(const df_interfaces *all, const uint8_t taken[DF_INTERFACES_MAX], int which) {
  for (int i = 0; i < all->n; i++)
    if (taken[i] && all->of[i].index == all->of[which].index) return 1;
  return 0;
}

uint32_t df_paths_among(const df_interfaces *all, const df_remote_rank *remote, uint32_t most,
                        df_tcp_path paths[DF_NET_PATHS_MOST]) {
  uint8_t taken[DF_INTERFACES_MAX] = {0};
  uint32_t n = 1;
  paths[0] = (df_tcp_path){.to = remote->address, .scope = remote->scope};
  for (int i = 0, found = 0; i < all->n && !found; i++)
    taken[i] = found = all->of[i].is_chosen &&
                       df_interface_reaches(&all->of[i], &remote->address) &&
                       (remote->scope == 0 || remote->scope == all->of[i].index);
  most = DF_MIN(most, (uint32_t)DF_NET_PATHS_MOST);
  for (int i = 0; i < all->n; i++) {
    const df_interface *own = &all->of[i];
    if (!own->is_chosen || df_address_is_link_local(&own->address) ||
        df_address_is_loopback(&own->address))
      continue;
    for (int k = 0; k < remote->n_offered && n < most && !is_taken(all, taken, i); k++) {
      const df_address *to = &remote->offered[k];
      if (!df_address_is_sane(to) || !df_interface_reaches(own, to) || is_used(paths, n, to) ||
          is_own(all, to))
        continue;
      paths[n++] = (df_tcp_path){.to = *to, .from = own->address};
      taken[i] = 1;
    }
  }
  return n;
}

dfcclResult_t df_path_finder_open(df_path_finder **finder, const char *interfaces, uint32_t most) {
  *finder = calloc(1, sizeof **finder);
  if (*finder == NULL) return df_fail(dfcclOutOfMemory, "no memory for the interfaces");
  (*finder)->most = most;
  const dfcclResult_t result = df_interfaces_find(&(*finder)->interfaces, interfaces);
  if (result == dfcclSuccess || result == dfcclInProgress) return dfcclSuccess;
  free(*finder);
  *finder = NULL;
  return result;
}

void df_path_finder_close(df_path_finder *finder) { free(finder); }

uint32_t df_path_finder_find(const df_path_finder *finder, const df_remote_rank *remote,
                             df_tcp_path paths[DF_NET_PATHS_MOST]) {
  return df_paths_among(&finder->interfaces, remote, finder->most, paths);
}
