/*
 * A line: control messages to and from a rank of another host, over TCP, always encrypted, since
 * keys of other connections go over it. A record is a length of 4 bytes, the message, and a tag of
 * 16; its number is the nonce. Nothing waits.
 */
#ifndef DF_CONTROL_LINE_H
#define DF_CONTROL_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

enum { DF_LINE_KEY = 32, DF_LINE_LENGTH = 4, DF_LINE_OVERHEAD = DF_LINE_LENGTH + 16 };

typedef struct df_line {
  unsigned char send_key[DF_LINE_KEY], receive_key[DF_LINE_KEY];
  uint64_t sent, received; /* records */
  uint8_t head[DF_LINE_LENGTH];
  uint8_t *record; /* that has begun to come; else NULL */
  uint32_t record_bytes, have;
} df_line;

/* key: of this pair of ranks. NULL: no memory. */
df_line *df_line_open(const unsigned char key[DF_LINE_KEY], uint32_t rank, uint32_t peer);
/* Also of NULL. */
void df_line_close(df_line *line);

/* Writes bytes + DF_LINE_OVERHEAD. Records must be sent in the order of these calls. */
void df_line_seal(df_line *line, const void *message, size_t bytes, uint8_t *record);

typedef enum {
  DF_LINE_MESSAGE,
  DF_LINE_NOTHING,
  DF_LINE_ENDED,   /* *error: an errno value; 0: the other end closed it */
  DF_LINE_NONSENSE /* not sealed with the key, or too long */
} df_line_event;

/* At most one message, of DF_MAX_MESSAGE_BYTES at most. ENDED also without memory. */
df_line_event df_line_read(df_line *line, int socket, uint8_t *message, size_t *bytes, int *error);

#endif
