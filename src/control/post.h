/*
 * Post: control messages between the ranks of a job. Within a process a message is copied to the
 * receiver's inbox (world.h); between processes it is a datagram on the pair's socket.
 *
 * Other rooms subscribe to kinds of messages; post knows none of them. All state is protected by
 * one lock, the owner's, which control->lock points to. [lock]: the caller holds it. Nothing here
 * waits, except df_post_goodbye.
 */
#ifndef DF_CONTROL_POST_H
#define DF_CONTROL_POST_H

#include <pthread.h>

#include "control/message.h"
#include "control/world.h"

/* Given up: it called dfcclAbort, sends nonsense, or another rank says that it died. It may still
 * write to us. */
typedef enum { DF_PEER_ALIVE, DF_PEER_LEFT, DF_PEER_GIVEN_UP, DF_PEER_DEAD } df_peer_state;

/* Nothing follows a lost message but what tells of the loss. */
typedef enum { DF_NOTHING_LOST, DF_LOST, DF_LOSS_IS_TOLD } df_loss;

typedef struct df_outgoing {
  struct df_outgoing *next;
  int fd; /* to pass along; -1: none */
  size_t bytes;
  df_message message;
} df_outgoing;

/* What this rank knows of another one's life. */
typedef struct df_peer {
  df_peer_state state;
  int local;  /* lives in this process */
  int socket; /* -1 when local, and once the connection has ended */
  int writable_wanted;
  df_loss message_lost; /* for want of memory */
  int cut_off;          /* we ended the connection, and it may live: what it has mapped, it keeps */
  df_outgoing *first, **last;
  int broken;  /* its context is: what it has not registered, it never will */
  char *cause; /* what broke it; NULL: nothing, or no memory to keep it */
  dfcclResult_t cause_status;
} df_peer;

/* Takes fd if the subscription says so. */
typedef void df_message_handler(void *room, uint32_t from, const df_message *message, int fd);

typedef struct df_subscription {
  df_message_handler *handle; /* [lock] */
  void *room;
  int takes_fd;
} df_subscription;

/* Something that the service thread does whenever it wakes, and at the latest after tick_ms. */
typedef struct df_service_job {
  void *room;
  int (*tick_ms)(void *room); /* -1: nothing can be due; NULL: as -1 */
  void (*run)(void *room);
} df_service_job;

/* What control tells the owner: lives and losses, which it notices and does not judge. All [lock],
 * on the service thread. */
typedef struct df_control_events {
  void *owner;
  void (*refused)(void *owner, uint32_t peer); /* it sent what makes no sense */
  void (*lost)(void *owner, uint32_t peer, df_peer_state state, const char *why);
  void (*left)(void *owner, uint32_t peer);         /* in order */
  void (*disconnected)(void *owner, uint32_t peer); /* its connection has ended, however */
  /* A message was lost for want of memory, so that ranks are no longer in step. */
  void (*message_lost)(void *owner, dfcclResult_t status, const char *sentence);
} df_control_events;

enum { DF_MAX_SERVICE_JOBS = 8 };

typedef struct df_control {
  uint32_t rank, n_ranks;
  pthread_mutex_t *lock;
  df_world *world;
  df_peer *peers; /* [n_ranks] */
  df_control_events events;
  df_subscription subscriptions[DF_MESSAGE_KINDS];
  df_service_job jobs[DF_MAX_SERVICE_JOBS];
  uint32_t n_jobs;
  int said_goodbye;   /* df_post_goodbye was here: no message leaves any more */
  dfcclResult_t loss; /* a message was lost, and the service thread has not told the owner */
  char loss_sentence[DF_SENTENCE_BYTES];

  pthread_t thread;
  int started;
  int epoll_fd, event_fd;  /* -1: not open */
  uint8_t *receive_buffer; /* the service thread's */
  uint32_t departures_seen;
  uint32_t stopping;
} df_control;

/* mesh: whose sockets and ranks of this process are used; it stays the caller's, and stays open.
 * On failure df_post_close undoes what was done. dfcclOutOfMemory. */
dfcclResult_t df_post_open(df_control *control, pthread_mutex_t *lock, const df_mesh *mesh,
                           const df_control_events *events);
void df_post_close(df_control *control);

/* Before the service thread starts. One room for each kind. */
void df_post_subscribe(df_control *control, df_message_kind kind, df_message_handler *handle,
                       void *room, int takes_fd);

/* [lock] A copy of message, payload and fd (-1: none) goes to the rank, in order. If there is no
 * memory for it, the loss is recorded; the service thread tells the owner. */
void df_post_send(df_control *control, uint32_t rank, const df_message *message,
                  const void *payload, int fd);
/* [lock] Would a message of this kind go out? */
int df_post_reaches(const df_control *control, uint32_t rank, df_message_kind kind);
/* [lock] Writes what the socket takes. */
void df_post_flush(df_control *control, uint32_t rank);
/* [lock] Hands a message to its subscriber, as if `from` had sent it. Takes fd. */
void df_post_deliver(df_control *control, uint32_t from, const df_message *message, int fd);
/* [lock] Tells the owner that messages were lost, and ends the connections that lost them. */
void df_post_tell_losses(df_control *control);
/* [lock] Ends the connection of a peer that may live. */
void df_peer_cut_off(df_peer *peer);
/* Tells ranks of other processes that this rank leaves in order (those of this process see it when
 * it detaches, df_world_detach), and gives the messages that still wait time to go
 * out: at most DF_GOODBYE_NS, since a peer may be stopped for ever. A peer that does not get its
 * BYE takes the end of the connection for a death. */
void df_post_goodbye(df_control *control);

#endif
