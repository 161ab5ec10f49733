/* What a process or a machine has lying around, for tests that nothing of ours stays behind. */
#ifndef DF_TESTS_SUPPORT_LEFTOVERS_H
#define DF_TESTS_SUPPORT_LEFTOVERS_H

#include <stddef.h>

int df_thread_count(void);     /* threads of this process */
int df_descriptor_count(void); /* open file descriptors of this process */
int df_child_count(void);      /* children of this process that exist, zombies included */
long df_resident_kb(void);     /* resident memory of this process */
int df_shm_entry_count(void);  /* entries of /dev/shm (the test runner's own excepted) */
int df_unix_socket_count(void); /* named or abstract Unix sockets whose name says dfccl */
/* Writes the names of the machine's Unix sockets that say dfccl, one a line. Other jobs of this
 * machine have such sockets too: compare names, not numbers. */
void df_unix_socket_names(char *names, size_t bytes);
/* How many lines of `during` that are not in `before` are there now. */
int df_unix_sockets_left(const char *before, const char *during);
long df_available_mb(void); /* memory that the machine could still give */

#endif
