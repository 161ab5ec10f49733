/* The side of the members: the id of a entrance, requests, and what members send to a newcomer. */
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bootstrap/entry.h"
#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/sockets.h"

enum { REQUEST_MS = 1000 /* a caller sends its request within this time */ };

typedef struct {
  char magic[8];
  uint32_t version, reserved;
  unsigned char name[DF_NAME_BYTES];
  unsigned char secret[DF_SECRET_BYTES];
  uint64_t host;
  unsigned char unused[56];
  unsigned char check[16];
} entrance_layout;

DF_STATIC_ASSERT(sizeof(entrance_layout) == sizeof(dfcclUniqueId), "the id has 128 bytes");

static const char entrance_magic[8] = "DFCCLJN";

static void entrance_check(unsigned char check[16], const entrance_layout *layout) {
  crypto_generichash(check, 16, (const unsigned char *)layout, offsetof(entrance_layout, check),
                     NULL, 0);
}

void df_entrance_write(dfcclUniqueId *id, const df_entrance *entrance) {
  entrance_layout layout = {.version = DFCCL_VERSION_CODE, .host = entrance->host};
  memcpy(layout.magic, entrance_magic, sizeof layout.magic);
  memcpy(layout.name, entrance->name, sizeof layout.name);
  memcpy(layout.secret, entrance->secret, sizeof layout.secret);
  entrance_check(layout.check, &layout);
  memcpy(id, &layout, sizeof layout);
  sodium_memzero(&layout, sizeof layout);
}

dfcclResult_t df_entrance_read(const dfcclUniqueId *id, df_entrance *entrance) {
  entrance_layout layout;
  unsigned char check[16];
  memcpy(&layout, id, sizeof layout);
  if (memcmp(layout.magic, entrance_magic, sizeof layout.magic) != 0)
    return df_fail(dfcclInvalidArgument,
                   "the id was not made by dfcclGetJoinId (its first bytes are wrong)");
  if (layout.version != DFCCL_VERSION_CODE)
    return df_fail(dfcclInvalidUsage, "the id is of version %u, this library of version %d",
                   layout.version, DFCCL_VERSION_CODE);
  entrance_check(check, &layout);
  if (memcmp(check, layout.check, sizeof check) != 0)
    return df_fail(dfcclInvalidArgument, "the id was damaged on its way: not all of its 128 bytes "
                                         "are those that dfcclGetJoinId wrote");
  if (layout.host != df_host_identity())
    return df_fail(dfcclInvalidUsage,
                   "the id was made on another host; a process can join a job only on the host "
                   "of the job");
  memcpy(entrance->name, layout.name, sizeof entrance->name);
  memcpy(entrance->secret, layout.secret, sizeof entrance->secret);
  entrance->host = layout.host;
  sodium_memzero(&layout, sizeof layout);
  return dfcclSuccess;
}

/* A packet is sent as a whole or not at all. */
static int send_sealed(int fd, void *packet, size_t bytes, const unsigned char *key) {
  ssize_t sent;
  df_message_seal(packet, bytes, key);
  do sent = send(fd, packet, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)bytes;
}

static void refuse(int fd, const unsigned char *key, dfcclResult_t code, const char *reason) {
  df_refusal refusal;
  df_refusal_write(&refusal, DF_MESSAGE_FAILURE, code, reason, key);
  send_sealed(fd, &refusal, sizeof refusal, key);
}

int df_entry_is_request(const void *bytes, size_t length) {
  df_header header;
  if (length != sizeof(df_entry_request)) return 0;
  memcpy(&header, bytes, sizeof header);
  return df_header_is(&header, DF_MESSAGE_ENTRY_REQUEST, sizeof(df_entry_request));
}

int df_entry_receive(int fd, const unsigned char secret[DF_SECRET_BYTES],
                     df_entry_request *request) {
  unsigned char key[DF_KEY_BYTES];
  uid_t user;
  const bool is_of_user = df_socket_same_user(fd, &user);
  /* Another user gets no time, only an answer to what it has sent already. */
  if (is_of_user && df_socket_wait(fd, POLLIN, df_after_ms(REQUEST_MS)) != 1) return 0;
  const ssize_t got = recv(fd, request, sizeof *request, MSG_TRUNC | MSG_DONTWAIT);
  if (got < (ssize_t)sizeof request->header) return 0;
  if (df_header_is_foreign(&request->header)) {
    df_header header; /* its version is all that another build understands */
    df_message_start(&header, DF_MESSAGE_ENTRY_NOTED, sizeof header);
    send(fd, &header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT);
    return 0;
  }
  if (!df_entry_is_request(request, (size_t)got)) return 0;
  df_key_from_secret(key, secret);
  const bool is_right = df_message_verify(request, sizeof *request, key);
  sodium_memzero(key, sizeof key);
  if (!is_right)
    refuse(fd, request->key, dfcclInvalidArgument,
           "the id has the secret of another job, or of an earlier id of this rank");
  else if (!is_of_user)
    refuse(fd, request->key, dfcclInvalidUsage, "the job belongs to another user");
  else
    return 1;
  return 0;
}

void df_entry_note(int fd, const unsigned char key[DF_KEY_BYTES]) {
  df_signal noted;
  df_message_start(&noted, DF_MESSAGE_ENTRY_NOTED, sizeof noted);
  send_sealed(fd, &noted, sizeof noted, key);
}

void df_entry_refuse(const unsigned char name[DF_NAME_BYTES], const unsigned char key[DF_KEY_BYTES],
                     dfcclResult_t code, const char *reason) {
  int fd = df_connect_abstract(SOCK_SEQPACKET, name);
  if (fd < 0) return;
  refuse(fd, key, code, reason);
  df_socket_close(&fd);
}

static int connect_to(const unsigned char name[DF_NAME_BYTES]) {
  int fd = df_connect_abstract(SOCK_SEQPACKET, name);
  if (fd >= 0 && !df_socket_same_user(fd, NULL)) {
    df_socket_close(&fd);
    return -EPERM;
  }
  return fd;
}

int df_entry_connect(const unsigned char name[DF_NAME_BYTES], const unsigned char key[DF_KEY_BYTES],
                     uint32_t rank) {
  df_entry_member member;
  int fd = connect_to(name);
  if (fd < 0) return fd;
  df_message_start(&member, DF_MESSAGE_ENTRY_MEMBER, sizeof member);
  member.rank = rank;
  if (send_sealed(fd, &member, sizeof member, key)) return fd;
  df_socket_close(&fd);
  return -EPIPE;
}

static int send_records(int fd, const unsigned char *key, const df_peer_info *info, int n_ranks) {
  df_entry_records records;
  int sent = 1;
  for (int first = 0; sent && first < n_ranks; first += DF_ENTRY_RECORDS_MOST) {
    df_message_start(&records, DF_MESSAGE_ENTRY_RECORDS, sizeof records);
    records.first = first;
    records.n = DF_MIN(n_ranks - first, (int)DF_ENTRY_RECORDS_MOST);
    memcpy(records.info, info + first, (size_t)records.n * sizeof *info);
    sent = send_sealed(fd, &records, sizeof records, key);
  }
  return sent;
}

int df_entry_admit(const unsigned char name[DF_NAME_BYTES], const unsigned char key[DF_KEY_BYTES],
                   df_entry_table *table, const df_peer_info *info) {
  int fd = connect_to(name);
  if (fd < 0) return fd;
  df_message_start(&table->header, DF_MESSAGE_ENTRY_TABLE, sizeof table->header);
  table->header.bytes = sizeof *table;
  if (send_sealed(fd, table, sizeof *table, key) && send_records(fd, key, info, table->n_ranks))
    return fd;
  df_socket_close(&fd);
  return -EPIPE;
}
