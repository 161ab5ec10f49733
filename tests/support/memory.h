/* Memory that both the test and the library's device reach, and copies to memory that only the
 * device reaches. With TEST_BACKEND=cuda it is page-locked memory, from the installed driver. */
#ifndef DF_TESTS_SUPPORT_MEMORY_H
#define DF_TESTS_SUPPORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

bool df_on_cuda(void); /* TEST_BACKEND is cuda */

/* With TEST_BACKEND=cuda: from now on the device reaches the program's static variables, and the
 * stack of the main thread if that is the caller. Otherwise, and with TEST_PROGRAM_MEMORY=hidden:
 * no effect. */
void df_memory_show_program(void);

/* Looks up functions of the installed CUDA driver, which may be the emulated one. Each entry has
 * the address of a function pointer, and the name that the driver exports. */
typedef struct {
  const char *name;
  void *entry;
} df_driver_entry;
void df_driver_find(const df_driver_entry *entries, size_t count);
/* Makes device 0, with its primary context, the calling thread's device. */
void df_driver_enter(void);

/* Aligned to 64 bytes. */
void *df_memory_take(size_t bytes);
void df_memory_give(void *memory);

/* Device memory, of dfcclMemAlloc or other; ordinary memory if the tests use the CPU. */
void df_memory_copy(void *to, const void *from, size_t bytes);

#endif
