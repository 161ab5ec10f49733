/*
 * Single copy: ordinary memory of another process of this host is lent, and its reader copies it
 * with a system call (process_vm_readv). Each rank leaves a random number and the number's address
 * in its home segment. A peer that can read the number there, in the process at the other end of
 * the control connection, can read all memory of that process. Each later call reads the number
 * once more, together with the data, so that another process with the same id cannot give wrong
 * data.
 */
#ifndef DF_PRIMITIVES_FOREIGN_MEMORY_H
#define DF_PRIMITIVES_FOREIGN_MEMORY_H

#include <sys/types.h>

#include "base/atomic.h"

struct iovec;

/* In the address of a lent buffer: the address is one of its owner's process, and is read by a
 * call. An address of a program never has the bit. The bit stays in all pointers until the call,
 * because this process may use the same address (ranks may be forks of one process). */
#define DF_LENT_BY_CALL (1ull << 63)

typedef struct df_process_identity {
  uint64_t number_at, number; /* 0: nobody may read the process */
} df_process_identity;

/* The memory of one peer. All links that receive from the peer use it. */
typedef struct df_foreign_memory {
  uint64_t process; /* its id, written last; 0: its memory is not read */
  df_process_identity identity;
  uint32_t *refusal; /* in this rank's home segment; 1: the peer must lend nothing by calls */
  uint64_t gone_ns;  /* time of the first call that did not find the process; 0: none */
  uint64_t reads;    /* statistics: moves that were made by calls, */
  uint64_t failures; /* and those that failed */
} df_foreign_memory;

/* The memory of the messages that a link may lend. Reading it takes very different times, so each
 * kind has records of its own, and the first message that may be lent decides. */
typedef enum { DF_LENDS_ANY, DF_LENDS_MAPPED, DF_LENDS_BY_CALL } df_lent_memory;

/* The sender's terms of a link (df_ways). */
typedef struct df_link_calls {
  uint64_t bytes_min;          /* messages of at least so many bytes may be lent by calls */
  const uint32_t *refusal;     /* while this word of the receiver is 0; NULL: none may be */
  struct df_ways_memory *ways; /* the memory of the ways of links that lend so */
  uint8_t memory;              /* df_lent_memory */
} df_link_calls;

#if !defined(__CUDACC__)

/* Tests replace the system call. */
typedef ssize_t df_read_process(pid_t process, const struct iovec *here, unsigned long n_here,
                                const struct iovec *there, unsigned long n_there,
                                unsigned long flags);
extern df_read_process *df_read_process_call;

/* The memory between a move's operands and the call. On the stack of the thread. */
enum { DF_CALL_TILE_BYTES = 32768 };

#if defined(DF_SIMULATION)
/* The simulation has one process, so nothing is lent by calls there. */
static inline void df_process_identify(df_process_identity *identity, uint64_t *number) {
  (void)identity;
  (void)number;
}
static inline uint64_t df_process_of_socket(int fd) {
  (void)fd;
  return 0;
}
static inline int df_process_is_readable(uint64_t process, const df_process_identity *identity) {
  (void)process, (void)identity;
  return 0;
}
static inline int df_foreign_memory_read(df_foreign_memory *memory, void *to, const void *lent,
                                         uint64_t bytes) {
  (void)memory, (void)to, (void)lent, (void)bytes;
  return 0;
}
static inline int df_foreign_memory_is_lost(df_foreign_memory *memory, int error) {
  (void)memory, (void)error;
  return 1;
}
static inline int df_own_memory_is_readable(const void *buffer, const void *begin, uint64_t bytes) {
  (void)buffer, (void)begin, (void)bytes;
  return 0;
}
#else
/* *number is the place that peers read. */
void df_process_identify(df_process_identity *identity, uint64_t *number);
/* Returns the id of the process at the other end of a Unix socket. The system reports it, so no
 * peer can make this process read a third one. 0: none, or this process. */
uint64_t df_process_of_socket(int fd);
/* Returns 1 if this process can read the memory of the other one. */
int df_process_is_readable(uint64_t process, const df_process_identity *identity);

/* lent: with DF_LENT_BY_CALL. Returns 0, or the error number. ESRCH: the process has ended. */
int df_foreign_memory_read(df_foreign_memory *memory, void *to, const void *lent, uint64_t bytes);
/* After a read that failed. Returns 0 if the peer has probably died: the control connection then
 * reports its death within a second. Otherwise the run cannot continue. */
int df_foreign_memory_is_lost(df_foreign_memory *memory, int error);

/* Returns 1 if a call can read this memory of this process: device mappings and secret memory
 * cannot be read so. The answer is remembered for the latest buffers of the calling thread. */
int df_own_memory_is_readable(const void *buffer, const void *begin, uint64_t bytes);
#endif

static inline int df_is_lent_by_call(const void *lent) {
  return ((uint64_t)(uintptr_t)lent & DF_LENT_BY_CALL) != 0;
}

/* Only memory of the peer can be read, so any of its addresses will do. */
static inline int df_foreign_memory_may_read(const df_foreign_memory *memory, uint64_t address,
                                             uint64_t bytes, uint32_t element_bytes) {
  const uint64_t at = address & ~DF_LENT_BY_CALL;
  return df_observe_u64(&memory->process) != 0 && at % element_bytes == 0 &&
         bytes < DF_LENT_BY_CALL - at;
}

#endif
#endif
