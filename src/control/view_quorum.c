#include "control/view_quorum.h"

int df_view_has_quorum(df_quorum quorum, int on_one_host, const df_view_parts *parts) {
  if (quorum == DF_QUORUM_NONE) return 1;
  if (quorum == DF_QUORUM_DEFAULT && on_one_host && parts->unproved == 0) return 1;
  const uint32_t half = parts->members;
  return 2 * parts->present > half || (2 * parts->present == half && parts->has_lowest);
}
