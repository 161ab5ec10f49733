/*
 * A network between two hosts with delay, jitter, loss and cuts. The hosts' packets go through this
 * program, over a TUN device in the network namespace of each host. (Linux can do the same by
 * netem, which not every kernel has.)
 *
 *   wire PID ADDRESS PID ADDRESS [--delay US] [--jitter US] [--loss PPM] [--cut MS]
 *        [--every MS] [--rate MBIT] [--seed S]
 *
 *   PID is a process in the host's namespace, and ADDRESS the address of the device wire0 there,
 *   "10.78.0.1/24". A packet takes --delay and at most --jitter more, drawn for each packet, so
 *   packets overtake each other. The wire loses --loss packets of a million. A cut begins --every
 *   milliseconds after the end of the previous cut, and the wire loses all packets for --cut
 *   milliseconds. --rate is the rate of each direction.
 *
 * The program prints "ready" when both devices are up, and carries packets until its standard input
 * ends. Then it prints "wire: N carried, N lost, N overtook, N cuts". The exit status is 77 without
 * the rights.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PACKET = 65536, WAITING = 8192, DIRECTIONS = 2, AT_ONCE = 64, MTU = 1500 };

typedef struct {
  uint64_t due_ns, number;
  ssize_t bytes;
  char *text;
} packet;

/* The packets in flight in one direction: a heap, with the packet that is due first at its top. */
typedef struct {
  packet packets[WAITING];
  int count;
  uint64_t free_ns;           /* when the line has sent the packets that it was given, at --rate */
  uint64_t numbered, largest; /* numbers of the last packet taken and of the latest one delivered */
} line;

static struct {
  uint64_t delay_us, jitter_us, loss_ppm, cut_ms, every_ms, rate_mbit, seed;
} options = {.every_ms = 1000, .seed = 1};
static line lines[DIRECTIONS];
static struct { uint64_t carried, lost, overtook, cuts; } counts;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t draw(void) {
  uint64_t z = options.seed += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static void skip(const char *what) {
  printf("skipped: %s: %s\n", what, strerror(errno));
  exit(77);
}

/* ---- devices */

static void bring_up(const char *address) {
  struct ifreq device = {0};
  struct sockaddr_in *in = (struct sockaddr_in *)&device.ifr_addr;
  char text[32];
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  char *slash;
  snprintf(text, sizeof text, "%s", address);
  slash = strchr(text, '/');
  if (slash == NULL) exit(2);
  *slash = '\0';
  snprintf(device.ifr_name, sizeof device.ifr_name, "wire0");
  in->sin_family = AF_INET;
  if (inet_pton(AF_INET, text, &in->sin_addr) != 1) exit(2);
  if (fd < 0 || ioctl(fd, SIOCSIFADDR, &device) != 0) skip("an address for wire0");
  in->sin_addr.s_addr = htonl(~(uint32_t)0 << (32 - atoi(slash + 1)));
  if (ioctl(fd, SIOCSIFNETMASK, &device) != 0) skip("a mask for wire0");
  device.ifr_mtu = MTU;
  if (ioctl(fd, SIOCSIFMTU, &device) != 0) skip("wire0's size of packets");
  device.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(fd, SIOCSIFFLAGS, &device) != 0) skip("wire0 up");
  close(fd);
}

static int open_device(const char *process, const char *address) {
  struct ifreq device = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/ns/net", process);
  int place = open(path, O_RDONLY | O_CLOEXEC);
  if (place < 0 || setns(place, CLONE_NEWNET) != 0) skip(path);
  close(place);
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  snprintf(device.ifr_name, sizeof device.ifr_name, "wire0");
  if (fd < 0 || ioctl(fd, TUNSETIFF, &device) != 0) skip("/dev/net/tun");
  bring_up(address);
  return fd;
}

/* ---- packets in flight */

static int is_before(const packet *a, const packet *b) {
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void insert(line *l, packet p) {
  int at = l->count++;
  for (; at > 0 && is_before(&p, &l->packets[(at - 1) / 2]); at = (at - 1) / 2)
    l->packets[at] = l->packets[(at - 1) / 2];
  l->packets[at] = p;
}

static packet take_first(line *l) {
  const packet first = l->packets[0], last = l->packets[--l->count];
  int at = 0;
  for (int child; (child = 2 * at + 1) < l->count; at = child) {
    if (child + 1 < l->count && is_before(&l->packets[child + 1], &l->packets[child])) child++;
    if (!is_before(&l->packets[child], &last)) break;
    l->packets[at] = l->packets[child];
  }
  l->packets[at] = last;
  return first;
}

static void accept_packet(line *l, const char *text, ssize_t bytes, int is_cut) {
  const uint64_t now = now_ns();
  packet p = {.due_ns = now, .number = ++l->numbered, .bytes = bytes};
  if (is_cut || draw() % 1000000 < options.loss_ppm || l->count == WAITING) {
    counts.lost++;
    return;
  }
  if (options.rate_mbit > 0) {
    if (l->free_ns < now) l->free_ns = now;
    p.due_ns = l->free_ns += (uint64_t)bytes * 8000 / options.rate_mbit;
  }
  p.due_ns += options.delay_us * 1000;
  if (options.jitter_us > 0) p.due_ns += draw() % (options.jitter_us * 1000);
  p.text = malloc((size_t)bytes);
  if (p.text == NULL) exit(3);
  memcpy(p.text, text, (size_t)bytes);
  insert(l, p);
}

static void deliver(line *l, int fd) {
  packet p = take_first(l);
  counts.overtook += p.number < l->largest;
  if (p.number > l->largest) l->largest = p.number;
  if (write(fd, p.text, (size_t)p.bytes) == p.bytes)
    counts.carried++;
  else
    counts.lost++;
  free(p.text);
}

/* ---- the wire */

/* Counted in this process's own steps, because the system may not run it for seconds. */
static int is_cut_now(void) {
  static int is;
  static uint64_t change_ns;
  const uint64_t now = now_ns();
  if (options.cut_ms == 0) return 0;
  if (change_ns == 0) change_ns = now + options.every_ms * 1000000u;
  if (now < change_ns) return is;
  is = !is;
  counts.cuts += (uint64_t)is;
  change_ns = now + (is ? options.cut_ms : options.every_ms) * 1000000u;
  return is;
}

static void carry(const int fds[DIRECTIONS]) {
  static char text[PACKET];
  struct pollfd polled[] = {{.fd = fds[0], .events = POLLIN},
                            {.fd = fds[1], .events = POLLIN},
                            {.fd = 0, .events = POLLIN}};
  while (polled[2].revents == 0) {
    const int is_cut = is_cut_now();
    uint64_t next = now_ns() + 10000000;
    for (int d = 0; d < DIRECTIONS; d++) {
      ssize_t bytes = 1;
      for (int k = 0; k < AT_ONCE && (bytes = read(fds[d], text, sizeof text)) > 0; k++)
        accept_packet(&lines[d], text, bytes, is_cut);
      while (lines[d].count > 0 && lines[d].packets[0].due_ns <= now_ns())
        deliver(&lines[d], fds[!d]);
      if (lines[d].count > 0 && lines[d].packets[0].due_ns < next)
        next = lines[d].packets[0].due_ns;
    }
    const uint64_t now = now_ns(), rest = next > now ? next - now : 0;
    ppoll(polled, 3, &(struct timespec){0, (long)rest}, NULL);
  }
}

static void read_options(int argc, char **argv) {
  const struct {
    const char *name;
    uint64_t *value;
  } known[] = {{"--delay", &options.delay_us}, {"--jitter", &options.jitter_us},
               {"--loss", &options.loss_ppm},  {"--cut", &options.cut_ms},
               {"--every", &options.every_ms}, {"--rate", &options.rate_mbit},
               {"--seed", &options.seed}};
  const size_t names = sizeof known / sizeof *known;
  for (int i = 5; i < argc; i += 2) {
    size_t k = 0;
    while (k < names && strcmp(argv[i], known[k].name) != 0) k++;
    if (k == names || i + 1 == argc) {
      fprintf(stderr, "wire: %s is not an option, or has no value\n", argv[i]);
      exit(2);
    }
    *known[k].value = strtoull(argv[i + 1], NULL, 10);
  }
}

int main(int argc, char **argv) {
  int fds[DIRECTIONS];
  if (argc < 5) return 2;
  read_options(argc, argv);
  for (int d = 0; d < DIRECTIONS; d++) fds[d] = open_device(argv[1 + 2 * d], argv[2 + 2 * d]);
  printf("ready\n");
  fflush(stdout);
  carry(fds);
  printf("wire: %llu carried, %llu lost, %llu overtook, %llu cuts\n",
         (unsigned long long)counts.carried, (unsigned long long)counts.lost,
         (unsigned long long)counts.overtook, (unsigned long long)counts.cuts);
  return 0;
}
