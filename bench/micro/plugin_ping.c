/*
 * The speed of a network plugin made for NCCL by itself: two processes call it directly, without
 * the library. For comparison with the library's figures over the same plugin; for
 * development, not installed.
 *
 * Usage: bench-plugin-ping FILE [SECONDS]
 * Prints, for each size: half a round trip of one message, and bytes a second with 8 in flight.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "transports/net/plugin/nccl_net_abi.h"
#include "transports/net/plugin/plugin_library.h"

enum { IN_FLIGHT = 8, MOST = 1 << 20 };

typedef struct {
  df_plugin plugin;
  int device, is_first, line; /* line: to the other process */
  void *listener, *sender, *receiver, *send_registration, *receive_registration;
  char *to_send, *to_receive;
} end;

static void must(int is_right, const char *what) {
  if (is_right) return;
  fprintf(stderr, "bench-plugin-ping: %s fails\n", what);
  _exit(1);
}

static void meet(const end *e) {
  char word = 0;
  must(write(e->line, &word, 1) == 1 && read(e->line, &word, 1) == 1, "meeting");
}

/* The second connects when the first has accepted: some plugins' calls wait. */
static void join(end *e) {
  char mine[DF_PLUGIN_HANDLE_BYTES] = {0}, theirs[DF_PLUGIN_HANDLE_BYTES];
  must(df_plugin_listen(&e->plugin, e->device, mine, &e->listener) == 0, "listen");
  must(write(e->line, mine, sizeof mine) == (ssize_t)sizeof mine, "write");
  must(read(e->line, theirs, sizeof theirs) == (ssize_t)sizeof theirs, "read");
  int error = df_plugin_connect(&e->plugin, e->device, theirs, &e->sender);
  meet(e); /* both have called connect */
  while (!error && (!e->sender || !e->receiver)) {
    if (!e->sender) error = df_plugin_connect(&e->plugin, e->device, theirs, &e->sender);
    if (!error && !e->receiver) error = df_plugin_accept(&e->plugin, e->listener, &e->receiver);
  }
  must(error == 0, "connect or accept");
  must(df_plugin_register(&e->plugin, e->sender, e->to_send, MOST, &e->send_registration) == 0 &&
           df_plugin_register(&e->plugin, e->receiver, e->to_receive, MOST,
                              &e->receive_registration) == 0,
       "regMr");
}

static void *post(end *e, int sends, size_t bytes) {
  void *request = NULL;
  int error = 0;
  while (!error && !request)
    error = sends ? df_plugin_send(&e->plugin, e->sender, e->to_send, bytes, e->send_registration,
                                   &request)
                  : df_plugin_receive(&e->plugin, e->receiver, e->to_receive, bytes,
                                      e->receive_registration, &request);
  must(error == 0, sends ? "isend" : "irecv");
  return request;
}

static void finish(end *e, void *request) {
  int is_done = 0;
  while (!is_done) must(df_plugin_test(&e->plugin, request, &is_done) == 0, "test");
}

/* The receive is posted before the message can come. Nanoseconds. */
static uint64_t ping(end *e, size_t bytes, int times) {
  void *receive = post(e, 0, bytes);
  meet(e);
  const uint64_t begin = df_clock_ns();
  for (int i = 0; i < times; i++) {
    if (e->is_first) finish(e, post(e, 1, bytes));
    finish(e, receive);
    if (i + 1 < times) receive = post(e, 0, bytes);
    if (!e->is_first) finish(e, post(e, 1, bytes));
  }
  return (df_clock_ns() - begin) / 2;
}

static uint64_t stream(end *e, size_t bytes, int times) {
  void *requests[IN_FLIGHT];
  meet(e);
  const uint64_t begin = df_clock_ns();
  for (int i = 0; i < times; i++) {
    if (i >= IN_FLIGHT) finish(e, requests[i % IN_FLIGHT]);
    requests[i % IN_FLIGHT] = post(e, e->is_first, bytes);
  }
  for (int i = times > IN_FLIGHT ? times - IN_FLIGHT : 0; i < times; i++)
    finish(e, requests[i % IN_FLIGHT]);
  return df_clock_ns() - begin;
}

/* As many as take so long, as the first finds; both must do the same number. */
static int agree(end *e, uint64_t (*what)(end *, size_t, int), size_t bytes, double seconds) {
  enum { TRIES = 64 };
  const uint64_t ns = what(e, bytes, TRIES) + 1;
  int times = (int)(seconds * 1e9 * TRIES / (double)ns);
  if (times < TRIES) times = TRIES;
  must(e->is_first ? write(e->line, &times, sizeof times) == (ssize_t)sizeof times
                   : read(e->line, &times, sizeof times) == (ssize_t)sizeof times,
       "agreeing");
  return times;
}

static void play(end *e, double seconds) {
  static const size_t sizes[] = {8, 512, 4096, 32768, 65536, 262144, MOST};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int pings = agree(e, ping, sizes[i], seconds);
    const double ping_ns = (double)ping(e, sizes[i], pings) / pings;
    const int streams = agree(e, stream, sizes[i], seconds);
    const double stream_ns = (double)stream(e, sizes[i], streams) / streams;
    if (e->is_first)
      printf("%8zu bytes %9.1f us %8.2f GB/s\n", sizes[i], ping_ns / 1e3,
             (double)sizes[i] / stream_ns);
    fflush(stdout);
  }
  meet(e);
}

int main(int argc, char **argv) {
  int lines[2];
  df_plugin_device properties;
  end e = {0};
  if (argc < 2) {
    fprintf(stderr, "usage: bench-plugin-ping FILE [SECONDS]\n");
    return 2;
  }
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, lines) == 0, "socketpair");
  const pid_t child = fork();
  e.is_first = child != 0;
  e.line = lines[e.is_first];
  close(lines[!e.is_first]);
  e.to_send = aligned_alloc(4096, MOST);
  e.to_receive = aligned_alloc(4096, MOST);
  must(e.to_send != NULL && e.to_receive != NULL, "malloc");
  memset(e.to_send, 1, MOST);
  must(df_plugin_load(&e.plugin, argv[1]) == dfcclSuccess &&
           df_plugin_start(&e.plugin, argv[1], &e.device, &properties) == dfcclSuccess,
       "loading the plugin");
  if (e.is_first)
    printf("%s, version %d, device %s\n", df_plugin_name(&e.plugin), e.plugin.version,
           properties.name);
  join(&e);
  play(&e, argc > 2 ? atof(argv[2]) : 0.3);
  if (e.is_first) waitpid(child, NULL, 0);
  _exit(0); /* a plugin's threads may not like another end */
}
