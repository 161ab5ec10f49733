#include "bootstrap/rendezvous/root_client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"

/* Returns the length of the message if its type is due, otherwise 0. */
static size_t due_bytes(const df_caller *caller) {
  const df_header *header = &caller->in.header;
  switch (caller->stage) {
  case DF_CALLER_NEW:
    /* A HELLO of another version has the same format: the root answers with its own version. */
    if (header->type == DF_MESSAGE_HELLO && df_header_is_foreign(header)) return sizeof(df_hello);
    return df_header_is(header, DF_MESSAGE_HELLO, sizeof(df_hello)) ? sizeof(df_hello) : 0;
  case DF_CALLER_PROVEN:
    return df_header_is(header, DF_MESSAGE_JOIN, sizeof(df_join_request)) ? sizeof(df_join_request)
                                                                          : 0;
  case DF_CALLER_JOINED:
  case DF_CALLER_DECIDED: /* DONE may cross with FAILURE */
    if (df_header_is(header, DF_MESSAGE_PLACE, sizeof(df_place))) return sizeof(df_place);
    if (df_header_is(header, DF_MESSAGE_DONE, sizeof(df_signal))) return sizeof(df_signal);
    break;
  case DF_CALLER_MESHED:
    break;
  }
  return df_header_is(header, DF_MESSAGE_LEAVE, sizeof(df_refusal)) ? sizeof(df_refusal) : 0;
}

df_caller_event df_caller_read(df_caller *caller) {
  size_t want = sizeof(df_header);
  for (;;) {
    if (caller->in_used >= sizeof(df_header)) {
      want = due_bytes(caller);
      if (want == 0) return DF_CALLER_NONSENSE;
      if (caller->in_used == want) return DF_CALLER_MESSAGE;
    }
    DF_ASSERT(want <= sizeof caller->in.bytes);
    ssize_t got = recv(caller->fd, caller->in.bytes + caller->in_used, want - caller->in_used, 0);
    if (got > 0) {
      caller->in_used += (size_t)got;
    } else if (got == 0) {
      return DF_CALLER_GONE;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return DF_CALLER_NOTHING;
    } else if (errno != EINTR) {
      return DF_CALLER_GONE;
    }
  }
}

void df_caller_queue(df_caller *caller, const void *message, size_t bytes) {
  DF_ASSERT(bytes <= sizeof caller->out - caller->out_used);
  memcpy(caller->out + caller->out_used, message, bytes);
  caller->out_used += bytes;
}

/* A sent message makes room in the buffer; otherwise NEWS would fill it eventually. */
void df_caller_queue_news(df_caller *caller, const void *message, size_t bytes) {
  DF_ASSERT(!df_caller_has_output(caller));
  caller->out_used = caller->out_sent = 0;
  df_caller_queue(caller, message, bytes);
}

void df_caller_queue_bulk(df_caller *caller, const void *records, size_t bytes) {
  DF_ASSERT(caller->bulk == NULL);
  caller->bulk = records;
  caller->bulk_bytes = bytes;
  caller->bulk_at = caller->out_used;
}

bool df_caller_has_output(const df_caller *caller) {
  return caller->out_sent < caller->out_used || caller->bulk_sent < caller->bulk_bytes;
}

bool df_caller_flush(df_caller *caller) {
  while (df_caller_has_output(caller)) {
    bool bulk_left = caller->bulk_sent < caller->bulk_bytes;
    bool bulk_now = bulk_left && caller->out_sent == caller->bulk_at;
    size_t end = bulk_left ? caller->bulk_at : caller->out_used;
    const unsigned char *from =
        bulk_now ? caller->bulk + caller->bulk_sent : caller->out + caller->out_sent;
    size_t bytes = bulk_now ? caller->bulk_bytes - caller->bulk_sent : end - caller->out_sent;
    ssize_t sent = send(caller->fd, from, bytes, MSG_NOSIGNAL);
    if (sent >= 0) {
      *(bulk_now ? &caller->bulk_sent : &caller->out_sent) += (size_t)sent;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}
