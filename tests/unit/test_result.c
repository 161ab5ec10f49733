/*
 * Promises of src/base/result.c: each result code has a name and a sentence of its own, and an
 * unknown code has one too. Each thread keeps the sentence of its own latest failure, on one line.
 */
#include "base/result.h"

#include <pthread.h>
#include <string.h>

#include "support/harness.h"

enum { CODES = dfcclOutOfMemory + 1 };

DF_TEST(result, each_code_has_its_own_name_and_sentence, 30) {
  for (int i = 0; i < CODES; i++) {
    const char *name = df_result_name((dfcclResult_t)i);
    CHECK(strncmp(name, "dfccl", 5) == 0, "code %d is called \"%s\"", i, name);
    for (int k = 0; k < i; k++) {
      CHECK(strcmp(name, df_result_name((dfcclResult_t)k)) != 0, "%d is called as %d", i, k);
      CHECK(strcmp(dfcclGetErrorString((dfcclResult_t)i), dfcclGetErrorString((dfcclResult_t)k)) !=
                0,
            "%d is explained as %d", i, k);
    }
  }
  CHECK(strcmp(df_result_name(dfcclTimeout), "dfcclTimeout") == 0, "%s",
        df_result_name(dfcclTimeout));
}

DF_TEST(result, unknown_codes_have_a_name_too, 30) {
  for (int i = -1; i <= CODES; i += CODES + 1) {
    CHECK(strstr(df_result_name((dfcclResult_t)i), "unknown") != NULL, "%d has a name", i);
    CHECK(strstr(dfcclGetErrorString((dfcclResult_t)i), "unknown") != NULL, "%d is explained", i);
  }
}

static void *fail_in_a_thread(void *unused) {
  (void)unused;
  CHECK(strcmp(df_last_sentence(), "no error") == 0, "at first: \"%s\"", df_last_sentence());
  CHECK(df_fail(dfcclTimeout, "%d of %s", 7, "them") == dfcclTimeout, "another code");
  CHECK(strcmp(df_last_sentence(), "7 of them") == 0, "\"%s\"", df_last_sentence());
  return NULL;
}

DF_TEST(result, each_thread_keeps_its_latest_sentence, 30) {
  pthread_t thread;
  df_fail(dfcclAborted, "the first");
  df_fail(dfcclAborted, "the second");
  CHECK(pthread_create(&thread, NULL, fail_in_a_thread, NULL) == 0, "no thread");
  pthread_join(thread, NULL);
  CHECK(strcmp(df_last_sentence(), "the second") == 0, "\"%s\"", df_last_sentence());
}

DF_TEST(result, sentences_stay_on_one_line, 30) {
  df_fail(dfcclAborted, "it is \"%s\"", "a\nrank 7: all is well\x1b[2J\x7f");
  CHECK(strcmp(df_last_sentence(), "it is \"a?rank 7: all is well?[2J?\"") == 0, "\"%s\"",
        df_last_sentence());
}
