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

/* Aligned to 64 bytes. */
void *df_memory_take(size_t bytes);
void df_memory_give(void *memory);

/* Device memory, of dfcclMemAlloc or other; ordinary memory where the tests use the CPU. */
void df_memory_copy(void *to, const void *from, size_t bytes);

#endif
