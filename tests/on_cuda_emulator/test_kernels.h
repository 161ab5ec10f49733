/* Kernels for the emulator's own tests: handles for cudaLaunchKernel. */
#ifndef CUDA_EMULATOR_TEST_KERNELS_H
#define CUDA_EMULATOR_TEST_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TEST_THREADS = 96 };

/* (uint64_t *total, uint64_t value): every thread adds the value. */
extern const void *const test_add;
/* (uint32_t *here, const uint32_t *go): counts its block, stays until *go is not 0. */
extern const void *const test_stay;
/* (uint32_t *sums): each block writes the sum of its threads' numbers, by a tree in shared memory.
 */
extern const void *const test_tree_sum;
/* (uint32_t *out): each thread writes what shuffles and votes of its warp gave, folded. */
extern const void *const test_warp;
/* (uint32_t *wrong, uint32_t synced): lane 0 of a warp writes what the others read, with a
 * __syncwarp in between if synced; counts those who read too early. */
extern const void *const test_handover;
/* (uint32_t what): a mistake of device code. */
extern const void *const test_mistake;
enum { MISTAKE_DIVERGENT, MISTAKE_ENDED, MISTAKE_WARP, MISTAKE_ASSUMED };
/* (uint8_t *to, const uint8_t *from, uint32_t bytes): touches memory that is checked. */
extern const void *const test_copy;
/* (uint32_t *log, uint32_t *next, uint32_t name): notes its name at the next place. */
extern const void *const test_note;
/* (uint16_t *back): [i] is float16 i, made float32 and float16 again. */
extern const void *const test_halves;

#ifdef __cplusplus
}
#endif
#endif
