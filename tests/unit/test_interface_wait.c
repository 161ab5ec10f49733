/*
 * Promises of df_interfaces_await and df_interfaces_find in src/bootstrap/net/interfaces.h for
 * interfaces that exist and cannot be used yet (down, without carrier, without address):
 *   - A join waits for such an interface, and uses it when it is ready. A warning names it.
 *   - If it is not ready in time, the failure names it and says what it lacks.
 *   - An interface that does not exist, that is excluded, or that only the default chooses is not
 *     awaited; a malformed pattern is refused at once.
 *   - A usable interface of the same pattern is used without waiting for the others.
 * The program replaces getifaddrs, so that each call of it is one step of time.
 */
#include "bootstrap/net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/listeners.h"
#include "support/harness.h"

enum { READY = IFF_UP | IFF_RUNNING, NO_CARRIER = IFF_UP, DOWN = 0, MOST = 8 };

/* One entry of the fake list: how the interface is before and after it becomes ready. */
typedef struct {
  const char *name, *address; /* address NULL: an entry of the link alone */
  unsigned flags, later_flags;
  int ready_at; /* number of the call from which on later_flags hold */
} entry;

static entry entries[MOST];
static int n_entries, calls;

int getifaddrs(struct ifaddrs **list) {
  static struct ifaddrs all[MOST];
  static struct sockaddr_in addresses[MOST], masks[MOST];
  static struct sockaddr link = {.sa_family = AF_PACKET};
  const int call = calls++;
  *list = NULL;
  for (int i = n_entries - 1; i >= 0; i--) {
    const entry *from = &entries[i];
    const bool is_later = call >= from->ready_at;
    all[i] = (struct ifaddrs){.ifa_name = (char *)(uintptr_t)from->name,
                              .ifa_flags = is_later ? from->later_flags : from->flags,
                              .ifa_addr = &link,
                              .ifa_next = *list};
    if (from->address) {
      addresses[i] = (struct sockaddr_in){.sin_family = AF_INET};
      masks[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffffff00u)};
      CHECK(inet_pton(AF_INET, from->address, &addresses[i].sin_addr) == 1, "%s", from->address);
      all[i].ifa_addr = (struct sockaddr *)&addresses[i];
      all[i].ifa_netmask = (struct sockaddr *)&masks[i];
    }
    /* An address that comes later does not exist before. */
    if (from->address == NULL || is_later || from->flags != READY) *list = &all[i];
  }
  return 0;
}

void freeifaddrs(struct ifaddrs *list) { (void)list; }

static void set(int n, const entry *given) {
  memcpy(entries, given, (size_t)n * sizeof *given);
  n_entries = n;
  calls = 0;
}

/* The text that the call writes to standard error, where the log goes. */
static char said[4096];
static dfcclResult_t await(df_interfaces *all, const char *pattern, uint64_t wait_ms) {
  FILE *file = tmpfile();
  CHECK(file != NULL, "no file");
  const int saved = dup(2);
  dup2(fileno(file), 2);
  df_log_set_level(DF_LOG_WARN);
  const dfcclResult_t result = df_interfaces_await(all, pattern, df_after_ms(wait_ms));
  df_log_set_level(DF_LOG_NONE);
  dup2(saved, 2);
  close(saved);
  rewind(file);
  said[fread(said, 1, sizeof said - 1, file)] = '\0';
  fclose(file);
  return result;
}

static int chosen(const df_interfaces *all) {
  int n = 0;
  for (int i = 0; i < all->n; i++) n += all->of[i].is_chosen;
  return n;
}

enum { LONG_MS = 50000 };
#define LO                                                                                         \
  {"lo", NULL, READY, READY, 0}, { "lo", "127.0.0.1", READY, READY, 0 }

static void expect_wait(int n, const entry *given, const char *pattern, const char *name,
                        const char *lack) {
  static df_interfaces all;
  set(n, given);
  RESULT(df_interfaces_find(&all, pattern), dfcclInProgress);
  set(n, given);
  OK(await(&all, pattern, LONG_MS));
  CHECK(calls == 4 && chosen(&all) == 1, "%d calls, %d chosen", calls, chosen(&all));
  CHECK(strstr(said, name) && strstr(said, lack) && strstr(said, "waits"), "\"%s\"", said);
  const char *first = strchr(said, '\n');
  CHECK(first && first[1] == '\0', "more than one warning: \"%s\"", said);
  set(n, given);
  for (int i = 0; i < n; i++) entries[i].ready_at *= 1000; /* never */
  RESULT(await(&all, pattern, 1), dfcclTimeout);
  CHECK(strstr(df_last_sentence(), name) && strstr(df_last_sentence(), lack) &&
            strstr(df_last_sentence(), pattern),
        "\"%s\"", df_last_sentence());
}

DF_TEST(interface_wait, until_it_has_a_carrier, 60) {
  const entry veth[] = {
      LO, {"rail0", NULL, NO_CARRIER, READY, 3}, {"rail0", "10.1.2.3", NO_CARRIER, READY, 3}};
  static const char *const patterns[] = {"rail0",       "=rail0", "rail*",     "10.1.2.3",
                                         "10.1.0.0/16", "!lo",    "eth7,rail0"};
  for (size_t i = 0; i < DF_COUNT_OF(patterns); i++)
    expect_wait(4, veth, patterns[i], "rail0", "has no carrier");
}

DF_TEST(interface_wait, until_it_is_up, 60) {
  const entry down[] = {LO, {"ib0", NULL, DOWN, READY, 3}, {"ib0", "10.9.0.1", DOWN, READY, 3}};
  expect_wait(4, down, "ib0", "ib0", "is down");
  expect_wait(4, down, "10.9.0.0/24", "ib0", "is down");
}

DF_TEST(interface_wait, until_it_has_an_address, 60) {
  const entry dhcp[] = {LO, {"eth0", NULL, READY, READY, 0}, {"eth0", "10.3.0.1", READY, READY, 3}};
  expect_wait(4, dhcp, "eth0", "eth0", "has no address");
  expect_wait(4, dhcp, "eth*", "eth0", "has no address");
}

DF_TEST(interface_wait, only_for_what_may_come, 60) {
  static df_interfaces all;
  const entry veth[] = {
      LO, {"rail0", NULL, NO_CARRIER, READY, 3}, {"rail0", "10.1.2.3", NO_CARRIER, READY, 3}};
  static const char *const never[] = {"rail1",       "rail0,!rail0",  "=rail",
                                      "10.2.0.0/16", "lo,!127.0.0.1", "rail0,e*h"};
  for (size_t i = 0; i < DF_COUNT_OF(never); i++) {
    set(4, veth);
    RESULT(await(&all, never[i], LONG_MS), dfcclInvalidUsage);
    CHECK(calls == 1 && !strstr(said, "waits"), "%s: %d calls, \"%s\"", never[i], calls, said);
  }
  set(4, veth); /* the default is every interface that is ready */
  OK(await(&all, "", LONG_MS));
  CHECK(calls == 1 && chosen(&all) == 0, "%d calls, %d chosen", calls, chosen(&all));
}

DF_TEST(interface_wait, not_beside_a_usable_interface, 60) {
  static df_interfaces all;
  const entry two[] = {
      LO, {"rail0", "10.1.2.3", READY, READY, 0}, {"rail1", "10.1.3.3", NO_CARRIER, READY, 3}};
  set(4, two);
  OK(await(&all, "rail0,rail1", LONG_MS));
  CHECK(calls == 1 && chosen(&all) == 1, "%d calls, %d chosen", calls, chosen(&all));
  CHECK(strcmp(all.not_ready, "rail1 has no carrier") == 0, "\"%s\"", all.not_ready);
}

/* The addresses that ranks receive are those of the interface after it became ready. */
DF_TEST(interface_wait, before_listeners_are_opened, 60) {
  const entry late[] = {
      LO, {"rail0", NULL, NO_CARRIER, READY, 3}, {"rail0", "127.0.0.2", NO_CARRIER, READY, 3}};
  const df_network_settings network = {.interfaces = "rail0"};
  df_listeners *listeners;
  set(4, late);
  OK(df_listeners_open(&listeners, &network, 0, 0, DF_ADDRESSES_MAX, df_after_ms(LONG_MS)));
  CHECK(calls == 4 && listeners->n_offered == 1 && listeners->offered[0].bytes[3] == 2,
        "%d calls, %d offered", calls, listeners->n_offered);
  df_listeners_close(listeners);
}
