/*
 * DFCCL: collective communication that cannot deadlock.
 *
 * Register a collective once, run it any number of times, in any order on any rank; each run ends
 * in exactly one callback. This is the only public header. It is C11 and C++ clean.
 *
 * Common to every function below, unless its comment says otherwise:
 *   - It may be called from any thread. Calls on one context may overlap, dfcclDestroy excepted: no
 *     other call may be in progress on a context that is being destroyed, and none may follow.
 *   - It returns dfcclSuccess or one of the listed codes, never prints (DFCCL_DEBUG asks for that),
 *     never ends the process. After a failure dfcclGetLastError tells in one sentence what was
 *     wrong, with the values.
 *   - A NULL or destroyed-looking context gives dfcclInvalidArgument.
 *   - After a peer died, a run timed out or dfcclAbort was called, the context is broken, and later
 *     calls return that failure's code: dfcclRegister*, dfcclRun*, dfcclDeviceSynchronize and
 *     dfcclMemAlloc at once; dfcclTest, which sets *done all the same; dfcclWait and dfcclWaitAll
 *     when the runs that they wait for have ended, unless one of these has a failing status to
 *     return. dfcclWaitRun returns its run's status. All other functions do what they do. Only
 *     dfcclDestroy mends it.
 *   - What a callback may call is said at dfcclCallback_t.
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

/* Result codes. 0 to 7 carry NCCL's numbers and meanings. */
typedef enum {
  dfcclSuccess = 0,
  dfcclUnhandledCudaError = 1, /* a CUDA call failed */
  dfcclSystemError = 2,        /* a system call failed */
  dfcclInternalError = 3,      /* a defect of this library */
  dfcclInvalidArgument = 4,    /* an argument's value makes no sense */
  dfcclInvalidUsage = 5,       /* the arguments are fine, the moment is not */
  dfcclRemoteError = 6,        /* a peer died, left or gave up, or its connection was lost */
  dfcclInProgress = 7,         /* not complete yet */
  dfcclTimeout = 8,            /* not complete within the configured time */
  dfcclMismatch = 9,           /* ranks registered or ran a collective differently, or their
                                  settings differ */
  dfcclAborted = 10,           /* dfcclAbort or dfcclAbortCollectives was called */
  dfcclOutOfMemory = 11        /* memory, or another resource of the system, is exhausted */
} dfcclResult_t;

/* Data types. 0 to 11 have NCCL's values. */
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
  dfcclInt16 = 12,      /* NCCL has no 16-bit integers: these values are this library's */
  dfcclUint16 = 13
} dfcclDataType_t;

/* Reduction operators; 0 to 4 have NCCL's values. Integers wrap. dfcclAvg is the sum divided once, at the
 * end, by the number of ranks (integers: truncated toward zero). 16- and 8-bit floats are reduced
 * in float32 and rounded (to nearest, ties to even) once per reduction step. Max and Min of a NaN
 * and a number give the number. dfcclBand, dfcclBor and dfcclBxor combine the bits of integers;
 * floats have none of these three. On elements that are 0 or 1 they are the logical operators. */
typedef enum {
  dfcclSum = 0,
  dfcclProd = 1,
  dfcclMax = 2,
  dfcclMin = 3,
  dfcclAvg = 4,
  dfcclBand = 5,
  dfcclBor = 6,
  dfcclBxor = 7,
  dfcclRedOpLast = 0x7fffffff /* none: room for operators that dfcclRedOpCreate* makes */
} dfcclRedOp_t;

/* ---- Lifecycle */

/* One rank: one device (GPU, or CPU device) of one process. */
typedef struct dfcclContext *dfcclContext_t;

/* Rendezvous addresses and a random 128-bit secret: plain bytes, to be sent to the others. Who has
 * them can join. */
typedef struct {
  char internal[128];
} dfcclUniqueId;

typedef enum { dfcclBackendAuto = 0, dfcclBackendCpu = 1, dfcclBackendCuda = 2 } dfcclBackend_t;

/*
 * Structs that begin with size, magic and version are filled by their ..._INITIALIZER and may grow.
 * One of an older header, shorter, has the defaults for what it lacks; one of a newer header,
 * longer, is refused with dfcclInvalidArgument unless what this library does not know is zero. So
 * is one whose size, magic or version no library has.
 */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  dfcclBackend_t backend; /* Auto: CUDA where the library was built with it and a usable device
                             exists, else CPU */
  int device; /* CUDA ordinal; -1: the calling thread's current device; ignored by the CPU device */
  int maxBlocks;  /* most blocks the daemon may use; 0: library's choice */
  int queueDepth; /* submission queue slots; 0: library's choice; rounded up to a power of two */
  int timeoutMs;  /* a run not complete this long after its submission completes with dfcclTimeout;
                     0: never */
} dfcclConfig_t;

#define DFCCL_CONFIG_MAGIC 0xdfcc1c0fu
#define DFCCL_CONFIG_INITIALIZER                                                                   \
  { sizeof(dfcclConfig_t), DFCCL_CONFIG_MAGIC, DFCCL_VERSION_CODE, dfcclBackendAuto, -1, 0, 0, 0 }

/*
 * The library's version as major*10000 + minor*100 + patch. Does not block.
 *
 * Errors: dfcclInvalidArgument (version is NULL).
 */
DFCCL_API dfcclResult_t dfcclGetVersion(int *version);

/*
 * Makes the identity of a new job. One process calls it and sends the 128 bytes to every rank by
 * any means; that process must live until every rank has returned from dfcclInit. It listens until
 * then, but no longer than ten minutes without a rank, at up to three addresses of this host
 * (DFCCL_NET_INTERFACES, DFCCL_NET_PORTS; with DFCCL_NET=none only at the loopback address). Does
 * not block. Any one id serves one set of dfcclInit calls.
 *
 * Errors: dfcclInvalidArgument (id is NULL), dfcclInvalidUsage (environment variable),
 * dfcclSystemError, dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclGetUniqueId(dfcclUniqueId *id);

/*
 * Joins a job and makes this rank's context. Blocks until all ranks have called it, at most
 * DFCCL_INIT_TIMEOUT_MS (default 60,000 ms) and then up to 2 s to hear who is missing. Several
 * ranks may live in one process, each calling from a thread of its own; ranks may be on several
 * hosts (CPU device). After 5 s, who waits says so at DFCCL_DEBUG=warn: which ranks are missing, and which addresses do not answer.
 *
 *   ctx      set only on success; the context belongs to the caller until dfcclDestroy
 *   nRanks   1 to 4096
 *   rank     0 to nRanks-1
 *   config   may be NULL: every default
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage (environment variable, backend not built, ranks
 * with different backends), dfcclSystemError, dfcclRemoteError (a rank failed or disagrees),
 * dfcclTimeout (names ranks that did not come), dfcclMismatch (DFCCL_NET_SECURITY differs),
 * dfcclOutOfMemory, dfcclUnhandledCudaError.
 */
DFCCL_API dfcclResult_t dfcclInit(dfcclContext_t *ctx, int nRanks, dfcclUniqueId id, int rank,
                                  const dfcclConfig_t *config);

/*
 * Makes all nRanks contexts of a job in this process: ctxs[r] becomes rank r. All or none are made.
 * Does not wait for anybody.
 *
 * Errors: as dfcclInit's, without dfcclRemoteError and dfcclTimeout.
 */
DFCCL_API dfcclResult_t dfcclInitAll(dfcclContext_t *ctxs, int nRanks, const dfcclConfig_t *config);

/*
 * dfcclInit with rank, number of ranks and rendezvous read from the launcher's environment:
 * torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), else Open MPI's, MPICH's and Slurm's
 * variables; DFCCL_ROOT, HOST:PORT of rank 0, comes before their address. On several hosts all
 * ranks need one secret, in DFCCL_SECRET or in a file that DFCCL_SECRET_FILE names. The i-th call
 * in each process makes the i-th job. Blocks as dfcclInit.
 *
 * Errors: as dfcclInit's; dfcclInvalidUsage also if no launcher's variables are set, or one makes
 * no sense, or the job has several hosts and no secret; dfcclRemoteError also if secrets differ.
 */
DFCCL_API dfcclResult_t dfcclInitFromEnv(dfcclContext_t *ctx, const dfcclConfig_t *config);

/*
 * Waits for this rank's outstanding runs and their callbacks, then for the daemon's final exit, and
 * frees the context with every resource. Blocks as long as those runs take (bounded by timeoutMs,
 * or dfcclAbort before), and up to 20 s more while a peer that lives does not read what it is told
 * (1 s if this context has failed).
 * No other call on ctx may overlap with this one, nor begin later: that a run is complete does not
 * tell that all threads have returned from their dfcclRun* and dfcclWait*. Only a thread that runs
 * a callback or sleeps inside a dfcclWait*, dfcclDeviceSynchronize or dfcclAbort, and has what it
 * waited for, may still be on its way out of it. Not from a callback (dfcclInvalidUsage). Runs that
 * peers submit later to collectives shared with this rank end there with dfcclRemoteError. In a job
 * of several hosts with DFCCL_NET_RELAYS ranks or more, the first rank of each host waits until all
 * have called dfcclDestroy, at most 10 s.
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage.
 */
DFCCL_API dfcclResult_t dfcclDestroy(dfcclContext_t ctx);

/*
 * Gives up: every outstanding run of this rank completes with dfcclAborted, its callback included;
 * on peers, runs that need this rank end with dfcclRemoteError. Never waits for a peer or for user
 * code. The context stays allocated: dfcclDestroy must still be called. May be called from a
 * callback.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclAbort(dfcclContext_t ctx);

/* A constant sentence for a result code; never NULL. */
DFCCL_API const char *dfcclGetErrorString(dfcclResult_t result);

/*
 * One sentence about the latest failure, with the values that were wrong. With a context: the
 * latest failure of that context, failures of runs included; with NULL: of the calling thread's
 * latest failing call. "no error" when there was none. The text belongs to the library and stays
 * until the calling thread calls it again.
 */
DFCCL_API const char *dfcclGetLastError(dfcclContext_t ctx);

/*
 * This context's rank and the job's number of ranks. Either pointer may be NULL. Does not block.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclGetRank(dfcclContext_t ctx, int *rank, int *nRanks);

/* ---- Register */

/* Chosen by the application; the same on every member of the group. */
typedef uint64_t dfcclCollId_t;

typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  const int *ranks; /* the group, in group order (root and block order follow it); NULL with 0: all
                       ranks */
  int nRanks;       /* entries in ranks */
  int priority;     /* larger first; 0 for all: FIFO ordering */
  const char *name; /* for traces and diagnostics; copied, control characters as escapes; NULL:
                       the id */
  const char *algorithm; /* NULL or "auto": library's choice; or, where it has the operation,
                            "ring", "allpairs", "pairwise", "doubling", "rabenseifner", "halving",
                            "binomial", "doubletree", "scatter-allgather", "bruck", "direct",
                            "flat", "twolevel", "dissemination", "ordered", "pat"; or "file:NAME", an
                            algorithm of the directory DFCCL_ALGORITHMS (docs/TUNING.md) */
  int varying;  /* 1: each dfcclRun may have fewer elements than registered (dfcclRun_t.count); the
                  same on every member. 0: all runs have the registered count */
  int reserved; /* 0 */
  int tune;     /* of the group's first member: 1: other algorithms and slots are tried while runs
                   go on, and the fastest stays; -1: not; 0: as DFCCL_TUNE says */
} dfcclCollOptions_t;

#define DFCCL_COLL_OPTIONS_MAGIC 0xdfcc10b7u
#define DFCCL_COLL_OPTIONS_INITIALIZER                                                             \
  {                                                                                                \
    sizeof(dfcclCollOptions_t), DFCCL_COLL_OPTIONS_MAGIC, DFCCL_VERSION_CODE, NULL, 0, 0, NULL,    \
        NULL, 0, 0, 0                                                                              \
  }

/*
 * dfcclRegister*: announce a collective. Local: never waits for a peer; in any order on any rank,
 * at any time, from a callback too. Links are made in the background; runs submitted before they
 * stand wait their turn. Members' registrations are compared; a difference ends the runs with
 * dfcclMismatch on every member.
 *
 *   id        not registered at the moment on this context (dfcclInvalidUsage); the i-th
 *             registration of an id meets the i-th registration of it on each other member
 *   count     elements, not bytes; 0 is legal (such a run completes without a message).
 *             AllReduce, Reduce, Broadcast: of the whole buffer.
 *             AllGather: each rank sends sendCount and receives nRanks*sendCount.
 *             ReduceScatter: each rank sends nRanks*recvCount and receives recvCount.
 *             AllToAll: each rank sends and receives countPerPeer for each member.
 *             Gather: each rank sends countPerRank; the root receives nRanks*countPerRank.
 *             Scatter: the root sends nRanks*countPerRank; each rank receives countPerRank.
 *             SendRecv, Scan: of the whole buffer.
 *             (nRanks: members of the group)
 *   root      position in the group, 0 to group size - 1
 *   from, to  positions in the group: a SendRecv is a channel for messages in one direction. Only
 *             these two ranks register it. If they are one, its runs copy. The i-th run of the
 *             sender meets the i-th of the receiver; whoever comes first does not wait for the
 *             other. Two registrations make both directions
 *   exclusive 0: the Scan's result on position p is that of positions 0 to p; 1: of 0 to p - 1, and
 *             position 0 has none: its recvBuf stays as it is. Operands are combined in the order
 *             of the group. There is no dfcclAvg
 *   options   may be NULL: all ranks, priority 0, no name, the library's choice of algorithm, runs
 *             of the registered count. ranks and name are copied.
 *
 * options.varying: each run has the elements that dfcclRun_t.count says, at most `count`; buffers
 * are as if the collective were registered with so many. Members' counts of one run are compared.
 * If they differ, that run and all later ones end with dfcclMismatch on every member, and the
 * sentence names counts and ranks; earlier runs complete. So no member ends a run before all have
 * submitted it, which a Broadcast or Reduce without varying may do. A run of no elements cannot be
 * asked for (0 stands for the registered count). Only on the CPU device (CUDA: dfcclInvalidUsage).
 * A Barrier has no elements, so it does not vary.
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage (id in use, more than 65,536 collectives),
 * dfcclOutOfMemory, and the failure of a broken context.
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
/* A run of a barrier completes after all members have submitted theirs. */
DFCCL_API dfcclResult_t dfcclRegisterBarrier(dfcclContext_t ctx, dfcclCollId_t id,
                                             const dfcclCollOptions_t *options);
DFCCL_API dfcclResult_t dfcclRegisterScan(dfcclContext_t ctx, dfcclCollId_t id, size_t count,
                                          dfcclDataType_t type, dfcclRedOp_t op, int exclusive,
                                          const dfcclCollOptions_t *options);

/*
 * An operator of one's own: sets inout[i] to inout[i] (op) in[i] for count elements of the type.
 * Associative. Called by any thread inside the library, also by several at a time, with elements of
 * any part of a buffer; must not block, nor call the library. Both pointers are aligned to the
 * element, and do not overlap.
 */
typedef void (*dfcclRedOpFunction_t)(void *inout, const void *in, size_t count,
                                     dfcclDataType_t type, void *arg);

/*
 * Makes an operator for dfcclRegister* of this process. Local: each member makes its own, and the
 * members' functions must be the same. Only the kind is compared: own or not, commutative or not.
 *
 *   fn, arg       fn is called with arg until the last collective that uses *op is deregistered
 *   commutative   0: operands are combined in the order of the group, inout before in. Such an
 *                 operator has AllReduce ("doubling"), Reduce and ReduceScatter ("ordered") and
 *                 Scan; a ReduceScatterV of it is refused
 *
 * Only on the CPU device. Errors: dfcclInvalidArgument (op or fn is NULL), dfcclInvalidUsage (CUDA;
 * 1,024 operators of this process are in use), dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclRedOpCreate(dfcclContext_t ctx, dfcclRedOp_t *op,
                                         dfcclRedOpFunction_t fn, void *arg, int commutative);
/*
 * The sum of what each member brings, each times this member's scalar: multiplied once, rounded to
 * the type, then added. Members may have different scalars.
 *
 *   scalar           one element of the type; copied. Collectives must have this type
 *   scalarOnDevice   0: scalar is in host memory. 1 is refused: the CPU device has no other
 *
 * Only on the CPU device. Errors: as dfcclRedOpCreate's, and dfcclInvalidArgument (type,
 * scalarOnDevice).
 */
DFCCL_API dfcclResult_t dfcclRedOpCreatePreMulSum(dfcclContext_t ctx, dfcclRedOp_t *op,
                                                  const void *scalar, dfcclDataType_t type,
                                                  int scalarOnDevice);
/*
 * The operator can no longer be registered with. Collectives that have it go on.
 *
 * Errors: dfcclInvalidArgument (not made by dfcclRedOpCreate*, or destroyed).
 */
DFCCL_API dfcclResult_t dfcclRedOpDestroy(dfcclContext_t ctx, dfcclRedOp_t op);

/*
 * Collectives whose pieces have lengths of their own. Counts and displacements are in elements, one
 * for each position of the group, and are copied. A displacement says where a piece begins in its
 * buffer; displs NULL: the pieces are packed, one behind the other. What lies between pieces is
 * neither read nor written. Any count may be 0, also all of them. A member needs to know its own
 * counts only: of each pair of members the counts between them are compared, and a difference ends
 * the runs with dfcclMismatch, whose sentence names both ranks and both counts.
 *
 *   AllGatherV      counts[i]: what position i sends, at displs[i] of recvBuf on this rank
 *   ReduceScatterV  counts[i]: what position i receives; sendBuf has the pieces packed
 *   GatherV         count: what this rank sends. counts and displs matter on the root only: what it
 *                   receives, and where
 *   ScatterV        count: what this rank receives. counts and displs matter on the root only
 *   AllToAllV       sendCounts[i] elements at sendDispls[i] of sendBuf go to position i, and
 *                   recvCounts[i] come from it to recvDispls[i] of recvBuf
 *   Neighbours      sendBuf has nSends packed pieces: sendCounts[k] elements for position
 *                   sendTo[k]; recvBuf gets nRecvs of them: recvCounts[k] from position
 *                   recvFrom[k]. Each position at most once in each list. All members of the group
 *                   register it, also those with two empty lists
 *
 * In place: AllGatherV, and GatherV on the root: sendBuf == recvBuf + where the own piece is;
 * ReduceScatterV, and ScatterV on the root: the other way round. AllToAllV and Neighbours have no
 * runs in place. options.algorithm may be "direct", which all of them use; options.varying is 0.
 *
 * Errors: as above; dfcclInvalidArgument also if a needed array is NULL, a member does not send
 * itself what it receives from itself, or a run needs more than 65,535 messages (of 32 KB, or more
 * between hosts, or less where DFCCL_TUNING sets smaller slots) on this rank.
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
 * AllToAll whose counts are known only when it is run: each message carries its length, and
 * receivers learn the counts from the messages. No exchange of counts is needed beforehand.
 * maxCountPerPeer: most elements between two members in any run; equal on all. options.varying is 0.
 * The CPU device has it (CUDA: dfcclInvalidUsage).
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
 * Forgets a collective and returns its memory. Every run of it must have completed, and its
 * callback returned, as dfcclTest tells. In the callback of the last run that run counts as
 * complete. Does not block.
 * Runs that peers have submitted beyond this rank's runs end there with dfcclRemoteError.
 *
 * Errors: dfcclInvalidArgument (id not registered), dfcclInvalidUsage (runs are not complete).
 */
DFCCL_API dfcclResult_t dfcclDeregister(dfcclContext_t ctx, dfcclCollId_t id);

/* ---- Run */

/*
 * Called exactly once for each accepted run, on a library thread, or inside a dfcclWait* that waits
 * for it, with no lock held. The library's thread has a stack of 1 MiB: larger arrays belong on the
 * heap. Callbacks of one collective come one at a time, in the order of its runs; those of
 * different collectives may overlap. A callback may call dfcclRun*, dfcclRegister*,
 * dfcclDeregister, dfcclTest, dfcclAbort, dfcclAbortCollectives and dfcclGet*; not dfcclWait*,
 * dfcclDeviceSynchronize or dfcclDestroy (dfcclInvalidUsage). A callback that blocks delays
 * callbacks only: those of its own collective, and others until somebody waits for them. It never
 * delays the daemon, a peer, or who waits for another collective.
 */
typedef void (*dfcclCallback_t)(dfcclCollId_t coll, dfcclResult_t status, void *arg);

/*
 * dfcclRun*: submit one run of a registered collective of that kind. Never blocks; from any thread
 * and from a callback. The i-th run of a collective on one rank meets its i-th run on each other
 * member; it may be run again before earlier runs complete. Error sentences and dumps number the
 * runs of a collective on a rank from 0.
 *
 *   sendBuf, recvBuf   aligned to the element; they belong to the library until the run's callback
 *                      is called, or dfcclWait returns. Reduce, Gather: recvBuf only matters on
 *                      the root; Broadcast, Scatter: sendBuf only on the root; SendRecv: sendBuf
 *                      only on the sender, recvBuf only on the receiver; exclusive Scan: recvBuf
 *                      not on position 0. The unused one may be NULL. A Barrier has no buffers.
 *                      In place: sendBuf == recvBuf (AllGather, and Gather on the root: sendBuf ==
 *                      recvBuf + rank*count; ReduceScatter, and Scatter on the root: recvBuf ==
 *                      sendBuf + rank*count; rank: the position in the group). Any other overlap
 *                      is undefined.
 *   callback           may be NULL; called once with arg. A run that is refused has none.
 *
 * Errors: dfcclInvalidArgument (id not registered, or of another kind; NULL or misaligned buffer),
 * dfcclInvalidUsage (DFCCL_BACKLOG requests wait on the host, some of this collective among them),
 * dfcclOutOfMemory, the failure of a broken context or collective (dfcclMismatch, dfcclRemoteError,
 * dfcclTimeout, dfcclAborted).
 *
 * While the submission queue is full, requests wait on the host in order. Of a collective with no
 * request in that list one is always accepted. So after dfcclInvalidUsage a program goes on with
 * its other collectives: peers may need those before the refused one can proceed.
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
 * Sends sendCounts[i] elements at sendDispls[i] of sendBuf to position i (NULL: the pieces are
 * packed). What comes from position i is at element i * maxCountPerPeer of recvBuf, and
 * recvCounts[i] elements of it. No run is in place; sendBuf may be NULL if nothing is sent.
 * sendCounts and sendDispls are read before the call returns. recvCounts, which may be NULL, belongs
 * to the library as long as recvBuf does; after a failed run it has any values.
 *
 * Errors: those of dfcclRun*; dfcclInvalidArgument also if sendCounts is NULL, or a count exceeds
 * maxCountPerPeer.
 */
DFCCL_API dfcclResult_t dfcclRunAllToAllDynamic(dfcclContext_t ctx, dfcclCollId_t id,
                                                const void *sendBuf, const size_t *sendCounts,
                                                const size_t *sendDispls, void *recvBuf,
                                                size_t *recvCounts, dfcclCallback_t callback,
                                                void *arg);

/* One run, for dfcclRun. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  const void *sendBuf;
  void *recvBuf;
  size_t count; /* elements; 0: as registered. Another one only with options.varying: at most
                   the registered one */
  const size_t *sendCounts, *sendDispls; /* AllToAllDynamic: as dfcclRunAllToAllDynamic's; else */
  size_t *recvCounts;                    /* all four are NULL. recvDispls[i]: where in recvBuf */
  const size_t *recvDispls;              /* comes from position i; NULL: at i * maxCountPerPeer */
  void *stream;   /* a cudaStream_t; only with DFCCL_RUN_ON_STREAM. NULL: the default stream */
  unsigned flags; /* 0, or DFCCL_RUN_ON_STREAM */
  dfcclCallback_t callback; /* may be NULL */
  void *arg;
  uint64_t run; /* out: the number of this run of this collective on this rank, from 0 */
} dfcclRun_t;

#define DFCCL_RUN_ON_STREAM 1u /* the run has its place in a stream, as with dfcclRun*OnStream */
#define DFCCL_RUN_MAGIC 0xdfcc4089u
#define DFCCL_RUN_INITIALIZER                                                                      \
  {                                                                                                \
    sizeof(dfcclRun_t), DFCCL_RUN_MAGIC, DFCCL_VERSION_CODE, NULL, NULL, 0, NULL, NULL, NULL,      \
        NULL, NULL, 0, NULL, NULL, 0                                                               \
  }

/*
 * Submits one run of a registered collective of any kind. The functions named after a kind are
 * shorthands of it. Does not block, except with DFCCL_RUN_ON_STREAM (as dfcclRun*OnStream); from
 * any thread and from a callback. *run belongs to the caller, and is not looked at after the call.
 * Sets run->run if the run is accepted, before or after its callback is called.
 *
 * Errors: those of dfcclRun* and, with DFCCL_RUN_ON_STREAM, of dfcclRun*OnStream;
 * dfcclInvalidArgument (run is NULL or was not initialised; a count that is not the registered one,
 * or, with options.varying, is more; counts of single peers of a collective that has none; unknown
 * flags; a stream without the flag).
 */
DFCCL_API dfcclResult_t dfcclRun(dfcclContext_t ctx, dfcclCollId_t id, dfcclRun_t *run);

/*
 * dfcclRun*OnStream: the same, in the order of a CUDA stream (`stream` is a cudaStream_t; NULL: the
 * default stream). The run begins when the stream has come to this call, so that what is enqueued
 * before it may produce the input; what is enqueued behind it waits until the run is through, with
 * whatever status, so that it may use the output. The call itself enqueues three memory operations
 * (or kernels of one thread, where the device has no such operations) and never waits for a run. The
 * callback, which may be NULL, is called as for dfcclRun*.
 *
 * What this order cannot cure: two collectives on one stream, in opposite orders on two ranks, wait
 * for each other's input, and so do collectives on streams that share a hardware queue
 * (CUDA_DEVICE_MAX_CONNECTIONS): docs/CUDA.md.
 *
 * Errors: those of dfcclRun*; dfcclInvalidUsage (a context on the CPU device; a stream that is
 * being captured; 4,095 runs on streams are not complete; CUDA_DEVICE_MAX_CONNECTIONS is 1, and a
 * run of another rank of this process is on a stream), dfcclUnhandledCudaError. Any thread
 * whose current device is the stream's. May wait where enqueueing waits, and for the launch of the
 * daemon that the stream is to find there, DFCCL_CUDA_PATIENCE_MS (100) at most.
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
 * *done = 1 if every run of the collective submitted before has completed and its callback has
 * returned, else 0. The callback that the calling thread is inside counts as returned. Does not
 * block and does not drive progress: it runs no callback, so a run whose callback is behind one
 * that blocks is done when somebody waits for it, or when that one returns.
 *
 * Errors: dfcclInvalidArgument, and the failure of a broken context.
 */
DFCCL_API dfcclResult_t dfcclTest(dfcclContext_t ctx, dfcclCollId_t id, int *done);

/*
 * Blocks until every run of the collective submitted before the call has completed and its callback
 * has returned; the calling thread drives the device meanwhile, and runs callbacks of this
 * collective, no others. Returns the first failing status among the runs completed since the last
 * dfcclWait on the collective; without one, the failure of a broken context. Not from a callback
 * (dfcclInvalidUsage).
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage, any status of a run, and the failure of a broken
 * context.
 */
DFCCL_API dfcclResult_t dfcclWait(dfcclContext_t ctx, dfcclCollId_t id);

/*
 * Waits until one run of the collective has completed and its callback has returned; returns that
 * run's status. The calling thread drives the device meanwhile. The run's status stays known until
 * the collective is deregistered, on a broken context too, and dfcclWait still tells of it. Not
 * from a callback (dfcclInvalidUsage).
 *
 *   run         as dfcclRun counts: the first run that was accepted since the registration is 0
 *   timeoutMs   after so long: dfcclInProgress, and the run goes on. 0: looks once, and drives
 *               nothing; negative: no limit
 *
 * A callback that the calling thread itself runs may take longer than timeoutMs.
 *
 * Errors: dfcclInvalidArgument (id not registered, or deregistered meanwhile; no such run),
 * dfcclInvalidUsage, dfcclInProgress, and any status of a run.
 */
DFCCL_API dfcclResult_t dfcclWaitRun(dfcclContext_t ctx, dfcclCollId_t id, uint64_t run,
                                     int timeoutMs);

/*
 * dfcclWait for every collective of the context: for the runs submitted before the call. Returns
 * the first failing status since the last dfcclWaitAll.
 *
 * Errors: as dfcclWait's, and dfcclOutOfMemory: nothing was waited for.
 */
DFCCL_API dfcclResult_t dfcclWaitAll(dfcclContext_t ctx);

/*
 * Gives up single collectives: their outstanding runs end with dfcclAborted here and with
 * dfcclRemoteError on the other members, callbacks included. Later runs of them are refused with
 * the same codes, until each member has deregistered and registered them anew. A run that is
 * through here may fail on a member that still needs this rank for it. All other collectives go on,
 * and the context lives. Does not block or wait for user code; from any thread and from a callback.
 *
 *   ids   n collectives, all registered on this context: otherwise none is given up. n may be 0
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclAbortCollectives(dfcclContext_t ctx, const dfcclCollId_t *ids, int n);

/*
 * Blocks until the device is idle. On the CPU device nothing submitted after it starts on this
 * context's device until the daemon has left it. Runs are not waited for: a daemon that cannot
 * progress leaves by itself, and is started again afterwards. On CUDA it is cudaDeviceSynchronize,
 * which waits for runs on this process's streams, and for no others: the daemon is called back from
 * time to time and goes on in another launch. Not from a callback (dfcclInvalidUsage).
 *
 * Errors: dfcclInvalidArgument, dfcclInvalidUsage, dfcclUnhandledCudaError, and the failure of a
 * broken context, which waits for nothing.
 */
DFCCL_API dfcclResult_t dfcclDeviceSynchronize(dfcclContext_t ctx);

/*
 * Memory that peers can reach: collectives on buffers inside it move with zero copies. *ptr is
 * zeroed, aligned to a page, and belongs to the caller until dfcclMemFree; no run that uses it may
 * be outstanding then. bytes >= 1. dfcclDestroy frees what was not freed. dfcclMemFree of NULL does
 * nothing, and a broken context still frees.
 *
 * Errors of dfcclMemAlloc: dfcclInvalidArgument, dfcclOutOfMemory, dfcclSystemError,
 * dfcclUnhandledCudaError, and the failure of a broken context. Of dfcclMemFree:
 * dfcclInvalidArgument (not from dfcclMemAlloc on this context, or freed already).
 */
DFCCL_API dfcclResult_t dfcclMemAlloc(dfcclContext_t ctx, void **ptr, size_t bytes);
DFCCL_API dfcclResult_t dfcclMemFree(dfcclContext_t ctx, void *ptr);

/* ---- See what it is doing */

typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  uint64_t sqesSubmitted, sqesFetched, cqesWritten, callbacksRun;
  uint64_t preemptions; /* a collective set aside because a primitive's spin threshold ran out */
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
 * start at dfcclInit and are sums over blocks; sqesFetched counts an entry once for each block that
 * took it. While runs are outstanding each counter is exact for some recent moment of its own. Does
 * not block.
 *
 * Errors: dfcclInvalidArgument.
 */
DFCCL_API dfcclResult_t dfcclGetStats(dfcclContext_t ctx, dfcclStats_t *stats);

/* What a daemon on a GPU times, where DFCCL_CUDA_TIMERS is 1. */
typedef enum {
  dfcclTimePass = 0,        /* DFCCL_CUDA_RELAY: one SQE read across the bus and passed on */
  dfcclTimeFetch = 1,       /* one SQE taken by a block */
  dfcclTimeContextLoad = 2, /* one dynamic context brought into shared memory */
  dfcclTimeContextSave = 3, /* one written back */
  dfcclTimeCqeWrite = 4,    /* one CQE written to host memory */
  dfcclTimePrepare = 5,     /* from a run's fetch by a block to its first step there; of runs that
                               found no earlier run of the collective in the block */
  dfcclTimeExecute = 6      /* from there to the end of its last step, set aside or not */
} dfcclTime_t;

/*
 * The latest durations of one kind that this context's daemon has noted, in nanoseconds, block
 * after block, each block's oldest first, and the moments at which each was over, in nanoseconds of
 * CLOCK_MONOTONIC (as exact as the two clocks could be compared: a crossing of the bus or two).
 * durations and moments are arrays of *count entries, or NULL. Sets *count to the entries there
 * are, at most 8,192 a block: more than before if the arrays were too short. A block shows what it
 * has noted when it runs out of work or leaves the device. Compares the clocks by a small kernel,
 * for which it waits; not while a stream is captured in global mode.
 *
 * Errors: dfcclInvalidArgument (count is NULL; no such kind), dfcclInvalidUsage (no timers:
 * DFCCL_CUDA_TIMERS is not 1, or the device is no GPU), dfcclUnhandledCudaError, dfcclTimeout (the
 * GPU does not answer).
 */
DFCCL_API dfcclResult_t dfcclGetTimes(dfcclContext_t ctx, dfcclTime_t kind, uint64_t *durations,
                                      uint64_t *moments, size_t *count);

typedef enum {
  dfcclEventLaunched = 0, /* the block entered a launch; collective means nothing */
  dfcclEventFetched = 1,  /* it took a run */
  dfcclEventBegun = 2,    /* a run has its input, and its first step is tried */
  dfcclEventSetAside = 3, /* preempted: the spin threshold ran out */
  dfcclEventDone = 4      /* the block is through with a run, or was told to give it up */
} dfcclEventKind_t;

typedef struct {
  uint64_t moment;          /* ns of CLOCK_MONOTONIC */
  dfcclCollId_t collective; /* UINT64_MAX: deregistered since */
  dfcclEventKind_t kind;
  uint32_t block;
  uint32_t queueLength; /* of the block's task queue, just then */
  uint32_t pendingRuns; /* of the collective, in the block */
} dfcclEvent_t;

/*
 * The latest events that this context's daemon has noted, block after block, each block's oldest
 * first: at most 8,192 a block. events is an array of *count entries, or NULL. All else is as with
 * dfcclGetTimes.
 */
DFCCL_API dfcclResult_t dfcclGetEvents(dfcclContext_t ctx, dfcclEvent_t *events, size_t *count);

/* How one registered collective travels, and why. Texts are cut to fit and end with 0. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  char algorithm[24];    /* "ring", ... */
  char form[16];         /* of messages: "flagged", "staged" or "words"; "none" without messages */
  uint32_t blocks;       /* that execute it */
  uint32_t loops;        /* of the plan, in one run */
  uint32_t primitives;   /* of this rank, in one loop */
  uint32_t subgroup;     /* neighbours in a subgroup, of "twolevel"; else 0 */
  uint64_t chunkBytes;   /* longest message */
  uint64_t slotBytes;    /* from slot to slot of a link */
  uint32_t slots;        /* of each link on which this rank receives */
  uint32_t lendsBuffers; /* 1: messages may be lent instead of copied */
  uint32_t pastCaches;   /* 1: results are stored past the caches, at least out of place */
  uint32_t borrowedTurn; /* 1: the thread that submits a run begins it */
  double predictedUs;    /* 0: this version predicts no times */
  double measuredUs;     /* of a run, as the tuner measured it last; 0: it has not */
  double boundUs;        /* 0: this version knows no lower bound */
  char why[1536];        /* each decision and its reason, a line each */
  uint64_t switches;     /* times that this rank has gone over to another algorithm */
} dfcclConfiguration_t;

#define DFCCL_CONFIGURATION_MAGIC 0x64666367u
#define DFCCL_CONFIGURATION_INITIALIZER                                                            \
  {                                                                                                \
    sizeof(dfcclConfiguration_t), DFCCL_CONFIGURATION_MAGIC, DFCCL_VERSION_CODE, {0}, {0}, 0, 0,   \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0                                                    \
  }

/*
 * Fills *configuration, which the caller has set to DFCCL_CONFIGURATION_INITIALIZER. Any thread, at
 * any time after the registration; does not block. The number of slots is final when a first run
 * has been submitted: before, it is what an empty context would take.
 *
 * Errors: dfcclInvalidArgument (configuration is NULL or no such struct; no collective of this id).
 */
DFCCL_API dfcclResult_t dfcclGetConfiguration(dfcclContext_t ctx, dfcclCollId_t coll,
                                              dfcclConfiguration_t *configuration);

/*
 * Asks all members to execute further runs of the collective by another algorithm; NULL: by the one
 * that it was registered with. Runs go on meanwhile: every member goes over at the same run, which
 * the members agree on, and results are what they were. The call returns when it has asked. A
 * member that cannot take part (no memory) calls the change off for all: dfcclGetConfiguration tells
 * what is in force on this rank. The other algorithm takes memory for links of its own, as a
 * registration does. Source: AutoCCL (NSDI 2025), section 5.
 *
 * Only the first member of the group may ask, when each member has run the collective, and not
 * before every member has gone over as asked last; a member goes over when it submits a run. Any
 * thread; does not block.
 *
 * Errors: dfcclInvalidArgument (no such collective; the operation has no algorithm of this name),
 * dfcclInvalidUsage (another member; not now, or never: the sentence says why), dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclSetAlgorithm(dfcclContext_t ctx, dfcclCollId_t coll,
                                          const char *algorithm);

/*
 * Writes to file descriptor fd, as text, one paragraph for each collective of this rank that is not
 * complete: its state, the cursor of each block (run, loop, primitive), and for which rank it
 * waits; then queues and links. Does not wait for the daemon.
 *
 * Errors: dfcclInvalidArgument, dfcclSystemError (fd cannot be written; a pipe that nobody reads
 * raises no signal), dfcclOutOfMemory.
 */
DFCCL_API dfcclResult_t dfcclDump(dfcclContext_t ctx, int fd);

#ifdef __cplusplus
}
#endif

#endif /* DFCCL_H */
