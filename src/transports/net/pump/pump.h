/*
 * The pump that joins two ranks' rings over streams.
 *
 *   outgoing  Sends only against the remote ring's credit, and hands each credit on to the block. So a
 *             run is through when it would be with shared memory, and a slot keeps its message
 *             until the remote block has it. A lent buffer is borrowed within one call: the rest is
 *             copied. So a cancelled run does not wait for the network.
 *   incoming  Bytes go straight into a slot, free because of the credit. Publishes the commit word
 *             after the last byte, and passes the block's credits on: at once if the remote end waits
 *             for them, else with other frames.
 *
 * Small messages, credits and news of links have one connection (a port), large messages
 * another, or several: a port for each rail. A frame of a large message goes through the port by
 * which it is expected first, so unequal rails get unequal shares. Messages of a varying collective
 * must come in order, so such a link keeps to one port.
 *
 * A port may be lost and attached anew: the remote end then says where each of its rings stands, and
 * the rest is sent again from the rings, through any port that stands. What the lost port's frames,
 * or those of other ports, bring late is there already, and goes nowhere. A rank that leaves takes
 * its rings along, so it asks before whether all has come.
 *
 * A frame that makes no sense ends the pump with a sentence; none leads outside of a slot. No call
 * waits, and each does a bounded amount of work. Not thread-safe: its caller has a lock.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_PUMP_H
#define DF_TRANSPORTS_NET_PUMP_PUMP_H

#include "transports/watch.h"
#include "transports/net/pump/channel.h"
#include "transports/net/pump/pump_links.h"

#if defined(DF_SIMULATION) /* several frames a message here, too */
enum { DF_PUMP_FRAME_BYTES = 24 };
#else
enum { DF_PUMP_FRAME_BYTES = 64 << 10 /* payload that stays in a private cache */ };
#endif
enum {
  DF_PUMP_SMALL, /* the port of small messages; all, if it is the only one */
  DF_PUMP_BULK,  /* the first of large messages */
  DF_NET_PATHS_MOST = 4,
  DF_PUMP_PORTS_MOST = DF_PUMP_BULK + DF_NET_PATHS_MOST,
  DF_PUMP_BUDGET = 4, /* writes of a port in a call, and times what one takes that is read */
  DF_PUMP_REASON_BYTES = 160
};

typedef struct df_pump_port {
  df_channel channel;
  df_frame frame;       /* whose payload comes */
  uint32_t rest;        /* bytes not yet come */
  df_pump_link *target; /* NULL: nowhere */
  uint64_t sequence;
  uint8_t *there;
  const char *why;   /* the stream has ended */
  uint32_t asked;    /* the number of DF_FRAME_ASK; 0: not asked */
  uint32_t question; /* of the remote end, to be answered; 0: none */
  uint32_t answered; /* the latest; 0: none */
  int has_arrived;   /* all that was sent before the question */
} df_pump_port;

typedef struct df_pump {
  df_pump_links links;
  df_pump_port ports[DF_PUMP_PORTS_MOST];
  uint32_t n_ports; /* made, whether they stand or not */
  uint32_t frame_bytes;
  uint64_t lend_min;             /* messages from so many bytes may be lent; 0 (as made): all */
  const df_message_watch *watch; /* NULL (as made): nobody */
  uint32_t turn;
  uint32_t quickest;      /* the port of the next frame of a large message */
  uint64_t quickest_sent; /* bytes that it may have sent before ports are compared again */
  df_bell *noted;         /* to ring at the end */
  uint32_t asks;          /* so far */
  int has_question;       /* of the remote end */
  int says_leave;         /* 1: is to be said, 2: was said */
  int remote_leaves;
  int stopped_early; /* the latest df_pump_send: call it again */
  int is_lost;
  char reason[DF_PUMP_REASON_BYTES];
} df_pump;

/* frame_bytes: the same at both ends. */
dfcclResult_t df_pump_make(df_pump **pump, uint32_t frame_bytes);
/* And its links. Streams are the caller's. */
void df_pump_free(df_pump *pump);

/* Port by port from DF_PUMP_SMALL on. dfcclOutOfMemory. */
dfcclResult_t df_pump_add_port(df_pump *pump);
/* The stream stands; an earlier one of this port is detached. */
void df_pump_attach(df_pump *pump, uint32_t port, df_stream *stream);
void df_pump_detach(df_pump *pump, uint32_t port);

/* Of the stream that is attached: more than a small packet went, and came, through. */
int df_pump_has_delivered(df_pump *pump, uint32_t port);

/* Incoming. The rings have not been written to. The link's id goes to the remote end. */
dfcclResult_t df_pump_accept(df_pump *pump, const df_pump_route *route, df_pump_link **link);
/* Outgoing. remote_id, remote_slots: of the remote end's df_pump_accept. The rings here have as many slots:
 * gaps of empty messages, and credits for several messages, are made for that. */
dfcclResult_t df_pump_connect(df_pump *pump, const df_pump_route *route, uint32_t remote_id,
                              uint32_t remote_slots, df_pump_link **link);
/* Does not touch the rings again. What still comes for them goes nowhere. */
void df_pump_release(df_pump *pump, df_pump_link *link);

/* The port's stream may have something. Returns 1 when something came. */
int df_pump_receive(df_pump *pump, uint32_t port);
/* Returns 1 when something was taken. 0: wait until a stream is ready, or a block publishes or
 * releases. */
int df_pump_send(df_pump *pump);
/* Inside: the watch hears of the ring's message. */
static inline void df_pump_notify_watch(const df_pump *pump, df_watch_event what,
                                        const df_pump_ring *ring, uint64_t sequence,
                                        uint32_t bytes) {
  if (DF_UNLIKELY(pump->watch != NULL))
    pump->watch->tell(pump->watch->who, what, ring->end.slots, sequence, bytes);
}
/* Rings what receiving has noted. */
void df_pump_ring_peers(df_pump *pump);

/* Something waits for a stream, or would be sent. */
int df_pump_has_pending(df_pump *pump);
/* Nothing more is published or released. Asks the remote end first, and says goodbye when that has all
 * that was sent: bytes written into a connection that breaks, or that is refused, may never come. */
void df_pump_leave(df_pump *pump);
static inline int df_pump_has_left(const df_pump *pump) { return pump->says_leave == 2; }

#endif
