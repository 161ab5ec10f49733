/*
 * Promises of src/base/text.c: text is cut at its buffer's end, never written beyond it, and ends
 * with a zero. Digits are a number exactly if it is at most the given maximum.
 */
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#include "support/harness.h"

DF_TEST(text, is_cut_at_the_end, 30) {
  for (size_t bytes = 0; bytes <= 12; bytes++) {
    char buffer[16];
    memset(buffer, 'x', sizeof buffer);
    df_text text = {.at = buffer, .left = bytes};
    df_say(&text, "%s-%d", "abc", 12);
    df_say(&text, "def");
    CHECK(buffer[bytes] == 'x', "written beyond %zu bytes", bytes);
    if (bytes == 0) continue;
    CHECK(strlen(buffer) == (bytes > 9 ? 9 : bytes - 1), "%zu characters of %zu", strlen(buffer),
          bytes);
    CHECK(strncmp(buffer, "abc-12def", bytes - 1) == 0, "\"%s\"", buffer);
  }
}

static void is_number(const char *text, uint64_t most, uint64_t number, char after) {
  uint64_t read = 77;
  const char *end = NULL;
  CHECK(df_read_digits(text, most, &read, &end) && read == number && *end == after,
        "\"%s\" of at most %" PRIu64 " is %" PRIu64, text, most, read);
}

static void is_none(const char *text, uint64_t most) {
  uint64_t read;
  const char *end;
  CHECK(!df_read_digits(text, most, &read, &end), "\"%s\" of at most %" PRIu64, text, most);
}

DF_TEST(text, digits, 30) {
  is_number("0", 0, 0, '\0');
  is_number("007K", 7, 7, 'K');
  is_number("65535", 65535, 65535, '\0');
  is_number("18446744073709551615", UINT64_MAX, UINT64_MAX, '\0');
  is_number("12-3", UINT64_MAX, 12, '-');
  is_none("", 9);
  is_none("-1", 9);
  is_none(" 1", 9);
  is_none("8", 7);
  is_none("65536", 65535);
  is_none("18446744073709551616", UINT64_MAX);
  is_none("99999999999999999999", UINT64_MAX);
}
