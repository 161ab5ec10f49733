/*
 * Messages of the control plane: registrations, links, failures. Between processes they are the
 * datagrams of a SOCK_SEQPACKET socket, in order and with their boundaries; within a process they
 * are copied into the receiver's inbox.
 */
#ifndef DF_CONTROL_MESSAGE_H
#define DF_CONTROL_MESSAGE_H

#include "base/limits.h"
#include "base/result.h"

typedef enum {
  DF_MESSAGE_SEGMENT = 1, /* id: segment, a: bytes, b: df_segment_use; carries its descriptor */
  DF_MESSAGE_MAPPED,   /* id: segment (user memory), a: where the sender of this message sees it */
  DF_MESSAGE_UNMAP,    /* id: segment, a: a run that failed may still read it */
  DF_MESSAGE_ANNOUNCE, /* id: collective; payload: df_announcement and the group's ranks, as its
                          group_step says */
  DF_MESSAGE_LINKS,      /* id: collective; payload: a transport's offer of rings for every block, to
                            be written by the receiver */
  DF_MESSAGE_DEREGISTER, /* id: collective, a: runs executed before, b: 1 when the sender leaves */
  DF_MESSAGE_FAIL,       /* id: collective, a: dfcclResult_t; payload: sentence */
  DF_MESSAGE_ABORT,      /* payload: sentence */
  DF_MESSAGE_CAUSE,      /* what broke the sender's context: it registers and runs nothing more;
                            id: the rank that was lost, or DF_NOBODY, a: dfcclResult_t, b: who saw
                            it; payload: sentence */
  DF_MESSAGE_LIMIT,      /* after it, for each collective; id, a: runs accepted before */
  DF_MESSAGE_BYE,        /* the sender leaves in order */
  DF_MESSAGE_UNMAPPED,   /* id: segment of the receiver's device, 0: all of them; the sender's
                            mapping of it is closed */
  DF_MESSAGE_KINDS
} df_message_kind;

typedef enum { DF_SEGMENT_HOME, DF_SEGMENT_LINKS, DF_SEGMENT_USER } df_segment_use;

/* Numbers of segments: 0 is home, user memory from 1 on, links from here on. */
#define DF_FIRST_LINKS_SEGMENT ((uint64_t)1 << 32)

#define DF_NOBODY UINT32_MAX

enum { DF_MESSAGE_MAGIC = 0xdfcc };

typedef struct df_message {
  uint16_t magic, kind;
  uint32_t payload_bytes; /* behind this header */
  uint64_t id, a, b;
} df_message;
DF_STATIC_ASSERT(sizeof(df_message) == 32, "part of the protocol between processes");

/* What members compare: equal in all fields, or the collective is mismatched. */
typedef struct df_announcement {
  uint32_t operation, type, op, root;
  uint64_t count;
  uint32_t group_size, algorithm;
  uint32_t n_blocks, n_slots, stride,
      payload_offset;    /* the shape: follows from the above and from settings */
  uint32_t chunk, loops; /* of block 0 */
  uint32_t split;        /* neighbours in a subgroup */
  uint32_t group_step;   /* 0: each rank follows; else the first, and so much from one to the next:
                            of many ranks, each tells each other of a collective of all */
} df_announcement;
DF_STATIC_ASSERT(sizeof(df_announcement) == 64, "part of the protocol between processes");

/* What can be said of these ranks as a step; 0: nothing. */
uint32_t df_group_step(const uint32_t *ranks, uint32_t n);
/* Ranks that follow an announcement. */
static inline uint32_t df_announced_ranks(const df_announcement *announcement) {
  return announcement->group_step ? 1 : announcement->group_size;
}
/* An announcement's payload, in room for sizeof(df_announcement) + all ranks; returns its bytes. */
uint32_t df_announcement_write(const df_announcement *announcement, const uint32_t *ranks,
                               void *payload);

/* Is a datagram of so many bytes a well-formed message? The receiver trusts nothing else about it.
 */
int df_message_is_valid(const void *bytes, size_t length);

static inline const void *df_message_payload(const df_message *message) { return message + 1; }

#endif
