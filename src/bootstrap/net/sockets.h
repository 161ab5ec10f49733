/* Sockets. Every socket is non-blocking and close-on-exec. A forked child closes the connections of
 * its parent (bootstrap/net/fork_guard.h), so only df_socket_close and df_listener_close may close
 * them. Abstract Unix addresses vanish with their socket and have no owner, hence
 * df_socket_same_user. Functions that create a socket return it, or -errno. */
#ifndef DF_BOOTSTRAP_NET_SOCKETS_H
#define DF_BOOTSTRAP_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sockaddr_storage;

int df_listen_loopback(uint16_t *port);

/* A socket for IPv6 does not accept IPv4. */
int df_listen_network(const struct sockaddr_storage *address, uint32_t bytes);
/* Returns as df_connect_loopback. from has the same family and port 0; NULL: the system chooses. */
int df_connect_network(const struct sockaddr_storage *address, uint32_t bytes,
                       const struct sockaddr_storage *from);
/* A connection to a host that is silent for this time ends: reading or writing fails. */
void df_socket_set_silence(int fd, int silence_ms);

/* type: SOCK_STREAM or SOCK_SEQPACKET. -EADDRINUSE: another socket has the address. */
int df_listen_abstract(int type, const unsigned char name[16]);

/* -ECONNREFUSED: nothing listens there; -EAGAIN: too many callers. A loopback connect may still be
 * in progress: wait until the socket is writable, then call df_socket_error. */
int df_connect_loopback(uint16_t port);
int df_connect_abstract(int type, const unsigned char name[16]);

/* Creates both ends of a connection within this process. Returns 0 or -errno. */
int df_connected_pair(int ends[2]);

/* Returns -EAGAIN if there is no caller. */
int df_accept(int listener);

/* Returns the pending errno value, or 0, and clears it. */
int df_socket_error(int fd);

/* Compares the effective users; *other becomes the one of the other end, and other may be NULL. */
bool df_socket_same_user(int fd, uid_t *other);

/* Returns 1 if the socket is ready or an error is pending, 0 after the deadline, or -errno.
 * Continues after signals. */
int df_socket_wait(int fd, short events, uint64_t deadline_ns);

/* Returns the remaining time, rounded up; 0 after the deadline. */
int df_remaining_ms(uint64_t deadline_ns);

/* Returns whether the error means that there is no answer or no route at present: the other end may
 * be alive. */
bool df_is_silence(int error);
bool df_is_exhausted(int error);
bool df_is_out_of_descriptors(int error);

/* Describes the error. If descriptors ran out, also says whether those of the process or of the
 * system, and the limit. */
enum { DF_WHY_BYTES = 160 };
const char *df_why(int error, char text[DF_WHY_BYTES]);

/* Closes the socket and sets *fd to -1; *fd may already be -1. */
void df_socket_close(int *fd);

#endif
