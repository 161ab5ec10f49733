#include "bootstrap/mesh/remote_address.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"

dfcclResult_t df_remote_address_interfaces(df_interfaces *interfaces, const df_rendezvous *r) {
  const dfcclResult_t result = df_interfaces_find(interfaces, r->network->interfaces);
  if ((result == dfcclSuccess || result == dfcclInProgress) && interfaces->not_ready[0] != '\0')
    df_log(DF_LOG_WARN,
           "DFCCL_NET_INTERFACES is \"%.128s\", but interface %s, so rank %d does not use it",
           r->network->interfaces, interfaces->not_ready, r->rank);
  return result == dfcclInProgress ? dfcclSuccess : result;
}

void df_remote_address_of_caller(df_remote_rank *remote, const df_record *record, int fd,
                                 int is_lower) {
  struct sockaddr_storage socket = {0};
  socklen_t bytes = sizeof socket;
  df_address from = {0};
  if (getpeername(fd, (struct sockaddr *)&socket, &bytes) == 0)
    df_address_from_socket(&from, &socket);
  remote->address = record->addresses[0];
  remote->scope = 0;
  from.port = record->addresses[0].port;
  if (is_lower || df_address_is_loopback(&from)) remote->address = from;
  for (int i = 0; i < record->n_addresses && i < DF_ADDRESSES_MAX; i++)
    if (df_address_same_host(&record->addresses[i], &from)) remote->address = record->addresses[i];
  if (socket.ss_family == AF_INET6)
    remote->scope = ((const struct sockaddr_in6 *)&socket)->sin6_scope_id;
}

void df_remote_address_keep_offered(df_remote_rank *remote, const df_record *record) {
  remote->n_offered = DF_MIN(DF_MAX(record->n_addresses, 0), (int)DF_ADDRESSES_MAX);
  memcpy(remote->offered, record->addresses, sizeof remote->offered);
}

/* Returns the chosen interface that reaches the address without a router (a link-local address:
 * that may reach it), or NULL if there is none. */
static const df_interface *find_link(const df_interfaces *interfaces, const df_address *address) {
  for (int i = 0; i < interfaces->n; i++)
    if (interfaces->of[i].is_chosen && df_interface_reaches(&interfaces->of[i], address))
      return &interfaces->of[i];
  return NULL;
}

void df_remote_address_guess(df_remote_rank *remote, const df_rendezvous *r, int rank,
                             const df_interfaces *interfaces) {
  const df_record *record = &r->records[rank];
  int best = 0;
  df_remote_address_keep_offered(remote, record);
  remote->address = record->addresses[0];
  if (record->machine == r->own.machine) {
    remote->address = df_address_loopback(record->addresses[0].port);
    return;
  }
  for (int i = 0; i < remote->n_offered; i++) {
    const df_address *address = &remote->offered[i];
    if (!df_address_is_sane(address) || df_address_is_loopback(address) ||
        df_interfaces_have(interfaces,
                           address)) /* addresses of container bridges exist on both hosts */
      continue;
    const df_interface *link = find_link(interfaces, address);
    const int scoped = df_address_is_link_local(address);
    const int worth = scoped ? link != NULL : link ? 3 : 2;
    if (worth <= best) continue;
    best = worth;
    remote->address = *address;
    remote->scope = scoped ? link->index : 0;
  }
}
