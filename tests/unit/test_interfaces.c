/*
 * Promises of src/bootstrap/net/address.h, interfaces.h and listeners.h:
 *   - Addresses are written and read in the usual notation; malformed ones are refused.
 *   - A pattern of DFCCL_NET_INTERFACES selects by name, prefix, address and network, and "!"
 *     excludes. A malformed item, and a pattern without an interface, are refused, and the sentence
 *     names the interfaces that exist.
 *   - Listeners have one port at all addresses, from the requested range. If the network is off,
 *     other ranks receive no listener, whatever DFCCL_NET_ADVERTISE says.
 */
#include "bootstrap/net/interfaces.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "bootstrap/net/listeners.h"
#include "bootstrap/net/sockets.h"
#include "support/harness.h"

static df_address address_of(const char *text) {
  df_address address;
  CHECK(df_address_parse(&address, text, strlen(text)), "%s", text);
  return address;
}

DF_TEST(address, is_read_as_it_is_written, 10) {
  static const char *const right[] = {"10.0.0.1", "10.0.0.1:5000", "[fd00::1]:5000", "fe80::1"};
  static const char *const wrong[] = {"",          "10.0.0",    "10.0.0.1:", "10.0.0.1:0",
                                      "host:5000", "[10.0.0.1", "::1]",      "10.0.0.1:65536"};
  char text[DF_ADDRESS_TEXT];
  for (size_t i = 0; i < DF_COUNT_OF(right); i++) {
    df_address address = address_of(right[i]), again;
    CHECK(strcmp(df_address_text(&address, text), right[i]) == 0, "%s became %s", right[i], text);
    struct sockaddr_storage socket;
    df_address_to_socket(&address, 7, &socket);
    CHECK(df_address_from_socket(&again, &socket) && df_address_same_host(&address, &again) &&
              again.port == address.port,
          "%s", right[i]);
  }
  for (size_t i = 0; i < DF_COUNT_OF(wrong); i++) {
    df_address address;
    CHECK(!df_address_parse(&address, wrong[i], strlen(wrong[i])), "%s was read", wrong[i]);
  }
}

DF_TEST(address, that_no_rank_can_call_is_not_sane, 10) {
  static const char *const senseless[] = {"10.0.0.1", "0.0.0.0:1", "224.0.0.1:1", "[::]:1",
                                          "[ff02::1]:1"};
  for (size_t i = 0; i < DF_COUNT_OF(senseless); i++) {
    df_address address = address_of(senseless[i]);
    CHECK(!df_address_is_sane(&address), "%s", senseless[i]);
  }
  df_address fine = address_of("10.0.0.1:1"), odd = {.family = 5, .port = 1, .bytes = {1}};
  CHECK(df_address_is_sane(&fine) && !df_address_is_sane(&odd), "family");
}

static int chosen(const char *pattern) {
  static df_interfaces all;
  int n = 0;
  OK(df_interfaces_find(&all, pattern));
  for (int i = 0; i < all.n; i++) n += all.of[i].is_chosen;
  return n;
}

DF_TEST(interfaces, are_chosen_by_name_prefix_address_and_network, 10) {
  CHECK(chosen("=lo") >= 1 && chosen("=lo") == chosen("lo"), "by name");
  CHECK(chosen("l*") >= chosen("lo"), "by prefix");
  CHECK(chosen("127.0.0.1") == 1 && chosen("127.0.0.0/8") >= 1, "by network");
  CHECK(chosen("*") == chosen("*,=lo"), "all");
  CHECK(chosen("lo,!::1") >= 1, "all but one");
  CHECK(chosen("") <= chosen("*") - chosen("lo"), "lo is not among the default's");
  df_address own = address_of("127.0.0.1:80"), other = address_of("192.0.2.1:80");
  static df_interfaces all;
  OK(df_interfaces_find(&all, ""));
  CHECK(df_interfaces_have(&all, &own) && !df_interfaces_have(&all, &other), "own addresses");
}

DF_TEST(interfaces, a_malformed_pattern_is_refused, 10) {
  static const char *const wrong[] = {"e*h",  "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "!", "=",
                                      "a,,b", "lo,10.0/8",   "host:1",    "10.0.0.1:80"};
  static df_interfaces all;
  for (size_t i = 0; i < DF_COUNT_OF(wrong); i++)
    CHECK(df_interfaces_find(&all, wrong[i]) == dfcclInvalidUsage, "%s", wrong[i]);
  RESULT(df_interfaces_find(&all, "=none0"), dfcclInvalidUsage);
  CHECK(strstr(df_last_sentence(), "it has ") && strstr(df_last_sentence(), "lo (127.0.0.1"), "%s",
        df_last_sentence());
  RESULT(df_interfaces_find(&all, "lo,!lo"), dfcclInvalidUsage);
}

DF_TEST(interfaces, identities_are_of_host_and_machine, 10) {
  CHECK(df_host_identity() != 0 && df_host_identity() == df_host_identity(), "host");
  CHECK(df_host_identity() != df_machine_identity(), "machine");
}

DF_TEST(listeners, have_one_port_of_the_range, 20) {
  df_network_settings network = {.interfaces = "lo", .first_port = 0};
  df_listeners *any, *first, *second, *third;
  OK(df_listeners_open(&any, &network, 0, 0, DF_ADDRESSES_MAX, UINT64_MAX));
  CHECK(any->port != 0 && any->n >= 1 && any->n_offered >= 1, "%d doors", any->n);
  for (int i = 0; i < any->n_offered; i++)
    CHECK(any->offered[i].port == any->port, "offer %d has port %u", i, any->offered[i].port);
  network.first_port = any->port;
  network.last_port = (uint16_t)(any->port + 40); /* other processes may use some of them */
  OK(df_listeners_open(&first, &network, 0, 0, DF_ADDRESSES_MAX, UINT64_MAX));
  CHECK(first->port > any->port && first->port <= network.last_port, "port %u", first->port);
  RESULT(df_listeners_open(&second, &network, any->port, any->port, 1, UINT64_MAX),
         dfcclSystemError);
  CHECK(strstr(df_last_sentence(), "is free to listen on"), "%s", df_last_sentence());
  network.n_advertised = 1;
  network.advertised[0] = address_of("192.0.2.7");
  OK(df_listeners_open(&third, &network, 0, 0, DF_ADDRESSES_MAX, UINT64_MAX));
  CHECK(third->n_offered == 1 && third->offered[0].port == third->port &&
            third->offered[0].bytes[0] == 192,
        "advertised");
  df_listeners_close(third);
  df_listeners_close(first);
  df_listeners_close(any);
  df_listeners_close(NULL);
}

DF_TEST(listeners, are_not_announced_if_the_network_is_off, 10) {
  df_network_settings network = {.is_off = 1, .n_advertised = 1};
  network.advertised[0] = address_of("192.0.2.7");
  df_listeners *listeners;
  OK(df_listeners_open(&listeners, &network, 0, 0, DF_ADDRESSES_MAX, UINT64_MAX));
  CHECK(listeners->n == 1 && listeners->n_offered == 0, "%d doors, %d told", listeners->n,
        listeners->n_offered);
  df_listeners_close(listeners);
}
