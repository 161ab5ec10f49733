/*
 * A control channel that has lost its connection gets another one. The rank that made the first
 * connection of the pair calls again (df_reconnector, implemented by the transport that listens at
 * this rank's listeners); messages wait meanwhile. A rank whose host refuses calls has died. A
 * channel that has no connection for too long cannot be reached. In both cases the owner is
 * notified that the peer is lost. All functions but df_resume_arrived run in the service thread,
 * with the lock of the rank.
 */
#ifndef DF_CONTROL_RECONNECT_H
#define DF_CONTROL_RECONNECT_H

#include "control/messenger.h"

/* The connection of the channel has ended. error: an errno value, or 0. Returns 0 if the channel
 * will not get another connection. */
int df_resume_begin(df_control *control, uint32_t rank, int error);
/* A record has arrived on the channel. */
void df_resume_received(df_control *control, uint32_t rank);
/* The caller gives the rank up. */
void df_resume_end(df_control *control, uint32_t rank);

/* Any thread. Passes a connection whose other end has proven its identity, and its key, to the
 * service thread. Takes ownership of fd. Returns 0 if there is no memory; fd then stays with the
 * caller. */
int df_resume_arrived(df_control *control, uint32_t rank, int fd,
                      const unsigned char key[DF_REMOTE_CHANNEL_KEY]);
/* Attaches the connections that have arrived to their channels. */
void df_resume_take(df_control *control);

/* Returns 1 if the channel to `rank` is lost for good. *error is the errno value to report:
 * ECONNREFUSED or ETIMEDOUT. */
int df_resume_has_failed(df_control *control, uint32_t rank, int *error);
/* Time until channels without a connection have to be checked again; -1: all channels have a
 * connection. */
int df_resume_tick_ms(const df_control *control);

void df_resume_close(df_control *control);

#endif
