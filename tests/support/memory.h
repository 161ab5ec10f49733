/* Memory that both the test and the library's device reach, and copies to memory that only the
 * device does. With TEST_BACKEND=cuda: page-locked memory, by the driver that is installed. */
#ifndef DF_TESTS_SUPPORT_MEMORY_H
#define DF_TESTS_SUPPORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

bool df_on_cuda(void); /* TEST_BACKEND is cuda */

/* With TEST_BACKEND=cuda: the device reaches the program's static variables, and the stack of the
 * main thread, from here on, if that is the caller. Elsewhere, and with TEST_PROGRAM_MEMORY=hidden:
 * nothing. */
void df_memory_show_program(void);

/* Functions of the CUDA driver that is installed, which may be the emulated one: each entry is the
 * address of a pointer to a function, and the name that the driver has it under. */
typedef struct {
  const char *name;
  void *entry;
} df_driver_entry;
void df_driver_find(const df_driver_entry *entries, size_t count);
/* Device 0 is the calling thread's, with its primary context. */
void df_driver_enter(void);

/* Aligned to 64 bytes. */
void *df_memory_take(size_t bytes);
void df_memory_give(void *memory);

/* Device memory, of dfcclMemAlloc or other; ordinary memory where the tests use the CPU. */
void df_memory_copy(void *to, const void *from, size_t bytes);

#endif
