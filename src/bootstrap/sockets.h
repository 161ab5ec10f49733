/*
 * The few socket calls of the rendezvous. Every socket made here is non-blocking and close-on-exec.
 * Unix addresses are abstract: they end with their socket and appear in no file system. They have
 * no owner either, hence df_socket_same_user. Functions that make a socket return it, or -errno.
 */
#ifndef DF_BOOTSTRAP_SOCKETS_H
#define DF_BOOTSTRAP_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Listens on a port of the loopback address that the system picks and *port receives. */
int df_listen_loopback(uint16_t *port);

/* Listens on the abstract address of a name of 16 bytes; type is SOCK_STREAM or SOCK_SEQPACKET.
 * -EADDRINUSE while another socket has that address. */
int df_listen_abstract(int type, const unsigned char name[16]);

/* Connects to such a listener. -ECONNREFUSED: nobody listens there; -EAGAIN: it has too many
 * callers at the moment. The loopback connect may still be under way: wait until it is writable,
 * then ask df_socket_error. */
int df_connect_loopback(uint16_t port);
int df_connect_abstract(int type, const unsigned char name[16]);

/* The next caller of a listener, or -errno: -EAGAIN when there is none. */
int df_accept(int listener);

/* The socket's pending error as an errno value, 0 for none; asking clears it. */
int df_socket_error(int fd);

/* Whether the process at the other end of a connected Unix socket belongs to this process's
 * effective user; *other receives that user's number and may be NULL. */
bool df_socket_same_user(int fd, uid_t *other);

/* Waits until fd is ready for events (poll's) or has an error, or until deadline_ns on df_clock_ns.
 * 1: ready; 0: too late; -errno. Carries on after signals. */
int df_socket_wait(int fd, short events, uint64_t deadline_ns);

/* The milliseconds until deadline_ns, rounded up, 0 when it has passed: a timeout for poll. */
int df_remaining_ms(uint64_t deadline_ns);

/* Whether an errno value tells that something ran out, and whether that is descriptors. */
bool df_is_exhausted(int error);
bool df_is_out_of_descriptors(int error);

/* The words for an errno value. Of descriptors they say whose they were and how many. */
enum { DF_WHY_BYTES = 160 };
const char *df_why(int error, char text[DF_WHY_BYTES]);

/* Closes *fd if it is one, and sets it to -1. */
void df_socket_close(int *fd);

#endif
