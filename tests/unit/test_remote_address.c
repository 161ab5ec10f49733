/*
 * Promises of src/bootstrap/mesh/remote_address.h:
 *   - The address of a rank that has called is the listed one that it called from. An address that
 *     it has not listed is used, with the listed port, if our own calls failed, or on loopback.
 *   - The address of a rank that has not called is one in a network of this host, then one that a
 *     router may reach. Addresses that this host has too (bridges of containers), that nobody can
 *     call, and loopback are left out. A rank of the same machine is called on loopback.
 *   - A record may claim any number of addresses: nobody has checked it.
 */
#include "bootstrap/mesh/remote_address.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/harness.h"

enum { PORT = 5000 };

static df_address address_of(const char *text) {
  df_address address;
  CHECK(df_address_parse(&address, text, strlen(text)), "%s", text);
  return address;
}

static bool is(const df_address *address, const char *text) {
  char own[DF_ADDRESS_TEXT];
  return strcmp(df_address_text(address, own), text) == 0;
}

static df_record record_of(const char *const *addresses, int n) {
  df_record record = {.n_addresses = n, .machine = 2};
  for (int i = 0; i < n; i++) record.addresses[i] = address_of(addresses[i]);
  return record;
}

/* ---- ranks that have called */

/* The end of a connection whose other end is at 127.0.0.1. */
static int accept_from_loopback(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof at;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), caller = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, (struct sockaddr *)&at, &bytes) == 0 &&
            connect(caller, (struct sockaddr *)&at, sizeof at) == 0,
        "no connection over loopback");
  const int fd = accept(listener, NULL, NULL);
  CHECK(fd >= 0, "not accepted");
  close(listener);
  close(caller);
  return fd;
}

DF_TEST(remote_address, of_a_caller, 30) {
  static const char *const listed[] = {"10.0.0.2:5000", "127.0.0.1:5001"};
  static const char *const others[] = {"10.0.0.2:5000", "10.1.0.2:5000"};
  df_remote_rank remote = {.scope = 9};
  df_record record = record_of(listed, 2);
  const int fd = accept_from_loopback();
  df_remote_address_of_caller(&remote, &record, fd, 0);
  CHECK(is(&remote.address, listed[1]) && remote.scope == 0, "the listed address is better");
  record = record_of(others, 2);
  df_remote_address_of_caller(&remote, &record, fd, 0);
  CHECK(is(&remote.address, "127.0.0.1:5000"), "it has called over loopback");
  close(fd);
  /* A descriptor without a peer: the connection has ended. */
  df_remote_address_of_caller(&remote, &record, -1, 0);
  CHECK(is(&remote.address, others[0]), "the first listed address");
}

/* ---- ranks that have not */

static const df_interfaces *own_interfaces(void) {
  static df_interfaces all = {.n = 4};
  static const struct {
    const char *address;
    uint8_t prefix;
    bool is_chosen;
  } own[] = {{"10.0.0.1", 24, true},
             {"172.17.0.1", 16, false}, /* a bridge of containers */
             {"fe80::1", 64, true},
             {"10.9.0.1", 24, false}};
  for (int i = 0; i < all.n; i++)
    all.of[i] = (df_interface){.index = (uint32_t)i + 1,
                               .prefix = own[i].prefix,
                               .is_chosen = own[i].is_chosen,
                               .address = address_of(own[i].address)};
  return &all;
}

static df_remote_rank guess(const char *const *addresses, int n, uint64_t machine) {
  df_record records[2] = {{.n_addresses = 0}, record_of(addresses, n)};
  const df_rendezvous rendezvous = {.records = records, .own = {.machine = machine}};
  df_remote_rank remote = {.n_offered = 0};
  df_remote_address_guess(&remote, &rendezvous, 1, own_interfaces());
  CHECK(remote.n_offered == n, "%d of %d addresses are kept", remote.n_offered, n);
  return remote;
}

DF_TEST(remote_address, a_guess, 30) {
  static const struct {
    const char *addresses[3], *best;
    uint32_t scope;
  } cases[] = {
      {{"192.168.0.2:1", "10.0.0.2:2", "10.0.0.3:3"}, "10.0.0.2:2", 0}, /* our network */
      {{"10.9.0.2:1", "192.168.0.2:2", "10.9.0.3:3"}, "10.9.0.2:1", 0}, /* not a chosen one */
      {{"172.17.0.1:1", "127.0.0.1:2", "10.77.0.2:3"}, "10.77.0.2:3", 0},
      {{"0.0.0.0:1", "224.0.0.1:2", "10.77.0.2:3"}, "10.77.0.2:3", 0},
      {{"[fe80::2]:1", "127.0.0.1:2", "172.17.0.1:3"}, "[fe80::2]:1", 3},
      {{"[fe80::2]:1", "10.77.0.2:2", "172.17.0.1:3"}, "10.77.0.2:2", 0},
      {{"172.17.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, "172.17.0.1:1", 0}, /* nothing is better */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[DF_ADDRESS_TEXT];
    const df_remote_rank remote = guess(cases[i].addresses, 3, 1);
    CHECK(is(&remote.address, cases[i].best) && remote.scope == cases[i].scope,
          "case %zu: %s, scope %u", i, df_address_text(&remote.address, text), remote.scope);
  }
  const df_remote_rank same_machine = guess(cases[0].addresses, 3, 2);
  CHECK(is(&same_machine.address, "127.0.0.1:1"), "a rank of the same machine");
}

DF_TEST(remote_address, any_number_of_addresses, 30) {
  static const char *const one[] = {"10.0.0.2:1"};
  const int numbers[] = {-1, 0, DF_ADDRESSES_MAX + 1, INT32_MAX, INT32_MIN};
  const int fd = accept_from_loopback();
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    df_remote_rank remote = {.n_offered = 0};
    df_record record = record_of(one, 1);
    record.n_addresses = numbers[i];
    df_remote_address_keep_offered(&remote, &record);
    CHECK(remote.n_offered >= 0 && remote.n_offered <= DF_ADDRESSES_MAX, "%d", numbers[i]);
    df_remote_address_of_caller(&remote, &record, fd, 1);
    CHECK(is(&remote.address, "127.0.0.1:1"), "%d addresses", numbers[i]);
  }
  close(fd);
}
