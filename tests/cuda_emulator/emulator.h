/*
 * The emulator's own state. One lock protects all of it. A thread that changes a state for which
 * others may wait signals `changed`. Blocks of kernels run without the lock.
 */
#ifndef CUDA_EMULATOR_INTERNAL_H
#define CUDA_EMULATOR_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cuda_emulator.h"

#define EMULATOR_EXPORT __attribute__((visibility("default")))

enum {
  EMULATOR_DEVICES = 16,
  EMULATOR_QUEUES = 32,
  EMULATOR_MAX_THREADS = 1024, /* number of a block */
  EMULATOR_WARP = 32,
  EMULATOR_LEAST_PRIORITY = 0,
  EMULATOR_GREATEST_PRIORITY = -5
};

typedef struct CUstream_st emulator_stream;
typedef struct CUevent_st emulator_event;

/* Numbers of commands: the latest that was queued, and the latest that has left. */
typedef struct emulator_queue {
  uint64_t entered, left;
} emulator_queue;

/* A point: all commands of the stream up to this number. */
typedef struct emulator_point {
  emulator_stream *stream;
  uint64_t sequence;
} emulator_point;

typedef struct emulator_grid {
  const cuda_emulator_kernel *kernel;
  dim3 blocks, threads;
  bool cooperative;
  int device, priority;
  uint64_t seed;
  uint32_t n_blocks, n_threads, started, ended;
  void *arguments[CUDA_EMULATOR_ARGUMENTS];
  struct emulator_grid *next; /* in the device's queue: some blocks have not started */
} emulator_grid;

typedef enum {
  COMMAND_KERNEL,
  COMMAND_COPY,
  COMMAND_FILL,
  COMMAND_RECORD,
  COMMAND_NOTHING, /* the command only waits for its points */
  COMMAND_CALL,
  COMMAND_WAIT_VALUE,
  COMMAND_WRITE_VALUE
} emulator_command_kind;

typedef struct emulator_command {
  struct emulator_command *next;
  emulator_command_kind kind;
  uint64_t sequence; /* number within the stream */
  uint64_t place;    /* number within the hardware queue */
  uint32_t n_points;
  emulator_point *points; /* points to be reached first */
  emulator_grid *grid;
  emulator_event *event;
  cudaHostFn_t call;
  void *argument;
  void *destination;
  const void *source;
  size_t bytes;
  uint64_t value;
  uint32_t flags;
  int fill;
  bool wide; /* the value has 64 bits */
} emulator_command;

struct CUstream_st {
  int device, priority;
  emulator_queue *queue;
  bool non_blocking, open, has_worker;
  uint64_t submitted, completed;
  emulator_command *first, *last;
  struct CUstream_st *next; /* all streams that were ever created */
};

struct CUevent_st {
  int device;
  unsigned flags;
  bool destroyed;
  uint32_t pending; /* records not executed yet */
  emulator_point point;
  double milliseconds;
};

typedef struct emulator_device {
  bool lost, allocating;
  bool used_by_runtime; /* the runtime retains its primary context */
  uint32_t retained;    /* number of the driver's references to it */
  uint32_t peers;       /* devices whose memory kernels may touch */
  emulator_stream legacy;
  emulator_queue queues[EMULATOR_QUEUES], priority_queues[EMULATOR_QUEUES];
  uint32_t plain_streams, priority_streams; /* number of all that were ever created */
  uint32_t synchronizing;                   /* threads in cudaDeviceSynchronize */
  emulator_grid *queue;
  uint32_t workers, resident;
  uint32_t touching; /* commands other than kernels that are being executed */
  int memory_file;
  uint64_t memory_end;
} emulator_device;

typedef enum { MEMORY_DEVICE, MEMORY_HOST, MEMORY_REGISTERED, MEMORY_IPC } emulator_memory_kind;

typedef struct emulator_allocation {
  char *base;
  size_t bytes;
  emulator_memory_kind kind;
  int device;
  bool pooled; /* allocated by cudaMallocAsync */
  char *mapping;
  size_t mapping_bytes;
  uint64_t file_offset;
  int file; /* MEMORY_IPC: the exporter's */
  struct emulator_allocation *next;
} emulator_allocation;

typedef struct emulator_state {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pid_t process;
  int n_devices;
  uint32_t multiprocessors;
  uint64_t seed;
  uint64_t fail_at, lose_at, fault_calls;
  int fail_code;
  uint32_t n_queues;
  bool priority_queues; /* allocated by the process itself */
  bool queries_block, loads_lazily;
  bool memory_operations, trace;
  bool reach_peers; /* devices can access each other's memory */
  emulator_device devices[EMULATOR_DEVICES];
  emulator_stream *streams;
  emulator_allocation *allocations;
  uint64_t allocations_version; /* read without the lock, like the following ones: */
  uint64_t bus_loads;
  uint32_t counts_loads;
  uint32_t held_percent; /* CUDA_EMULATOR_STORES */
  cuda_emulator_kernel *kernels;
  cuda_emulator_counts counts;
} emulator_state;

extern emulator_state emulator;

/* ---- runtime.c */
void emulator_begin(void); /* reads the environment, once */
/* Called at the beginning of each call: counts it, and decides whether it fails. */
cudaError_t emulator_enter(const char *name);
/* The same for calls that are allowed on a lost device. */
cudaError_t emulator_count_call(const char *name);
#define EMULATOR_ENTER()                                                                           \
  do {                                                                                             \
    const cudaError_t refused_ = emulator_enter(__func__);                                         \
    if (refused_ != cudaSuccess) return refused_;                                                  \
  } while (0)
cudaError_t emulator_set_error(cudaError_t error); /* stores the error for cudaGetLastError */
void emulator_wait_changed(void);                  /* the caller holds the lock */
void emulator_signal(void);

/* ---- context.c */
int emulator_named_device(void); /* the calling thread's device, whether or not it has a context */
int emulator_current_device(void); /* makes its context current, as calls that need one do */
void emulator_choose_device(int device);
void emulator_use_device(int device); /* the emulator's own threads */
uint32_t emulator_primary_contexts(void);
EMULATOR_EXPORT CUresult emulator_ctx_get_current(CUcontext *context);
EMULATOR_EXPORT CUresult emulator_ctx_set_current(CUcontext context);
EMULATOR_EXPORT CUresult emulator_primary_retain(CUcontext *context, CUdevice device);
EMULATOR_EXPORT CUresult emulator_primary_release(CUdevice device);

/* ---- stream.c; the caller holds the lock */
emulator_stream *emulator_stream_of(cudaStream_t handle); /* NULL: no stream */
emulator_command *emulator_new_command(emulator_command_kind kind);
cudaError_t emulator_submit(emulator_stream *stream, emulator_command *command);
/* Waits for the device's work submitted before the call. */
cudaError_t emulator_wait_idle(int device);
/* The same, and prevents launches until emulator_end_allocating. */
cudaError_t emulator_begin_allocating(int device);
void emulator_end_allocating(int device);
cudaError_t emulator_wait_point(emulator_point point, int device);

/* ---- queue.c; the caller holds the lock */
void emulator_set_queue(emulator_stream *stream);
void emulator_enter_queue(emulator_stream *stream, emulator_command *command);
void emulator_wait_head(const emulator_stream *stream, const emulator_command *command);
void emulator_leave_queue(emulator_stream *stream, const emulator_command *command);
/* Whether the command stays in its queue until it has ended; otherwise it leaves when it begins. */
bool emulator_holds_queue(const emulator_command *command);

/* ---- memory.c */
emulator_allocation *emulator_find(const void *pointer); /* the caller holds the lock */
void emulator_copy(void *destination, const void *source, size_t bytes);
void emulator_fill(void *destination, int value, size_t bytes);

/* ---- importers.c: which processes have opened which allocations of a device's memory file */
enum { EMULATOR_IMPORTERS_BYTES = 64 * 1024 }; /* at the beginning of the file */
void emulator_note_import(int file, uint64_t offset);
void emulator_forget_import(int file, uint64_t offset);
/* Ends this process if another living process has it mapped. */
void emulator_check_not_imported(int file, uint64_t offset);

/* ---- grid.c */
void emulator_run_grid(
    emulator_grid *grid); /* the caller holds the lock; returns when the grid has ended */
void emulator_free_grid(emulator_grid *grid);

/* ---- block.c */
struct emulator_stacks;
/* Executes one block in the calling thread. stacks belongs to the thread. */
void emulator_run_block(const emulator_grid *grid, uint32_t index, struct emulator_stacks *stacks);
struct emulator_stacks *emulator_new_stacks(void);

#endif
