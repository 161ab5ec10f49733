#include "bootstrap/net/interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/net/sockets.h"

enum { AWAIT_STEP_MS = 50, AWAIT_REPORT_MS = 5000 };

/* Returns megabits per second, or 0 if the interface does not report its speed. */
static uint32_t speed_of(const char *name) {
  char path[64], text[16] = "";
  snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[bytes] = '\0';
  long speed = strtol(text, NULL, 10);
  return speed > 0 && speed < INT32_MAX ? (uint32_t)speed : 0;
}

static uint8_t prefix_of(const struct sockaddr *mask) {
  df_address address;
  struct sockaddr_storage storage = {0};
  uint8_t bits = 0;
  if (mask == NULL) return 0;
  memcpy(&storage, mask,
         mask->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
  if (!df_address_from_socket(&address, &storage)) return 0;
  for (int i = 0; i < 16; i++) bits += (uint8_t)__builtin_popcount(address.bytes[i]);
  return bits;
}

static void add(df_interfaces *all, const struct ifaddrs *found) {
  struct sockaddr_storage storage = {0};
  if (all->n == DF_INTERFACES_MAX || found->ifa_addr == NULL) return;
  if ((found->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING)) return;
  const int family = found->ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return;
  memcpy(&storage, found->ifa_addr,
         family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
  df_interface *new = &all->of[all->n];
  *new = (df_interface){.index = if_nametoindex(found->ifa_name),
                        .prefix = prefix_of(found->ifa_netmask)};
  if (!df_address_from_socket(&new->address, &storage)) return;
  snprintf(new->name, sizeof new->name, "%s", found->ifa_name);
  new->address.mbit = speed_of(new->name);
  all->n++;
}

/* ---- patterns ---- */

static bool in_network(const df_address *address, const df_address *network, int bits) {
  if (address->family != network->family) return false;
  for (int i = 0; i < bits; i++)
    if ((address->bytes[i / 8] ^ network->bytes[i / 8]) & (0x80 >> i % 8)) return false;
  return true;
}

bool df_interface_reaches(const df_interface *interface, const df_address *address) {
  return in_network(&interface->address, address, interface->prefix);
}

/* Returns 1 or 0, or -1 if the item is malformed. */
static int matches(const df_interface *interface, const char *item, size_t length) {
  df_address network;
  const char *slash = memchr(item, '/', length);
  const size_t host = slash ? (size_t)(slash - item) : length;
  if (df_address_parse(&network, item, host)) {
    int most = network.family == 4 ? 32 : 128, bits = most;
    if (network.port != 0) return -1;
    if (slash) {
      char *end;
      bits = (int)strtol(slash + 1, &end, 10);
      if (slash[1] < '0' || slash[1] > '9' || end != item + length || bits > most) return -1;
    }
    return in_network(&interface->address, &network, bits);
  }
  if (slash || memchr(item, ':', length)) return -1;
  const bool exact = item[0] == '=';
  item += exact;
  length -= exact;
  const bool prefix = !exact && length > 0 && item[length - 1] == '*';
  length -= prefix;
  if (memchr(item, '*', length) || length >= DF_INTERFACE_NAME || (length == 0 && !prefix))
    return -1;
  return strncmp(interface->name, item, length) == 0 && (prefix || interface->name[length] == '\0');
}

static bool by_default(const df_interface *interface) {
  return strcmp(interface->name, "lo") != 0 && strncmp(interface->name, "docker", 6) != 0 &&
         strncmp(interface->name, "virbr", 5) != 0;
}

/* Returns -1 if an item is malformed; *bad then points at it. */
static int choose(const df_interface *interface, const char *pattern, const char **bad) {
  bool adds = false, added = false, taken = false;
  for (const char *item = pattern; *item;) {
    size_t length = strcspn(item, ",");
    const bool takes = item[0] == '!';
    int found = matches(interface, item + takes, length - takes);
    if (found < 0) {
      *bad = item;
      return -1;
    }
    adds |= !takes;
    added |= !takes && found;
    taken |= takes && found;
    item += length + (item[length] == ',');
  }
  return (adds ? added : by_default(interface)) && !taken;
}

/* Returns the number of chosen interfaces, or -1 after df_fail. */
static int choose_all(df_interfaces *all, const char *pattern) {
  const char *bad = NULL;
  int n_chosen = 0;
  for (int i = 0; i < all->n; i++) {
    int is_chosen = choose(&all->of[i], pattern, &bad);
    if (is_chosen < 0) {
      df_fail(dfcclInvalidUsage,
              "environment variable DFCCL_NET_INTERFACES has \"%.*s\"; an item is a name, "
              "=name, prefix*, an address or address/bits, or one of these after \"!\"",
              (int)DF_MIN(strcspn(bad, ","), (size_t)64), bad);
      return -1;
    }
    all->of[i].is_chosen = is_chosen;
    n_chosen += is_chosen;
  }
  return n_chosen;
}

/* ---- interfaces that are not ready ---- */

/* Returns why the interface cannot be used yet, or NULL if it can. */
static const char *lack_of(const df_interfaces *all, const struct ifaddrs *found) {
  if (!(found->ifa_flags & IFF_UP)) return "is down";
  if (!(found->ifa_flags & IFF_RUNNING)) return "has no carrier";
  for (int i = 0; i < all->n; i++)
    if (strncmp(all->of[i].name, found->ifa_name, DF_INTERFACE_NAME) == 0) return NULL;
  return "has no address";
}

/* The list has at least one entry for each interface, also for one without an address. */
static void list_not_ready(df_interfaces *all, const char *pattern, const struct ifaddrs *list) {
  df_text text = {all->not_ready, sizeof all->not_ready};
  char last[DF_INTERFACE_NAME] = "";
  for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
    df_interface interface = {0};
    struct sockaddr_storage storage = {0};
    const char *bad, *lack = lack_of(all, at);
    const int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
    snprintf(interface.name, sizeof interface.name, "%s", at->ifa_name);
    if (family == AF_INET || family == AF_INET6) {
      memcpy(&storage, at->ifa_addr,
             family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
      df_address_from_socket(&interface.address, &storage);
    }
    char item[DF_INTERFACE_NAME + 24];
    if (lack == NULL || choose(&interface, pattern, &bad) <= 0) continue;
    snprintf(item, sizeof item, "%s %s", interface.name, lack);
    if (strstr(all->not_ready, item) == NULL) df_say(&text, "%s%s", last[0] ? ", " : "", item);
    memcpy(last, interface.name, sizeof last);
  }
}

static dfcclResult_t refuse_pattern(const df_interfaces *all, const char *pattern) {
  char text[DF_SENTENCE_BYTES / 2];
  if (all->not_ready[0] != '\0') return dfcclInProgress;
  df_interfaces_text(all, text, sizeof text);
  return df_fail(dfcclInvalidUsage,
                 "environment variable DFCCL_NET_INTERFACES is \"%.128s\", and this host has no "
                 "such interface that is up; it has %s",
                 pattern, text);
}

dfcclResult_t df_interfaces_find(df_interfaces *all, const char *pattern) {
  struct ifaddrs *list;
  all->n = 0;
  all->not_ready[0] = '\0';
  if (pattern == NULL) pattern = "";
  if (getifaddrs(&list) != 0) {
    const int error = errno;
    char why[DF_WHY_BYTES];
    return df_fail(df_is_exhausted(error) ? dfcclOutOfMemory : dfcclSystemError,
                   "cannot list the network interfaces: %s", df_why(error, why));
  }
  for (const struct ifaddrs *at = list; at; at = at->ifa_next) add(all, at);
  const int n_chosen = choose_all(all, pattern);
  if (n_chosen >= 0 && pattern[0] != '\0') list_not_ready(all, pattern, list);
  freeifaddrs(list);
  if (n_chosen < 0) return dfcclInvalidUsage;
  return n_chosen > 0 || pattern[0] == '\0' ? dfcclSuccess : refuse_pattern(all, pattern);
}

dfcclResult_t df_interfaces_await(df_interfaces *all, const char *pattern, uint64_t until_ns) {
  const uint64_t begin_ns = df_clock_ns();
  for (uint64_t report_ms = 0;;) {
    const dfcclResult_t result = df_interfaces_find(all, pattern);
    const uint64_t waited_ms = (df_clock_ns() - begin_ns) / 1000000u;
    if (result != dfcclInProgress) return result;
    const int left_ms = df_remaining_ms(until_ns);
    if (left_ms == 0)
      return df_fail(dfcclTimeout,
                     "environment variable DFCCL_NET_INTERFACES is \"%.128s\", but after %llu ms "
                     "interface %s",
                     pattern, (unsigned long long)waited_ms, all->not_ready);
    if (waited_ms >= report_ms) {
      df_log(DF_LOG_WARN,
             "DFCCL_NET_INTERFACES is \"%.128s\", but interface %s; this rank waits "
             "for it, for at most %d ms",
             pattern, all->not_ready, left_ms);
      report_ms = DF_MAX(report_ms * 2, (uint64_t)AWAIT_REPORT_MS);
    }
    poll(NULL, 0, DF_MIN(AWAIT_STEP_MS, left_ms));
  }
}

int df_interfaces_offer(const df_interfaces *all, df_address *addresses, int most) {
  int n = 0;
  for (int link_local = 0; link_local <= 1; link_local++)
    for (int i = 0; i < all->n && n < most; i++)
      if (all->of[i].is_chosen && df_address_is_link_local(&all->of[i].address) == link_local)
        addresses[n++] = all->of[i].address;
  return n;
}

bool df_interfaces_have(const df_interfaces *all, const df_address *address) {
  if (df_address_is_loopback(address)) return true;
  for (int i = 0; i < all->n; i++)
    if (df_address_same_host(&all->of[i].address, address)) return true;
  return false;
}

void df_interfaces_text(const df_interfaces *all, char *text, size_t bytes) {
  char address[DF_ADDRESS_TEXT];
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < all->n; i++) {
    bool is_first = true; /* the name is followed by all addresses of the interface */
    for (int j = 0; j < i; j++) is_first &= all->of[j].index != all->of[i].index;
    for (int j = i; is_first && j < all->n; j++) {
      if (all->of[j].index != all->of[i].index || used >= bytes) continue;
      df_address_text(&all->of[j].address, address);
      int added = j == i ? snprintf(text + used, bytes - used, "%s%s (%s", used ? ", " : "",
                                    all->of[i].name, address)
                         : snprintf(text + used, bytes - used, ", %s", address);
      used += (size_t)added;
    }
    if (is_first && used < bytes) used += (size_t)snprintf(text + used, bytes - used, ")");
  }
  if (all->n == 0) snprintf(text, bytes, "none");
}

/* ---- identity ---- */

static size_t append_file(char *text, size_t used, size_t bytes, const char *path) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return used;
  used += fread(text + used, 1, bytes - used, file);
  fclose(file);
  return used;
}

static size_t append_link(char *text, size_t used, size_t bytes, const char *path) {
  ssize_t got = readlink(path, text + used, bytes - used);
  return got > 0 ? used + (size_t)got : used;
}

static uint64_t identity(bool with_memory) {
  char text[256];
  uint64_t hash;
  size_t used = append_file(text, 0, sizeof text, "/proc/sys/kernel/random/boot_id");
  used = append_link(text, used, sizeof text, "/proc/self/ns/net");
  if (with_memory) used = append_link(text, used, sizeof text, "/proc/self/ns/ipc");
  if (sodium_init() < 0) return 1;
  crypto_generichash((unsigned char *)&hash, sizeof hash, (const unsigned char *)text, used, NULL,
                     0);
  return hash ? hash : 1;
}

uint64_t df_machine_identity(void) { return identity(false); }
uint64_t df_host_identity(void) { return identity(true); }
