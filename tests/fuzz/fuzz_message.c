/* Peer processes that send arbitrary messages to a rank that is a member of their collectives.
 * Whatever their datagrams are, the rank neither dies nor waits for ever. The input is a list of
 * datagrams. The first byte of each selects how much of it is the input's: raw bytes
 * (df_message_is_valid), or a well-formed message whose fields are the input's
 * (df_messenger_deliver). Most numbers are small, so that they name existing objects, and some
 * messages have a descriptor. Built with libFuzzer where the compiler has it; otherwise fuzz_main.c
 * makes the inputs. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mutex.h"
#include "bootstrap/entry.h"
#include "bootstrap/rendezvous/handshake.h"
#include "host/state/context.h"
#include "host/state/peer_info.h"
#include "control/service.h"
#include "host/registration/announcement.h"
#include "host/observe/snapshot.h"
#include "host/state/registry.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 4, COLLECTIVES = 3, COUNT = 100 };

/* The members of each collective: all ranks; three; two. */
static const int groups[COLLECTIVES][RANKS] = {{0, 1, 2, 3}, {2, 0, 3}, {0, 1}};
static const int group_sizes[COLLECTIVES] = {4, 3, 2};

/* A number that is often meaningful. */
static uint64_t next_number(input *in) {
  uint8_t shape = next_byte(in), value = next_byte(in);
  switch (shape % 8) {
  case 0:
    return DF_FIRST_LINKS_SEGMENT + value % 4;
  case 1:
    return (uint64_t)value << (shape / 8 * 2);
  case 2:
    return value * (uint64_t)DF_PAGE;
  case 3:
    return UINT64_MAX - value;
  default:
    return value % 4;
  }
}

/* ---- the rank under test ---- */

/* ends: of the peers' sockets; rank 0 has none. Returns NULL if rank 1's peer info, which the input
 * sometimes makes, is refused. */
static dfcclContext_t open_rank(int ends[RANKS], input *in) {
  dfcclContext_t context = NULL;
  df_settings settings;
  df_mesh mesh = {.n_ranks = RANKS};
  DF_ASSERT(df_settings_read(&settings, NULL) == dfcclSuccess);
  mesh.peer_info = calloc(RANKS, sizeof *mesh.peer_info);
  mesh.sockets = calloc(RANKS, sizeof *mesh.sockets);
  mesh.local = calloc(RANKS, 1);
  DF_ASSERT(mesh.peer_info != NULL && mesh.sockets != NULL && mesh.local != NULL);
  for (int r = 0; r < RANKS; r++) mesh.peer_info[r] = df_make_peer_info(&settings);
  const uint8_t odd = next_byte(in) % 16;
  if (odd == 14) { /* rank 3 is behind rank 2, and this rank is a relay */
    static const uint64_t hosts[RANKS] = {1, 1, 2, 2};
    mesh.routes = df_routes_make(hosts, RANKS, 0);
    DF_ASSERT(mesh.routes != NULL);
  }
  if (odd == 15)
    for (size_t i = next_byte(in) % 64; i < sizeof mesh.peer_info[1].bytes && in->size > 0; i++)
      mesh.peer_info[1].bytes[i] = next_byte(in);
  mesh.local[0] = 1;
  mesh.n_local = 1;
  mesh.sockets[0] = -1;
  for (int r = 1; r < RANKS; r++) {
    int pair[2];
    DF_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    mesh.sockets[r] = pair[0];
    ends[r] = pair[1];
  }
  dfcclResult_t result = df_context_open(&context, RANKS, 0, &settings, &mesh);
  DF_ASSERT((result == dfcclSuccess) == (context != NULL));
  if (result != dfcclSuccess) DF_ASSERT(strstr(df_last_sentence(), "rank 1") != NULL);
  return context;
}

static uint32_t callbacks;
static void count_callback(dfcclCollId_t coll, dfcclResult_t status, void *argument) {
  (void)coll;
  (void)status;
  (void)argument;
  df_system_add_u32(&callbacks, 1);
}

/* Registers and runs collectives, so that the peers' messages have an object. */
static uint32_t submit_some(dfcclContext_t context, int8_t *buffers) {
  uint32_t accepted = 0;
  for (dfcclCollId_t id = 0; id < COLLECTIVES; id++) {
    int8_t *send = buffers + 2 * id * COUNT, *recv = send + COUNT;
    dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
    options.ranks = groups[id];
    options.nRanks = group_sizes[id];
    dfcclResult_t result =
        dfcclRegisterAllReduce(context, id, COUNT, dfcclInt8, dfcclSum, &options);
    if (result == dfcclSuccess)
      accepted += dfcclRunAllReduce(context, id, send, recv, count_callback, NULL) == dfcclSuccess;
  }
  return accepted;
}

/* ---- the peers ---- */

/* change: the field that is wrong; 3: none. */
static size_t announce(input *in, dfcclContext_t context, df_message *message, uint8_t change) {
  df_announcement announcement = {0};
  uint32_t ranks[RANKS] = {0, 1, 2, 3};
  announcement.group_size = 2;
  df_rank_lock(&context->lock);
  df_coll *coll = df_find(context, message->id);
  if (coll) { /* the announcement that matches */
    announcement = df_coll_announcement(coll);
    memcpy(ranks, coll->ranks, announcement.group_size * sizeof *ranks);
  }
  df_rank_unlock(&context->lock);
  if (change % 4 == 0) ((uint8_t *)&announcement)[change % sizeof announcement] ^= next_byte(in);
  if (change % 4 == 2) announcement.group_size += change / 4;
  if (change % 4 != 3) announcement.group_step = change / 64;
  announcement.group_size = 1 + (announcement.group_size - 1) % RANKS;
  if (change % 4 == 1) ranks[change / 4 % RANKS] = (uint32_t)next_number(in);
  if (announcement.group_step) ranks[0] %= DF_MAX_RANKS / 2;
  return df_announcement_write(&announcement, ranks, message + 1);
}

static int next_descriptor(input *in, df_message *message) {
  uint8_t kind = next_byte(in);
  if (kind % 4 == 0) return -1;
  if (kind % 4 == 1) return dup(STDERR_FILENO);
  int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  uint64_t bytes = (uint64_t)(1 + kind / 4 % 8) * DF_PAGE;
  DF_ASSERT(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
  if (kind % 4 == 2) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  if (kind >= 64) message->a = bytes;
  return fd;
}

/* An envelope around a message without a payload. */
static uint32_t wrap(input *in, df_message *message) {
  static const df_message_kind kinds[] = {DF_MESSAGE_PING, DF_MESSAGE_BYE, DF_MESSAGE_DEREGISTER,
                                          DF_MESSAGE_LIMIT};
  const df_relayed head = {.source = next_byte(in) % (RANKS + 1), .n = 1 + next_byte(in) % 4};
  const df_message inner = {.magic = DF_MESSAGE_MAGIC,
                            .kind = (uint16_t)kinds[next_byte(in) % DF_COUNT_OF(kinds)],
                            .id = next_byte(in) % COLLECTIVES,
                            .a = next_byte(in)};
  uint8_t *payload = (uint8_t *)(message + 1);
  const uint32_t before = df_relayed_head_bytes(head.n);
  memset(payload, 0, before);
  memcpy(payload, &head, sizeof head);
  for (uint32_t i = 0; i < head.n; i++) {
    const uint32_t rank = next_byte(in) % (RANKS + 1);
    memcpy(payload + sizeof head + i * sizeof rank, &rank, sizeof rank);
  }
  memcpy(payload + before, &inner, sizeof inner);
  return before + (uint32_t)sizeof inner;
}

/* A snapshot with a few wrong bytes. It fits into the message of the caller. */
static size_t make_snapshot(input *in, uint32_t peer, void *to) {
  df_snapshot snapshot = {.header = {.magic = DF_SNAPSHOT_MAGIC,
                                     .version = DF_SNAPSHOT_VERSION,
                                     .bytes = sizeof snapshot},
                          .rank = peer,
                          .n_ranks = RANKS};
  const uint8_t wrong = next_byte(in) % 4;
  for (uint8_t i = 0; i < wrong; i++) {
    const size_t at = (size_t)next_byte(in) * 2;
    ((uint8_t *)&snapshot)[at % sizeof snapshot] = next_byte(in);
  }
  memcpy(to, &snapshot, sizeof snapshot);
  return next_byte(in) % 8 ? sizeof snapshot : (size_t)1 + next_byte(in);
}

/* Mostly a number that the rank expects; else the extreme that was drawn. */
static void make_small(input *in, uint64_t *number) {
  if (next_byte(in) % 8 != 0) *number %= 2;
}

/* A well-formed message that the input selects. */
static void say(input *in, dfcclContext_t context, uint32_t peer) {
  union {
    df_message message;
    uint8_t bytes[sizeof(df_message) + DF_SENTENCE_BYTES + 256];
  } d = {.message = {.magic = DF_MESSAGE_MAGIC}};
  df_message *message = &d.message;
  message->kind = (uint16_t)(1 + next_byte(in) % (DF_MESSAGE_KINDS - 1));
  message->id = next_number(in);
  message->a = next_number(in);
  message->b = next_number(in);
  message->variant = next_byte(in) % 3;
  size_t taken = 0;
  int fd = -1;
  if (message->kind == DF_MESSAGE_ANNOUNCE) {
    message->payload_bytes = (uint32_t)announce(in, context, message, next_byte(in));
  } else if (message->kind == DF_MESSAGE_RELAYED) {
    message->payload_bytes = wrap(in, message);
    message->id %= 6;
  } else if (message->kind == DF_MESSAGE_FAIL || message->kind == DF_MESSAGE_ABORT ||
             message->kind == DF_MESSAGE_FAILURE_REASON || message->kind == DF_MESSAGE_LOST) {
    if (message->kind == DF_MESSAGE_LOST) message->id %= RANKS + 1;
    const uint8_t *text = next_bytes(in, next_byte(in) % 64, &taken);
    if (taken > 0) memcpy(message + 1, text, taken);
    message->payload_bytes = (uint32_t)taken + 1;
  } else if (message->kind == DF_MESSAGE_PROPOSE) {
    const df_variant_spec spec = {.algorithm = next_byte(in) % (DF_ALGORITHMS + 1),
                                  .slots = next_byte(in) % 9,
                                  .slot_bytes = 16u * next_byte(in)};
    memcpy(message + 1, &spec, sizeof spec);
    message->payload_bytes = sizeof spec;
    message->a %= DF_PURPOSES;
  } else if (message->kind == DF_MESSAGE_PURPOSE) {
    message->a %= DF_PURPOSES;
  } else if (message->kind == DF_MESSAGE_TIMES) {
    const uint8_t *times = next_bytes(in, 4, &taken);
    if (taken > 0) memcpy(message + 1, times, taken);
    message->payload_bytes = 4;
  } else if (message->kind == DF_MESSAGE_QUESTION) {
    message->payload_bytes = next_byte(in) % 4 * 8u;
    memset(message + 1, next_byte(in) % COLLECTIVES, message->payload_bytes);
  } else if (message->kind == DF_MESSAGE_SNAPSHOT) {
    message->payload_bytes = (uint32_t)make_snapshot(in, peer, message + 1);
  } else if (message->kind == DF_MESSAGE_ENTRY) {
    df_entry_request request; /* the address is one where nobody listens */
    df_message_start(&request, DF_MESSAGE_ENTRY_REQUEST, sizeof request);
    request.survive = next_byte(in) % 3;
    if (next_byte(in) % 4 == 0) request.header.type++;
    memcpy(message + 1, &request, sizeof request);
    message->payload_bytes = sizeof request;
  } else if (message->kind == DF_MESSAGE_NEWCOMER) {
    const df_newcomer newcomer = {.rank = next_byte(in) % 5, .incarnation = next_byte(in) % 3};
    message->payload_bytes = next_byte(in) % 2 ? sizeof newcomer : 0;
    memcpy(message + 1, &newcomer, message->payload_bytes);
  } else if (message->kind == DF_MESSAGE_ADMIT_COUNTS) {
    const df_run_count count = {.collective = next_byte(in) % COLLECTIVES,
                                .runs = next_byte(in) % 3,
                                .registration = (uint32_t)next_number(in)};
    make_small(in, &message->id);
    make_small(in, &message->a);
    message->b %= 2;
    message->payload_bytes = next_byte(in) % 2 ? sizeof count : 0;
    memcpy(message + 1, &count, message->payload_bytes);
  } else if (message->kind == DF_MESSAGE_ADMIT_DIFFERS) {
    const df_count_difference difference = {.runs = {next_byte(in) % 2, 1},
                                            .ranks = {next_byte(in) % 4, next_byte(in) % 4}};
    make_small(in, &message->id);
    memcpy(message + 1, &difference, sizeof difference);
    message->payload_bytes = sizeof difference;
  } else if (message->kind == DF_MESSAGE_LINKS) {
    message->a %= DF_MAX_CHANNELS; /* a channel */
    const df_shm_offer offer = {.segment = next_number(in),
                                .offset = next_number(in),
                                .n_slots = (uint32_t)next_number(in),
                                .release_mask = next_byte(in)};
    memcpy(message + 1, &offer, sizeof offer);
    message->payload_bytes = sizeof offer;
  } else if (message->kind == DF_MESSAGE_SEGMENT) {
    fd = next_descriptor(in, message);
  }
  DF_ASSERT(df_message_is_valid(message, sizeof *message + message->payload_bytes));
  df_rank_lock(&context->lock);
  df_messenger_deliver(&context->control, peer, message, fd);
  df_rank_unlock(&context->lock);
}

/* The messages of a correct peer, in order, so that links are sometimes connected. */
static void say_soundly(dfcclContext_t context, uint32_t peer, uint32_t step) {
  union {
    df_message message;
    uint8_t bytes[sizeof(df_message) + 256];
  } d = {.message = {.magic = DF_MESSAGE_MAGIC}};
  df_message *message = &d.message;
  input none = {NULL, 0};
  int fd = -1;
  if (step < 2) {
    fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    message->kind = DF_MESSAGE_SEGMENT;
    message->a = step ? 1 << 20 : DF_PAGE;
    message->id = step ? DF_FIRST_LINKS_SEGMENT : 0;
    message->b = step ? DF_SEGMENT_LINKS : DF_SEGMENT_HOME;
    DF_ASSERT(fd >= 0 && ftruncate(fd, (off_t)message->a) == 0);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  } else {
    message->id = (step - 2) / 2 % COLLECTIVES;
    if (step % 2 == 0) {
      message->kind = DF_MESSAGE_ANNOUNCE;
      message->payload_bytes = (uint32_t)announce(&none, context, message, 3);
    } else {
      const df_shm_offer offer = {
          .segment = DF_FIRST_LINKS_SEGMENT, .offset = message->id * (256 << 10), .n_slots = 8};
      message->kind = DF_MESSAGE_LINKS;
      message->payload_bytes = sizeof offer;
      memcpy(message + 1, &offer, sizeof offer);
    }
  }
  df_rank_lock(&context->lock);
  df_messenger_deliver(&context->control, peer, message, fd);
  df_rank_unlock(&context->lock);
}

/* Bytes on the socket, as they are. */
static void babble(input *in, int socket) {
  size_t taken;
  const uint8_t *bytes = next_bytes(in, next_byte(in), &taken);
  DF_ALIGNED(8) uint8_t copy[256] = {0};
  if (taken > 0) memcpy(copy, bytes, taken);
  int valid = df_message_is_valid(copy, taken);
  if (valid) DF_ASSERT(taken >= sizeof(df_message));
  ssize_t sent = send(socket, copy, taken, MSG_NOSIGNAL);
  (void)sent; /* the rank may have closed, or have enough to read */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  int ends[RANKS];
  int8_t *buffers = calloc(COLLECTIVES * 2, COUNT);
  DF_ASSERT(buffers != NULL);
  callbacks = 0;
  dfcclContext_t context = open_rank(ends, &in);
  if (context == NULL) {
    for (int r = 1; r < RANKS; r++) close(ends[r]);
    free(buffers);
    return 0;
  }
  int late = next_byte(&in) % 2;
  uint32_t accepted = late ? 0 : submit_some(context, buffers);
  uint32_t sound[RANKS] = {0};
  for (int i = 0; i < 96 && in.size > 0; i++) {
    if (i == 8 && late) accepted = submit_some(context, buffers);
    uint8_t what = next_byte(&in);
    uint32_t peer = 1 + what / 8u % (RANKS - 1);
    if (what % 8 == 0)
      babble(&in, ends[peer]);
    else if (what % 8 < 5)
      say_soundly(context, peer, sound[peer]++);
    else
      say(&in, context, peer);
  }
  /* Whatever was sent, an abort ends everything, each accepted run once. */
  DF_ASSERT(dfcclAbort(context) == dfcclSuccess);
  DF_ASSERT(dfcclDestroy(context) == dfcclSuccess);
  DF_ASSERT(df_load_relaxed_u32(&callbacks) == accepted);
  for (int r = 1; r < RANKS; r++) close(ends[r]);
  free(buffers);
  return 0;
}
