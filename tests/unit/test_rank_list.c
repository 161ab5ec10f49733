/*
 * Promises of src/bootstrap/net/rank_list.h:
 *   - The text names exactly the chosen ranks, as ranges where they adjoin.
 *   - It never exceeds its buffer; ranks that do not fit are counted.
 */
#include "bootstrap/net/rank_list.h"

#include <stdio.h>
#include <string.h>

#include "support/harness.h"

static void check_text(const char *chosen, const char *expected) {
  unsigned char flags[64] = {0};
  char text[DF_RANK_LIST_BYTES];
  int n = (int)strlen(chosen);
  for (int i = 0; i < n; i++) flags[i] = chosen[i] == 'x';
  df_rank_list(text, sizeof text, flags, n);
  CHECK(strcmp(text, expected) == 0, "\"%s\": \"%s\" instead of \"%s\"", chosen, text, expected);
}

DF_TEST(rank_list, names_exactly_the_chosen, 10) {
  check_text("", "no rank");
  check_text("..", "no rank");
  check_text("x", "rank 0");
  check_text("...x", "rank 3");
  check_text("xx", "ranks 0-1");
  check_text("x.x", "ranks 0 and 2");
  check_text("xxx.x.xx", "ranks 0-2, 4 and 6-7");
}

DF_TEST(rank_list, counts_ranks_that_do_not_fit, 10) {
  unsigned char flags[1024];
  char text[80];
  for (int i = 0; i < 1024; i++) flags[i] = i % 2 == 0;
  for (size_t room = 32; room <= sizeof text; room++) {
    memset(text, '#', sizeof text);
    df_rank_list(text, room, flags, 1024);
    CHECK(memchr(text, '\0', room) != NULL, "no end within %zu bytes", room);
    CHECK(strstr(text, " more") != NULL, "%s", text);
    int named = 0, more = 0;
    for (const char *c = text; (c = strpbrk(c, " ")) != NULL; c++)
      named += c[1] >= '0' && c[1] <= '9';
    CHECK(sscanf(strstr(text, "and "), "and %d more", &more) == 1, "%s", text);
    CHECK(named - 1 + more == 512, "%d named and %d more: %s", named - 1, more, text);
  }
}
