#include "bootstrap/net/rank_list.h"

#include <stdio.h>

void df_rank_list(char *text, size_t bytes, const unsigned char *chosen, int n_ranks) {
  enum { ROOM_FOR_THE_REST = 24 };
  int total = 0, written = 0;
  for (int rank = 0; rank < n_ranks; rank++) total += chosen[rank] != 0;
  size_t used = (size_t)snprintf(text, bytes,
                                 total == 1   ? "rank"
                                 : total == 0 ? "no rank"
                                              : "ranks");
  for (int first = 0; first < n_ranks;) {
    if (!chosen[first]) {
      first++;
      continue;
    }
    int end = first + 1;
    while (end < n_ranks && chosen[end]) end++;
    const char *joint = written == 0 ? " " : written + (end - first) == total ? " and " : ", ";
    char part[40];
    int length = end - first == 1 ? snprintf(part, sizeof part, "%s%d", joint, first)
                                  : snprintf(part, sizeof part, "%s%d-%d", joint, first, end - 1);
    if (used + (size_t)length + ROOM_FOR_THE_REST > bytes) {
      if (used < bytes) snprintf(text + used, bytes - used, " and %d more", total - written);
      return;
    }
    used += (size_t)snprintf(text + used, bytes - used, "%s", part);
    written += end - first;
    first = end;
  }
}
