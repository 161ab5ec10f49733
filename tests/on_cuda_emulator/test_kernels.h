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
/* (uint32_t *here, const uint32_t *go): counts its block, and runs until *go is not 0. */
extern const void *const test_stay;
/* (uint32_t *sums): each block writes the sum of its threads' numbers, by a tree in shared memory.
 */
extern const void *const test_tree_sum;
/* (uint32_t *out): each thread writes a fold of the shuffles and votes of its warp. */
extern const void *const test_warp;
/* (uint32_t *wrong, uint32_t synced): lane 0 of a warp writes the word that the others read, with a
 * __syncwarp in between if synced; counts the lanes that read too early. */
extern const void *const test_handover;
/* (uint32_t what): an error of device code. */
extern const void *const test_mistake;
enum { MISTAKE_DIVERGENT, MISTAKE_ENDED, MISTAKE_WARP, MISTAKE_ASSUMED };
/* (uint8_t *to, const uint8_t *from, uint32_t bytes): accesses memory whose access is checked. */
extern const void *const test_copy;
/* (uint32_t *log, uint32_t *next, uint32_t name): records its name at the next place. */
extern const void *const test_note;
/* (uint64_t *words, uint64_t *announced, const uint64_t *taken, uint32_t rounds, uint32_t how): in
 * each round, stores its number to TEST_WORDS words and then to *announced, with that fence in
 * between, and waits until *taken is not less. */
extern const void *const test_announce;
enum { TEST_WORDS = 8 };
enum { FENCE_NONE, FENCE_DEVICE, FENCE_SYSTEM, FENCE_RELEASE };
/* (uint16_t *back): [i] float16 i, converted to float32 and back. */
extern const void *const test_halves;

#ifdef __cplusplus
}
#endif
#endif
