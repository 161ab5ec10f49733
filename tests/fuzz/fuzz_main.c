/*
 * Runs a libFuzzer target without libFuzzer, on the given files, or on inputs made from a seed.
 * Most of these are short and consist of small bytes, so that lengths and types are often valid.
 *
 *   PROGRAM [FILE...]    or:    PROGRAM --seed SEED --inputs COUNT
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 4096 };

static uint64_t state;

static uint64_t next_random(void) { /* splitmix64 */
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int run_file(const char *path) {
  static uint8_t data[1 << 20];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fprintf(stderr, "cannot read %s\n", path);
    return 2;
  }
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  LLVMFuzzerTestOneInput(data, size);
  return 0;
}

static void run_random(uint64_t seed, long inputs) {
  uint8_t data[INPUT_MAX];
  for (long i = 0; i < inputs; i++) {
    state = seed + (uint64_t)i;
    size_t size = 1 + next_random() % (next_random() % 4 == 0 ? INPUT_MAX : 600);
    uint64_t small = next_random() % 3;
    for (size_t k = 0; k < size; k++) {
      uint64_t bits = next_random();
      data[k] = (uint8_t)(bits >> 8);
      if (k > 0 && small > 0 && bits % 4 != 0) data[k] = (uint8_t)(data[k] % (small == 1 ? 4 : 12));
    }
    LLVMFuzzerTestOneInput(data, size);
  }
  printf("%ld inputs from seed %llu\n", inputs, (unsigned long long)seed);
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "--seed") == 0 && strcmp(argv[3], "--inputs") == 0) {
    run_random(strtoull(argv[2], NULL, 10), strtol(argv[4], NULL, 10));
    return 0;
  }
  int status = 0;
  for (int i = 1; i < argc; i++) status |= run_file(argv[i]);
  if (argc < 2) fprintf(stderr, "usage: %s FILE... | --seed SEED --inputs COUNT\n", argv[0]);
  return argc < 2 ? 2 : status;
}
