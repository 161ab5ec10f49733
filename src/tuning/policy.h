/*
 * Policy: numbers behind how collectives travel. All ranks need equal numbers, so they come from
 * the job's tuning table ("set NAME VALUE"), not from a rank's environment. docs/TUNING.md prints
 * the list; a test compares both.
 */
#ifndef DF_TUNING_POLICY_H
#define DF_TUNING_POLICY_H

#include "base/limits.h"
#include "plans/levels.h"
#include "primitives/link.h"

/* X(name, default, least, most, meaning) */
#define DF_POLICY_MAP(X)                                                                           \
  X(slot_bytes, 131072, 64, DF_MAX_SLOT_BYTES,                                                     \
    "most payload of a link slot; between hosts 61 KB for each 64 KB of it")                       \
  X(slots, 4, DF_MIN_LINK_SLOTS, DF_MAX_LINK_SLOTS, "least slots of a link; a power of two")       \
  X(ring_bytes, 2 << 20, 0, 1ll << 30,                                                             \
    "size up to which a collective's rings of slots grow, all that one rank receives in")          \
  X(ring_budget, 64 << 20, 0, 1ll << 40,                                                           \
    "bytes of a context's rings beyond which further ones get the least slots")                    \
  X(flagged_max, 4096, 0, DF_MAX_SLOT_BYTES, "payload bytes up to which links are flagged")        \
  X(words_max, 4096, 0, 65536,                                                                     \
    "CUDA: payload bytes up to which messages travel in words that carry a flag each")             \
  X(lend, 1, 0, 1, "0: buffers are never lent, always copied through slots")                       \
  X(lend_min, 16384, 1, 1ll << 40, "message bytes from which buffers within reach are lent")       \
  X(net_lend_min, 256 << 10, 1, 1ll << 40,                                                         \
    "message bytes from which buffers are lent to a connection; and from lend_min")                \
  X(net_blocks, 3, 1, 32,                                                                          \
    "CPU: blocks of a collective of several hosts at most, where DFCCL_MAX_BLOCKS does not say")   \
  X(lend_in_place_min, 8ll << 20, 0, 1ll << 40,                                                    \
    "bytes from which an all-reduce in place lends its buffer")                                    \
  X(common, 1, 0, 2,                                                                               \
    "CPU: what goes to several processes is copied once, to memory that all of them map; 0: "      \
    "never, 1: if ranks share cores and it is more than their caches, 2: always (test mode)")      \
  X(stream_min, 4ll << 20, 0, 1ll << 40,                                                           \
    "result bytes from which stores out of place bypass the caches")                               \
  X(far_ns, 110, 0, 65535,                                                                         \
    "CPU: if a line from a peer's cache takes so long, large slots are written past the caches; "  \
    "0: never")                                                                                    \
  X(borrowed_turn_max, 4096, 0, DF_MAX_SLOT_BYTES,                                                 \
    "CPU: bytes up to which the thread that submits a run executes its first turn; 0: never")      \
  X(block_min, 65536, 1, 1ll << 40, "bytes of a collective for each block it uses")                \
  X(cuda_lent_bytes, 512 << 10, 0, DF_MAX_SLOT_BYTES,                                              \
    "CUDA: most bytes of a message that is lent for certain; its slot stays small")                \
  X(cuda_front_us, 20, 1, 4000000,                                                                 \
    "CUDA: polling in vain until the front of the task queue is set aside")                        \
  X(cuda_min_us, 2, 1, 4000000, "CUDA: least of that at any place (halved from place to place)")   \
  X(cuda_boost, 2, 1, 1000, "CUDA: factor on the place's own after a primitive has succeeded")     \
  X(cuda_fetch_us, 5, 0, 4000000, "CUDA: without progress before another SQE is fetched")          \
  X(cuda_quit_us, 1000, 1, 4000000, "CUDA: without progress or SQE before the daemon quits")       \
  X(cuda_turns_quit_us, 100, 1, 4000000,                                                           \
    "CUDA: the same if processes take turns on the GPU, since a rank of another one is on it and " \
    "MPS is off; then nothing is boosted")                                                         \
  X(cuda_life_us, 20000, 0, 4000000,                                                               \
    "CUDA: a launch ends itself so long after its beginning, whatever it does; 0: never")          \
  X(cuda_doze_us, 10, 0, 1000,                                                                     \
    "CUDA: longest pause between looks of a daemon that stays for runs on streams and can only "   \
    "wait for their input")                                                                        \
  X(cuda_restart_most_us, 50000, 1, 4000000,                                                       \
    "CUDA: longest pause before the next launch for runs that wait for peers; a peer's message "   \
    "ends it")                                                                                     \
  X(split, 0, 0, DF_MAX_RANKS,                                                                     \
    "neighbours in a subgroup of two-level algorithms; 0: about as many as subgroups")             \
  X(lanes, 0, 0, DF_LANES_MOST,                                                                    \
    "ranks of a host that speak to other hosts in hierarchical algorithms; 0: one if the "         \
    "collective fits one slot, else all of the smallest host")

typedef struct df_policy {
#define X(name, standard, least, most, meaning) long long name;
  DF_POLICY_MAP(X)
#undef X
} df_policy;

#endif
