/*
 * How a process enters a running job, on one host. It has the id of a member (dfcclGetJoinId),
 * which names the member's entrance: an abstract Unix address.
 *
 *   newcomer -> entrance      REQUEST   facts, the address at which the newcomer listens, a key
 *   entrance -> newcomer      NOTED     the request was passed to the lowest member; or FAILURE
 *   lowest -> newcomer    TABLE     the number that it takes, and who are members; or FAILURE
 *                         RECORDS   facts about all ranks
 *   others -> newcomer    MEMBER    the connection of the pair; or FAILURE
 *
 * REQUEST has a hash that is keyed by the secret of the id, everything to the newcomer one that is
 * keyed by the newcomer's key. Each
 * is a packet. After TABLE, RECORDS and MEMBER the connections carry control messages.
 */
#ifndef DF_BOOTSTRAP_ENTRY_H
#define DF_BOOTSTRAP_ENTRY_H

#include "bootstrap/net/mesh_types.h"
#include "bootstrap/rendezvous/handshake.h"

/* A job needs few packets for its RECORDS, which must fit into a socket at once. */
enum { DF_ENTRY_RANKS_MOST = 256, DF_ENTRY_RECORDS_MOST = 64 };

typedef struct df_entrance {
  unsigned char name[DF_NAME_BYTES];
  unsigned char secret[DF_SECRET_BYTES];
  uint64_t host; /* df_host_identity */
} df_entrance;

typedef struct df_entry_request {
  df_header header;
  int32_t pid;
  uint32_t survive;
  unsigned char name[DF_NAME_BYTES]; /* the newcomer listens there */
  unsigned char key[DF_KEY_BYTES];
  df_peer_info info;
  unsigned char mac[DF_MAC_BYTES];
} df_entry_request;

typedef struct df_entry_table {
  df_header header;
  int32_t n_ranks, rank;
  uint32_t incarnation, sender;
  unsigned char job[16];
  unsigned char members[DF_ENTRY_RANKS_MOST]; /* 1: a member, which connects to the newcomer */
  unsigned char mac[DF_MAC_BYTES];
} df_entry_table;

typedef struct df_entry_records {
  df_header header;
  int32_t first, n;
  df_peer_info info[DF_ENTRY_RECORDS_MOST];
  unsigned char mac[DF_MAC_BYTES];
} df_entry_records;

typedef struct df_entry_member {
  df_header header;
  uint32_t rank, reserved;
  unsigned char mac[DF_MAC_BYTES];
} df_entry_member;

DF_STATIC_ASSERT(sizeof(df_entry_request) == 360, "REQUEST has no padding");
DF_STATIC_ASSERT(sizeof(df_entry_table) == 336, "TABLE has no padding");
DF_STATIC_ASSERT(sizeof(df_entry_member) == 56, "MEMBER has no padding");

/* Errors of df_entrance_read: dfcclInvalidArgument (not such an id, or damaged), dfcclInvalidUsage
 * (another version, or another host). */
void df_entrance_write(dfcclUniqueId *id, const df_entrance *entrance);
dfcclResult_t df_entrance_read(const dfcclUniqueId *id, df_entrance *entrance);

/* Receives a request at a entrance, and waits for it a little. Returns 1 if its secret is right;
 * otherwise the caller was refused, or is gone. */
int df_entry_receive(int fd, const unsigned char secret[DF_SECRET_BYTES],
                     df_entry_request *request);
/* Whether a request from another member is well formed. */
int df_entry_is_request(const void *bytes, size_t length);
/* The request was passed on. */
void df_entry_note(int fd, const unsigned char key[DF_KEY_BYTES]);
/* Connects to the newcomer, and refuses it. code dfcclInProgress: it may try again. */
void df_entry_refuse(const unsigned char name[DF_NAME_BYTES], const unsigned char key[DF_KEY_BYTES],
                     dfcclResult_t code, const char *reason);
/* Connects this member to the newcomer. Returns the socket, or -errno. */
int df_entry_connect(const unsigned char name[DF_NAME_BYTES], const unsigned char key[DF_KEY_BYTES],
                     uint32_t rank);
/* Does the same for the lowest member, which sends TABLE and RECORDS. table: all except header and
 * mac; info: [table->n_ranks]. */
int df_entry_admit(const unsigned char name[DF_NAME_BYTES], const unsigned char key[DF_KEY_BYTES],
                   df_entry_table *table, const df_peer_info *info);

/* The newcomer: makes its mesh. members and incarnation of the mesh are set. dfcclInProgress: the
 * attempt has failed, and another one may succeed; the sentence says why. Other errors as
 * df_bootstrap_join. */
dfcclResult_t df_entry_join(const df_entrance *entrance, const df_peer_info *info, uint32_t survive,
                            uint64_t deadline_ns, df_mesh *mesh);

#endif
