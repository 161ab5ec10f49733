/*
 * DFCCL: collective communication that cannot deadlock.
 *
 * The application registers a collective once and runs it any number of times. Ranks may start
 * their collectives in any order, each in its own. Each accepted run ends in exactly one
 * completion. This is the only public header; it is valid C11 and C++.
 *
 * These rules hold for every function below, unless its comment says otherwise:
 *   - Any thread may call it. Calls on one context may overlap. The exception is dfcclDestroy: no
 *     other call may be in progress on a context that is being destroyed, and none may follow.
 *   - It returns dfcclSuccess or one of the listed codes. It never prints unless DFCCL_DEBUG is
 *     set, and it never ends the process. After a failure dfcclGetLastError returns one sentence
 *     about the failure, with the values.
 *   - A context that is NULL or recognisably destroyed gives dfcclInvalidArgument.
 *   - A context is broken after a peer died, a run timed out or dfcclAbort was called. Later calls
 *     return the code of that failure: dfcclRegister*, dfcclRun*, dfcclDeviceSynchronize and
 *     dfcclMemAlloc return it at once; dfcclTest returns it and still sets *done; dfcclWait and
 *     dfcclWaitAll return it when the runs that they wait for have ended, unless one of these runs
 *     has a failing status, which they return instead. dfcclWaitRun returns the status of its run.
 *     All other functions work as usual. A broken context cannot be repaired, only destroyed.
 *   - The comment of dfcclCallback_t lists the functions that a callback may call.
 */
#ifndef DFCCL_H
#define DFCCL_H

#include <stddef.h>
#include <stdint.h>

#define DFCCL_MAJOR 0
#define DFCCL_MINOR 1
#define DFCCL_PATCH 0
#define DFCCL_VERSION_CODE (DFCCL_MAJOR * 10000 + DFCCL_MINOR * 100 + DFCCL_PATCH)

#if defined(__GNUC__) || defined(__clang__)
#define DFCCL_API __attribute__((visibility("default")))
#else
#define DFCCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result codes. Codes 0 to 7 have NCCL's numbers and meanings. */
typedef enum {
  dfcclSuccess = 0,
  dfcclUnhandledCudaError = 1, /* a CUDA call failed */
  dfcclSystemError = 2,        /* a system call failed */
  dfcclInternalError = 3,      /* a defect of this library */
  dfcclInvalidArgument = 4,    /* an argument has an invalid value */
  dfcclInvalidUsage = 5,       /* the arguments are valid, but the call is not allowed in this state
                                  */
  dfcclRemoteError = 6,        /* a peer died, left or aborted, or its connection was lost */
  dfcclInProgress = 7,         /* the run has not completed yet */
  dfcclTimeout = 8,            /* the run did not complete within the configured time */
  dfcclMismatch = 9,           /* ranks registered or ran a collective differently, or their
                                  settings differ */
  dfcclAborted = 10,           /* dfcclAbort or dfcclAbortCollectives was called */
  dfcclOutOfMemory = 11        /* memory, or another resource of the system, is exhausted */
} dfcclResult_t;

/* Data types. Values 0 to 11 are NCCL's. */
typedef enum {
  dfcclInt8 = 0,
  dfcclUint8 = 1,
  dfcclInt32 = 2,
  dfcclUint32 = 3,
  dfcclInt64 = 4,
  dfcclUint64 = 5,
  dfcclFloat16 = 6,
  dfcclFloat32 = 7,
  dfcclFloat64 = 8,
  dfcclBfloat16 = 9,
  dfcclFloat8e4m3 = 10, /* OCP E4M3: no infinities; results beyond 448 saturate */
  dfcclFloat8e5m2 = 11, /* OCP E5M2; results beyond 57344 saturate */
  dfcclInt16 = 12,      /* NCCL has no 16-bit integers, so values 12 and 13 are this library's own
                           */
  dfcclUint16 = 13
} dfcclDataType_t;

/* Reduction operators. Values 0 to 4 are NCCL's. Integers wrap around on overflow. dfcclAvg is the
 * sum, divided once at the end by the number of ranks (integers: truncated toward zero). 16-bit and
 * 8-bit floats are reduced in float32 and rounded (to nearest, ties to even) once per reduction
 * step. The maximum or minimum of a NaN and a number is the number. dfcclBand, dfcclBor and
 * dfcclBxor combine the bits of integers and are not defined for floats. On integers that are 0 or
 * 1 they are the logical operators. */
typedef enum {
  dfcclSum = 0,
  dfcclProd = 1,
  dfcclMax = 2,
  dfcclMin = 3,
  dfcclAvg = 4,
  dfcclBand = 5,
  dfcclBor = 6,
  dfcclBxor = 7,
  dfcclRedOpLast = 0x7fffffff /* not an operator: makes room for the operators of dfcclRedOpCreate*
                                 */
} dfcclRedOp_t;

/* ---- Lifecycle */

/* A context is one rank: one device (a GPU, or the CPU device) of one process. */
typedef struct dfcclContext *dfcclContext_t;

/* The identity of a job: rendezvous addresses and a random 128-bit secret, as plain bytes that the
 * application sends to all ranks. Any process that has these bytes can join the job. */
typedef struct {
  char internal[128];
} dfcclUniqueId;

typedef enum { dfcclBackendAuto = 0, dfcclBackendCpu = 1, dfcclBackendCuda = 2 } dfcclBackend_t;

/*
 * Structs that begin with size, magic and version are initialised by their ..._INITIALIZER macro
 * and may grow in later versions. For a struct of an older header, which is shorter, the library
 * uses the defaults of the missing members. It refuses a struct of a newer header, which is longer,
 * with dfcclInvalidArgument unless all bytes that it does not know are zero. It also refuses a
 * struct with a size, a magic or a version that no library has.
 */
/*
 * The members of a job whose configuration has `survive` 1 or 2. Ranks keep their numbers. The
 * arrays belong to the library until dfcclDestroy.
 */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  uint64_t view;      /* number of the view; 0 at the start */
  const int *members; /* [nMembers] ranks in increasing order */
  int nMembers;
  const int *lost; /* [nLost] ranks that the view before had */
  /* [nLost] dfcclSuccess: the rank has left by dfcclDestroy; dfcclRemoteError: its process has
   * ended, or its context is broken; dfcclTimeout: it did not answer; dfcclAborted: it was
   * excluded */
  const dfcclResult_t *reasons;
  int nLost;
  const int *joined; /* [nJoined] ranks that have joined since the view before (dfcclJoin) */
  int nJoined;
} dfcclMembership_t;

#define DFCCL_MEMBERSHIP_MAGIC 0xdfccc05eu
#define DFCCL_MEMBERSHIP_INITIALIZER                                                               \
  {                                                                                                \
    sizeof(dfcclMembership_t), DFCCL_MEMBERSHIP_MAGIC, DFCCL_VERSION_CODE, 0, NULL, 0, NULL, NULL, \
        0, NULL, 0                                                                                 \
  }

typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  dfcclBackend_t backend; /* Auto: CUDA where the library was built with it and a usable device
                             exists, else CPU */
  int device; /* CUDA ordinal; -1: the calling thread's current device; ignored by the CPU device */
  int maxBlocks;  /* largest number of blocks of the daemon; 0: the library's choice */
  int queueDepth; /* slots of the submission queue, rounded up to a power of two; 0: the library's
                     choice */
  int timeoutMs;  /* milliseconds after which a submitted run that is not complete ends with
                     dfcclTimeout; 0: no limit */
  int reserved;   /* 0 */
  /*
   * The behaviour when a rank is lost: its process ends, it does not answer, or it is excluded. All
   * ranks must have the same value (dfcclMismatch). Only ranks of the CPU device on one host can go
   * on (dfcclInvalidUsage), and no AllToAllDynamic can be registered.
   *
   *   0   every outstanding run of every rank ends with dfcclRemoteError
   *   1   the job goes on among the other ranks. For each run of a collective with a lost member,
   *       exactly one holds, on all of them: it is complete, with the contribution of the lost
   *       rank; or it is executed again without that rank. A run in place copies its input first.
   *   2   as 1, but runs that would be executed again end with dfcclRemoteError, on all of them.
   *       Later runs go on.
   *
   * Collectives need not be registered again: their groups are without the lost ranks from then on,
   * down to one rank. Buffers keep the layout of the registration: pieces of lost ranks are not
   * read, and their content in results is undefined. dfcclAvg divides by the number of ranks that
   * took part. A collective whose root is lost ends with dfcclRemoteError, and so does a SendRecv
   * with a lost end. A group that is registered later may name lost ranks.
   *
   * A rank that cannot reach a majority of the latest view, and has no proof that the processes of
   * the others have ended, ends its runs with dfcclRemoteError (DFCCL_SURVIVE_QUORUM). A run ends
   * only when all members have their data, which costs messages (docs/PERFORMANCE.md).
   *
   * Source: AdapCC (ICDCS 2024), section IV-C2, goes on without failed members; ULFM (Bland et al.,
   * 2013) has the agreement as calls. docs/design/membership.md
   */
  int survive;
  int maxRanks; /* room for ranks that join later; 0: nRanks. Newcomers take lost numbers so far */
  /* Called on the callback thread for each new view that has lost or admitted ranks. If a
   * collective has lost a member, the callbacks of its runs that ended before the view have
   * returned, and none of its runs completes in the view before the call returns. It may register
   * and run collectives, and must not wait. NULL: nothing is called. */
  void (*membership)(dfcclContext_t ctx, const dfcclMembership_t *membership, void *arg);
  void *membershipArg;
} dfcclConfig_t;

#define DFCCL_CONFIG_MAGIC 0xdfcc1c0fu
#define DFCCL_CONFIG_INITIALIZER                                                                   \
  {                                                                                                \
    sizeof(dfcclConfig_t), DFCCL_CONFIG_MAGIC, DFCCL_VERSION_CODE, dfcclBackendAuto, -1, 0, 0, 0,  \
        0, 0, 0, NULL, NULL                                                                        \
  }

/*
 * Sets *version to the library's version: major*10000 + minor*100 + patch. Does not block.
 *
 * Errors: dfcclInvalidArgument (version is NULL).
 */
DFCCL_API dfcclResult_t dfcclGetVersion(int *version);

/*
 * Makes the identity of a new job and stores it in *id, which belongs to the caller. One process
 * calls it and sends the 128 bytes to every rank by any means. That process must live until every
 * rank has returned from dfcclInit, because it listens for the ranks until then. It stops listening
 * after ten minutes without a rank. It listens at up to three addresses of this host
 * (DFCCL_NET_INTERFACES, DFCCL_NET_PORTS); with DFCCL_NET=none it listens only at the loopback
 * address. An id serves one set of dfcclInit calls. Blocks only while an interface that
 * DFCCL_NET_INTERFACES chooses is not ready, for at most DFCCL_INIT_TIMEOUT_MS.
 *
 * Errors: dfcclInvalidArgument (id is NULL), dfcclInvalidUsage (an environment variable is
 * invalid), dfcclTimeout (the interface did not become ready), dfcclSystemError, dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclGetUniqueId(dfcclUniqueId *id);

/*
 * Joins a job and makes this rank's context. Blocks until all ranks have called it, for at most
 * DFCCL_INIT_TIMEOUT_MS (default 60,000 ms); after that it takes up to 2 s more to find out which
 * ranks are missing. A rank that has waited for 5 s logs a warning (DFCCL_DEBUG=warn) that names
 * the missing ranks and the addresses that do not answer. Several ranks may be in one process, if
 * each calls dfcclInit from its own thread. On the CPU device ranks may be on several hosts.
 *
 *   ctx      set only on success; the context belongs to the caller until dfcclDestroy
 *   nRanks   number of ranks of the job, 1 to 4096
 *   id       from dfcclGetUniqueId, the same on all ranks
 *   rank     number of this rank, 0 to nRanks-1
 *   config   NULL: every default; else copied during the call
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage (an environment variable is invalid, the backend
 * is not built, or ranks have different backends), dfcclSystemError, dfcclRemoteError (a rank
 * failed or disagrees), dfcclTimeout (the sentence names the missing ranks), dfcclMismatch
 * (DFCCL_NET_SECURITY or config.survive differs), dfcclOutOfMemory, dfcclUnhandledCudaError.
 */
DFCCL_API dfcclResult_t dfcclInit(dfcclContext_t *ctx, int nRanks, dfcclUniqueId id, int rank,
                                  const dfcclConfig_t *config);

/*
 * Makes all nRanks contexts of a job in this process: ctxs[r], of an array of nRanks entries,
 * becomes rank r. Either all contexts are made or none. Each belongs to the caller until its
 * dfcclDestroy. The call needs no other process or thread and does not wait for one. config is as
 * in dfcclInit.
 *
 * Errors: those of dfcclInit without dfcclRemoteError and dfcclTimeout.
 */
DFCCL_API dfcclResult_t dfcclInitAll(dfcclContext_t *ctxs, int nRanks, const dfcclConfig_t *config);

/*
 * Does what dfcclInitAll does, with a CUDA device for each rank: rank r uses devices[r], an ordinal
 * or -1 (the calling thread's current device), in place of config->device. Several ranks may use
 * one device.
 *
 *   devices  array of nRanks entries, read during the call; NULL: config->device for every rank.
 *            The CPU device ignores it.
 *
 * ctxs, nRanks and config are as in dfcclInitAll. The thread's current device stays what it is.
 *
 * Errors: those of dfcclInitAll; dfcclInvalidArgument also if an entry is less than -1 or if the
 * device does not exist. The sentence names the rank and the entry.
 */
DFCCL_API dfcclResult_t dfcclInitAllDevices(dfcclContext_t *ctxs, int nRanks, const int *devices,
                                            const dfcclConfig_t *config);

/*
 * Does what dfcclInit does, with the rank, the number of ranks and the rendezvous address read from
 * the environment of the launcher: torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), else the
 * variables of Open MPI, MPICH or Slurm. DFCCL_ROOT, the HOST:PORT of rank 0, takes precedence over
 * the launcher's address. In a multi-node job all ranks need the same secret, in DFCCL_SECRET or in
 * the file that DFCCL_SECRET_FILE names. The i-th call in each process makes the i-th job. ctx and
 * config are as in dfcclInit. Blocks as dfcclInit does.
 *
 * Errors: those of dfcclInit; dfcclInvalidUsage also if no launcher's variables are set, if one of
 * them has an invalid value, or if a multi-node job has no secret; dfcclRemoteError also if secrets
 * differ.
 */
DFCCL_API dfcclResult_t dfcclInitFromEnv(dfcclContext_t *ctx, const dfcclConfig_t *config);

/*
 * Waits for this rank's outstanding runs and their callbacks, then for the daemon's final exit, and
 * frees the context with every resource.
 *
 * Blocks until these runs have ended (config.timeoutMs limits the time, and an earlier dfcclAbort
 * ends them), and for up to 20 s more while a live peer does not read the control messages sent to
 * it (1 s if this context has failed). In a multi-node job of at least DFCCL_NET_RELAYS ranks, the
 * first rank of each host also waits until all ranks have called dfcclDestroy, for at most 10 s.
 *
 * No other call on ctx may overlap with this one or begin after it. A completed run does not show
 * that all threads have returned from their dfcclRun* and dfcclWait* calls, so the application must
 * make sure of that. There is one exception: a thread that runs a callback, or that sleeps inside
 * dfcclWait*, dfcclDeviceSynchronize or dfcclAbort, may still be returning from the call when its
 * condition is already met.
 *
 * A callback must not call it (dfcclInvalidUsage). Runs that peers submit later to collectives
 * shared with this rank end on the peers with dfcclRemoteError, or without this rank if
 * config.survive is set.
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage.
 */
DFCCL_API dfcclResult_t dfcclDestroy(dfcclContext_t ctx);

/*
 * Aborts the context: every outstanding run of this rank completes with dfcclAborted, its callback
 * included. On peers, runs that need this rank end with dfcclRemoteError, or go on without it if
 * config.survive is set. The call never waits for a peer or for user code. The context stays
 * allocated, so dfcclDestroy must still be called. A callback may call it.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclAbort(dfcclContext_t ctx);

/*
 * The same as dfcclAbort, with a reason that the sentences of all ranks contain: "rank 1 aborted,
 * because: REASON". Packages that abort on behalf of a program use it.
 *
 *   reason   one line, copied; its first 300 bytes count. NULL: as dfcclAbort
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclAbortWithReason(dfcclContext_t ctx, const char *reason);

/*
 * Fills *membership, which the caller has set to DFCCL_MEMBERSHIP_INITIALIZER, with the latest view
 * of this rank. The application may be notified later (config.membership). Any thread may call it,
 * also a callback; it does not block.
 *
 * Errors: dfcclInvalidArgument (membership is NULL or not initialised), dfcclInvalidUsage
 * (config.survive is 0).
 */
DFCCL_API dfcclResult_t dfcclGetMembership(dfcclContext_t ctx, dfcclMembership_t *membership);

/*
 * Excludes ranks from the job: the next view is without them, as if their processes had ended. The
 * call does not wait for the view. The excluded ranks end their runs with dfcclRemoteError. If two
 * ranks exclude each other, the lower one stays. Ranks that are lost already are ignored. Any
 * thread may call it, also a callback.
 *
 *   ranks   [n] ranks other than this one, and not all others; read during the call
 *
 * Errors: dfcclInvalidArgument (a rank that does not exist, this rank itself, all others),
 * dfcclInvalidUsage (config.survive is 0), dfcclRemoteError and others (the context is broken).
 */
DFCCL_API dfcclResult_t dfcclExclude(dfcclContext_t ctx, const int *ranks, int n);

/*
 * Makes an id by which processes can join this job (dfcclJoin), and stores it in *id, which belongs
 * to the caller. Any member may make one. The id stays valid until this rank's dfcclDestroy or the
 * end of its process; later calls of this rank store the same id. It contains a secret: processes
 * of the same user on this host that have it can join. From the first call on the rank has one more
 * thread, which sleeps until a process calls. Only jobs of one host can be joined, of up to 256
 * ranks. Does not block.
 *
 * Errors: dfcclInvalidArgument (id is NULL), dfcclInvalidUsage (config.survive is 0, ranks of
 * several hosts, DFCCL_NET=tcp), dfcclSystemError, dfcclOutOfMemory, and the failure of a broken
 * context.
 */
DFCCL_API dfcclResult_t dfcclGetJoinId(dfcclContext_t ctx, dfcclUniqueId *id);

/*
 * Joins a running job that goes on without lost ranks, and makes this rank's context. The process
 * takes the lowest number of a lost rank whose process has ended, which dfcclGetRank stores.
 * Blocks until all members have called dfcclAdmit and have taken this rank in, for at most
 * DFCCL_INIT_TIMEOUT_MS. Until then the job does not notice this rank. Afterwards this rank
 * registers the collectives that it needs, as the members do.
 *
 *   ctx      set only on success; the context belongs to the caller until dfcclDestroy
 *   id       from dfcclGetJoinId of a member, on this host and by the same user
 *   config   survive must have the job's value; NULL has 0. maxBlocks is that of the lost rank
 *
 * config.membership may be called before dfcclJoin has returned, for views after the first one of
 * this rank. A process that has or had a rank of the job in another context cannot join it.
 *
 * Errors: those of dfcclInit; dfcclInvalidArgument also for a damaged id or the secret of another
 * job, dfcclInvalidUsage also for an id of another version or host, or a job of another build,
 * dfcclRemoteError (the job, or the rank that made the id, has ended), dfcclMismatch
 * (config.survive and others differ from the job), dfcclTimeout (not taken in; the sentence says
 * why: the members have not called dfcclAdmit, no number is free, another process joins).
 */
DFCCL_API dfcclResult_t dfcclJoin(dfcclContext_t *ctx, const dfcclUniqueId *id,
                                  const dfcclConfig_t *config);

/* status: of dfcclAdmit. Called once on the callback thread, after config.membership. It may
 * register and run collectives, and call dfcclAdmit; it must not wait. */
typedef void (*dfcclAdmitCallback_t)(dfcclContext_t ctx, dfcclResult_t status, void *arg);

/*
 * Takes in one process that calls dfcclJoin. All members call it between the same runs, like a
 * collective, and go on without waiting for it. When the runs that were submitted before have
 * ended on all members, and a process has connected to all of them, the next view has that process
 * as a member (config.membership). Collectives that are registered after the callback may name it.
 * Groups of earlier registrations stay as they are, also if they have lost a rank of that number,
 * so runs of these collectives may be submitted and may complete at any time. Nothing can be
 * registered between the call and the callback (dfcclInvalidUsage).
 *
 *   callback   NULL: none. Its status, the same on all members unless the context breaks:
 *              dfcclSuccess: a process is a member now. dfcclTimeout: none has come within
 *              DFCCL_INIT_TIMEOUT_MS. dfcclRemoteError: the process was lost while it joined.
 *              dfcclMismatch: two members have submitted different numbers of runs of a collective
 *              before the call, so they have not called it between the same runs;
 *              dfcclGetLastError has collective, ranks and numbers where they are known on this
 *              rank. With these three the members are the same as before. dfcclAborted: this rank
 *              calls dfcclDestroy. There is no limit to the wait for a living member that does not
 *              call dfcclAdmit; the others log its rank
 *   arg        passed to the callback
 *
 * Any thread may call it, also a callback.
 *
 * Errors: dfcclInvalidUsage (config.survive is 0, or an earlier call has not ended), and the
 * failure of a broken context.
 */
DFCCL_API dfcclResult_t dfcclAdmit(dfcclContext_t ctx, dfcclAdmitCallback_t callback, void *arg);

/* Returns a constant sentence for a result code; never NULL. The text belongs to the library. Does
 * not block, and callbacks may call it. */
DFCCL_API const char *dfcclGetErrorString(dfcclResult_t result);

/*
 * Returns one sentence about the latest failure, with the values that were wrong: with a context,
 * its latest failure, failures of runs included; with NULL, that of the calling thread's latest
 * failing call; "no error" if there was none. The text belongs to the library and is valid until
 * the calling thread calls this function again. Does not block.
 */
DFCCL_API const char *dfcclGetLastError(dfcclContext_t ctx);

/*
 * Stores this context's rank and the number of ranks with which the job began, also after ranks
 * were lost (dfcclGetMembership). Either pointer may be NULL. Does not block.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclGetRank(dfcclContext_t ctx, int *rank, int *nRanks);

/* ---- Register */

/* The application chooses the id of a collective, the same on every member of the group. */
typedef uint64_t dfcclCollId_t;

typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  const int *ranks; /* members of the group, in the order that defines their positions (root and
                       block order follow it); NULL, with nRanks 0: all ranks */
  int nRanks;       /* number of entries of ranks */
  int priority;     /* collectives of a larger priority are executed first; 0 for all: FIFO order */
  const char *name; /* name in traces and diagnostics; copied, with control characters as escapes;
                       NULL: the id */
  const char *algorithm; /* NULL or "auto": the library's choice; or one of these names, if the
                            algorithm has the operation: "ring", "allpairs", "pairwise", "doubling",
                            "rabenseifner", "halving", "binomial", "doubletree",
                            "scatter-allgather", "bruck", "direct", "flat", "twolevel",
                            "dissemination", "ordered", "pat", "hierarchical", "bcube",
                            "binaryblocks", "trees"; or "file:NAME", an algorithm of the
                            directory DFCCL_ALGORITHMS (docs/TUNING.md). Limits may follow a name
                            and "auto": "ring slot=256K slots=8", the options of a rule there */
  int varying;  /* 1: each run may have fewer elements than registered (dfcclRun_t.count); the same
                   on every member. 0: all runs have the registered count */
  int reserved; /* must be 0 */
  int tune;     /* only the value of the group's first member counts. 1: the library tries other
                   algorithms and slot counts while runs go on, and keeps the fastest; -1: it does
                   not; 0: DFCCL_TUNE decides */
} dfcclCollOptions_t;

#define DFCCL_COLL_OPTIONS_MAGIC 0xdfcc10b7u
#define DFCCL_COLL_OPTIONS_INITIALIZER                                                             \
  {                                                                                                \
    sizeof(dfcclCollOptions_t), DFCCL_COLL_OPTIONS_MAGIC, DFCCL_VERSION_CODE, NULL, 0, 0, NULL,    \
        NULL, 0, 0, 0                                                                              \
  }

/*
 * The functions dfcclRegister* announce a collective. Registration is local: it never waits for a
 * peer, and each rank may register at any time and in any order, from a callback too. Links are
 * made in the background; a run that is submitted before its links are connected waits its turn.
 * Members' registrations are compared. A difference ends the runs with dfcclMismatch on every
 * member.
 *
 *   id        must not be registered on this context at the moment (dfcclInvalidUsage). The i-th
 *             registration of an id belongs to the i-th registration of it on each other member
 *   count     number of elements, not bytes. 0 is legal: such a run completes without a message.
 *             (nRanks below is the number of members of the group.) AllReduce, Reduce, Broadcast,
 *             SendRecv, Scan: elements of the whole buffer. AllGather: each rank sends sendCount
 *             and receives nRanks*sendCount. ReduceScatter: each rank sends nRanks*recvCount and
 *             receives recvCount. AllToAll: each rank sends countPerPeer to each member and
 *             receives as many from each. Gather: each rank sends countPerRank; the root receives
 *             nRanks*countPerRank. Scatter: the root sends nRanks*countPerRank; each rank receives
 *             countPerRank
 *   root      position in the group, 0 to group size - 1
 *   from, to  positions in the group. A SendRecv is a channel for messages in one direction, and
 *             only these two ranks register it. Two registrations make both directions. If from and
 *             to are equal, its runs copy. The i-th run of the sender belongs to the i-th run of
 *             the receiver; the rank that submits first does not block
 *   exclusive 0: the Scan's result on position p combines the operands of positions 0 to p. 1: it
 *             combines those of 0 to p - 1, and position 0 has no result: its recvBuf stays
 *             unchanged. Operands are combined in the order of the group. dfcclAvg is not allowed
 *   options   may be NULL: all ranks, priority 0, no name, the library's choice of algorithm, all
 *             runs of the registered count. ranks and name are copied
 *
 * With options.varying each run has dfcclRun_t.count elements, at most `count`, and its buffers are
 * laid out as if the collective were registered with that count. Members' counts of one run are
 * compared. If they differ, that run and all later ones end with dfcclMismatch on every member, and
 * the sentence names counts and ranks; earlier runs complete. For this comparison no member ends a
 * run before all members have submitted it. (Without varying, a member of a Broadcast or Reduce may
 * end a run earlier.) A run of no elements is impossible, because 0 stands for the registered
 * count. Varying collectives exist only on the CPU device (CUDA: dfcclInvalidUsage). A Barrier has
 * no elements, so it cannot vary.
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage (the id is in use, or more than 65,536
 * collectives), dfcclOutOfMemory, and the failure of a broken context.
 */
DFCCL_API dfcclResult_t dfcclRegisterAllReduce(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                               dfcclDataType_t type, dfcclRedOp_t op,
                                               const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterReduce(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                            dfcclDataType_t type, dfcclRedOp_t op, int root,
                                            const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterBroadcast(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                               dfcclDataType_t type, int root,
                                               const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterAllGather(dfcclContext_t ctx, dfcclCollId_t id,
                                               size_t sendCount, dfcclDataType_t type,
                                               const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterReduceScatter(dfcclContext_t ctx, dfcclCollId_t id,
                                                   size_t recvCount, dfcclDataType_t type,
                                                   dfcclRedOp_t op,
                                                   const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterAllToAll(dfcclContext_t ctx, dfcclCollId_t id,
                                              size_t countPerPeer, dfcclDataType_t type,
                                              const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterGather(dfcclContext_t ctx, dfcclCollId_t id,
                                            size_t countPerRank, dfcclDataType_t type, int root,
                                            const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterScatter(dfcclContext_t ctx, dfcclCollId_t id,
                                             size_t countPerRank, dfcclDataType_t type, int root,
                                             const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterSendRecv(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                              dfcclDataType_t type, int from, int to,
                                              const dfcclCollOptions_t *options);
/* A run of a barrier completes on a member after all members have submitted that run. */
DFCCL_API dfcclResult_t dfcclRegisterBarrier(dfcclContext_t ctx, dfcclCollId_t id,
                                             const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterScan(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                          dfcclDataType_t type, dfcclRedOp_t op, int exclusive,
                                          const dfcclCollOptions_t *options);

/*
 * The function of a user-defined operator. It sets inout[i] to inout[i] (op) in[i] for count
 * elements of the type, and the operator must be associative. Any thread inside the library may
 * call it, several threads at the same time too, with elements of any part of a buffer. It must not
 * block and must not call the library. Both pointers are aligned to the element, and the arrays do
 * not overlap. arg is the pointer given to dfcclRedOpCreate.
 */
typedef void (*dfcclRedOpFunction_t)(void *inout, const void *in, size_t count,
                                     dfcclDataType_t type, void *arg);

/*
 * Makes a user-defined operator for dfcclRegister* in this process and stores it in *op. The call
 * is local and does not block. Each member makes one, and the functions of all members
 * must be equivalent. The library compares only two facts: whether an operator is user-defined, and
 * whether it is commutative.
 *
 *   fn, arg       the library calls fn with arg until the last collective that uses *op has been
 *                 deregistered
 *   commutative   0: operands are combined in the order of the group, inout before in. Such an
 *                 operator is available for AllReduce ("doubling"), Reduce and ReduceScatter
 *                 ("ordered") and Scan; a ReduceScatterV with it is refused. Other values: the
 *                 library may change the order
 *
 * User-defined operators exist only on the CPU device. Errors: dfcclInvalidArgument (op or fn is
 * NULL), dfcclInvalidUsage (CUDA; or 1,024 operators of this process are in use), dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclRedOpCreate(dfcclContext_t ctx, dfcclRedOp_t *op,
                                         dfcclRedOpFunction_t fn, void *arg, int commutative);
/*
 * Makes an operator that multiplies each member's input by that member's scalar and adds the
 * products, and stores it in *op. The product is rounded to the type before it is added. Members
 * may have different scalars. Does not block.
 *
 *   scalar           one element of the type; copied. Collectives that use the operator must have
 *                    this type
 *   scalarOnDevice   0: scalar is in host memory. 1 is refused, because the CPU device has no other
 *                    memory
 *
 * Such operators exist only on the CPU device. Errors: those of dfcclRedOpCreate, and
 * dfcclInvalidArgument also for type and scalarOnDevice.
 */
DFCCL_API dfcclResult_t dfcclRedOpCreatePreMulSum(dfcclContext_t ctx, dfcclRedOp_t *op,
                                                  const void *scalar, dfcclDataType_t type,
                                                  int scalarOnDevice);
/*
 * Destroys a user-defined operator: it can no longer be used in a registration. Collectives that
 * were registered with it continue to work. Does not block.
 *
 * Errors: dfcclInvalidArgument (op was not made by dfcclRedOpCreate*, or has been destroyed).
 */
DFCCL_API dfcclResult_t dfcclRedOpDestroy(dfcclContext_t ctx, dfcclRedOp_t op);

/*
 * The vector collectives (V): their pieces have unequal lengths. Counts and displacements are in
 * elements, one for each position of the group (Neighbours: one for each piece), and the arrays are
 * copied. A displacement is the element of the buffer at which a piece begins; if displs is NULL,
 * the pieces are packed, one behind the other. Elements between pieces are neither read nor
 * written. Any count may be 0, also all of them. A member needs only its own counts. The library
 * compares the counts of each pair of members; a difference ends the runs with dfcclMismatch, and
 * the sentence names both ranks and both counts.
 *
 *   AllGatherV      position i sends counts[i] elements, which this rank stores at displs[i] of
 *                   recvBuf
 *   ReduceScatterV  position i receives counts[i] elements; sendBuf contains the pieces packed
 *   GatherV         this rank sends count elements. counts and displs are used only on the root:
 *                   how many elements it receives from each position, and where it stores them
 *   ScatterV        this rank receives count elements. counts and displs are used only on the root:
 *                   how many elements it sends to each position, and where they begin
 *   AllToAllV       sendCounts[i] elements at sendDispls[i] of sendBuf are sent to position i, and
 *                   recvCounts[i] elements from position i are stored at recvDispls[i] of recvBuf
 *   Neighbours      sendBuf contains nSends packed pieces: sendCounts[k] elements for position
 *                   sendTo[k]. recvBuf receives nRecvs packed pieces: recvCounts[k] elements from
 *                   position recvFrom[k]. Each position occurs at most once in each list. All
 *                   members of the group register the collective, also those with two empty lists
 *
 * In place, sendBuf equals the address of this rank's own piece in recvBuf (AllGatherV, and GatherV
 * on the root), or recvBuf equals the address of its own piece in sendBuf (ReduceScatterV, and
 * ScatterV on the root). AllToAllV and Neighbours cannot run in place. options.algorithm may be
 * "direct", which all of these collectives use; options.varying must be 0.
 *
 * Errors: those of dfcclRegister*; dfcclInvalidArgument also if a needed array is NULL, if a member
 * sends itself another number of elements than it receives from itself, or if a run needs more than
 * 65,535 messages on this rank (a message has up to 32 KB, more between hosts, or less where
 * DFCCL_TUNING sets smaller slots).
 */
DFCCL_API dfcclResult_t dfcclRegisterAllGatherV(dfcclContext_t ctx, dfcclCollId_t id,
                                                const size_t *counts, const size_t *displs,
                                                dfcclDataType_t type,
                                                const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterReduceScatterV(dfcclContext_t ctx, dfcclCollId_t id,
                                                    const size_t *counts, dfcclDataType_t type,
                                                    dfcclRedOp_t op,
                                                    const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterGatherV(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                             const size_t *counts, const size_t *displs,
                                             dfcclDataType_t type, int root,
                                             const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterScatterV(dfcclContext_t ctx, dfcclCollId_t id,
                                              const size_t *counts, const size_t *displs,
                                              size_t count, dfcclDataType_t type, int root,
                                              const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterAllToAllV(dfcclContext_t ctx, dfcclCollId_t id,
                                               const size_t *sendCounts, const size_t *sendDispls,
                                               const size_t *recvCounts, const size_t *recvDispls,
                                               dfcclDataType_t type,
                                               const dfcclCollOptions_t *options);
/*
 * Registers an AllToAll whose counts are known only when it is run. Each message contains its
 * length, and the receivers read the counts from the messages, so the application need not exchange
 * counts beforehand. maxCountPerPeer is the largest number of elements between two members in any
 * run, equal on all members. options.varying must be 0. Only the CPU device has this collective
 * (CUDA: dfcclInvalidUsage). Threads, blocking and errors are those of dfcclRegister*.
 */
DFCCL_API dfcclResult_t dfcclRegisterAllToAllDynamic(dfcclContext_t ctx, dfcclCollId_t id,
                                                     size_t maxCountPerPeer, dfcclDataType_t type,
                                                     const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterNeighbours(dfcclContext_t ctx, dfcclCollId_t id, int nSends,
                                                const int *sendTo, const size_t *sendCounts,
                                                int nRecvs, const int *recvFrom,
                                                const size_t *recvCounts, dfcclDataType_t type,
                                                const dfcclCollOptions_t *options);

/*
 * Deregisters a collective and frees its memory. Every run of it must have completed, and its
 * callback must have returned, as dfcclTest reports. In the callback of the last run, that run
 * counts as complete. Does not block. Runs that peers have submitted beyond this rank's runs end on
 * the peers with dfcclRemoteError.
 *
 * Errors: dfcclInvalidArgument (id is not registered), dfcclInvalidUsage (runs are not complete).
 */
DFCCL_API dfcclResult_t dfcclDeregister(dfcclContext_t ctx, dfcclCollId_t id);

/* ---- Run */

/*
 * The completion callback of a run. The library calls it exactly once for each accepted run, on a
 * library thread or inside a dfcclWait* that waits for the run, with no lock held. coll is the id
 * of the collective, status the result of the run, arg the pointer given with the run.
 *
 * The library's thread has a stack of 1 MiB, so larger arrays belong on the heap. Callbacks of one
 * collective are called one at a time, in the order of its runs; callbacks of different collectives
 * may overlap.
 *
 * A callback may call dfcclRun*, dfcclRegister*, dfcclDeregister, dfcclTest, dfcclAbort,
 * dfcclAbortCollectives, dfcclExclude, dfcclAdmit and dfcclGet*. It must not call dfcclWait*,
 * dfcclDeviceSynchronize, dfcclJoin or dfcclDestroy (dfcclInvalidUsage). A callback that blocks
 * delays callbacks of its own collective, and callbacks of other collectives until a thread waits
 * for them. It never delays the daemon, a peer, or a thread that waits for another collective.
 */
typedef void (*dfcclCallback_t)(dfcclCollId_t coll, dfcclResult_t status, void *arg);

/*
 * The functions dfcclRun* submit one run of a registered collective of that kind. They never block;
 * any thread may call them, also from a callback. The i-th run of a collective on one rank belongs
 * to its i-th run on each other member. A collective may be run again before earlier runs have
 * completed. Error sentences and dumps number the runs of a collective on a rank from 0.
 *
 *   sendBuf, recvBuf   aligned to the element. They belong to the library until the run's callback
 *                      is called or dfcclWait returns. Unused buffers may be NULL: recvBuf of
 *                      Reduce and Gather except on the root, sendBuf of Broadcast and Scatter
 *                      except on the root, sendBuf of SendRecv except on the sender, recvBuf of
 *                      SendRecv except on the receiver, recvBuf of an exclusive Scan on position 0.
 *                      A Barrier has no buffers. In place: sendBuf == recvBuf; AllGather, and
 *                      Gather on the root: sendBuf == recvBuf + rank*count; ReduceScatter, and
 *                      Scatter on the root: recvBuf == sendBuf + rank*count (rank: the position in
 *                      the group). Any other overlap is undefined
 *   callback           may be NULL; called once with arg. A run that is refused has no callback
 *
 * A run that is refused is not submitted. If the reason is that the collective has failed, the next
 * dfcclWait on it and the next dfcclWaitAll return the failure too.
 *
 * Errors: dfcclInvalidArgument (id is not registered, or is a collective of another kind; a buffer
 * is NULL or misaligned), dfcclInvalidUsage (DFCCL_BACKLOG requests wait on the host, some of this
 * collective among them), dfcclOutOfMemory, and the failure of a broken context or collective
 * (dfcclMismatch, dfcclRemoteError, dfcclTimeout, dfcclAborted).
 *
 * While the submission queue is full, requests wait on the host in order. The library always
 * accepts one request of a collective that has none in that list. So a program that gets
 * dfcclInvalidUsage can continue with its other collectives; peers may need those before the
 * refused run can proceed.
 */
DFCCL_API dfcclResult_t dfcclRunAllReduce(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                          void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunReduce(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                       void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunBroadcast(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                          void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunAllGather(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                          void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunReduceScatter(dfcclContext_t ctx, dfcclCollId_t id,
                                              const void *sendBuf, void *recvBuf,
                                              dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunAllToAll(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                         void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunGather(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                       void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunScatter(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                        void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunSendRecv(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                         void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunBarrier(dfcclContext_t ctx, dfcclCollId_t id,
                                        dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunScan(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                     void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunAllGatherV(dfcclContext_t ctx, dfcclCollId_t id,
                                           const void *sendBuf, void *recvBuf,
                                           dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunReduceScatterV(dfcclContext_t ctx, dfcclCollId_t id,
                                               const void *sendBuf, void *recvBuf,
                                               dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunGatherV(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                        void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunScatterV(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                         void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunAllToAllV(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                          void *recvBuf, dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunNeighbours(dfcclContext_t ctx, dfcclCollId_t id,
                                           const void *sendBuf, void *recvBuf,
                                           dfcclCallback_t callback, void *arg);

/*
 * Submits one run of an AllToAllDynamic. It sends sendCounts[i] elements at sendDispls[i] of
 * sendBuf to position i (sendDispls NULL: the pieces are packed). The elements from position i
 * begin at element i * maxCountPerPeer of recvBuf, and their number is stored in recvCounts[i]. A
 * run cannot be in place. sendBuf may be NULL if all counts are 0. sendCounts and sendDispls, one
 * entry for each position, are read before the call returns. recvCounts may be NULL; it belongs to
 * the library as long as recvBuf does, and its contents are undefined after a failed run. Does not
 * block.
 *
 * Errors: those of dfcclRun*; dfcclInvalidArgument also if sendCounts is NULL or a count exceeds
 * maxCountPerPeer.
 */
DFCCL_API dfcclResult_t dfcclRunAllToAllDynamic(dfcclContext_t ctx, dfcclCollId_t id,
                                                const void *sendBuf, const size_t *sendCounts,
                                                const size_t *sendDispls, void *recvBuf,
                                                size_t *recvCounts, dfcclCallback_t callback,
                                                void *arg);

/* The description of one run, for dfcclRun. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  const void *sendBuf;
  void *recvBuf;
  size_t count; /* number of elements; 0: the registered count. Other values need options.varying
                   and are at most the registered count */
  const size_t *sendCounts, *sendDispls; /* AllToAllDynamic: as in dfcclRunAllToAllDynamic; */
  size_t *recvCounts;                    /* other kinds: all four are NULL */
  const size_t *recvDispls;              /* element of recvBuf for position i; NULL: i *
                                            maxCountPerPeer */
  void *stream;   /* a cudaStream_t, only with DFCCL_RUN_ON_STREAM; NULL: the default stream */
  unsigned flags; /* 0 or DFCCL_RUN_ON_STREAM */
  dfcclCallback_t callback; /* may be NULL */
  void *arg;
  uint64_t run; /* output: the number of this run of this collective on this rank, from 0;
                   UINT64_MAX: the run was refused */
} dfcclRun_t;

#define DFCCL_RUN_ON_STREAM 1u /* the run is ordered in a CUDA stream, as with dfcclRun*OnStream */
#define DFCCL_RUN_MAGIC 0xdfcc4089u
#define DFCCL_RUN_INITIALIZER                                                                      \
  {                                                                                                \
    sizeof(dfcclRun_t), DFCCL_RUN_MAGIC, DFCCL_VERSION_CODE, NULL, NULL, 0, NULL, NULL, NULL,      \
        NULL, NULL, 0, NULL, NULL, 0                                                               \
  }

/*
 * Submits one run of a registered collective of any kind. The functions that are named after a kind
 * are shorthands for it. Any thread may call it, also from a callback. It does not block, except
 * with DFCCL_RUN_ON_STREAM, where it may wait as dfcclRun*OnStream does. *run belongs to the
 * caller, and the library does not use it after the call. If the run is accepted, run->run is set,
 * before or after the callback is called. If the run is refused, run->run is UINT64_MAX, which is
 * no run for dfcclWaitRun.
 *
 * Errors: those of dfcclRun* and, with DFCCL_RUN_ON_STREAM, of dfcclRun*OnStream;
 * dfcclInvalidArgument (run is NULL or was not initialised; count differs from the registered one
 * or, with options.varying, exceeds it; counts of single peers for a collective without such
 * counts; unknown flags; a stream without the flag).
 */
DFCCL_API dfcclResult_t dfcclRun(dfcclContext_t ctx, dfcclCollId_t id, dfcclRun_t *run);

/*
 * The functions dfcclRun*OnStream submit a run in the order of a CUDA stream (`stream` is a
 * cudaStream_t; NULL: the default stream of the rank's device). The run begins when the stream has
 * reached this call, so work that is enqueued before it may produce the input. Work that is
 * enqueued after it waits until the run has ended, with any status, and may use the output. The
 * call enqueues three memory operations (or kernels of one thread, where the device has no such
 * operations) and never waits for a run. The stream must be one of the rank's device, which need
 * not be the calling thread's current one. A run with wrong arguments, or of a collective that has
 * failed, enqueues nothing. A run that is refused later (a full backlog, an error of CUDA) may
 * leave writes to the library's own memory on the stream, and no wait. The callback may be NULL
 * and is called as for dfcclRun*. The call may wait where enqueueing waits, and for the launch of
 * the daemon that must precede the stream's wait, at most cuda_patience_ms (100) of the tuning
 * table.
 *
 * Stream order can itself cause a deadlock that this library cannot prevent. Two collectives on one
 * stream, in opposite orders on two ranks, wait for each other's input. The same holds for
 * collectives on streams that share a hardware queue (CUDA_DEVICE_MAX_CONNECTIONS); see
 * docs/CUDA.md.
 *
 * Errors: those of dfcclRun*; dfcclInvalidUsage (the context is on the CPU device; the stream is
 * being captured; 4,095 runs on streams are not complete; or CUDA_DEVICE_MAX_CONNECTIONS is 1 and a
 * run of another rank of this process is on a stream), dfcclUnhandledCudaError.
 */
DFCCL_API dfcclResult_t dfcclRunAllReduceOnStream(dfcclContext_t ctx, dfcclCollId_t id,
                                                  const void *sendBuf, void *recvBuf, void *stream,
                                                  dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunReduceOnStream(dfcclContext_t ctx, dfcclCollId_t id,
                                               const void *sendBuf, void *recvBuf, void *stream,
                                               dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunBroadcastOnStream(dfcclContext_t ctx, dfcclCollId_t id,
                                                  const void *sendBuf, void *recvBuf, void *stream,
                                                  dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunAllGatherOnStream(dfcclContext_t ctx, dfcclCollId_t id,
                                                  const void *sendBuf, void *recvBuf, void *stream,
                                                  dfcclCallback_t callback, void *arg);
DFCCL_API dfcclResult_t dfcclRunReduceScatterOnStream(dfcclContext_t ctx, dfcclCollId_t id,
                                                      const void *sendBuf, void *recvBuf,
                                                      void *stream, dfcclCallback_t callback,
                                                      void *arg);
DFCCL_API dfcclResult_t dfcclRunAllToAllOnStream(dfcclContext_t ctx, dfcclCollId_t id,
                                                 const void *sendBuf, void *recvBuf, void *stream,
                                                 dfcclCallback_t callback, void *arg);

/*
 * Sets *done to 1 if every run of the collective that was submitted before has completed and its
 * callback has returned, else to 0. The callback that the calling thread is executing counts as
 * returned. The call does not block, makes no progress for the device and runs no callback. So a
 * run whose callback is queued behind a callback that blocks is reported done only after another
 * thread has waited for it, or after the blocking callback has returned.
 *
 * Errors: dfcclInvalidArgument, and the failure of a broken context.
 */
DFCCL_API dfcclResult_t dfcclTest(dfcclContext_t ctx, dfcclCollId_t id, int *done);

/*
 * Blocks until every run of the collective that was submitted before the call has completed and its
 * callback has returned. Meanwhile the calling thread makes progress for the device and runs
 * callbacks of this collective, but of no other. Returns the first failing status among the runs
 * that completed since the last dfcclWait on the collective; if there is none, the failure of a
 * broken context. A callback must not call it (dfcclInvalidUsage).
 *
 * A run that was refused since the last dfcclWait because the collective has failed (a mismatch, a
 * member that deregistered it or left, dfcclAbortCollectives) counts as completed with that
 * failure. So a program that checks only its waits learns of the failure whether it arrived before
 * or after the run was submitted. Refusals for other reasons (dfcclInvalidArgument,
 * dfcclInvalidUsage, dfcclOutOfMemory) are returned only by the call that was refused.
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage, any status of a run, and the failure of a broken
 * context.
 */
DFCCL_API dfcclResult_t dfcclWait(dfcclContext_t ctx, dfcclCollId_t id);

/*
 * Waits until one run of the collective has completed and its callback has returned, and returns
 * that run's status. Meanwhile the calling thread makes progress for the device. The status of a
 * run stays available until the collective is deregistered, on a broken context too, and a later
 * dfcclWait still reports it. A callback must not call it (dfcclInvalidUsage).
 *
 *   run         number of the run, as dfcclRun counts: the first run that was accepted since the
 *               registration is 0
 *   timeoutMs   milliseconds after which the call returns dfcclInProgress, while the run continues.
 *               0: the call checks once and makes no progress; negative: no limit
 *
 * A callback that the calling thread itself runs may take longer than timeoutMs.
 *
 * Errors: dfcclInvalidArgument (id is not registered, or was deregistered meanwhile; no such run),
 * dfcclInvalidUsage, dfcclInProgress, and any status of a run.
 */
DFCCL_API dfcclResult_t dfcclWaitRun(dfcclContext_t ctx, dfcclCollId_t id, uint64_t run,
                                     int timeoutMs);

/*
 * Returns how one run of a collective has ended, and the sentence of its failure. Other failures of
 * the context, before or after it, do not change the answer. A callback may call it, for example
 * with the number that dfcclRun wrote to run.run. Does not block.
 *
 *   id       a collective that is registered on this rank, or one of the last 8 collectives that
 *            failed here and were deregistered since
 *   run      number of the run, from 0
 *   status   out: dfcclSuccess, dfcclInProgress, or the failure; may be NULL
 *   text     out: the sentence, with a terminating zero, shortened to `bytes`; "" unless the run
 *            has failed. The caller owns the buffer; 512 bytes hold each sentence. NULL if bytes is
 *            0
 *
 * Errors: dfcclInvalidArgument (the run was not submitted, or the collective is neither registered
 * nor among those failed ones). Both outputs are unchanged then.
 */
DFCCL_API dfcclResult_t dfcclGetRunError(dfcclContext_t ctx, dfcclCollId_t id, uint64_t run,
                                         dfcclResult_t *status, char *text, size_t bytes);

/*
 * Does what dfcclWait does for every collective of the context: it waits for all runs submitted
 * before the call. Returns the first failing status since the last dfcclWaitAll; refused runs of
 * failed collectives count as in dfcclWait.
 *
 * Errors: those of dfcclWait, and dfcclOutOfMemory (the call has not waited).
 */
DFCCL_API dfcclResult_t dfcclWaitAll(dfcclContext_t ctx);

/*
 * Aborts single collectives. Their outstanding runs end with dfcclAborted on this rank and with
 * dfcclRemoteError on the other members, callbacks included. Later runs of them are refused with
 * the same codes until each member has deregistered and registered them again. A run that has
 * completed on this rank may fail on a member that still needs this rank for it. All other
 * collectives continue, and the context stays usable. The call does not wait for a peer or for user
 * code. Any thread may call it, also from a callback.
 *
 *   ids   n collectives, all registered on this context; if one is not, none is aborted. n may be 0
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclAbortCollectives(dfcclContext_t ctx, const dfcclCollId_t *ids, int n);

/* The same as dfcclAbortCollectives, with a reason as in dfcclAbortWithReason. */
DFCCL_API dfcclResult_t dfcclAbortCollectivesWithReason(dfcclContext_t ctx,
                                                        const dfcclCollId_t *ids, int n,
                                                        const char *reason);

/*
 * Blocks until the device is idle. On the CPU device, no run that is submitted after the call
 * starts on this context's device until the daemon has left it. The call does not wait for runs: a
 * daemon that cannot progress leaves by itself and is started again afterwards. On CUDA the call is
 * cudaDeviceSynchronize, which waits for runs on this process's streams and for no other runs: the
 * daemon is interrupted from time to time and continues in another launch. A callback must not call
 * it (dfcclInvalidUsage).
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage, dfcclUnhandledCudaError, and the failure of a
 * broken context, which is returned without waiting.
 */
DFCCL_API dfcclResult_t dfcclDeviceSynchronize(dfcclContext_t ctx);

/*
 * Allocates and frees memory that peers can map: collectives on buffers inside it use zero copy.
 * dfcclMemAlloc stores the address in *ptr. The memory is zeroed, aligned to a page, and at least
 * `bytes` bytes long (bytes >= 1). It belongs to the caller until dfcclMemFree, when no run that
 * uses it may be outstanding. dfcclDestroy frees all memory that has not been freed. dfcclMemFree
 * does nothing for NULL, and works on a broken context too.
 *
 * Errors of dfcclMemAlloc: dfcclInvalidArgument, dfcclOutOfMemory, dfcclSystemError,
 * dfcclUnhandledCudaError, and the failure of a broken context. Errors of dfcclMemFree:
 * dfcclInvalidArgument (ptr was not allocated by dfcclMemAlloc on this context, or has been freed).
 */
DFCCL_API dfcclResult_t dfcclMemAlloc(dfcclContext_t ctx, void **ptr, size_t bytes);
DFCCL_API dfcclResult_t dfcclMemFree(dfcclContext_t ctx, void *ptr);

/* ---- See what it is doing */

typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  uint64_t sqesSubmitted, sqesFetched, cqesWritten, callbacksRun;
  uint64_t preemptions; /* times that a collective was set aside because a primitive's spin
                           threshold ran out */
  uint64_t contextSaves, contextLoads;
  uint64_t daemonStarts, voluntaryQuits;
  uint64_t primitivesExecuted, bytesSent;
  uint32_t taskQueueLength, taskQueueHighWater, blocks;
} dfcclStats_t;

#define DFCCL_STATS_MAGIC 0xdfcc157au
#define DFCCL_STATS_INITIALIZER                                                                    \
  {                                                                                                \
    sizeof(dfcclStats_t), DFCCL_STATS_MAGIC, DFCCL_VERSION_CODE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
        0, 0, 0                                                                                    \
  }

/*
 * Fills *stats, whose first three members the caller has set by DFCCL_STATS_INITIALIZER. Counters
 * start at dfcclInit and are sums over the blocks; sqesFetched counts an entry once for each block
 * that fetched it. While runs are outstanding, each counter is exact for a recent moment, but these
 * moments may differ between counters. Does not block.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclGetStats(dfcclContext_t ctx, dfcclStats_t *stats);

/* Memory of a context, or of one of its collectives, in bytes. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  uint64_t collectives;   /* registered collectives, and their variants of other plans */
  uint64_t recordBytes;   /* memory of this process: descriptors, plans, tables of members */
  uint64_t ringBytes;     /* memory of the links in which this rank receives, of what it writes
                             once for several peers, and of the ways of its messages */
  uint64_t reservedBytes; /* address space that is reserved for them; what no message has been
                             written to yet takes no memory */
  uint64_t userBytes;     /* dfcclMemAlloc; of a collective 0 */
} dfcclMemory_t;

#define DFCCL_MEMORY_MAGIC 0xdfcc3e30u
#define DFCCL_MEMORY_INITIALIZER                                                                   \
  { sizeof(dfcclMemory_t), DFCCL_MEMORY_MAGIC, DFCCL_VERSION_CODE, 0, 0, 0, 0, 0 }

/*
 * Fills *memory, whose first three members the caller has set by DFCCL_MEMORY_INITIALIZER, with the
 * memory that the context has for its collectives at the moment. Tables that a context has from the
 * start are not counted. Links are set up in the background at a collective's first run, and grow
 * with its messages. dfcclDeregister gives back all memory of a collective when the other members
 * have deregistered it too. Pages of links between hosts count also if they were only read. Ranks
 * have different numbers. The call takes the longer, the more memory there is: up to about 6 us for
 * each 4 MB of rings, during which the context's other calls wait. It waits for no peer.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclGetMemory(dfcclContext_t ctx, dfcclMemory_t *memory);

/*
 * The same for one registered collective and its variants. Plans that collectives share are not
 * counted. Pages that contain rings of several collectives count by their parts.
 *
 * Errors: dfcclInvalidArgument (no collective has this id).
 */
DFCCL_API dfcclResult_t dfcclGetCollectiveMemory(dfcclContext_t ctx, dfcclCollId_t coll,
                                                 dfcclMemory_t *memory);

/* The kinds of durations that a daemon on a GPU measures with DFCCL_TUNING=set:cuda_timers=1. */
typedef enum {
  dfcclTimePass = 0,        /* with cuda_relay: read one SQE across the bus and pass it on */
  dfcclTimeFetch = 1,       /* fetch of one SQE by a block */
  dfcclTimeContextLoad = 2, /* load of one dynamic context into shared memory */
  dfcclTimeContextSave = 3, /* write-back of one dynamic context */
  dfcclTimeCqeWrite = 4,    /* write of one CQE to host memory */
  dfcclTimePrepare = 5,     /* from a block's fetch of a run to the run's first step there; only for
                               runs that found no earlier run of the collective in the block */
  dfcclTimeExecute = 6      /* from the run's first step to the end of its last, including times
                               when it is set aside */
} dfcclTime_t;

/*
 * Returns the latest durations of one kind that this context's daemon has recorded, in nanoseconds,
 * and the moments at which they ended, in nanoseconds of CLOCK_MONOTONIC. The entries are in the
 * order of the blocks, and those of a block are in the order of time. The moments are as exact as
 * the two clocks can be compared, which takes one or two crossings of the bus.
 *
 * durations and moments are arrays of *count entries, or NULL. The call sets *count to the number
 * of entries that exist, at most 8,192 per block; this is more than before if the arrays were too
 * short. A block publishes its records when it runs out of work or leaves the device. The call
 * waits for a small kernel that compares the clocks; it must not be called while a stream is
 * captured in global mode.
 *
 * Errors: dfcclInvalidArgument (count is NULL, or kind is unknown), dfcclInvalidUsage (there are no
 * timers: cuda_timers of DFCCL_TUNING is not 1, or the device is not a GPU),
 * dfcclUnhandledCudaError, dfcclTimeout (the GPU does not answer).
 */
DFCCL_API dfcclResult_t dfcclGetTimes(dfcclContext_t ctx, dfcclTime_t kind, uint64_t *durations,
                                      uint64_t *moments, size_t *count);

typedef enum {
  dfcclEventLaunched = 0, /* the block entered a launch, or started; `collective` is meaningless */
  dfcclEventFetched = 1,  /* the block fetched a run */
  dfcclEventBegun = 2,    /* a run has its input, and its first step is attempted */
  dfcclEventSetAside = 3, /* the collective was preempted: the spin threshold ran out */
  dfcclEventDone = 4,     /* the block has finished a run, or was ordered to abandon it */
  /* On CPUs only: */
  dfcclEventLeft = 5,   /* the block quit; `collective` is meaningless */
  dfcclEventLoaded = 6, /* the collective's context was loaded */
  dfcclEventSaved = 7,  /* the collective's context was saved */
  dfcclEventKept = 8 /* the turn ended, and the collective keeps its place: another thread executes
                           the block */
} dfcclEventKind_t;

typedef struct {
  uint64_t moment;          /* time of the event, in nanoseconds of CLOCK_MONOTONIC */
  dfcclCollId_t collective; /* id; UINT64_MAX: the collective has been deregistered since */
  dfcclEventKind_t kind;
  uint32_t block;
  uint32_t queueLength; /* collectives in the block's task queue at this moment */
  uint32_t pendingRuns; /* runs of the collective that are pending in the block */
} dfcclEvent_t;

/*
 * Returns the latest events that this context's daemon has recorded, in the order of the blocks
 * and, within a block, of time: at most 8,192 per block. events is an array of *count entries, or
 * NULL. Numbers of preemptions, quits, starts, fetches, loads and saves agree with dfcclGetStats,
 * as far as the events reach back.
 *
 * On a GPU events need the timers (cuda_timers of DFCCL_TUNING), and the rules for *count, blocking
 * and errors are those of dfcclGetTimes. On CPUs they need DFCCL_TRACE_TURNS=1, with or without
 * DFCCL_TRACE. There the rule for *count is the same, each event can be seen at once, and the call
 * waits for no block. Events that are recorded during the call may take the place of the oldest
 * ones, which are then left out. Errors: dfcclInvalidArgument (count is NULL), dfcclInvalidUsage
 * (events are not recorded).
 */
DFCCL_API dfcclResult_t dfcclGetEvents(dfcclContext_t ctx, dfcclEvent_t *events, size_t *count);

/* The configuration of one registered collective, with the reasons. Texts are truncated to fit and
 * end with 0. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  char algorithm[24];    /* name of the algorithm: "ring", ... */
  char form[16];         /* format of messages: "flagged", "staged" or "words"; "none" without
                            messages */
  uint32_t blocks;       /* number of blocks that execute it */
  uint32_t loops;        /* loops of the plan in one run */
  uint32_t primitives;   /* primitives of this rank in one loop */
  uint32_t subgroup;     /* "twolevel": neighbours in a subgroup; else 0 */
  uint64_t chunkBytes;   /* bytes of the longest message */
  uint64_t slotBytes;    /* bytes from one slot of a link to the next */
  uint32_t slots;        /* slots of each link on which this rank receives */
  uint32_t lendsBuffers; /* 1: messages may be lent instead of copied */
  uint32_t pastCaches;   /* 1: results are stored past the caches, at least out of place */
  uint32_t borrowedTurn; /* 1: the thread that submits a run executes its first turn */
  double predictedUs;    /* 0: this version predicts no times */
  double measuredUs;     /* duration of a run, as the tuner measured it last; 0: not measured */
  double boundUs;        /* 0: this version computes no lower bound */
  char why[1536];        /* each decision and its reason, one line each */
  uint64_t switches;     /* plan switches that this rank has completed */
} dfcclConfiguration_t;

#define DFCCL_CONFIGURATION_MAGIC 0x64666367u
#define DFCCL_CONFIGURATION_INITIALIZER                                                            \
  {                                                                                                \
    sizeof(dfcclConfiguration_t), DFCCL_CONFIGURATION_MAGIC, DFCCL_VERSION_CODE, {0}, {0}, 0, 0,   \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0                                                    \
  }

/*
 * Fills *configuration, which the caller has set to DFCCL_CONFIGURATION_INITIALIZER. Any thread may
 * call it at any time after the registration; it does not block. The number of slots is final after
 * the first run has been submitted; before, it is the number that the collective would get on an
 * otherwise empty context.
 *
 * Errors: dfcclInvalidArgument (configuration is NULL or not initialised; no collective has this
 * id).
 */
DFCCL_API dfcclResult_t dfcclGetConfiguration(dfcclContext_t ctx, dfcclCollId_t coll,
                                              dfcclConfiguration_t *configuration);

/*
 * Requests that all members execute further runs of the collective with another algorithm; NULL
 * requests the algorithm of the registration. Runs continue meanwhile. All members switch at the
 * same run, which they agree on, and the results stay correct. The call returns after it has sent
 * the request. A member that cannot take part (no memory) cancels the switch for all;
 * dfcclGetConfiguration shows the algorithm in use on this rank. The new algorithm needs memory for
 * its own links, as a registration does. Source: AutoCCL (NSDI 2025), section 5.
 *
 * Only the first member of the group may request a switch, after each member has run the collective
 * and after every member has completed the previous switch. A member switches when it submits a
 * run. Any thread may call it; it does not block. `algorithm` is read during the call. Limits may
 * follow the name, as in options.algorithm.
 *
 * Errors: dfcclInvalidArgument (no such collective; the operation has no algorithm of this name; an
 * invalid limit),
 * dfcclInvalidUsage (this rank is not the first member; a switch is not possible yet, or never: the
 * sentence gives the reason), dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclSetAlgorithm(dfcclContext_t ctx, dfcclCollId_t coll,
                                          const char *algorithm);

/*
 * Writes a text to file descriptor fd, which stays open and belongs to the caller. The text has one
 * paragraph for each collective of this rank that is not complete: its state, the cursor of each
 * block (run, loop, primitive), and the rank for which it waits. Queues and links follow. The call
 * does not wait for the daemon; it may block in write().
 *
 * Errors: dfcclInvalidArgument, dfcclSystemError (fd cannot be written; a pipe without a reader
 * raises no signal), dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclDump(dfcclContext_t ctx, int fd);

#ifdef __cplusplus
}
#endif

#endif /* DFCCL_H */
