/* Sends control messages between ranks, through the inboxes of a process (process_inbox.h), sockets
 * or control channels, and delivers received messages to the rooms that have subscribed to their
 * kind. The lock of the rank (control->lock) protects all state. Only df_messenger_goodbye
 * waits. */
#ifndef DF_CONTROL_MESSENGER_H
#define DF_CONTROL_MESSENGER_H

#include <pthread.h>

#include "base/mutex.h"
#include "control/remote_channel.h"
#include "control/message.h"
#include "control/process_inbox.h"

/* GIVEN_UP: the peer has called dfcclAbort, has sent a malformed message, or another rank has
 * reported its death. It may still write. */
typedef enum { DF_PEER_ALIVE, DF_PEER_LEFT, DF_PEER_GIVEN_UP, DF_PEER_DEAD } df_peer_state;

/* After a message was lost, the only message that may be sent is the report of the loss. */
typedef enum { DF_NOTHING_LOST, DF_LOST, DF_LOSS_IS_REPORTED } df_loss;

/* The silence after which a connection counts as lost if another path may exist. The rest of
 * silence_ms is left for trying that path. The value is at least a second, because TCP retransmits
 * a lost packet within 200 ms. */
static inline uint32_t df_silence_of_rail(uint32_t silence_ms) {
  return DF_MIN(silence_ms, DF_MAX(silence_ms / 3, 1000u));
}

typedef struct df_outgoing {
  struct df_outgoing *next;
  int fd;
  size_t bytes;
  df_message message;
} df_outgoing;

typedef struct df_peer {
  df_peer_state state;
  int local;
  int is_remote; /* the peer is on another host */
  uint32_t
      next;   /* the rank to which messages for this peer are sent: the peer itself, or a relay */
  int socket; /* -1: the peer is local or behind a relay, or the connection has ended */
  int *mesh_socket;           /* the entry of this socket in the mesh, which closes it */
  df_remote_channel *channel; /* NULL: the peer is on this host, or behind a relay */
  int calls;                  /* with a channel: this end makes its connections */
  /* its host may be reached by another path, so silence of the channel counts earlier */
  int has_paths;
  int was_silent;   /* with has_paths: the connection was lost by silence, not by a reset */
  uint64_t lost_ns; /* time at which the channel lost its connection; 0: it has one (reconnect.h) */
  uint32_t resumes; /* number of connections that the channel got after the first */
  int has_finished; /* with a channel: the other end has sent its end */
  int has_refused;  /* with a channel: lost, and nobody listens at its address any more */
  df_address address;      /* where the peer listens; set if is_remote */
  char host[DF_HOST_NAME]; /* name of the peer's host; set if is_remote; "": unknown */
  int writable_wanted;
  df_loss message_lost;
  int cut_off; /* this end has ended the connection; a peer that is alive keeps its mappings */
  df_outgoing *first, **last;
  df_outgoing *
      unsent; /* the first message that was not sent; those before it wait for an acknowledgement */
  uint64_t n_released;  /* number of messages that were acknowledged and released */
  int broken;           /* the context of the peer is broken, so it registers nothing more */
  char *failure_reason; /* the failure that broke it; NULL: none, or no memory */
  dfcclResult_t failure_reason_status;
} df_peer;

/* fd: -1: the message had no descriptor; DF_FD_LOST: this process had no free descriptor for it. */
typedef void df_message_handler(void *room, uint32_t from, const df_message *message, int fd);
enum { DF_FD_LOST = -2 };

typedef struct df_subscription {
  df_message_handler *handle; /* The caller holds the lock. */
  void *room;
  int takes_fd;
} df_subscription;

/* Runs when the service thread wakes, and after tick_ms at the latest. */
typedef struct df_service_job {
  void *room;
  int (*tick_ms)(void *room); /* -1 or NULL: nothing can be due */
  void (*run)(void *room);
} df_service_job;

/* ELSEWHERE: the connection was lost by silence, so another path is tried first. */
typedef enum {
  DF_RECONNECT_NOT_WANTED,
  DF_RECONNECT_WANTED,
  DF_RECONNECT_WANTED_ELSEWHERE
} df_reconnect_request;

/* Makes new connections for control channels that have lost theirs. The endpoint of a network
 * implements it. The caller holds the lock of the rank. */
typedef struct df_reconnector {
  void *owner;
  /* Requests a new connection for the channel to a rank, or withdraws the request. NULL: channels
   * get no new connections. */
  void (*want)(void *owner, uint32_t rank, df_reconnect_request request);
  /* Time since which the address of the rank refuses connections; 0: it accepts them, or no result
   * is known. */
  uint64_t (*refused_ns)(void *owner, uint32_t rank);
  uint32_t silence_ms,
      resume_ms; /* silence_ms 0: the system's limit; resume_ms 0: no new connections */
} df_reconnector;

/* Reports what the messenger observes about peers; the owner decides what follows. The service
 * thread calls these functions and holds the lock of the rank. */
typedef struct df_control_events {
  void *owner;
  void (*refused)(void *owner, uint32_t peer);
  void (*lost)(void *owner, uint32_t peer, df_peer_state state, const char *why);
  void (*left)(void *owner, uint32_t peer);
  void (*disconnected)(void *owner, uint32_t peer); /* in whatever way its connection ended */
  /* The last opportunity of the owner to send messages, called by the leaving thread; may be
   * NULL. */
  void (*leaving)(void *owner);
  /* A message was lost because there was no memory, so ranks are not in step any more. */
  void (*message_lost)(void *owner, dfcclResult_t status, const char *sentence);
} df_control_events;

/* A descriptor that the service thread watches for another room. */
typedef struct df_service_source {
  int fd;
  void *room;
  void (*ready)(void *room); /* the descriptor is readable; without the lock. NULL: free */
} df_service_source;

enum { DF_MAX_SERVICE_JOBS = 16, DF_MAX_SERVICE_SOURCES = 2 };

typedef struct df_control {
  uint32_t rank, n_ranks;
  df_rank_mutex *lock;
  df_process_inbox *process_inbox;
  df_peer *peers;          /* [n_ranks] */
  const df_routes *routes; /* the routes of the mesh; NULL: there are no relays */
  df_control_events events;
  df_subscription subscriptions[DF_MESSAGE_KINDS];
  df_service_job jobs[DF_MAX_SERVICE_JOBS];
  uint32_t n_jobs;
  df_service_source sources[DF_MAX_SERVICE_SOURCES];
  int said_goodbye; /* no message is sent any more */
  int ignores_lost; /* messages of ranks that are given up are dropped */
  dfcclResult_t loss;
  char loss_sentence[DF_SENTENCE_BYTES];

  pthread_t thread;
  int started;
  int epoll_fd, event_fd;
  uint8_t *receive_buffer;
  uint8_t *record; /* buffer for an outgoing record; NULL: there are no channels */
  df_reconnector reconnector;
  uint32_t n_lost; /* number of channels without a connection */
  df_mutex arrivals_lock;
  struct df_arrival *arrivals; /* new connections for channels */
  uint32_t departures_seen;
  uint32_t stopping;
} df_control;

/* The mesh stays with the caller, and open. After a failure, call df_messenger_close, which
 * takes the lock. Fails with dfcclOutOfMemory. */
dfcclResult_t df_messenger_open(df_control *control, df_rank_mutex *lock, const df_mesh *mesh,
                                const df_control_events *events);
void df_messenger_close(df_control *control);

/* The peer has sent a message that breaks the protocol. */
static inline void df_control_refuse(df_control *control, uint32_t peer) DF_RANK_LOCKED {
  control->events.refused(control->events.owner, peer);
}

/* Call before the service thread starts. Each kind has at most one subscriber. */
void df_messenger_subscribe(df_control *control, df_message_kind kind, df_message_handler *handle,
                            void *room, int takes_fd);

/* Copies the message, the payload and fd (-1: none). If there is no memory, the service thread
 * notifies the owner. */
void df_messenger_send(df_control *control, uint32_t rank, const df_message *message,
                       const void *payload, int fd) DF_RANK_LOCKED;
/* Sends to several ranks other than this one, without a descriptor. */
void df_messenger_send_many(df_control *control, const uint32_t *ranks, uint32_t n,
                            const df_message *message, const void *payload) DF_RANK_LOCKED;
/* Sends to all other ranks. */
void df_messenger_send_all(df_control *control, const df_message *message,
                           const void *payload) DF_RANK_LOCKED;
/* Records that a message for the rank was lost because there was no memory. */
void df_messenger_lose(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Returns 1 if a message of this kind would be sent to the rank. */
int df_messenger_reaches(const df_control *control, uint32_t rank,
                         df_message_kind kind) DF_RANK_LOCKED;
void df_messenger_flush(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Delivers a message as if `from` had sent it. Takes ownership of fd. */
void df_messenger_deliver(df_control *control, uint32_t from, const df_message *message,
                          int fd) DF_RANK_LOCKED;
/* Reports lost messages to the owner, and ends the connections on which messages were lost. */
void df_messenger_report_losses(df_control *control) DF_RANK_LOCKED;
/* Returns 1 if the system of the other host has not received everything that was sent. */
int df_peer_has_unsent(const df_peer *peer) DF_RANK_LOCKED;
/* Ends the connection to a peer that may be alive. With a control channel, the peer first receives
 * the messages that were sent before, which include the reason. */
void df_messenger_cut_off(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* The other end of the channel has acknowledged messages: releases them. */
void df_messenger_acknowledge(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Drops all messages that wait for the peer. */
void df_messenger_forget(df_peer *peer) DF_RANK_LOCKED;
/* Sends the end of the channel: nothing more follows, and the other end need not call again. */
void df_messenger_end(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Announces to other processes that this rank leaves in order. Waits at most patience_ns, since a
 * peer may be stopped for ever; a relay waits for all others. A peer that receives no BYE treats
 * the end of the connection as a death. */
void df_messenger_goodbye(df_control *control, uint64_t patience_ns);

#endif
