/* JSON files from outside: loaded whole within a limit, and every diagnostic names file, key path
 * and value. All functions return dfcclInvalidArgument for bad input, dfcclSystemError for a file
 * that cannot be read, or dfcclOutOfMemory; df_fail keeps the sentence. */
#ifndef DF_TRACES_JSON_INPUT_H
#define DF_TRACES_JSON_INPUT_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "base/result.h"

typedef struct df_json_block df_json_block;

/* A parsed file: its value, and the memory that all its values are in. */
typedef struct {
  const cJSON *root;
  df_json_block *blocks;
} df_json;

/* Reads the JSON object in file, at most max_bytes long. Freed with df_json_destroy, never with
 * cJSON_Delete. One thread at a time parses. */
dfcclResult_t df_json_load(df_json *json, const char *file, uint64_t max_bytes);

/* The same for text in memory; file is the name used in sentences. */
dfcclResult_t df_json_parse(df_json *json, const char *file, const char *text, size_t bytes);

/* The same for any JSON value. Objects one after the other, as in files of JSON lines, become an
 * array; df_json_object_line is the line where such an object begins. */
dfcclResult_t df_json_load_any(df_json *json, const char *file, uint64_t max_bytes);
dfcclResult_t df_json_parse_any(df_json *json, const char *file, const char *text, size_t bytes);
void df_json_destroy(df_json *json);

/* Reads a file as text, for df_json_parse and df_json_line. The caller frees *text. */
dfcclResult_t df_json_read_text(const char *file, uint64_t max_bytes, char **text, size_t *bytes);
/* The line on which a value of the parsed text begins. */
size_t df_json_line(const df_json *json, const char *text, size_t bytes, const cJSON *value);
/* The line of an object among objects one after the other. */
static inline uint64_t df_json_object_line(const cJSON *object) {
  return (uint64_t)object->valueint;
}

/* Fails if two members of object have the same key. path is "" for the outermost object. */
dfcclResult_t df_json_reject_duplicates(const char *file, const char *path, const cJSON *object);

/* A whole number from low to high (both at most 2^53). */
dfcclResult_t df_json_whole(const char *file, const char *path, const cJSON *value, int64_t low,
                            int64_t high, int64_t *out);

/* A number from 0 up to 1; 1 itself only if one_allowed. */
dfcclResult_t df_json_probability(const char *file, const char *path, const cJSON *value,
                                  int one_allowed, double *out);

/* One of count words; *out is its index. */
dfcclResult_t df_json_word(const char *file, const char *path, const cJSON *value,
                           const char *const *words, int count, int *out);

enum { DF_JSON_SHOWN_BYTES = 80 };

/* A value, or any text, as a short printable piece of a sentence; returns buffer. */
const char *df_json_show(const cJSON *value, char buffer[DF_JSON_SHOWN_BYTES]);
const char *df_show_text(const char *text, char buffer[DF_JSON_SHOWN_BYTES]);

#endif
