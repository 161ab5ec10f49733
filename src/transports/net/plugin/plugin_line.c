#include "transports/net/plugin/plugin_line.h"

#include <string.h>

enum { MAGIC = 0x0fe9dfcc };

void df_plugin_flush(df_plugin_line *line) {
  while (line->out_at != line->out_end) {
    const df_stream_part part = {line->out + line->out_at, line->out_end - line->out_at};
    const int64_t taken = line->line->write(line->line, &part, 1);
    if (taken <= 0) return; /* reading meets the end */
    line->out_at += (uint32_t)taken;
  }
  line->out_at = line->out_end = 0;
}

int df_plugin_say(df_plugin_line *line, df_plugin_saying kind, uint32_t count, const void *bytes,
                  uint32_t n_bytes) {
  const df_plugin_word word = {
      .kind = (uint32_t)kind, .count = count, .bytes = n_bytes, .magic = MAGIC};
  if (line->out_at) memmove(line->out, line->out + line->out_at, line->out_end - line->out_at);
  line->out_end -= line->out_at;
  line->out_at = 0;
  if (line->out_end + sizeof word + n_bytes > sizeof line->out) return 0;
  memcpy(line->out + line->out_end, &word, sizeof word);
  if (n_bytes) memcpy(line->out + line->out_end + sizeof word, bytes, n_bytes);
  line->out_end += (uint32_t)sizeof word + n_bytes;
  df_plugin_flush(line);
  return 1;
}

/* Returns 1 when `most` bytes of the word have come. */
static int handle_to(df_plugin_line *line, uint32_t most) {
  while (line->heard < most) {
    const uint32_t head = sizeof line->word;
    const df_stream_room room =
        line->heard < head
            ? (df_stream_room){(uint8_t *)&line->word + line->heard, head - line->heard}
            : (df_stream_room){line->in + line->heard - head, most - line->heard};
    const int64_t came = line->line->read(line->line, &room, 1);
    if (came <= 0) return came < 0 ? DF_STREAM_ENDED : 0;
    line->heard += (uint32_t)came;
  }
  return 1;
}

static int is_sound(const df_plugin_word *word) {
  if (word->magic != MAGIC || word->kind < 1 || word->kind >= DF_PLUGIN_SAYS_END) return 0;
  if (word->kind == DF_PLUGIN_SAYS_HANDLE) return word->bytes == sizeof(df_plugin_telling);
  return word->bytes <= (word->kind == DF_PLUGIN_SAYS_FAILED ? DF_PLUGIN_TEXT_MOST : 0);
}

int df_plugin_on_readable(df_plugin_line *line) {
  int came = handle_to(line, sizeof line->word);
  if (came != 1) return came;
  if (!is_sound(&line->word)) return DF_STREAM_REFUSED;
  came = handle_to(line, (uint32_t)sizeof line->word + line->word.bytes);
  if (came != 1) return came;
  line->in[line->word.bytes] = '\0';
  line->heard = 0;
  return 1;
}
