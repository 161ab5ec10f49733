#include "transports/net/stream/net_backend.h"

#include <string.h>

#include "transports/net/plugin/plugin.h"
#include "transports/net/verbs/verbs.h"

/* Ends with NULL, because a build may have no backend. */
static const df_net_backend_ops *const known[] = {
#if defined(DF_WITH_VERBS)
    &df_net_backend_verbs,
#endif
#if defined(DF_WITH_PLUGINS)
    &df_net_backend_plugin,
#endif
    NULL};

const df_net_backend_ops *df_net_backend_find(const char *choice, const char **rest) {
  const size_t length = strcspn(choice, ":");
  *rest = choice + length + (choice[length] == ':');
  for (size_t i = 0; known[i]; i++)
    if (strlen(known[i]->name) == length && strncmp(known[i]->name, choice, length) == 0)
      return known[i];
  return NULL;
}
