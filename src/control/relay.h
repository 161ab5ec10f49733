/*
 * Messages that pass relays (bootstrap/routes.h). One is given to the next rank of its way with a list
 * of those for whom it is; each relay hands it to those of its host, and on to the next relays.
 * Between two ranks messages keep their order. All [lock].
 */
#ifndef DF_CONTROL_RELAY_H
#define DF_CONTROL_RELAY_H

#include "control/post.h"

/* ranks: other hosts', behind relays. Copies message and payload. Without memory the service thread
 * tells the owner. */
void df_relay_send(df_control *control, const uint32_t *ranks, uint32_t n,
                   const df_message *message, const void *payload);
/* Before the service thread starts. */
void df_relay_open(df_control *control);
/* Others whose messages pass this rank may be there still. */
int df_relay_is_needed(const df_control *control);
/* A relay that has left stays until all have said goodbye, too. Meanwhile it passes messages on, and
 * tells who dies. */
static inline int df_relay_outlives_goodbye(const df_control *control, df_message_kind kind) {
  return control->routes &&
         (kind == DF_MESSAGE_RELAYED || kind == DF_MESSAGE_BYE || kind == DF_MESSAGE_LOST);
}
/* This rank waits in its goodbye, and has lost `rank`. */
void df_relay_tell_lost(df_control *control, uint32_t rank, const char *why);
/* The rank has left, or is lost to a rank that waits in its goodbye: so are those behind it. Of a
 * relay that is lost earlier the owner knows what it means. */
void df_relay_leave_those_behind(df_control *control, uint32_t relay);

#endif
