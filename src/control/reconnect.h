/*
 * A channel whose connection is lost gets another one. Whoever made the pair's first connection calls
 * again (df_reconnector, of the transport that listens at this rank's doors); messages wait
 * meanwhile. A rank whose host refuses calls has died, and a channel that has no connection for too
 * long cannot be reached: then the owner is told that the peer is lost. Service thread, with the
 * lock, but for df_resume_arrived. */
#ifndef DF_CONTROL_RECONNECT_H
#define DF_CONTROL_RECONNECT_H

#include "control/messenger.h"

/* The channel's connection has ended. error: an errno value, or 0. 0: it will have no other one. */
int df_resume_begin(df_control *control, uint32_t rank, int error);
/* Something has come over the channel. */
void df_resume_heard(df_control *control, uint32_t rank);
/* The rank is given up. */
void df_resume_end(df_control *control, uint32_t rank);

/* Any thread. A connection that has proven itself, and its key. Takes fd. 0: no memory; fd stays
 * the caller's. */
int df_resume_arrived(df_control *control, uint32_t rank, int fd,
                      const unsigned char key[DF_REMOTE_CHANNEL_KEY]);
/* Puts what has arrived in its place. */
void df_resume_take(df_control *control);

/* 1: `rank`'s channel is lost for good; what to say, as errno: ECONNREFUSED, ETIMEDOUT. */
int df_resume_is_vain(df_control *control, uint32_t rank, int *error);
/* Until channels without a connection are to be looked at; -1: there are none. */
int df_resume_tick_ms(const df_control *control);

void df_resume_close(df_control *control);

#endif
