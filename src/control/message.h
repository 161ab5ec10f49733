/* Control messages, which arrive in order. Between processes they are datagrams of a SOCK_SEQPACKET
 * socket or records of a control channel; within a process they are copied to the inbox of the
 * receiver. */
#ifndef DF_CONTROL_MESSAGE_H
#define DF_CONTROL_MESSAGE_H

#include "base/limits.h"
#include "base/result.h"

typedef enum {
  DF_MESSAGE_SEGMENT =
      1, /* id: segment, a: bytes, b: df_segment_use; carries the descriptor of the segment */
  DF_MESSAGE_MAPPED,   /* id: segment (user memory), a: address in the process of the sender */
  DF_MESSAGE_UNMAP,    /* id: segment, a: 1 if a failed run may still read it */
  DF_MESSAGE_ANNOUNCE, /* id: collective; payload: df_announcement, then ranks (group_step) */
  DF_MESSAGE_LINKS,    /* id: collective, a: channel; payload: offer of rings for every block */
  /* id: collective, a: number of runs executed before, b: df_deregister_reason */
  DF_MESSAGE_DEREGISTER,
  /* id: collective, a: dfcclResult_t, b: the first run that fails, if counts mismatch; 1 for a
   * remote error that ends only the collective; payload: sentence */
  DF_MESSAGE_FAIL,
  DF_MESSAGE_ABORT, /* payload: sentence */
  /* the context of the sender is broken; id: the lost rank or DF_NOBODY, a: dfcclResult_t, b:
   * the rank that detected it; payload: sentence */
  DF_MESSAGE_FAILURE_REASON,
  /* follows FAILURE_REASON for each collective; id, a: number of runs accepted before */
  DF_MESSAGE_LIMIT,
  DF_MESSAGE_BYE, /* the sender leaves in order */
  /* id: segment of the device of the receiver, 0: all; the sender has unmapped it */
  DF_MESSAGE_UNMAPPED,
  DF_MESSAGE_PING, /* a: 1: a request; the receiver answers with a: 0 if its process is alive */
  /* id, variant: proposes a switch to it, a: df_purpose; payload: df_variant_spec */
  DF_MESSAGE_PROPOSE,
  DF_MESSAGE_READY,   /* id, variant, a: floor, b: 1: refused */
  DF_MESSAGE_COMMIT,  /* id, variant, a: the first run on it, b: number of runs to time */
  DF_MESSAGE_CANCEL,  /* id, variant */
  DF_MESSAGE_RETIRED, /* id, variant: the sender has switched to it */
  /* id, variant, a: run; payload: durations in ns of this run and of those after it, 32 bits
   * each */
  DF_MESSAGE_TIMES,
  DF_MESSAGE_RELAYED, /* id: number of relays that it may still pass; payload: df_relayed */
  /* id: the lost rank; payload: the reason. Between neighbours, in jobs with relays */
  DF_MESSAGE_LOST,
  DF_MESSAGE_PURPOSE, /* id, variant: the plan in use, a: df_purpose: the reason why it stays */
  DF_MESSAGE_VIEW,    /* payload: df_view_header and lists (view_message.h) */
  /* requests a snapshot of the receiver (host/observe/snapshot.h); payload: ids of collectives
   * whose states are wanted */
  DF_MESSAGE_QUESTION,
  DF_MESSAGE_SNAPSHOT, /* answers a question; payload: df_snapshot */
  /* to the lowest member: a process asks to join; payload: df_entry_request */
  DF_MESSAGE_ENTRY,
  /* from the lowest member: a newcomer takes a rank; payload: df_newcomer. From the newcomer: it
   * can be admitted; no payload */
  DF_MESSAGE_NEWCOMER,
  /* id: round of dfcclAdmit, a: entries in earlier parts, b: 1: the last part; payload:
   * df_run_count for each collective, which may be none */
  DF_MESSAGE_ADMIT_COUNTS,
  DF_MESSAGE_ADMIT_COMPARED, /* id: round; the receiver's counts are those of the sender */
  DF_MESSAGE_ADMIT_DIFFERS,  /* id: round; payload: df_count_difference */
  DF_MESSAGE_KINDS
} df_message_kind;

typedef enum {
  DF_DEREGISTER_ASKED,
  DF_DEREGISTER_LEAVES, /* the sender leaves */
  DF_DEREGISTER_MOVED   /* a member was lost, and the sender's runs go on in another home */
} df_deregister_reason;

typedef enum { DF_SEGMENT_HOME, DF_SEGMENT_LINKS, DF_SEGMENT_USER } df_segment_use;

/* Segment 0 is the home segment, user memory has numbers from 1 on, and links have numbers from
 * here on. */
#define DF_FIRST_LINKS_SEGMENT ((uint64_t)1 << 32)

#define DF_NOBODY UINT32_MAX

enum { DF_MESSAGE_MAGIC = 0xdfcc };

typedef struct df_message {
  uint16_t magic, kind;
  uint32_t payload_bytes;
  uint64_t id, a, b;
  uint64_t
      variant; /* plan variant of the collective; 0: as registered (host/switching/plan_switch.h) */
} df_message;
DF_STATIC_ASSERT(sizeof(df_message) == 40, "part of the protocol between processes");

/* The configuration of a plan variant. A member that is 0 has the value of the registration. */
typedef struct df_variant_spec {
  uint64_t file;      /* hash of the contents of the plan file, with DF_FROM_FILE; else 0 */
  uint32_t algorithm; /* DF_AS_REGISTERED: the registered variant */
  uint32_t split, blocks, slot_bytes, slots;
  uint32_t copies; /* 1: buffers are copied, not lent */
} df_variant_spec;
#define DF_AS_REGISTERED UINT32_MAX

/* The reason why a collective switches to a plan variant, or stays on it. */
typedef enum {
  DF_PURPOSE_ASKED,     /* dfcclSetAlgorithm */
  DF_PURPOSE_CANDIDATE, /* the tuner measures the variant */
  DF_PURPOSE_DRIFT,     /* the tuner measures it again, because times have changed */
  DF_PURPOSE_CHECK,     /* the tuner compares winner, registered variant, winner */
  DF_PURPOSE_ADOPTED,   /* the variant has won */
  DF_PURPOSE_BACK,      /* the registered variant, which no other one has beaten so far */
  DF_PURPOSES
} df_purpose;
/* The short name ("candidate"), and a phrase for sentences ("as the tuner says: ..."). */
const char *df_purpose_name(df_purpose purpose);
const char *df_purpose_words(df_purpose purpose);

enum { DF_MOST_TIMES = 128, DF_MOST_ASKED = 64 };

/* A process that takes the number of a lost rank. */
typedef struct df_newcomer {
  uint32_t rank, incarnation;
  uint8_t name[16]; /* abstract Unix address at which it listens for the members */
  uint8_t key[32];  /* proves to it that a caller is a member */
} df_newcomer;
DF_STATIC_ASSERT(sizeof(df_newcomer) == 56, "part of the protocol between processes");

/* The runs of a collective that a member has submitted before dfcclAdmit. */
typedef struct df_run_count {
  uint64_t collective, runs;
  uint32_t registration, reserved;
} df_run_count;
DF_STATIC_ASSERT(sizeof(df_run_count) == 24, "part of the protocol between processes");

/* Two members, in ascending order, with different numbers of runs. */
typedef struct df_count_difference {
  uint64_t collective, runs[2];
  uint32_t ranks[2];
} df_count_difference;
DF_STATIC_ASSERT(sizeof(df_count_difference) == 32, "part of the protocol between processes");

/* Two members that differ in one of these fields have a mismatch. */
typedef struct df_announcement {
  uint32_t operation, type, op, root;
  uint64_t count;
  uint32_t group_size, algorithm;
  uint32_t n_blocks, n_slots, stride; /* follow from the members above and from settings */
  uint16_t payload_offset;
  uint16_t varying;
  uint32_t chunk, loops;
  uint32_t split; /* number of neighbours in a subgroup */
  /* 0: the payload lists all ranks; else only the first rank, and this is the step between
   * ranks */
  uint32_t group_step;
  uint64_t sends,
      receives; /* vector collectives: elements to and from the receiver of this announcement */
  /* identity of the plan: the hash of a plan file; else 1 if messages have several pieces */
  uint64_t form;
} df_announcement;
DF_STATIC_ASSERT(sizeof(df_announcement) == 88, "part of the protocol between processes");

/* Payload of DF_MESSAGE_RELAYED. It is followed by the n destinations, by one more word if n is
 * odd, and by the message of rank `source`. */
typedef struct df_relayed {
  uint32_t source, n;
} df_relayed;
DF_STATIC_ASSERT(sizeof(df_relayed) == 8, "part of the protocol between processes");
static inline uint32_t df_relayed_head_bytes(uint32_t n) {
  return (uint32_t)sizeof(df_relayed) + (n + n % 2) * (uint32_t)sizeof(uint32_t);
}

/* Returns the common step of these ranks; 0: there is none. */
uint32_t df_group_step(const uint32_t *ranks, uint32_t n);
static inline uint32_t df_announced_ranks(const df_announcement *announcement) {
  return announcement->group_step ? 1 : announcement->group_size;
}
/* payload has room for all ranks. Returns the number of bytes of the payload. */
uint32_t df_announcement_write(const df_announcement *announcement, const uint32_t *ranks,
                               void *payload);

/* Returns 1 if the message is well formed. The receiver relies on nothing else. */
int df_message_is_valid(const void *bytes, size_t length);

static inline const void *df_message_payload(const df_message *message) { return message + 1; }

#endif
