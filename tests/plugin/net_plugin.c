/*
 * A network plugin for tests, over TCP at the loopback address. PLUGIN_VERSION is the version of
 * its table. It behaves as real plugins may, and it ends the process when its caller does something
 * that not all of them allow:
 *   - calls of several threads, more than 8 requests of a communicator, tests out of order;
 *   - memory that is not registered, messages of no bytes, another handle's memory at each connect;
 *   - closing a communicator that still has registrations.
 *
 * Faults, by name (net_plugin.h):
 *
 *   init, devices, none (no device), device (for other memory than the host's), listen, connect,
 *   accept, register        that call fails
 *   hang:MS                 connect takes so long
 *   waits                   accept waits, whatever the version; connect has a communicator at once
 *   never                   connect never has a communicator
 *   later:N                 N percent of isend and irecv return no request
 *   send:N, receive:N       the N-th isend, irecv of a communicator fails
 *   test:N                  the N-th request that would complete fails instead
 *   small:N                 a message has at most N bytes (from version 9 on)
 *   spoil:N                 the N-th message of a communicator arrives with other bytes
 *   short                   test reports a wrong number of bytes
 *   slow:N                  a request completes only at its N-th test
 *   log                     a warning whose conversion does not fit its argument
 *   name                    another name
 */
#include "net_plugin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  SUCCESS = 0,
  SYSTEM_ERROR = 2,
  INTERNAL_ERROR = 3,
  REMOTE_ERROR = 6,
  HOST_MEMORY = 1,
  OTHER_MEMORY = 2,
  IN_FLIGHT = 8,
  HANDLE_BYTES = PLUGIN_VERSION == 4 ? 64 : 128,
  MAGIC = 0x7e57
};

typedef void (*logger)(int level, unsigned long flags, const char *file, int line,
                       const char *format, ...);

static char fault[64];
static atomic_int n_open;
static logger log_of_host;

__attribute__((constructor)) static void read_fault(void) {
  const char *value = getenv("DFCCL_TEST_PLUGIN_FAULT");
  snprintf(fault, sizeof fault, "%s", value ? value : "");
}

EXPORT void net_plugin_set(const char *value);
EXPORT int net_plugin_open(void);
void net_plugin_set(const char *value) { snprintf(fault, sizeof fault, "%s", value); }
int net_plugin_open(void) { return atomic_load(&n_open); }

#define MUST(condition, what)                                                                      \
  ((condition)                                                                                     \
       ? (void)0                                                                                   \
       : (fprintf(stderr, "plugin for tests: %s (%s:%d)\n", what, __FILE__, __LINE__), abort()))

static int has_fault(const char *name, int *number) {
  const size_t length = strlen(name);
  if (strncmp(fault, name, length) != 0 || (fault[length] && fault[length] != ':')) return 0;
  if (number) *number = atoi(fault + length + (fault[length] == ':'));
  return 1;
}

/* ---- checks of every call */

static _Atomic(uintptr_t) caller; /* 0: no thread has called since all objects were closed */

static void check_caller(void) {
  uintptr_t mine = (uintptr_t)pthread_self(), none = 0;
  if (!atomic_compare_exchange_strong(&caller, &none, mine))
    MUST(none == mine || atomic_load(&n_open) == 0, "called by several threads");
  atomic_store(&caller, mine);
}

/* ---- objects */

typedef struct registration {
  struct registration *next;
  const char *from;
  size_t bytes;
} registration;

typedef struct request {
  struct channel *channel;
  char *data;
  size_t bytes, at; /* at: counted from the 4 bytes of the length before the message */
  uint32_t length;
  int is_used, n_tests;
} request;

typedef struct channel {
  int fd, sends;
  registration *registrations;
  request requests[IN_FLIGHT];
  unsigned first, n;     /* requests in flight, the oldest first */
  int n_posted, n_ended; /* all of them */
  unsigned seed;
} channel;

typedef struct handle {
  int magic, fd; /* fd + 1 */
  struct sockaddr_in address;
  const void *self;
} handle;
_Static_assert(sizeof(handle) <= 64, "as version 4 allows");

static channel *make_channel(int fd, int sends) {
  channel *made = calloc(1, sizeof *made);
  MUST(made, "no memory");
  fcntl(fd, F_SETFL, O_NONBLOCK);
  *made = (channel){.fd = fd, .sends = sends, .seed = (unsigned)fd};
  atomic_fetch_add(&n_open, 1);
  return made;
}

/* ---- opening */

static void fill(void);

static int begin(logger log) {
  check_caller();
  fill();
  log_of_host = log;
  log(3, 4, __FILE__, __LINE__, "version %d, fault \"%s\"", PLUGIN_VERSION, fault);
  if (has_fault("log", NULL)) log(2, 4, __FILE__, __LINE__, "not a text: %s", 'x');
  if (!has_fault("init", NULL)) return SUCCESS;
  log(2, 4, __FILE__, __LINE__, "no such luck (%d of %d)", 1, 2);
  return SYSTEM_ERROR;
}

static int net_devices(int *n) {
  check_caller();
  *n = has_fault("none", NULL) ? 0 : 2;
  return has_fault("devices", NULL) ? INTERNAL_ERROR : SUCCESS;
}

typedef struct properties {
  char *name, *path;
  uint64_t guid;
  int memory;
#if PLUGIN_VERSION >= 8
  int is_global;
#endif
#if PLUGIN_VERSION >= 9
  int must_flush;
#endif
  int speed, port;
#if PLUGIN_VERSION >= 5
  float latency;
#endif
  int n_channels;
#if PLUGIN_VERSION >= 5
  int n_receives;
#endif
#if PLUGIN_VERSION >= 7
  int offload, offload_version;
#endif
#if PLUGIN_VERSION >= 9
  int n_parts, parts[PLUGIN_VERSION >= 12 ? 8 : 4];
  size_t point_most, collective_most;
#endif
#if PLUGIN_VERSION >= 11
  int multiple_most;
#endif
#if PLUGIN_VERSION >= 12
  int16_t rail, plane;
#endif
} properties;

/* The second device takes host memory. */
static int net_properties(int device, properties *out) {
  static char path[] = "/sys/none", names[2][6] = {"test0", "test1"};
  check_caller();
  memset(out, 0, sizeof *out);
  MUST(device == 0 || device == 1, "no such device");
  out->name = names[device];
  out->path = path;
  out->memory = device == 0 || has_fault("device", NULL) ? OTHER_MEMORY : HOST_MEMORY;
  out->speed = 10000;
  out->n_channels = 64;
#if PLUGIN_VERSION >= 9
  int most = 1 << 30;
  has_fault("small", &most);
  out->n_parts = 1;
  out->parts[0] = device;
  out->point_most = out->collective_most = (size_t)most;
#endif
  return SUCCESS;
}

/* ---- connecting */

static int net_listen(int device, void *there, void **made) {
  handle *mine = there;
  socklen_t length = sizeof mine->address;
  check_caller();
  MUST(device == 1, "a device without host memory");
  if (has_fault("listen", NULL)) return SYSTEM_ERROR;
  memset(there, 0x5a, HANDLE_BYTES); /* all of it belongs to the plugin */
  memset(mine, 0, sizeof *mine);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mine->magic = MAGIC;
  mine->address.sin_family = AF_INET;
  mine->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  MUST(fd >= 0 && bind(fd, (struct sockaddr *)&mine->address, length) == 0 && listen(fd, 8) == 0 &&
           getsockname(fd, (struct sockaddr *)&mine->address, &length) == 0,
       "no listener");
  *made = make_channel(fd, 0);
  return SUCCESS;
}

static int is_ready(int fd, short events, int ms) {
  struct pollfd entry = {.fd = fd, .events = events};
  return poll(&entry, 1, ms) == 1;
}

static int waits(void) { return PLUGIN_VERSION == 4 || has_fault("waits", NULL); }

static int net_connect(int device, void *there, void **made) {
  handle *far = there;
  int ms = 0, error = 0;
  socklen_t length = sizeof error;
  check_caller();
  MUST(device == 1 && far->magic == MAGIC && *made == NULL, "no handle");
  MUST(far->self == NULL || far->self == far, "the handle has moved");
  if (has_fault("connect", NULL)) return REMOTE_ERROR;
  if (has_fault("never", NULL)) return SUCCESS;
  if (has_fault("hang", &ms))
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
  if (far->fd == 0) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    MUST(fd >= 0, "no socket");
    if (connect(fd, (struct sockaddr *)&far->address, sizeof far->address) != 0 &&
        errno != EINPROGRESS) {
      close(fd);
      return SYSTEM_ERROR;
    }
    far->fd = fd + 1;
    far->self = far;
    if (!waits()) return SUCCESS; /* call again */
  }
  if (!is_ready(far->fd - 1, POLLOUT, waits() ? -1 : 0)) return SUCCESS;
  if (getsockopt(far->fd - 1, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error)
    return REMOTE_ERROR;
  *made = make_channel(far->fd - 1, 1);
  return SUCCESS;
}

static int net_accept(void *there, void **made) {
  const channel *listener = there;
  check_caller();
  MUST(*made == NULL, "accepted already");
  if (has_fault("accept", NULL)) return SYSTEM_ERROR;
  if (!is_ready(listener->fd, POLLIN, waits() ? -1 : 0)) return SUCCESS;
  const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return SYSTEM_ERROR;
  *made = make_channel(fd, 0);
  return SUCCESS;
}

/* ---- memory */

static int net_register(void *there, void *data, size_t bytes, int type, void **made) {
  channel *owner = there;
  check_caller();
  MUST(type == HOST_MEMORY && bytes, "memory of another kind");
  if (has_fault("register", NULL)) return SYSTEM_ERROR;
  registration *new = malloc(sizeof *new);
  MUST(new, "no memory");
  *new = (registration){.next = owner->registrations, .from = data, .bytes = bytes};
  owner->registrations = new;
  *made = new;
  atomic_fetch_add(&n_open, 1);
  return SUCCESS;
}

static int net_deregister(void *there, void *made) {
  channel *owner = there;
  check_caller();
  for (registration **at = &owner->registrations; *at; at = &(*at)->next)
    if (*at == made) {
      *at = (*at)->next;
      free(made);
      atomic_fetch_sub(&n_open, 1);
      return SUCCESS;
    }
  MUST(0, "no such registration");
  return INTERNAL_ERROR;
}

static void check_memory(const channel *owner, const void *registered, const char *data,
                         size_t bytes) {
  const registration *found = owner->registrations;
  while (found && found != registered) found = found->next;
  MUST(found, "memory that is not registered");
  MUST(bytes && data >= found->from && data + bytes <= found->from + found->bytes,
       "memory beyond what is registered");
}

/* ---- messages: a length, and then bytes */

static int move(channel *c, request *r, char *data, size_t bytes) {
  const ssize_t moved =
      c->sends ? send(c->fd, data, bytes, MSG_NOSIGNAL) : recv(c->fd, data, bytes, 0);
  if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (moved <= 0) return -1;
  r->at += (size_t)moved;
  return 1;
}

static size_t end_of(const channel *c, const request *r) {
  return sizeof r->length + (c->sends || r->at < sizeof r->length ? r->bytes : r->length);
}

/* Returns 1 when the request is done, -1 when it has failed. */
static int advance(channel *c, request *r) {
  int state = 1, number;
  while (state == 1 && r->at < end_of(c, r)) {
    if (r->at < sizeof r->length)
      state = move(c, r, (char *)&r->length + r->at, sizeof r->length - r->at);
    else
      state = move(c, r, r->data + r->at - sizeof r->length, end_of(c, r) - r->at);
    if (r->at >= sizeof r->length && r->length > r->bytes) return -1;
  }
  if (state != 1) return state;
  if (has_fault("spoil", &number) && !c->sends && c->n_ended + 1 == number) r->data[4] ^= 0x40;
  return 1;
}

static int post(channel *c, char *data, size_t bytes, void *registered, void **out) {
  int number;
  check_caller();
  MUST(*out == NULL, "a request with a wish");
  check_memory(c, registered, data, bytes);
  if (has_fault(c->sends ? "send" : "receive", &number) && c->n_posted + 1 == number)
    return INTERNAL_ERROR;
  if (has_fault("later", &number) && rand_r(&c->seed) % 100 < number) return SUCCESS;
  MUST(c->n < IN_FLIGHT, "more requests than all plugins allow");
  request *r = &c->requests[(c->first + c->n++) % IN_FLIGHT];
  MUST(!r->is_used, "a request is used twice");
  *r = (request){
      .channel = c, .data = data, .bytes = bytes, .length = (uint32_t)bytes, .is_used = 1};
  c->n_posted++;
  *out = r;
  return SUCCESS;
}

static int net_test(void *there, int *is_done, int *bytes) {
  request *r = there;
  channel *c = r->channel;
  int number;
  check_caller();
  MUST(r->is_used && r == &c->requests[c->first], "tested out of order");
  *is_done = 0;
  if (has_fault("slow", &number) && ++r->n_tests < number) return SUCCESS;
  const int state = advance(c, r);
  if (state < 0) return REMOTE_ERROR;
  if (state == 0) return SUCCESS;
  if (has_fault("test", &number) && c->n_ended + 1 == number) {
    log_of_host(2, 4, __FILE__, __LINE__, "request %d is lost", number);
    return SYSTEM_ERROR;
  }
  c->n_ended++;
  if (bytes) *bytes = has_fault("short", NULL) ? 1 : (int)r->length;
  r->is_used = 0;
  c->first = (c->first + 1) % IN_FLIGHT;
  c->n--;
  *is_done = 1;
  return SUCCESS;
}

static int net_close(void *there) {
  channel *c = there;
  check_caller();
  MUST(c->registrations == NULL, "closed with registrations");
  close(c->fd);
  free(c);
  atomic_fetch_sub(&n_open, 1);
  return SUCCESS;
}

#include "net_plugin_table.inc.h"
