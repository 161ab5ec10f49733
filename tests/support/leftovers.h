/* Counts the resources of a process or a machine, for tests that nothing of the library remains. */
#ifndef DF_TESTS_SUPPORT_LEFTOVERS_H
#define DF_TESTS_SUPPORT_LEFTOVERS_H

#include <stddef.h>

int df_thread_count(void);     /* threads of this process */
int df_descriptor_count(void); /* open file descriptors of this process */
int df_child_count(void);      /* children of this process that exist, zombies included */
long df_resident_kb(void);     /* resident memory of this process */
/* Names, one in each line. Other jobs of this machine have some in /dev/shm too, so compare names,
 * not numbers. Unix sockets count whose name contains dfccl and that a process of this session
 * holds. */
void df_shm_names(char *names, size_t bytes); /* entries of /dev/shm */
void df_unix_socket_names(char *names, size_t bytes);
/* The number of names of `during`, but not of `before`, that still exist. */
int df_shm_names_left(const char *before, const char *during);
int df_unix_sockets_left(const char *before, const char *during);
long df_available_mb(void); /* memory that the machine can still provide */

#endif
