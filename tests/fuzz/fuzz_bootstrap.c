/*
 * Feeds the rendezvous with untrusted bytes. Whatever they are, the process neither dies nor waits,
 * and only messages with a MAC of the job's key change the job's state.
 *
 * The first byte selects the sender: an unauthenticated caller of the root, of a listener, or of a
 * rank's mesh listener; a rank of another host over a control channel; a rank that has the secret
 * but is broken; a broken root; a process that poses as a lower rank; or the author of a unique id.
 * It is built with libFuzzer where the compiler has it; otherwise fuzz_main.c makes the inputs.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bootstrap/rendezvous/handshake.h"
#include "bootstrap/mesh/mesh.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/root_loop.h"
#include "bootstrap/net/sockets.h"
#include "control/remote_channel.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLERS_MAX = 4 };

static void make_pair(int type, int pair[2]) {
  DF_ASSERT(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
}

static void send_some(int fd, const void *bytes, size_t size) {
  ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
  (void)sent; /* the other end may have closed, or have read enough */
}

static df_root *make_root(int n_ranks) {
  df_root_options options = {
      .listener = -1, .users_listener = -1, .n_ranks = n_ranks, .idle_ms = 3600000};
  memset(options.key, 7, sizeof options.key);
  df_root *root = df_root_create(&options);
  DF_ASSERT(root != NULL);
  return root;
}

/* ---- An unauthenticated caller of the root: malformed bytes over several connections ---- */

static void be_stranger_to_root(input *in) {
  df_root *root = make_root(0);
  int pairs[CALLERS_MAX][2];
  for (int i = 0; i < CALLERS_MAX; i++) {
    make_pair(SOCK_STREAM, pairs[i]);
    df_root_adopt(root, pairs[i][1]);
  }
  while (in->size > 0) {
    int caller = next_byte(in) % CALLERS_MAX;
    size_t taken;
    const uint8_t *bytes = next_bytes(in, next_byte(in), &taken);
    send_some(pairs[caller][0], bytes, taken);
    DF_ASSERT(df_root_step(root, 0)); /* such a caller does not end the root */
  }
  /* The root sends nothing but its proof to an unauthenticated caller. */
  for (int i = 0; i < CALLERS_MAX; i++) {
    unsigned char answer[1024];
    ssize_t got = recv(pairs[i][0], answer, sizeof answer, 0);
    DF_ASSERT(got <= (ssize_t)sizeof(df_challenge));
    close(pairs[i][0]);
  }
  df_root_step(root, 0);
  df_root_destroy(root);
}

/* ---- Ranks that have the secret and send arbitrary messages ---- */

static bool prove(df_root *root, int fd, unsigned char key[DF_KEY_BYTES]) {
  unsigned char root_key[DF_KEY_BYTES];
  memset(root_key, 7, sizeof root_key);
  df_hello hello;
  df_challenge challenge;
  df_message_start(&hello, DF_MESSAGE_HELLO, sizeof hello);
  send_some(fd, &hello, sizeof hello);
  df_root_step(root, 0);
  if (recv(fd, &challenge, sizeof challenge, 0) != sizeof challenge) return false;
  df_derive(key, DF_KEY_BYTES, root_key, "dfccl rendezvous", hello.nonce, sizeof hello.nonce,
            challenge.nonce, sizeof challenge.nonce);
  return df_message_verify(&challenge, sizeof challenge, key);
}

static size_t size_of(df_message_type type) {
  switch (type) {
  case DF_MESSAGE_JOIN:
    return sizeof(df_join_request);
  case DF_MESSAGE_FAILURE:
  case DF_MESSAGE_LEAVE:
  case DF_MESSAGE_NEWS:
    return sizeof(df_refusal);
  case DF_MESSAGE_PLACE:
    return sizeof(df_place);
  case DF_MESSAGE_TABLE:
    return sizeof(df_table);
  case DF_MESSAGE_CHALLENGE:
  case DF_MESSAGE_ANSWER:
    return sizeof(df_challenge);
  default:
    return sizeof(df_signal);
  }
}

/* A message with a valid MAC, of a type and a body that the input selects. */
static size_t forge(input *in, const unsigned char key[DF_KEY_BYTES], unsigned char *message) {
  df_message_type type = (df_message_type)(next_byte(in) % (DF_MESSAGE_NEWS + 1));
  size_t bytes = size_of(type), taken;
  df_message_start(message, type, bytes);
  size_t room = bytes - sizeof(df_header) - DF_MAC_BYTES;
  const uint8_t *body = next_bytes(in, DF_MIN(room, next_byte(in)), &taken);
  if (taken > 0) memcpy(message + sizeof(df_header), body, taken);
  df_message_seal(message, bytes, key);
  return bytes;
}

static void be_broken_ranks(input *in) {
  df_root *root = make_root(next_byte(in) % 4);
  unsigned char keys[CALLERS_MAX][DF_KEY_BYTES], message[DF_MESSAGE_BYTES_MAX];
  int pairs[CALLERS_MAX][2];
  for (int i = 0; i < CALLERS_MAX; i++) {
    make_pair(SOCK_STREAM, pairs[i]);
    df_root_adopt(root, pairs[i][1]);
    DF_ASSERT(prove(root, pairs[i][0], keys[i]));
  }
  bool running = true;
  while (in->size > 0 && running) {
    int caller = next_byte(in) % CALLERS_MAX;
    size_t bytes = forge(in, keys[caller], message);
    send_some(pairs[caller][0], message, bytes);
    if (next_byte(in) % 16 == 0) shutdown(pairs[caller][0], SHUT_RDWR);
    running = df_root_step(root, 0);
  }
  for (int i = 0; i < CALLERS_MAX; i++) close(pairs[i][0]);
  df_root_step(root, 0);
  df_root_destroy(root);
}

/* ---- A root that sends arbitrary messages ---- */

static void be_broken_root(input *in) {
  int pair[2];
  unsigned char message[DF_MESSAGE_BYTES_MAX];
  df_rendezvous *r = calloc(1, sizeof *r);
  DF_ASSERT(r != NULL);
  make_pair(SOCK_STREAM, pair);
  static const df_network_settings network = {.is_off = 1}; /* it opens no listeners */
  r->network = &network;
  r->n_ranks = 1 + next_byte(in) % 3;
  r->fd = pair[0];
  r->deadline_ns = df_clock_ns() + 1000000000u;
  memset(r->connection_key, 9, sizeof r->connection_key);
  int phase = next_byte(in) % 3;
  while (in->size > 0) {
    size_t bytes;
    if (next_byte(in) % 2 == 0) {
      bytes = forge(in, r->connection_key, message);
      send_some(pair[1], message, bytes);
    } else {
      const uint8_t *raw = next_bytes(in, next_byte(in), &bytes);
      send_some(pair[1], raw, bytes);
    }
  }
  shutdown(pair[1], SHUT_WR);
  dfcclResult_t result = phase == 0   ? df_rendezvous_table(r)
                         : phase == 1 ? df_rendezvous_news(r)
                                      : df_rendezvous_go(r);
  /* The end of the stream is noticed. (A refusal may name another rank as late.) */
  DF_ASSERT(result != dfcclTimeout || strstr(df_last_sentence(), "was silent for") == NULL);
  if (phase == 0 && result == dfcclSuccess) DF_ASSERT(r->records != NULL);
  close(pair[0]);
  close(pair[1]);
  free(r->records);
  free(r);
}

/* ---- An unauthenticated caller of a rank that waits for higher ranks ---- */

static void be_stranger_to_rank(input *in) {
  df_record records[3] = {0};
  unsigned char local[3] = {1, 0, 0};
  int sockets[3], root[2], callers[2];
  df_rendezvous *r = calloc(1, sizeof *r);
  DF_ASSERT(r != NULL);
  make_pair(SOCK_STREAM, root);
  *r = (df_rendezvous){.n_ranks = 3, .fd = root[0], .records = records, .timeout_ms = 2};
  pid_t self = getpid();
  memcpy(records[0].name, &self, sizeof self);
  int listener = df_listen_abstract(SOCK_SEQPACKET, records[0].name);
  DF_ASSERT(listener >= 0);
  r->listener.fd = listener;
  for (int i = 0; i < 2; i++) {
    callers[i] = df_connect_abstract(SOCK_SEQPACKET, records[0].name);
    DF_ASSERT(callers[i] >= 0);
  }
  while (in->size > 0) {
    int caller = next_byte(in) % 2;
    size_t taken;
    df_handshake_greeting greeting;
    df_message_start(&greeting, DF_MESSAGE_GREETING, sizeof greeting);
    bool well_formed = next_byte(in) % 2 == 0;
    const uint8_t *bytes = next_bytes(in, next_byte(in), &taken);
    if (well_formed && taken > 0)
      memcpy(&greeting.from, bytes, DF_MIN(taken, sizeof greeting - sizeof(df_header)));
    if (well_formed) send_some(callers[caller], &greeting, sizeof greeting);
    if (!well_formed && taken > 0) send_some(callers[caller], bytes, taken);
  }
  r->deadline_ns = df_clock_ns() + 2000000u;
  DF_ASSERT(df_mesh_connect(r, local, sockets) == dfcclTimeout); /* no caller has proven itself */
  for (int i = 0; i < 2; i++) close(callers[i]);
  close(listener);
  close(root[0]);
  close(root[1]);
  free(r);
}

/* ---- An unauthenticated caller of a listener of a job of two hosts ---- */

static void be_stranger_at_door(input *in) {
  static const df_network_settings network = {.is_off = 1};
  df_record records[2] = {{.host = 1}, {.host = 2}};
  df_remote_rank remote[2] = {{.is_remote = 0}, {.is_remote = 1, .has_channel = 1}};
  unsigned char local[2] = {1, 0};
  int sockets[2], root[2], callers[2];
  df_rendezvous *r = calloc(1, sizeof *r);
  DF_ASSERT(r != NULL);
  make_pair(SOCK_STREAM, root);
  *r = (df_rendezvous){
      .network = &network, .n_ranks = 2, .fd = root[0], .records = records, .timeout_ms = 2};
  r->listener.fd = -1;
  r->made.remote = remote;
  r->own = records[0];
  DF_ASSERT(df_listeners_open(&r->listeners, &network, 0, 0, 1, UINT64_MAX) == dfcclSuccess);
  for (int i = 0; i < 2; i++) {
    callers[i] = df_connect_loopback(r->listeners->port);
    DF_ASSERT(callers[i] >= 0 && df_socket_wait(callers[i], POLLOUT, UINT64_MAX) == 1);
  }
  while (in->size > 0) {
    int caller = next_byte(in) % 2;
    size_t taken;
    df_handshake_greeting greeting;
    df_message_start(&greeting, DF_MESSAGE_GREETING, sizeof greeting);
    greeting.from = 1;
    bool well_formed = next_byte(in) % 2 == 0;
    const uint8_t *bytes = next_bytes(in, next_byte(in), &taken);
    if (well_formed && taken > 0)
      memcpy(greeting.nonce, bytes, DF_MIN(taken, sizeof greeting.nonce));
    if (well_formed) send_some(callers[caller], &greeting, sizeof greeting);
    if (!well_formed && taken > 0) send_some(callers[caller], bytes, taken);
  }
  r->deadline_ns = df_clock_ns() + 2000000u;
  DF_ASSERT(df_mesh_connect(r, local, sockets) == dfcclTimeout); /* no caller has proven itself */
  for (int i = 0; i < 2; i++) df_socket_close(&callers[i]);
  df_listeners_close(r->listeners);
  close(root[0]);
  close(root[1]);
  free(r);
}

/* ---- A control channel whose other end sends arbitrary bytes, and may have the key ---- */

static void be_remote_rank(input *in) {
  static uint8_t message[DF_MAX_MESSAGE_BYTES];
  static const unsigned char key[DF_REMOTE_CHANNEL_KEY] = {3};
  df_remote_channel *line = df_remote_channel_open(key, 0, 1),
                    *other = df_remote_channel_open(key, 1, 0);
  int pair[2], error;
  DF_ASSERT(line != NULL && other != NULL);
  make_pair(SOCK_STREAM, pair);
  bool fine = true;
  while (in->size > 0 && fine) {
    uint8_t record[UINT8_MAX + DF_REMOTE_CHANNEL_OVERHEAD];
    size_t taken, bytes;
    const bool is_encrypted = next_byte(in) % 4 != 0;
    const uint8_t *raw = next_bytes(in, next_byte(in), &taken);
    /* The kind may be unknown, and the count wrong. */
    const df_record_kind kind = (df_record_kind)(1 + next_byte(in) % 4);
    if (is_encrypted && kind == DF_RECORD_COUNT) other->received = next_byte(in) % 2;
    if (is_encrypted) df_remote_channel_encrypt(other, kind, raw, taken, record);
    if (is_encrypted) send_some(pair[0], record, taken + DF_REMOTE_CHANNEL_OVERHEAD);
    if (!is_encrypted) send_some(pair[0], raw, taken);
    df_remote_channel_event event;
    while ((event = df_remote_channel_read(line, pair[1], message, &bytes, &error)) ==
           DF_REMOTE_CHANNEL_RECORD) {
      DF_ASSERT(bytes <= UINT8_MAX);
      event = df_remote_channel_take(line);
      DF_ASSERT(line->acknowledged <= line->sent);
      if (event == DF_REMOTE_CHANNEL_MALFORMED || event == DF_REMOTE_CHANNEL_END) break;
    }
    fine = event == DF_REMOTE_CHANNEL_NOTHING;
  }
  df_remote_channel_close(line);
  df_remote_channel_close(other);
  close(pair[0]);
  close(pair[1]);
}

/* ---- A process that poses as the lower rank that another rank calls ---- */

typedef struct {
  input *in;
  int listener;
} poser;

/* Accepts one call, answers with a well-formed answer or with arbitrary bytes, and closes. */
static void *pose(void *argument) {
  poser *p = argument;
  unsigned char greeting[sizeof(df_handshake_greeting)];
  df_answer answer;
  size_t taken;
  struct pollfd calls = {.fd = p->listener, .events = POLLIN};
  if (poll(&calls, 1, -1) <= 0) return NULL;
  int fd = df_accept(p->listener);
  if (fd < 0) return NULL;
  ssize_t got = recv(fd, greeting, sizeof greeting, 0); /* the listener may not exist yet */
  (void)got;
  while (p->in->size > 0) {
    bool well_formed = next_byte(p->in) % 2 == 0;
    const uint8_t *bytes = next_bytes(p->in, next_byte(p->in), &taken);
    df_message_start(&answer, DF_MESSAGE_ANSWER, sizeof answer);
    if (well_formed && taken > 0)
      memcpy(answer.nonce, bytes, DF_MIN(taken, sizeof answer - sizeof(df_header)));
    if (well_formed) send_some(fd, &answer, sizeof answer);
    if (!well_formed && taken > 0) send_some(fd, bytes, taken);
  }
  close(fd);
  return NULL;
}

static void be_posing_rank(input *in) {
  df_record records[2] = {0};
  unsigned char local[2] = {0, 1};
  int sockets[2], root[2];
  df_rendezvous *r = calloc(1, sizeof *r);
  DF_ASSERT(r != NULL);
  make_pair(SOCK_STREAM, root);
  *r = (df_rendezvous){.n_ranks = 2, .rank = 1, .fd = root[0], .records = records, .timeout_ms = 2};
  pid_t self = getpid();
  memcpy(records[0].name, &self, sizeof self);
  poser p = {.in = in, .listener = df_listen_abstract(SOCK_SEQPACKET, records[0].name)};
  DF_ASSERT(p.listener >= 0);
  r->listener.fd = -1;
  pthread_t thread;
  DF_ASSERT(pthread_create(&thread, NULL, pose, &p) == 0);
  r->deadline_ns = df_clock_ns() + 4000000u;
  DF_ASSERT(df_mesh_connect(r, local, sockets) != dfcclSuccess); /* it has not proven itself */
  shutdown(p.listener, SHUT_RDWR); /* it may not have called in time */
  pthread_join(thread, NULL);
  close(p.listener);
  close(root[0]);
  close(root[1]);
  free(r);
}

static void write_id(input *in) {
  dfcclUniqueId id = {{0}};
  df_id_content content = {.port = 1};
  size_t taken;
  df_id_write(&id, &content);
  const uint8_t *bytes = next_bytes(in, sizeof id, &taken);
  for (size_t i = 0; i < taken; i++) id.internal[i] = (char)(id.internal[i] ^ bytes[i]);
  if (df_id_read(&id, &content) == dfcclSuccess) DF_ASSERT(content.port != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  DF_ASSERT(df_handshake_ready() == dfcclSuccess);
  input in = {data, size};
  switch (next_byte(&in) % 16) {
  case 0: /* slow: it waits for a deadline */
    be_stranger_to_rank(&in);
    break;
  case 15:
    be_posing_rank(&in);
    break;
  case 14:
    be_stranger_at_door(&in);
    break;
  case 13:
    be_remote_rank(&in);
    break;
  case 1:
  case 2:
  case 3:
  case 4:
    be_stranger_to_root(&in);
    break;
  case 5:
  case 6:
  case 7:
  case 8:
    be_broken_root(&in);
    break;
  case 9:
    write_id(&in);
    break;
  default:
    be_broken_ranks(&in);
    break;
  }
  return 0;
}
