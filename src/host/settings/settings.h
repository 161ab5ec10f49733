/*
 * One context's settings: the environment's DFCCL_ variables, read once, and dfcclConfig_t. The
 * table below is the only list of variables; docs/CONFIGURATION.md prints it. A number that no user
 * should need to change belongs to the tuning table instead (tuning/policy.h).
 */
#ifndef DF_HOST_SETTINGS_SETTINGS_H
#define DF_HOST_SETTINGS_SETTINGS_H

#include "base/result.h"
#include "bootstrap/net/listeners.h"
#include "daemon_kernel/block.h"
#include "plans/msccl/directory.h"
#include "tuning/table.h"

/* X(field, variable, default, least, most, meaning) */
#define DF_SETTINGS_MAP(X)                                                                         \
  X(init_timeout_ms, "DFCCL_INIT_TIMEOUT_MS", 60000, 1, 86400000,                                  \
    "longest wait for the other ranks in dfcclInit")                                               \
  X(timeout_ms, "DFCCL_TIMEOUT_MS", 0, 0, 86400000,                                                \
    "timeoutMs where the caller's configuration leaves it 0")                                      \
  X(max_blocks, "DFCCL_MAX_BLOCKS", 0, 0, DF_MAX_BLOCKS,                                           \
    "maxBlocks where the caller leaves it 0; 0: 1 on the CPU, between hosts net_blocks; a "        \
    "quarter of the multiprocessors but at most 32 on CUDA, divided by the ranks that share the "  \
    "GPU")                                                                                         \
  X(queue_depth, "DFCCL_QUEUE_DEPTH", 0, 0, DF_MAX_QUEUE_DEPTH,                                    \
    "queueDepth where the caller leaves it 0; 0: 1024")                                            \
  X(backlog, "DFCCL_BACKLOG", 65536, 1, DF_MAX_BACKLOG,                                            \
    "requests that may wait on the host, of all collectives; beyond it one of each")               \
  X(net_timeout_ms, "DFCCL_NET_TIMEOUT_MS", 10000, 100, 86400000,                                  \
    "how long another host may be silent before its ranks count as lost")                          \
  X(net_resume_ms, "DFCCL_NET_RESUME_MS", 10000, 0, 86400000,                                      \
    "how long a lost connection may take to be made anew; 0: a loss ends collectives")             \
  X(net_rails, "DFCCL_NET_RAILS", 4, 1, 4,                                                         \
    "networks that carry large messages to a rank of another host side by side, at most")          \
  X(net_relays, "DFCCL_NET_RELAYS", 512, 0, DF_MAX_RANKS,                                          \
    "ranks of a job of several hosts from which on one rank of each host passes on the control "   \
    "messages of the others; 0: never; rank 0's counts")                                           \
  X(tune, "DFCCL_TUNE", 0, 0, 2,                                                                   \
    "online tuning where options.tune is 0: 0: none; 1: of collectives whose algorithm is the "    \
    "library's choice; 2: of all")                                                                 \
  X(tune_budget, "DFCCL_TUNE_BUDGET", 1, 0, 100,                                                   \
    "online tuning: per cent of the time that slow variants and switches may cost; 0: no limit")   \
  X(calibration, "DFCCL_CALIBRATION", 1, 0, 1,                                                     \
    "1: rules that dfccl-bench tune --quick has measured on this machine are used on one host; "   \
    "0: only DFCCL_TUNING's and the built-in ones")                                                \
  X(context_slots, "DFCCL_CONTEXT_SLOTS", 8, 1, DF_MAX_CONTEXT_SLOTS,                              \
    "context cache slots; a power of two")                                                         \
  X(cuda_arena_mb, "DFCCL_CUDA_ARENA_MB", 64, 2, 65536,                                            \
    "CUDA: MiB of device memory for links, allocated at the start and when more is needed")        \
  X(debug_signal, "DFCCL_DEBUG_SIGNAL", 0, 0, 1,                                                   \
    "1: SIGUSR2 dumps every context to standard error")                                            \
  X(view, "DFCCL_VIEW", 1, 0, 1,                                                                   \
    "1: the rank answers dfccl-top at a socket of its user; 0: it does not")                       \
  X(trace_turns, "DFCCL_TRACE_TURNS", 0, 0, 1,                                                     \
    "1: the daemon records its turns, for DFCCL_TRACE and dfcclGetEvents")

/* AUTO, NONE: shared memory within the host. TCP, BACKEND: no shared memory with other processes. A
 * backend that network.net_backend names carries messages between hosts in any case. */
typedef enum { DF_NET_AUTO, DF_NET_TCP, DF_NET_NONE, DF_NET_BACKEND } df_net;

typedef struct df_settings {
#define X(field, variable, standard, least, most, meaning) long long field;
  DF_SETTINGS_MAP(X)
#undef X
  df_net net;                  /* DFCCL_NET */
  df_network_settings network; /* DFCCL_NET_..., DFCCL_SECRET..., DFCCL_ROOT */
  char isa[16];                /* DFCCL_ISA: plain, avx2, avx512, neon; empty: the best */
  char record[512];            /* DFCCL_RECORD: folder; empty: no recording */
  char trace[512];             /* DFCCL_TRACE: folder; empty: no trace */
  char flight[512];            /* DFCCL_FLIGHT: folder; empty: the recorder writes no file */
  char metrics[512];           /* DFCCL_METRICS: "file:PATH" or "unix:PATH"; empty: none */
  char view_directory[64];     /* XDG_RUNTIME_DIR, for the socket; empty: not set, or too long */
  char algorithms[512];        /* DFCCL_ALGORITHMS: directory of "file:NAME"; empty: none */
  char profiler_plugin[512];   /* DFCCL_PROFILER_PLUGIN; empty: none */
  char tune_file[512];         /* DFCCL_TUNE_FILE; empty: results are not kept */
  char tuner_plugin[512];      /* DFCCL_TUNER_PLUGIN; empty: none */
  df_tuning tuning;            /* DFCCL_TUNING: the file's text; empty: only built-in rules */
  df_file_directory files;     /* DFCCL_TUNE: files of DFCCL_ALGORITHMS that tuners may try */
  dfcclBackend_t backend;
  long long shared_blocks; /* as in df_device_choice */
  long long device;        /* CUDA ordinal; -1: the calling thread's */
  int survive, max_ranks;  /* config's */
  int quorum;              /* DFCCL_SURVIVE_QUORUM: df_quorum */
  void (*membership)(dfcclContext_t ctx, const dfcclMembership_t *membership, void *arg);
  void *membership_arg;
  int launches_block; /* CUDA_LAUNCH_BLOCKING is on */
  int one_queue;      /* CUDA_DEVICE_MAX_CONNECTIONS is 1 */
} df_settings;

/* config may be NULL. dfcclInvalidUsage names a variable, dfcclInvalidArgument a field. */
dfcclResult_t df_settings_read(df_settings *settings, const dfcclConfig_t *config);
/* Takes the CUDA device in place of config.device; -1: the calling thread's. */
dfcclResult_t df_settings_read_with_device(df_settings *settings, const dfcclConfig_t *config,
                                           int device);

/* dfcclInvalidUsage names a variable that the library does not have. */
dfcclResult_t df_settings_check_names(void);

/* Reads DFCCL_DEBUG and all settings that a unique id needs. dfcclInvalidUsage names a variable. */
dfcclResult_t df_settings_read_id(df_network_settings *network);
/* Reads the settings of the network. dfcclInvalidUsage names a variable. */
dfcclResult_t df_settings_read_network(df_network_settings *network, df_net *net);
/* Reads a variable whose value is a word. Returns its index in words; `standard` if the variable is
 * not set; -1 after df_fail. list: the words, for the message. */
int df_read_word(const char *variable, const char *const *words, int n, int standard,
                 const char *list);

/* Sets the rank's own numbers of the tuning table that are automatic, by device and by ranks per
 * core. takes_turns: processes take turns on the GPU. */
void df_settings_complete(df_settings *settings, uint32_t ranks, uint32_t cores, int takes_turns);

/* A GPU's thresholds are times: a poll counts as a microsecond. */
df_tunables df_settings_tunables(const df_settings *settings);

#endif
