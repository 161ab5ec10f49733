/*
 * The pump that joins the rings of two ranks over streams.
 *
 *   outgoing  Sends only against credit of the remote ring, and hands each credit on to the block.
 *             A run therefore completes when it would with shared memory, and a slot keeps its
 *             message until the remote block has it. A lent buffer is borrowed within one call, and
 *             bytes that the stream did not accept are copied. A cancelled run therefore does not
 *             wait for the network.
 *   incoming  Bytes are read directly into a slot, which is free because of the credit. The pump
 *             publishes the commit word after the last byte, and passes the credits of the block
 *             on: at once if the remote end waits for them, otherwise with other frames.
 *
 * A connection is a port. Small messages, credits and state of links have one port, large messages
 * another one, or several: one for each rail. A frame of a large message goes through the port that
 * is expected to deliver it first, so unequal rails get unequal shares. Messages of a varying
 * collective must arrive in order, so such a link keeps to one port.
 *
 * A port may be lost and attached again: the remote end then sends the state of each of its rings,
 * and the rest is sent again from the rings, through any connected port. Bytes that a lost port or
 * another port delivers late have already arrived and are discarded. A rank that leaves takes its
 * rings along, so before it leaves it asks whether everything has arrived.
 *
 * A malformed frame ends the pump with a sentence; none can lead outside of a slot. No call waits,
 * and each does a bounded amount of work. Not thread-safe: the caller has a lock.
 */
#ifndef DF_TRANSPORTS_NET_PUMP_PUMP_H
#define DF_TRANSPORTS_NET_PUMP_PUMP_H

#include "transports/watch.h"
#include "transports/net/pump/channel.h"
#include "transports/net/pump/pump_links.h"

#if defined(DF_SIMULATION) /* several frames a message in the simulation, too */
enum { DF_PUMP_FRAME_BYTES = 24 };
#else
enum { DF_PUMP_FRAME_BYTES = 64 << 10 /* a payload that stays in a private cache */ };
#endif
enum {
  DF_PUMP_SMALL, /* the port of small messages; of all messages, if it is the only one */
  DF_PUMP_BULK,  /* the first port of large messages */
  DF_NET_PATHS_MOST = 4,
  DF_PUMP_PORTS_MOST = DF_PUMP_BULK + DF_NET_PATHS_MOST,
  DF_PUMP_BUDGET =
      /* writes of a port in one call; reads are limited to as many times the bytes of one write */
  4,
  DF_PUMP_REASON_BYTES = 160
};

typedef struct df_pump_port {
  df_channel channel;
  df_frame frame;       /* the frame whose payload is being read */
  uint32_t rest;        /* bytes of the payload that have not arrived */
  df_pump_link *target; /* receives the payload; NULL: the payload is discarded */
  uint64_t sequence;
  uint8_t *there;
  const char *why;   /* reason why the stream has ended; NULL: it has not */
  uint32_t asked;    /* number of this port's DF_FRAME_ASK; 0: not asked */
  uint32_t question; /* number of the question that the remote end asked; 0: none */
  uint32_t answered; /* the latest question that was answered; 0: none */
  int has_arrived;   /* everything that was sent before the question has arrived */
} df_pump_port;

typedef struct df_pump {
  df_pump_links links;
  df_pump_port ports[DF_PUMP_PORTS_MOST];
  uint32_t n_ports; /* ports that were made, connected or not */
  uint32_t frame_bytes;
  uint64_t lend_min;             /* messages of at least this size may be lent; 0 (as made): all */
  const df_message_watch *watch; /* NULL (as made): no watch */
  uint32_t turn;
  uint32_t quickest;      /* the port for the next frame of a large message */
  uint64_t quickest_sent; /* value of bytes_sent at which ports are compared again */
  df_bell *noted;         /* a bell to ring at the end of receiving */
  uint32_t asks;          /* questions asked so far */
  int has_question;       /* a port has a question to be answered */
  int says_leave;         /* 1: the goodbye has to be sent, 2: it was sent */
  int remote_leaves;
  int stopped_early; /* the latest df_pump_send stopped early: call it again */
  int is_lost;
  char reason[DF_PUMP_REASON_BYTES];
} df_pump;

/* frame_bytes: the same at both ends. */
dfcclResult_t df_pump_make(df_pump **pump, uint32_t frame_bytes);
/* Frees the pump and its links. Streams stay with the caller. */
void df_pump_free(df_pump *pump);

/* Adds the next port; the first is DF_PUMP_SMALL. Fails with dfcclOutOfMemory. */
dfcclResult_t df_pump_add_port(df_pump *pump);
/* Attaches a connected stream; an earlier stream of this port is detached. */
void df_pump_attach(df_pump *pump, uint32_t port, df_stream *stream);
void df_pump_detach(df_pump *pump, uint32_t port);

/* Returns 1 if more than a small packet was delivered, or received, through the attached stream. */
int df_pump_has_delivered(df_pump *pump, uint32_t port);

/* Adds an incoming link. Its rings have not been written to. The id of the link goes to the remote
 * end. */
dfcclResult_t df_pump_accept(df_pump *pump, const df_pump_route *route, df_pump_link **link);
/* Adds an outgoing link. remote_id, remote_slots: from the df_pump_accept of the remote end. The
 * local rings have as many slots, because gaps for empty messages, and credits for several
 * messages, depend on that number. */
dfcclResult_t df_pump_connect(df_pump *pump, const df_pump_route *route, uint32_t remote_id,
                              uint32_t remote_slots, df_pump_link **link);
/* Removes the link; its rings are not accessed any more. Bytes that still arrive for them are
 * discarded. */
void df_pump_release(df_pump *pump, df_pump_link *link);

/* Reads the stream of the port. Returns 1 when something arrived. */
int df_pump_receive(df_pump *pump, uint32_t port);
/* Returns 1 when the streams accepted something. 0: wait until a stream is ready, or a block
 * publishes or releases. */
int df_pump_send(df_pump *pump);
/* Notifies the watches of an event of a message. */
static inline void df_pump_notify_watch(const df_pump *pump, df_watch_event what,
                                        const df_pump_link *link, uint32_t block, uint64_t sequence,
                                        uint32_t bytes) {
  if (DF_LIKELY(pump->watch == NULL)) return;
  const df_watched_message message = {.ring = link->rings[block].end.slots,
                                      .collective = link->collective,
                                      .sequence = sequence,
                                      .peer = link->peer,
                                      .block = block,
                                      .bytes = bytes,
                                      .is_sent = !link->incoming};
  for (const df_message_watch *watch = pump->watch; watch; watch = watch->next)
    watch->report(watch->who, what, &message);
}
/* Rings the bell that receiving has noted. */
void df_pump_ring_peers(df_pump *pump);

/* Returns 1 if something waits for a stream, or would be sent. */
int df_pump_has_pending(df_pump *pump);
/* Nothing more is published or released. Asks the remote end first, and says goodbye when
 * everything that was sent has arrived: bytes written to a connection that breaks or is refused may
 * never arrive. */
void df_pump_leave(df_pump *pump);
static inline int df_pump_has_left(const df_pump *pump) { return pump->says_leave == 2; }

#endif
