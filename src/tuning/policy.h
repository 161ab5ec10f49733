/*
 * Policy: the numbers of the tuning table ("set NAME VALUE"). docs/TUNING.md prints the list; a
 * test compares both. There are two kinds:
 *   - DF_POLICY_JOB_MAP: how messages are cut and travel. All ranks of a job need equal numbers:
 *     members compare the results (algorithm, split, shape), and a difference is dfcclMismatch.
 *   - DF_POLICY_RANK_MAP: how one rank's daemon and background threads poll, wait and are launched.
 *     No other rank depends on these numbers, and nothing compares them, so they may differ.
 */
#ifndef DF_TUNING_POLICY_H
#define DF_TUNING_POLICY_H

#include "base/limits.h"
#include "plans/levels.h"
#include "primitives/link.h"
#include "primitives/ways.h"

/* X(name, default, least, most, meaning) */
#define DF_POLICY_JOB_MAP(X)                                                                       \
  X(slot_bytes, 131072, 64, DF_MAX_SLOT_BYTES,                                                     \
    "most payload of a link slot; between hosts 61 KB for each 64 KB of it, and twice as much if " \
    "each host has one rank")                                                                      \
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
  X(call_min, 16384, 0, 1ll << 40,                                                                 \
    "CPU: message bytes from which other memory is lent to a process that may read it by system "  \
    "calls; and from lend_min; 0: never")                                                          \
  X(net_lend_min, 128 << 10, 1, 1ll << 40,                                                         \
    "message bytes from which buffers are lent to a connection; and from lend_min")                \
  X(net_blocks, 3, 1, 32,                                                                          \
    "CPU: blocks of a collective of several hosts at most, where DFCCL_MAX_BLOCKS does not say")   \
  X(lend_in_place_min, 8ll << 20, 0, 1ll << 40,                                                    \
    "bytes from which an all-reduce in place lends its buffer")                                    \
  X(common, 1, 0, 2,                                                                               \
    "CPU: what goes to several processes is copied once, to memory that all of them map; 0: "      \
    "never, 1: if ranks share cores and it is more than their caches, 2: always (test mode)")      \
  X(stream_min, 8ll << 20, 0, 1ll << 40,                                                           \
    "result bytes from which stores out of place bypass the caches")                               \
  X(way, DF_WAY_BY_TIMES, 0, DF_WAY_RANDOM,                                                        \
    "CPU: how messages of more than 1 KB reach a rank of the host; 0: as measured times "          \
    "say; 1: slots, 2: slots with lines requested ahead, 3: slots past the caches, 4: lent, 5: "   \
    "mixed (test modes)")                                                                          \
  X(borrowed_turn_max, 4096, 0, DF_MAX_SLOT_BYTES,                                                 \
    "CPU: bytes up to which the thread that submits a run executes its first turn; 0: never")      \
  X(block_min, 65536, 1, 1ll << 40, "bytes of a collective for each block it uses")                \
  X(cuda_lent_bytes, 512 << 10, 0, DF_MAX_SLOT_BYTES,                                              \
    "CUDA: most bytes of a message that is lent for certain; its slot stays small")                \
  X(split, 0, 0, DF_MAX_RANKS,                                                                     \
    "neighbours in a subgroup of two-level algorithms; 0: about as many as subgroups")             \
  X(lanes, 0, 0, DF_HOST_CHANNELS_MOST,                                                            \
    "ranks of a host that exchange messages with other hosts in hierarchical algorithms; 0: one "  \
    "if the "                                                                                      \
    "collective fits one slot, else all of the smallest host")

/* A default outside of the range is "automatic": df_settings_complete chooses by the device and by
 * the ranks for each core. */
#define DF_POLICY_RANK_MAP(X)                                                                      \
  X(spin_front, 0, 1, 1000000000,                                                                  \
    "polls before the front of the task queue is set aside; automatic: 4; CUDA: cuda_front_us")    \
  X(spin_min, 0, 1, 1000000000,                                                                    \
    "least polls at any place (halved from place to place); automatic: 1; CUDA: cuda_min_us")      \
  X(spin_boost, 0, 1, 1000,                                                                        \
    "factor on the threshold after a primitive has succeeded; automatic: 1; CUDA: cuda_boost")     \
  X(fetch_polls, -1, 0, 1000000000,                                                                \
    "polls without progress before another SQE is fetched; automatic: 1; CUDA: cuda_fetch_us")     \
  X(quit_polls, 0, 1, 1000000000,                                                                  \
    "polls without progress or SQE before the daemon quits; automatic: 4000, or 400 with more "    \
    "ranks than cores; CUDA: cuda_quit_us")                                                        \
  X(yield_polls, 0, 1, 1000000000,                                                                 \
    "CPU: unsuccessful polls of everything before the core is yielded; automatic: 1000, or 1 "     \
    "with "                                                                                        \
    "more ranks than cores")                                                                       \
  X(pages_after, 2, 0, 1000000,                                                                    \
    "CPU: runs of a collective after which its deep rings get all of their pages; 0: before the "  \
    "first run")                                                                                   \
  X(spread, 1, 0, 1,                                                                               \
    "CPU: 0: threads that execute daemons on one core do not move to emptier cores")               \
  X(preempt_every, 0, 0, 1, "1: preempt after every step (test mode)")                             \
  X(nap_us, 1000, 10, 1000000,                                                                     \
    "CPU: sleep of a background thread while other threads execute the daemon")                    \
  X(cq, 1, 0, 2, "completion queue: ring, packed or slots (df_cq_variant)")                        \
  X(cuda_collectives, 4096, 1, 65536, /* DF_MAX_COLLECTIVES */                                     \
    "CUDA: collectives that can be registered at one time")                                        \
  X(cuda_timers, 0, 0, 1,                                                                          \
    "CUDA: 1: the daemon notes how long its parts take (dfcclGetTimes); else it has no timers")    \
  X(cuda_threads, 512, 32, 512, /* DF_CUDA_MAX_LANES */                                            \
    "CUDA: threads of a block; a multiple of 32")                                                  \
  X(cuda_relay, 1, 0, 1,                                                                           \
    "CUDA: 1: one block polls the SQ and passes entries on in device memory; 0: each block polls " \
    "it")                                                                                          \
  X(cuda_restart_us, 50, 1, 1000000000,                                                            \
    "CUDA: pause before a daemon that has quit is launched again for runs that wait for peers; "   \
    "doubled up to cuda_restart_most_us while nothing comes of it")                                \
  X(cuda_nap_us, 20, 1, 100000,                                                                    \
    "CUDA: sleep of the launcher between two polls of a running daemon")                           \
  X(cuda_patience_ms, 100, 2, 86400000,                                                            \
    "CUDA: how long a stream waits for a run while a launch does not begin; then its runs end")    \
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
  X(cuda_keep_us, 2000, 0, 60000000,                                                               \
    "CUDA: how long the daemon stays for the next run on a stream after the last one has ended; "  \
    "0 if processes take turns on the GPU")                                                        \
  X(cuda_restart_most_us, 50000, 1, 4000000,                                                       \
    "CUDA: longest pause before the next launch for runs that wait for peers; a peer's message "   \
    "ends it")

#define DF_POLICY_MAP(X)                                                                           \
  DF_POLICY_JOB_MAP(X)                                                                             \
  DF_POLICY_RANK_MAP(X)

typedef struct df_policy {
#define X(name, standard, least, most, meaning) long long name;
  DF_POLICY_MAP(X)
#undef X
} df_policy;

#endif
