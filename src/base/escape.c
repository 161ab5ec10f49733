#include "base/escape.h"

#include <stdio.h>
#include <string.h>

void df_escape(char *to, size_t bytes, const char *text) {
  static const char plain[] = "\n\r\t\\", letters[] = "nrt\\";
  size_t at = 0;
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    const char *known = strchr(plain, c);
    char piece[8];
    if (known)
      snprintf(piece, sizeof piece, "\\%c", letters[known - plain]);
    else
      snprintf(piece, sizeof piece, c < 0x20 || c == 0x7f ? "\\x%02x" : "%c", c);
    size_t length = strlen(piece);
    if (at + length >= bytes) break;
    memcpy(to + at, piece, length);
    at += length;
  }
  to[at] = 0;
}
