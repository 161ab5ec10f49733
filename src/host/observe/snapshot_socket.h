/* The sockets at which ranks answer: their names in a directory, and those that dead processes
 * left. */
#ifndef DF_HOST_OBSERVE_SNAPSHOT_SOCKET_H
#define DF_HOST_OBSERVE_SNAPSHOT_SOCKET_H

#include <stdint.h>

enum { DF_SNAPSHOT_PATH = 108 /* sun_path of a socket address */ };

/* The parts of a name. */
typedef struct df_snapshot_name {
  uint64_t job;
  uint32_t process, rank; /* process: in the namespace of the job */
} df_snapshot_name;

/* Returns 0 if the text is no name of such a socket. */
int df_snapshot_parse_name(const char *text, df_snapshot_name *name);

/* Creates the socket with access for this user only. Callers find it only when it listens. Returns
 * the socket, or -errno. */
int df_snapshot_listen(const char *directory, const df_snapshot_name *name,
                       char path[DF_SNAPSHOT_PATH]);

/* Returns a non-blocking SOCK_SEQPACKET socket, or -errno: -ECONNREFUSED if the process is dead,
 * -EAGAIN if too many callers wait. */
int df_snapshot_connect(const char *path);

/* Removes the socket if it belongs to this user and its process is dead. Returns 1 if it did. */
int df_snapshot_remove_stale(const char *path);

/* Removes the sockets of dead processes of this user. */
void df_snapshot_sweep(const char *directory);

#endif
