/* Promise of src/base/escape.c: the escaped text has one line and is cut where it no longer fits,
 * and no escape is cut in two. */
#include "base/escape.h"

#include <string.h>

#include "support/harness.h"

static void expect(const char *text, size_t bytes, const char *expected) {
  char escaped[64];
  memset(escaped, '#', sizeof escaped);
  df_escape(escaped, bytes, text);
  CHECK(strcmp(escaped, expected) == 0, "\"%s\" is not \"%s\"", escaped, expected);
  CHECK(escaped[bytes] == '#', "written beyond %zu bytes", bytes);
}

DF_TEST(escape, printable_text_is_unchanged, 30) {
  expect("", 8, "");
  expect("layer 3/grad", 32, "layer 3/grad");
  expect("gr\xc3\xbc\xc3\x9f", 32, "gr\xc3\xbc\xc3\x9f");
  expect("a \"b\"", 32, "a \"b\"");
}

DF_TEST(escape, control_characters_become_escapes, 30) {
  expect("a\nb\tc\rd\\n", 32, "a\\nb\\tc\\rd\\\\n");
  expect("\x1b[31m\x7f", 32, "\\x1b[31m\\x7f");
}

DF_TEST(escape, text_that_does_not_fit_is_left_out, 30) {
  expect("abcdef", 4, "abc");
  expect("ab\ncd", 4, "ab");
  expect("ab\ncd", 5, "ab\\n");
  expect("abc", 1, "");
}
