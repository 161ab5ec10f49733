#include "base/result.h"

#include <stdio.h>

#include "base/log.h"

static _Thread_local char thread_sentence[DF_SENTENCE_BYTES] = "no error";

/* Values of environment variables and texts of peers could otherwise forge lines of a log. */
static void keep_on_one_line(char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

dfcclResult_t df_fail(dfcclResult_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(thread_sentence, sizeof thread_sentence, format, arguments);
  va_end(arguments);
  keep_on_one_line(thread_sentence);
  df_log(DF_LOG_WARN, "%s: %s", df_result_name(code), thread_sentence);
  return code;
}

dfcclResult_t df_fail_again(dfcclResult_t code, const char *sentence) {
  snprintf(thread_sentence, sizeof thread_sentence, "%s", sentence);
  keep_on_one_line(thread_sentence);
  return code;
}

const char *df_last_sentence(void) { return thread_sentence; }

const char *df_result_name(dfcclResult_t code) {
  switch (code) {
#define X(name, text)                                                                              \
  case name:                                                                                       \
    return #name;
    DF_RESULT_MAP(X)
#undef X
  }
  return "unknown result code";
}

const char *dfcclGetErrorString(dfcclResult_t code) {
  switch (code) {
#define X(name, text)                                                                              \
  case name:                                                                                       \
    return text;
    DF_RESULT_MAP(X)
#undef X
  }
  return "unknown result code";
}
