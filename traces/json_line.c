#include <stdbool.h>
#include <string.h>

#include "json_input.h"

/* Values are counted in the order of the text, which is that of the tree: a value before its
 * members. cJSON keeps no positions. */
static bool count_up_to(const cJSON *value, const cJSON *sought, size_t *count) {
  for (; value; value = value->next) {
    if (value == sought) return true;
    ++*count;
    if (count_up_to(value->child, sought, count)) return true;
  }
  return false;
}

static size_t skip_string(const char *text, size_t bytes, size_t at) {
  for (at++; at < bytes && text[at] != '"'; at++)
    if (text[at] == '\\') at++;
  return at + 1;
}

/* Whether the next character that is no space is a colon: then the string before it is a key. */
static bool is_key(const char *text, size_t bytes, size_t at) {
  while (at < bytes && strchr(" \t\r\n", text[at])) at++;
  return at < bytes && text[at] == ':';
}

size_t df_json_line(const df_json *json, const char *text, size_t bytes, const cJSON *value) {
  size_t sought = 0, count = 0, line = 1;
  count_up_to(json->root, value, &sought);
  for (size_t at = 0; at < bytes;) {
    const char c = text[at];
    if (c == '\n') line++;
    if (strchr(" \t\r\n:,]}", c)) {
      at++;
      continue;
    }
    const size_t end = c == '"' ? skip_string(text, bytes, at) : at + 1;
    if ((c != '"' || !is_key(text, bytes, end)) && count++ == sought) return line;
    at = end;
    while (c != '"' && c != '[' && c != '{' && at < bytes && !strchr(" \t\r\n:,]}", text[at])) at++;
  }
  return line;
}
