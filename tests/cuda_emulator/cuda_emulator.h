/*
 * An emulated CUDA runtime, for tests on machines without a GPU: what tests may ask of it beyond
 * the functions of cuda_runtime_api.h, which it defines with the toolkit's own declarations.
 *
 * Environment, read at the first call:
 *
 *   CUDA_EMULATOR_DEVICES          devices (2)
 *
 *   CUDA_EMULATOR_MULTIPROCESSORS  blocks that one device holds at a time, one each (8)
 *
 *   CUDA_DEVICE_MAX_CONNECTIONS    hardware queues of a device, which streams share (8)
 *
 *   CUDA_EMULATOR_PRIORITY_QUEUES=1  streams of raised priority share others among themselves (0)
 *
 *   CUDA_MODULE_LOADING=EAGER      no call and no launch loads a kernel (LAZY)
 *
 *   CUDA_EMULATOR_QUERIES_BLOCK=0  queries never wait (1)
 *
 *   CUDA_EMULATOR_SEED             order of lanes, and where they are interrupted (1)
 *
 *   CUDA_EMULATOR_FAIL=N[:CODE]    the N-th call fails, with cudaErrorUnknown or that code
 *
 *   CUDA_EMULATOR_LOSE=N           the caller's device is lost at the N-th call
 *
 *   CUDA_EMULATOR_MEMORY_OPS=0     no stream memory operations
 *
 *   CUDA_EMULATOR_TRACE=1          each call on standard error
 *
 * What it is stricter in than a GPU may be:
 *   - every allocation and every release of memory waits for all work of the device, and launches
 *     wait meanwhile;
 *   - so does the first use of a kernel that is not loaded;
 *   - cudaStreamQuery and cudaEventQuery wait while another thread does one of these, or is in
 *     cudaDeviceSynchronize;
 *   - a command that cannot begin holds up all that stand behind it in its hardware queue
 *     (queue.c).
 */
#ifndef CUDA_EMULATOR_H
#define CUDA_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_EMULATOR_API __attribute__((visibility("default")))

/* A kernel, registered by CUDA_EMULATOR_KERNEL (device/cuda_device.h). */
enum { CUDA_EMULATOR_ARGUMENTS = 12 };
typedef struct cuda_emulator_kernel {
  const char *name;
  const void *function;
  void (*call)(const void *function, void **arguments);
  uint32_t max_threads, n_arguments;
  size_t argument_bytes[CUDA_EMULATOR_ARGUMENTS];
  uint32_t loaded; /* a bit for each device */
  struct cuda_emulator_kernel *next;
} cuda_emulator_kernel;
CUDA_EMULATOR_API void cuda_emulator_register(cuda_emulator_kernel *kernel);

/* What exists at the moment, of all devices; calls and launches since the process began. */
typedef struct cuda_emulator_counts {
  uint64_t device_allocations, device_bytes, host_allocations, ipc_mappings, streams, events;
  uint64_t calls, launches, resident_blocks, most_resident_blocks;
  uint64_t loading_launches; /* of a kernel that was not loaded before */
  uint64_t waiting_grids;    /* no block of which has started */
  uint32_t primary_contexts; /* a bit for each device whose context exists */
} cuda_emulator_counts;
CUDA_EMULATOR_API void cuda_emulator_count(cuda_emulator_counts *counts);

/* Loads that device code makes of page-locked memory, other than plain ones: since the first call,
 * which begins to count. */
CUDA_EMULATOR_API uint64_t cuda_emulator_bus_loads(void);

/* The latest launch. */
typedef struct cuda_emulator_launch {
  const char *kernel;
  uint32_t blocks, threads;
  int priority, non_blocking, remote_domain;
} cuda_emulator_launch;
CUDA_EMULATOR_API void cuda_emulator_latest_launch(cuda_emulator_launch *launch);

/* The device is lost from now on: what runs on it stops, every call on it fails. */
CUDA_EMULATOR_API void cuda_emulator_lose_device(int device);
/* As the environment variables of that name; calls are counted from now on. 0: none. */
CUDA_EMULATOR_API void cuda_emulator_fail_at(uint64_t call, int code);
CUDA_EMULATOR_API void cuda_emulator_set_memory_operations(int enabled);
/* For streams that are made from now on: hardware queues, and whether those of raised priority have
 * others. */
CUDA_EMULATOR_API void cuda_emulator_set_queues(uint32_t queues, int priority_apart);
/* Every stream says that it is being captured; nothing is. */
CUDA_EMULATOR_API void cuda_emulator_set_capturing(int capturing);
/* Do links between devices know atomic accesses? They do. */
CUDA_EMULATOR_API void cuda_emulator_set_native_atomics(int native);
/* Memory that the host must not touch is poisoned for AddressSanitizer; 1 where that is checked. */
CUDA_EMULATOR_API int cuda_emulator_guards_device_memory(void);

/* A mistake in device code or in the use of the runtime: prints what, and ends the process. */
CUDA_EMULATOR_API void cuda_emulator_mistake(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
