/* Control messages between ranks, through inboxes (world.h) or sockets; other rooms subscribe to
 * kinds. control->lock protects all state. Only df_messenger_goodbye
 * waits. */
#ifndef DF_CONTROL_MESSENGER_H
#define DF_CONTROL_MESSENGER_H

#include <pthread.h>

#include "base/mutex.h"
#include "control/remote_channel.h"
#include "control/message.h"
#include "control/process_inbox.h"

/* GIVEN_UP: called dfcclAbort, sends nonsense, or is dead for another rank. It may still write. */
typedef enum { DF_PEER_ALIVE, DF_PEER_LEFT, DF_PEER_GIVEN_UP, DF_PEER_DEAD } df_peer_state;

/* After a lost message, only news of the loss goes out. */
typedef enum { DF_NOTHING_LOST, DF_LOST, DF_LOSS_IS_TOLD } df_loss;

/* After so long a connection is lost if another way may carry on. Of silence_ms the rest is left
 * for that. A lost packet is repeated within 200 ms, so it is no less than a second. */
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
  int is_remote;              /* of another host */
  uint32_t next;              /* to whom messages for it are given: itself, or a relay */
  int socket;                 /* -1: local, or ended, or behind a relay */
  int *home;                  /* the mesh's place for it */
  df_remote_channel *channel; /* NULL: the peer is on this host, or behind a relay */
  int calls;                  /* a channel: this end makes its connections */
  int has_paths;  /* its host may be reached by another way, so a channel is found silent earlier */
  int was_silent; /* has_rails: the connection was lost for silence, not for a reset */
  uint64_t lost_ns;   /* since when the channel has no connection; 0: it has one (reconnect.h) */
  uint32_t resumes;   /* how often it had one again */
  int is_over;        /* the channel: the other end has said so */
  df_address address; /* where the peer listens; set if is_remote */
  char host[DF_HOST_NAME]; /* the peer's host; set if is_remote; "": not known */
  int writable_wanted;
  df_loss message_lost;
  int cut_off; /* we ended the connection: a peer that lives keeps its mappings */
  df_outgoing *first, **last;
  df_outgoing *unsent;  /* those before it wait until a channel's other end has them */
  uint64_t let_go;      /* messages of a channel that the other end had */
  int broken;           /* The peer's context is broken: it registers nothing more. */
  char *failure_reason; /* what broke it; NULL: nothing, or no memory */
  dfcclResult_t failure_reason_status;
} df_peer;

/* fd: -1: none came with the message; DF_FD_LOST: this process had no room for it. */
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

/* ELSEWHERE: the connection was silent, so another way is tried first. */
typedef enum {
  DF_RECONNECT_NOT_WANTED,
  DF_RECONNECT_WANTED,
  DF_RECONNECT_WANTED_ELSEWHERE
} df_reconnect_request;

/* Makes lost connections of control channels anew. A network's endpoint implements it. The caller
 * holds the lock. */
typedef struct df_reconnector {
  void *owner;
  /* A channel needs a new connection, or none any more. NULL: connections are not made anew. */
  void (*want)(void *owner, uint32_t rank, df_reconnect_request request);
  /* Since when nobody listens where the rank did; 0: somebody does, or it is not known. */
  uint64_t (*refused_ns)(void *owner, uint32_t rank);
  uint32_t silence_ms, resume_ms; /* 0: the system's; none is made anew */
} df_reconnector;

/* Control notices lives and losses, the owner judges. The service thread calls them and holds the
 * lock. */
typedef struct df_control_events {
  void *owner;
  void (*refused)(void *owner, uint32_t peer);
  void (*lost)(void *owner, uint32_t peer, df_peer_state state, const char *why);
  void (*left)(void *owner, uint32_t peer);
  void (*disconnected)(void *owner, uint32_t peer); /* however its connection ended */
  /* The owner's last chance to tell something; NULL: it has nothing. On the leaving thread. */
  void (*leaving)(void *owner);
  /* For want of memory: ranks are no longer in step. */
  void (*message_lost)(void *owner, dfcclResult_t status, const char *sentence);
} df_control_events;

enum { DF_MAX_SERVICE_JOBS = 8 };

typedef struct df_control {
  uint32_t rank, n_ranks;
  df_rank_mutex *lock;
  df_process_inbox *process_inbox;
  df_peer *peers;          /* [n_ranks] */
  const df_routes *routes; /* the mesh's; NULL: there are no relays */
  df_control_events events;
  df_subscription subscriptions[DF_MESSAGE_KINDS];
  df_service_job jobs[DF_MAX_SERVICE_JOBS];
  uint32_t n_jobs;
  int said_goodbye; /* no message leaves any more */
  dfcclResult_t loss;
  char loss_sentence[DF_SENTENCE_BYTES];

  pthread_t thread;
  int started;
  int epoll_fd, event_fd;
  uint8_t *receive_buffer;
  uint8_t *record; /* of a channel, that goes out; NULL: there are no channels */
  df_reconnector reconnector;
  uint32_t n_lost; /* channels without a connection */
  df_mutex arrivals_lock;
  struct df_arrival *arrivals; /* connections that were made for channels */
  uint32_t departures_seen;
  uint32_t stopping;
} df_control;

/* mesh stays the caller's, and open. After a failure, call df_messenger_close. dfcclOutOfMemory. */
dfcclResult_t df_messenger_open(df_control *control, df_rank_mutex *lock, const df_mesh *mesh,
                                const df_control_events *events);
void df_messenger_close(df_control *control) DF_RANK_LOCKED;

/* The peer sent a message that breaks the protocol. */
static inline void df_control_refuse(df_control *control, uint32_t peer) DF_RANK_LOCKED {
  control->events.refused(control->events.owner, peer);
}

/* Before the service thread starts. One room for each kind. */
void df_messenger_subscribe(df_control *control, df_message_kind kind, df_message_handler *handle,
                            void *room, int takes_fd);

/* Copies message, payload and fd (-1: none). Without memory the service thread tells the
 * owner. */
void df_messenger_send(df_control *control, uint32_t rank, const df_message *message,
                       const void *payload, int fd) DF_RANK_LOCKED;
/* To several others than this rank, without a descriptor. */
void df_messenger_send_many(df_control *control, const uint32_t *ranks, uint32_t n,
                            const df_message *message, const void *payload) DF_RANK_LOCKED;
/* To all others. */
void df_messenger_send_all(df_control *control, const df_message *message,
                           const void *payload) DF_RANK_LOCKED;
/* A message for the rank is lost for want of memory. */
void df_messenger_lose(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Would a message of this kind go out? */
int df_messenger_reaches(const df_control *control, uint32_t rank,
                         df_message_kind kind) DF_RANK_LOCKED;
void df_messenger_flush(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* As if `from` had sent the message. Takes fd. */
void df_messenger_deliver(df_control *control, uint32_t from, const df_message *message,
                          int fd) DF_RANK_LOCKED;
/* Also ends the connections that lost messages. */
void df_messenger_tell_losses(df_control *control) DF_RANK_LOCKED;
/* Another host's system does not have all of it. */
int df_peer_has_unsent(const df_peer *peer) DF_RANK_LOCKED;
/* The peer may live. Over a channel it first hears what it was told before: why. */
void df_messenger_cut_off(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* A channel's other end has told what it has. */
void df_messenger_told(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Nothing more will be sent. */
void df_messenger_forget(df_peer *peer) DF_RANK_LOCKED;
/* Tells a channel's other end that nothing more comes, and that it need not call again. */
void df_messenger_end(df_control *control, uint32_t rank) DF_RANK_LOCKED;
/* Tells other processes that this rank leaves in order. Waits patience_ns at most, since a peer
 * may be stopped for ever; a relay waits for all others. A peer without BYE takes the end of the
 * connection for a death. */
void df_messenger_goodbye(df_control *control, uint64_t patience_ns);

#endif
