/*
 * An emulated CUDA runtime, for tests on machines without a GPU: the functions that tests may call
 * in addition to those of cuda_runtime_api.h, which it defines with the toolkit's own declarations.
 *
 * Environment, read at the first call:
 *
 *   CUDA_EMULATOR_DEVICES          number of devices (2)
 *   CUDA_EMULATOR_MULTIPROCESSORS  blocks that one device executes at a time, one each (8)
 *   CUDA_DEVICE_MAX_CONNECTIONS    hardware queues of a device, which streams share (8)
 *   CUDA_EMULATOR_PRIORITY_QUEUES=1  streams of raised priority share other queues (0)
 *   CUDA_MODULE_LOADING=EAGER      no call and no launch loads a kernel (LAZY)
 *   CUDA_EMULATOR_QUERIES_BLOCK=0  queries never wait (1)
 *   CUDA_EMULATOR_SEED             order of lanes, and places of their interruptions (1)
 *   CUDA_EMULATOR_PEERS=0          no device can access another one's memory (1)
 *   CUDA_EMULATOR_STORES=N         N percent of the relaxed stores to page-locked memory are held
 *                                  back until a fence of system scope, or for some time (0)
 *   CUDA_EMULATOR_FAIL=N[:CODE]    the N-th call fails, with cudaErrorUnknown or that code
 *   CUDA_EMULATOR_LOSE=N           the caller's device is lost at the N-th call
 *   CUDA_EMULATOR_MEMORY_OPS=0     no stream memory operations
 *   CUDA_EMULATOR_TRACE=1          prints each call on standard error
 *
 * It is stricter than a GPU may be:
 *   - Every allocation and every release of memory waits for all work of the device, and launches
 *     wait meanwhile.
 *   - The first use of a kernel that is not loaded does the same.
 *   - cudaStreamQuery and cudaEventQuery wait while another thread does one of these, or is in
 *     cudaDeviceSynchronize.
 *   - A command that cannot begin delays all later ones in its hardware queue (queue.c).
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

/* The numbers of existing objects on all devices, and of calls and launches since the process
 * began. */
typedef struct cuda_emulator_counts {
  uint64_t device_allocations, device_bytes, host_allocations, ipc_mappings, streams, events;
  uint64_t calls, launches, resident_blocks, most_resident_blocks;
  uint64_t loading_launches; /* launches of a kernel that was not loaded before */
  uint64_t waiting_grids;    /* launches without a started block */
  uint32_t primary_contexts; /* a bit for each device whose context exists */
} cuda_emulator_counts;
CUDA_EMULATOR_API void cuda_emulator_count(cuda_emulator_counts *counts);

/* Loads of page-locked memory by device code, except plain ones, since the first call, which starts
 * the count. */
CUDA_EMULATOR_API uint64_t cuda_emulator_bus_loads(void);

/* The latest launch. */
typedef struct cuda_emulator_launch {
  const char *kernel;
  uint32_t blocks, threads;
  int priority, non_blocking, remote_domain;
} cuda_emulator_launch;
CUDA_EMULATOR_API void cuda_emulator_latest_launch(cuda_emulator_launch *launch);

/* The device is lost from now on: its work stops, and every call on it fails. */
CUDA_EMULATOR_API void cuda_emulator_lose_device(int device);
/* The same as the environment variables of that name; calls are counted from now on. 0: none. */
CUDA_EMULATOR_API void cuda_emulator_fail_at(uint64_t call, int code);
CUDA_EMULATOR_API void cuda_emulator_set_memory_operations(int enabled);
/* For streams that are created from now on: the number of hardware queues, and whether streams of
 * raised priority have their own. */
CUDA_EMULATOR_API void cuda_emulator_set_queues(uint32_t queues, int priority_apart);
/* The same as the environment variable CUDA_EMULATOR_STORES, from now on. */
CUDA_EMULATOR_API void cuda_emulator_hold_stores(uint32_t percent);
/* A plant: from now on releases to these words order no stores that are held back. 0 bytes: no
 * words. */
CUDA_EMULATOR_API void cuda_emulator_weaken(const void *words, size_t bytes);
/* Every stream reports that it is being captured, although none is. */
CUDA_EMULATOR_API void cuda_emulator_set_capturing(int capturing);
/* Whether links between devices support atomic accesses. The default is that they do. */
CUDA_EMULATOR_API void cuda_emulator_set_native_atomics(int native);
/* Memory that the host must not touch is poisoned for AddressSanitizer; 1 where that is checked. */
CUDA_EMULATOR_API int cuda_emulator_guards_device_memory(void);

/* Ends the process with a message, after an error in device code or in the use of the runtime. */
CUDA_EMULATOR_API void cuda_emulator_mistake(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
