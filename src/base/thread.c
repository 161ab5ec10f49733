#include "base/thread.h"

#include <link.h>
#include <unistd.h>

/* The reserve of the C library for modules that are loaded later (2 KB by default, a tunable). */
enum { TLS_RESERVE_BYTES = 64 * 1024 };

static int add_tls(struct dl_phdr_info *module, size_t bytes, void *total) {
  (void)bytes;
  for (int i = 0; i < module->dlpi_phnum; i++)
    if (module->dlpi_phdr[i].p_type == PT_TLS)
      *(size_t *)total += module->dlpi_phdr[i].p_memsz + module->dlpi_phdr[i].p_align;
  return 0;
}

/* Modules loaded later have their thread-local storage outside stacks, except for the reserve. So
 * one measurement is enough. It takes the loader's lock, which a forked child may find locked. */
static pthread_once_t measured = PTHREAD_ONCE_INIT;
static size_t tls_bytes;

static void measure_tls(void) {
  tls_bytes = TLS_RESERVE_BYTES;
  dl_iterate_phdr(add_tls, &tls_bytes);
}

int df_thread_create(pthread_t *thread, size_t stack_bytes, int is_detached, void *(*run)(void *),
                     void *argument) {
  pthread_attr_t attributes;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  pthread_once(&measured, measure_tls);
  const size_t bytes = (stack_bytes + tls_bytes + page - 1) / page * page;
  error = pthread_attr_setstacksize(&attributes, bytes);
  if (error == 0 && is_detached)
    error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (error == 0) error = pthread_create(thread, &attributes, run, argument);
  pthread_attr_destroy(&attributes);
  return error;
}
