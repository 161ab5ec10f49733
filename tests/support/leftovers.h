/* What a process or a machine has lying around, for tests that nothing of ours stays behind. */
#ifndef DF_TESTS_SUPPORT_LEFTOVERS_H
#define DF_TESTS_SUPPORT_LEFTOVERS_H

#include <stddef.h>

int df_thread_count(void);     /* threads of this process */
int df_descriptor_count(void); /* open file descriptors of this process */
int df_child_count(void);      /* children of this process that exist, zombies included */
long df_resident_kb(void);     /* resident memory of this process */
/* Names, one a line. Other jobs of this machine have some in /dev/shm too: compare names, not
 * numbers. Unix sockets: those whose name says dfccl and that a process of this session holds. */
void df_shm_names(char *names, size_t bytes); /* entries of /dev/shm */
void df_unix_socket_names(char *names, size_t bytes);
/* How many names of `during` that are not in `before` are there now. */
int df_shm_names_left(const char *before, const char *during);
int df_unix_sockets_left(const char *before, const char *during);
long df_available_mb(void); /* memory that the machine could still give */

#endif
