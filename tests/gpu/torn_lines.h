/* torn_lines: the two kernels, and what they are given. */
#ifndef DF_TESTS_GPU_TORN_LINES_H
#define DF_TESTS_GPU_TORN_LINES_H

#include <stdint.h>

enum { TORN_THREADS = 128, TORN_PAIRS = 64 /* of lines, of one block; each has 8 lanes */ };

/* Counted by the readers, and added at the end. */
typedef struct torn_counts {
  uint64_t looks;   /* at a line whose flag is another than before */
  uint64_t torn;    /* of these: some part is older than the flag that was seen before */
  uint64_t mixed;   /* of lines that eight lanes loaded at once: not all parts of one store */
  uint64_t readers; /* blocks that look */
} torn_counts;

#ifdef __cplusplus
extern "C" {
#endif
/* (uint8_t *lines, uint64_t rounds): stores every line of each block once in each round. */
const void *torn_lines_writer(void);
/* (const uint8_t *lines, const uint32_t *stop, torn_counts *counts) */
const void *torn_lines_reader(void);
#ifdef __cplusplus
}
#endif
#endif
