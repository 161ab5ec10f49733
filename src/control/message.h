/* Control messages, in order: between processes datagrams of a SOCK_SEQPACKET socket, within a
 * process copies in the receiver's inbox. */
#ifndef DF_CONTROL_MESSAGE_H
#define DF_CONTROL_MESSAGE_H

#include "base/limits.h"
#include "base/result.h"

typedef enum {
  DF_MESSAGE_SEGMENT = 1, /* id: segment, a: bytes, b: df_segment_use; brings its descriptor */
  DF_MESSAGE_MAPPED,      /* id: segment (user memory), a: where the sender sees it */
  DF_MESSAGE_UNMAP,       /* id: segment, a: 1: a failed run may still read it */
  DF_MESSAGE_ANNOUNCE,    /* id: collective; payload: df_announcement, then ranks (group_step) */
  DF_MESSAGE_LINKS,       /* id: collective, a: channel; payload: offer of rings for every block */
  DF_MESSAGE_DEREGISTER,  /* id: collective, a: runs executed before, b: 1: the sender leaves */
  DF_MESSAGE_FAIL,        /* id: collective, a: dfcclResult_t, b: the first run that fails, of a
                             mismatch of counts; payload: sentence */
  DF_MESSAGE_ABORT,       /* payload: sentence */
  DF_MESSAGE_FAILURE_REASON, /* the sender's context is broken; id: the lost rank or DF_NOBODY,
                             a: dfcclResult_t, b: who saw it; payload: sentence */
  DF_MESSAGE_LIMIT,          /* after it, for each collective; id, a: runs accepted before */
  DF_MESSAGE_BYE,            /* the sender leaves in order */
  DF_MESSAGE_UNMAPPED,       /* id: segment of the receiver's device, 0: all; no longer mapped */
  DF_MESSAGE_PING,           /* a: 1: the receiver answers with a: 0, if its process lives */
  DF_MESSAGE_PROPOSE, /* id, variant: a switch to it, a: df_purpose; payload: df_variant_spec */
  DF_MESSAGE_READY,   /* id, variant, a: floor, b: 1: refused */
  DF_MESSAGE_COMMIT,  /* id, variant, a: the first run on it, b: runs to be timed */
  DF_MESSAGE_CANCEL,  /* id, variant */
  DF_MESSAGE_RETIRED, /* id, variant: the sender has gone over to it */
  DF_MESSAGE_TIMES, /* id, variant, a: run; payload: ns of it and of those after it, 32 bits each */
  DF_MESSAGE_RELAYED, /* id: relays that it may still pass; payload: df_relayed */
  DF_MESSAGE_LOST,    /* id: a rank; payload: why. Between neighbours, in jobs with relays */
  DF_MESSAGE_PURPOSE, /* id, variant: in force, a: df_purpose: why it stays */
  DF_MESSAGE_KINDS
} df_message_kind;

typedef enum { DF_SEGMENT_HOME, DF_SEGMENT_LINKS, DF_SEGMENT_USER } df_segment_use;

/* 0 is home, user memory from 1 on, links from here on. */
#define DF_FIRST_LINKS_SEGMENT ((uint64_t)1 << 32)

#define DF_NOBODY UINT32_MAX

enum { DF_MESSAGE_MAGIC = 0xdfcc };

typedef struct df_message {
  uint16_t magic, kind;
  uint32_t payload_bytes;
  uint64_t id, a, b;
  uint64_t variant; /* of the collective; 0: as registered (host/switching/plan_switch.h) */
} df_message;
DF_STATIC_ASSERT(sizeof(df_message) == 40, "part of the protocol between processes");

/* How a variant of a collective travels. 0: as the registration's own tuning has it. */
typedef struct df_variant_spec {
  uint64_t file;      /* the hash of its bytes, of DF_FROM_FILE; else 0 */
  uint32_t algorithm; /* DF_AS_REGISTERED: the registered variant */
  uint32_t split, blocks, slot_bytes, slots;
  uint32_t copies; /* 1: no buffer is lent */
} df_variant_spec;
#define DF_AS_REGISTERED UINT32_MAX

/* Why a collective goes over to a variant, or stays on it. */
typedef enum {
  DF_PURPOSE_ASKED,     /* dfcclSetAlgorithm */
  DF_PURPOSE_CANDIDATE, /* the tuner measures it */
  DF_PURPOSE_DRIFT,     /* the same, since times have changed */
  DF_PURPOSE_CHECK,     /* the tuner compares it: winner, registered, winner */
  DF_PURPOSE_ADOPTED,   /* it has won */
  DF_PURPOSE_BACK,      /* the registered one, which no other has beaten so far */
  DF_PURPOSES
} df_purpose;
/* "candidate", ...; and in words: "as the tuner says: ...". */
const char *df_purpose_name(df_purpose purpose);
const char *df_purpose_words(df_purpose purpose);

enum { DF_MOST_TIMES = 128 };

/* A difference in one field is a mismatch of the collective. */
typedef struct df_announcement {
  uint32_t operation, type, op, root;
  uint64_t count;
  uint32_t group_size, algorithm;
  uint32_t n_blocks, n_slots, stride; /* from the above and from settings */
  uint16_t payload_offset;
  uint16_t varying;
  uint32_t chunk, loops;
  uint32_t split;           /* neighbours in a subgroup */
  uint32_t group_step;      /* 0: each rank follows; else the first rank, and the step */
  uint64_t sends, receives; /* elements to and from the one who is told; of uneven pieces */
  uint64_t form;            /* of the plan: of a file, its hash; else 1 if messages have several
                               pieces */
} df_announcement;
DF_STATIC_ASSERT(sizeof(df_announcement) == 88, "part of the protocol between processes");

/* Of DF_MESSAGE_RELAYED, then n ranks for whom the message is, one more if n is odd, and the message
 * of rank `source`. */
typedef struct df_relayed {
  uint32_t source, n;
} df_relayed;
DF_STATIC_ASSERT(sizeof(df_relayed) == 8, "part of the protocol between processes");
static inline uint32_t df_relayed_head_bytes(uint32_t n) {
  return (uint32_t)sizeof(df_relayed) + (n + n % 2) * (uint32_t)sizeof(uint32_t);
}

/* 0: these ranks have no common step. */
uint32_t df_group_step(const uint32_t *ranks, uint32_t n);
static inline uint32_t df_announced_ranks(const df_announcement *announcement) {
  return announcement->group_step ? 1 : announcement->group_size;
}
/* payload has room for all ranks. Returns the payload's bytes. */
uint32_t df_announcement_write(const df_announcement *announcement, const uint32_t *ranks,
                               void *payload);

/* Well-formed? The receiver trusts nothing else. */
int df_message_is_valid(const void *bytes, size_t length);

static inline const void *df_message_payload(const df_message *message) { return message + 1; }

#endif
