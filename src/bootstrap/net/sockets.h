/* Every socket is non-blocking and close-on-exec. A forked child closes its parent's connections
 * (bootstrap/net/fork_guard.h): df_socket_close and df_listener_close alone may close them. Abstract Unix
 * addresses end with their socket and have no owner, hence df_socket_same_user. Functions that make
 * a socket return it, or -errno. */
#ifndef DF_BOOTSTRAP_NET_SOCKETS_H
#define DF_BOOTSTRAP_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sockaddr_storage;

int df_listen_loopback(uint16_t *port);

/* An IPv6 socket is for IPv6 only. */
int df_listen_network(const struct sockaddr_storage *address, uint32_t bytes);
/* As df_connect_loopback. from: of the same family, port 0; NULL: the system chooses. */
int df_connect_network(const struct sockaddr_storage *address, uint32_t bytes,
                       const struct sockaddr_storage *from);
/* A host that is silent for so long ends the connection: reading or writing fails. */
void df_socket_set_silence(int fd, int silence_ms);

/* type: SOCK_STREAM or SOCK_SEQPACKET. -EADDRINUSE: another socket has the address. */
int df_listen_abstract(int type, const unsigned char name[16]);

/* -ECONNREFUSED: nobody listens; -EAGAIN: too many callers. A loopback connect may be under way:
 * wait until it is writable, then ask df_socket_error. */
int df_connect_loopback(uint16_t port);
int df_connect_abstract(int type, const unsigned char name[16]);

/* Two ends of one connection of this process. 0, or -errno. */
int df_connected_pair(int ends[2]);

/* -EAGAIN: no caller. */
int df_accept(int listener);

/* The pending errno value, or 0; asking clears it. */
int df_socket_error(int fd);

/* Compares effective users; *other is the other end's, and may be NULL. */
bool df_socket_same_user(int fd, uid_t *other);

/* 1: ready, or an error is pending; 0: too late; -errno. Carries on after signals. */
int df_socket_wait(int fd, short events, uint64_t deadline_ns);

/* Rounded up; 0 after the deadline. */
int df_remaining_ms(uint64_t deadline_ns);

/* Nobody answers, or there is no way at present: the other end may live. */
bool df_is_silence(int error);
bool df_is_exhausted(int error);
bool df_is_out_of_descriptors(int error);

/* Also says whose descriptors ran out, and how many there are. */
enum { DF_WHY_BYTES = 160 };
const char *df_why(int error, char text[DF_WHY_BYTES]);

/* And sets it to -1; it may be -1. */
void df_socket_close(int *fd);

#endif
