/* The bytes of one input, taken in order. After its end the input yields zeros. */
#ifndef DF_TESTS_FUZZ_INPUT_H
#define DF_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct input {
  const uint8_t *data;
  size_t size;
} input;

static inline uint8_t next_byte(input *in) {
  if (in->size == 0) return 0;
  in->size--;
  return *in->data++;
}

/* As many bytes as there are, at most `most`. */
static inline const uint8_t *next_bytes(input *in, size_t most, size_t *taken) {
  const uint8_t *bytes = in->data;
  *taken = most < in->size ? most : in->size;
  in->data += *taken;
  in->size -= *taken;
  return bytes;
}

#endif
