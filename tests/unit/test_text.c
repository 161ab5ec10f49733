/*
 * Promises of src/base/text.c: text is cut at its buffer's end, never written beyond it, and ends
 * with a zero. Digits are a number exactly if it is at most the given maximum. A misspelt word has
 * a nearest word only if few characters differ.
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

static void expect_nearest(const char *text, const char *wanted) {
  static const char *const words[] = {"sort", "output", "json", "in-place", "b"};
  const char *got = df_nearest_word(text, strlen(text), words, 5);
  CHECK(wanted ? got && strcmp(got, wanted) == 0 : !got, "\"%s\": %s", text, got ? got : "none");
}

DF_TEST(text, nearest_word, 30) {
  expect_nearest("sort", "sort");
  expect_nearest("srt", "sort");
  expect_nearest("outptu", "output");
  expect_nearest("inplace", "in-place");
  expect_nearest("in_place", "in-place");
  expect_nearest("jsonn", "json");
  expect_nearest("sotr", "sort");
  expect_nearest("kilo", NULL);
  expect_nearest("placements", NULL);
  expect_nearest("x", NULL);
  expect_nearest("", NULL);
  char longest[200];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  expect_nearest(longest, NULL);
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
