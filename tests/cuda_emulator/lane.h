/*
 * The emulator's interface for device code: the current lane (a thread of a block), and the places
 * where lanes meet. Included by C and, through device/cuda_device.h, by kernels as C++.
 */
#ifndef CUDA_EMULATOR_LANE_H
#define CUDA_EMULATOR_LANE_H

#include <stdint.h>

#include "cuda_emulator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct emulator_index {
  uint32_t x, y, z;
} emulator_index;

/* The values that all lanes of a block share. */
typedef struct emulator_block_place {
  emulator_index block_index, block_size, grid_size;
  int device;
  uint32_t held; /* number of stores that are held back (stores.c) */
} emulator_block_place;

/* The lane that the calling thread executes. */
typedef struct emulator_lane_view {
  emulator_index index;
  emulator_block_place *place;
  uint32_t patience; /* atomics until another lane's turn */
  uint32_t fenced;   /* the lane has executed a fence since the last barrier */
} emulator_lane_view;

CUDA_EMULATOR_API emulator_lane_view *cuda_emulator_lane(void);
/* All lanes of the block meet. line distinguishes barriers. */
CUDA_EMULATOR_API void cuda_emulator_meet_block(const char *file, int line);
/* The lanes of the mask meet in their warp. line distinguishes meetings. */
CUDA_EMULATOR_API void cuda_emulator_meet_warp(uint32_t mask, const char *file, int line);
/* Each lane of the mask gives a value; afterwards values[i] is the value of the warp's lane i. */
CUDA_EMULATOR_API void cuda_emulator_exchange(uint32_t mask, uint64_t value, uint64_t values[32],
                                              const char *file, int line);
/* Other lanes, then other blocks, may continue first. The block sleeps if the wait is long. */
CUDA_EMULATOR_API void cuda_emulator_rest(uint32_t ns);
/* A load by one lane: it is counted if it reads page-locked memory. */
CUDA_EMULATOR_API void cuda_emulator_note_load(const void *pointer);
/* A relaxed store of 4 or 8 bytes. Returns 1 if it is held back; 0: the caller stores. */
CUDA_EMULATOR_API int cuda_emulator_hold(void *pointer, uint32_t bytes, uint64_t value);
/* Returns 1 if the block holds back a store to the word; *value is what it will be. */
CUDA_EMULATOR_API int cuda_emulator_held(const void *pointer, uint32_t bytes, uint64_t *value);
/* A fence of system scope: no store of the block is held back any more. */
CUDA_EMULATOR_API void cuda_emulator_drain(void);
/* Whether a release to this word is to have no effect on other stores. */
CUDA_EMULATOR_API int cuda_emulator_is_weak(const void *pointer);
/* Atomics call it while stores are held back. */
CUDA_EMULATOR_API void cuda_emulator_age(void);
/* Atomics call it at intervals, and another lane continues. */
CUDA_EMULATOR_API void cuda_emulator_interrupt(void);
/* Ends the process unless the pointer is to memory that the block's device may access. */
CUDA_EMULATOR_API int cuda_emulator_check_global(const void *pointer);
CUDA_EMULATOR_API uint64_t cuda_emulator_clock(void); /* nanoseconds */

#ifdef __cplusplus
}
#endif
#endif
