#include "json_input.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "trace_limits.h"

/* A million events are millions of values. They are carved from blocks, which are given back whole,
 * and large blocks are asked for as huge pages: with one allocation and one small page at a time
 * the page faults alone would take longer than parsing. */
struct df_json_block {
  df_json_block *before;
  size_t bytes, used;
};

enum { FIRST_BLOCK_BYTES = 65536, ALIGNMENT = 16 };
static const size_t largest_block_bytes = (size_t)64 << 20, huge_page_bytes = (size_t)2 << 20;

static df_json_block *parsing; /* the newest block of the file being parsed */
static uint64_t parsing_bytes; /* bytes of all its blocks */
static bool parsing_failed;

static void *carve(size_t bytes) {
  size_t header = DF_ALIGN_UP(sizeof(df_json_block), ALIGNMENT);
  bytes = DF_ALIGN_UP(bytes, ALIGNMENT);
  if (!parsing || parsing->bytes - parsing->used < bytes) {
    size_t next = parsing ? DF_MIN(2 * parsing->bytes, largest_block_bytes) : FIRST_BLOCK_BYTES;
    next = DF_MAX(next, DF_ALIGN_UP(bytes + header, FIRST_BLOCK_BYTES));
    void *block_memory = MAP_FAILED;
    if (next <= DF_TRACE_MAX_VALUE_BYTES - parsing_bytes)
      block_memory = mmap(NULL, next, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block_memory == MAP_FAILED) {
      parsing_failed = true;
      return NULL;
    }
    parsing_bytes += next;
    df_json_block *block = block_memory;
    if (next >= huge_page_bytes) madvise(block, next, MADV_HUGEPAGE); /* only a hint */
    *block = (df_json_block){parsing, next, header};
    parsing = block;
  }
  void *carved = (char *)parsing + parsing->used;
  parsing->used += bytes;
  return carved;
}

static void keep(void *memory) { (void)memory; }

static void free_blocks(df_json_block *block) {
  while (block) {
    df_json_block *before = block->before;
    munmap(block, block->bytes);
    block = before;
  }
}

void df_json_destroy(df_json *json) {
  free_blocks(json->blocks);
  *json = (df_json){0};
}

/* cJSON_ParseWithLengthOpts with all memory in json->blocks. */
static const cJSON *parse_in_blocks(df_json *json, const char *text, size_t bytes,
                                    const char **end) {
  cJSON_Hooks hooks = {carve, keep};
  parsing = NULL;
  parsing_bytes = 0;
  parsing_failed = false;
  cJSON_InitHooks(&hooks);
  json->root = cJSON_ParseWithLengthOpts(text, bytes, end, false);
  cJSON_InitHooks(NULL);
  json->blocks = parsing;
  return json->root;
}

/* Parses objects one after the other into an array. Each has the number of its line in valueint,
 * which cJSON uses for numbers only. Returns where parsing ended: at the end of the text, or at a
 * mistake. */
static size_t parse_lines_in_blocks(df_json *json, const char *text, size_t bytes) {
  cJSON_Hooks hooks = {carve, keep};
  size_t at = 0;
  int line = 1;
  parsing = NULL;
  parsing_bytes = 0;
  parsing_failed = false;
  cJSON_InitHooks(&hooks);
  cJSON *list = cJSON_CreateArray();
  while (list) {
    for (; at < bytes && strchr(" \t\r\n", text[at]); at++) line += text[at] == '\n';
    if (at == bytes) break;
    const char *end = text + at;
    cJSON *object = cJSON_ParseWithLengthOpts(text + at, bytes - at, &end, false);
    if (object && !cJSON_IsObject(object)) break;
    const size_t stopped = DF_MIN((size_t)(end - text), bytes);
    if (object) {
      object->valueint = line;
      cJSON_AddItemToArray(list, object);
    }
    for (; at < stopped; at++) line += text[at] == '\n';
    if (!object) break;
  }
  cJSON_InitHooks(NULL);
  json->root = list;
  json->blocks = parsing;
  return list ? at : 0;
}

const char *df_show_text(const char *text, char buffer[DF_JSON_SHOWN_BYTES]) {
  size_t used = 0;
  for (; *text && used < DF_JSON_SHOWN_BYTES - 8; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte < 0x20 || byte == 0x7f)
      used += (size_t)snprintf(buffer + used, DF_JSON_SHOWN_BYTES - used, "\\x%02x", byte);
    else
      buffer[used++] = *text;
  }
  snprintf(buffer + used, DF_JSON_SHOWN_BYTES - used, "%s", *text ? "..." : "");
  return buffer;
}

const char *df_json_show(const cJSON *value, char buffer[DF_JSON_SHOWN_BYTES]) {
  if (cJSON_IsNumber(value)) {
    snprintf(buffer, DF_JSON_SHOWN_BYTES, "%.17g", value->valuedouble);
    double shorter; /* 0.1 rather than 0.10000000000000001 */
    char text[32];
    snprintf(text, sizeof text, "%.15g", value->valuedouble);
    if (sscanf(text, "%lf", &shorter) == 1 && shorter == value->valuedouble)
      snprintf(buffer, DF_JSON_SHOWN_BYTES, "%s", text);
  } else if (cJSON_IsString(value)) {
    char text[DF_JSON_SHOWN_BYTES];
    df_show_text(value->valuestring, text);
    snprintf(buffer, DF_JSON_SHOWN_BYTES, "\"%.*s\"", DF_JSON_SHOWN_BYTES - 3, text);
  } else {
    const char *kind = cJSON_IsArray(value)    ? "a list"
                       : cJSON_IsObject(value) ? "an object"
                       : cJSON_IsNull(value)   ? "null"
                       : cJSON_IsTrue(value)   ? "true"
                                               : "false";
    snprintf(buffer, DF_JSON_SHOWN_BYTES, "%s", kind);
  }
  return buffer;
}

/* The length of the UTF-8 character at text, or 0 if there is none. */
static size_t character_bytes(const unsigned char *text, size_t left) {
  unsigned char lead = text[0];
  size_t length = lead < 0x80   ? 1
                  : lead < 0xc2 ? 0
                  : lead < 0xe0 ? 2
                  : lead < 0xf0 ? 3
                  : lead < 0xf5 ? 4
                                : 0;
  if (length > left) return 0;
  for (size_t i = 1; i < length; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  if (length == 3 && ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] > 0x9f)))
    return 0;
  if (length == 4 && ((lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] > 0x8f)))
    return 0;
  return length;
}

static dfcclResult_t fail_at(const char *file, const char *text, size_t offset, const char *what) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < offset; i++) {
    column++;
    if (text[i] == '\n') {
      line++;
      column = 1;
    }
  }
  return df_fail(dfcclInvalidArgument, "%s: line %zu, column %zu: %s", file, line, column, what);
}

static dfcclResult_t check_text(const char *file, const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes;) {
    size_t length = character_bytes((const unsigned char *)text + i, bytes - i);
    if (length == 0) return fail_at(file, text, i, "not UTF-8");
    if (text[i] == 0) return fail_at(file, text, i, "a zero byte");
    i += length;
  }
  return dfcclSuccess;
}

static dfcclResult_t only_object(df_json *json, const char *file) {
  char shown[DF_JSON_SHOWN_BYTES];
  if (cJSON_IsObject(json->root)) return dfcclSuccess;
  df_fail(dfcclInvalidArgument, "%s: expected an object, not %s", file,
          df_json_show(json->root, shown));
  df_json_destroy(json);
  return dfcclInvalidArgument;
}

static dfcclResult_t parse_value(df_json *json, const char *file, const char *text, size_t bytes,
                                 bool lines);

dfcclResult_t df_json_parse(df_json *json, const char *file, const char *text, size_t bytes) {
  dfcclResult_t result = parse_value(json, file, text, bytes, false);
  return result == dfcclSuccess ? only_object(json, file) : result;
}

dfcclResult_t df_json_parse_any(df_json *json, const char *file, const char *text, size_t bytes) {
  return parse_value(json, file, text, bytes, true);
}

static dfcclResult_t fail_memory(const char *file) {
  return df_fail(dfcclInvalidArgument,
                 "%s: no memory for the values of the file (at most %llu MiB are used)", file,
                 (unsigned long long)(DF_TRACE_MAX_VALUE_BYTES >> 20));
}

static dfcclResult_t parse_lines(df_json *json, const char *file, const char *text, size_t bytes) {
  const size_t stopped = parse_lines_in_blocks(json, text, bytes);
  if (stopped == bytes && !parsing_failed) return dfcclSuccess;
  dfcclResult_t result = parsing_failed
                             ? fail_memory(file)
                             : fail_at(file, text, stopped, "not a JSON object, or cut short");
  df_json_destroy(json);
  return result;
}

static dfcclResult_t parse_value(df_json *json, const char *file, const char *text, size_t bytes,
                                 bool lines) {
  *json = (df_json){0};
  if (bytes > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return df_fail(dfcclInvalidArgument,
                   "%s: a pickle; JSON is read (python -m dfccl.flight to-json makes it of a dump)",
                   file);
  dfcclResult_t result = check_text(file, text, bytes);
  if (result != dfcclSuccess) return result;
  const char *end = text;
  const cJSON *value = parse_in_blocks(json, text, bytes, &end);
  size_t stopped = DF_MIN((size_t)(end - text), bytes);
  if (!value && parsing_failed)
    result = fail_memory(file);
  else if (!value)
    result =
        fail_at(file, text, stopped,
                bytes == 0 ? "the file is empty" : "not JSON, cut short, or nested too deeply");
  while (value && stopped < bytes && strchr(" \t\r\n", text[stopped])) stopped++;
  if (lines && cJSON_IsObject(value) && stopped < bytes && text[stopped] == '{') {
    df_json_destroy(json);
    return parse_lines(json, file, text, bytes);
  }
  if (value && stopped < bytes)
    result = fail_at(file, text, stopped, "text after the end of the JSON value");
  if (result != dfcclSuccess) df_json_destroy(json);
  return result;
}

/* Memory for a file's text; large ones in huge pages, for the same reason as the values. */
static char *allocate_text(size_t bytes) {
  if (bytes < huge_page_bytes) return malloc(bytes);
  char *text = aligned_alloc(huge_page_bytes, DF_ALIGN_UP(bytes, huge_page_bytes));
  if (text) madvise(text, DF_ALIGN_UP(bytes, huge_page_bytes), MADV_HUGEPAGE);
  return text;
}

/* Reads at most max_bytes of stream; *bytes becomes max_bytes + 1 if there is more. */
static dfcclResult_t read_stream(const char *file, FILE *stream, uint64_t max_bytes, char **text,
                                 size_t *bytes) {
  struct stat about;
  size_t room = 65536, used = 0;
  if (fstat(fileno(stream), &about) == 0 && S_ISREG(about.st_mode))
    room = (size_t)DF_MIN((uint64_t)about.st_size, max_bytes) + 1;
  if (room > max_bytes) { /* too long: there is no need to read it */
    *bytes = room;
    return dfcclSuccess;
  }
  char *data = allocate_text(room);
  while (data && !feof(stream) && !ferror(stream) && used <= max_bytes) {
    if (used == room) {
      char *grown = allocate_text(2 * room);
      if (grown) memcpy(grown, data, used);
      free(data);
      data = grown;
      room *= 2;
      continue;
    }
    used += fread(data + used, 1, DF_MIN(room - used, (size_t)(max_bytes + 1 - used)), stream);
  }
  if (!data) return df_fail(dfcclOutOfMemory, "%s: no memory for the file", file);
  if (ferror(stream)) {
    free(data);
    return df_fail(dfcclInvalidArgument, "%s: cannot be read: %s", file, strerror(errno));
  }
  *text = data;
  *bytes = used;
  return dfcclSuccess;
}

static dfcclResult_t load_value(df_json *json, const char *file, uint64_t max_bytes, bool lines);

dfcclResult_t df_json_load(df_json *json, const char *file, uint64_t max_bytes) {
  dfcclResult_t result = load_value(json, file, max_bytes, false);
  return result == dfcclSuccess ? only_object(json, file) : result;
}

dfcclResult_t df_json_read_text(const char *file, uint64_t max_bytes, char **text, size_t *bytes) {
  *text = NULL;
  *bytes = 0;
  FILE *stream = fopen(file, "rb");
  if (!stream)
    return df_fail(dfcclInvalidArgument, "%s: cannot be opened: %s", file, strerror(errno));
  dfcclResult_t result = read_stream(file, stream, max_bytes, text, bytes);
  fclose(stream);
  if (result == dfcclSuccess && *bytes > max_bytes)
    result = df_fail(dfcclInvalidArgument, "%s: longer than the %llu MiB that are read", file,
                     (unsigned long long)(max_bytes >> 20));
  return result;
}

dfcclResult_t df_json_load_any(df_json *json, const char *file, uint64_t max_bytes) {
  return load_value(json, file, max_bytes, true);
}

static dfcclResult_t load_value(df_json *json, const char *file, uint64_t max_bytes, bool lines) {
  *json = (df_json){0};
  char *text;
  size_t bytes;
  dfcclResult_t result = df_json_read_text(file, max_bytes, &text, &bytes);
  if (result == dfcclSuccess) result = parse_value(json, file, text, bytes, lines);
  free(text);
  return result;
}

static int compare_keys(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static dfcclResult_t fail_duplicate(const char *file, const char *path, const char *key) {
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: %s%s%s appears twice", file, path, *path ? "." : "",
                 df_show_text(key, shown));
}

dfcclResult_t df_json_reject_duplicates(const char *file, const char *path, const cJSON *object) {
  size_t count = 0;
  for (const cJSON *member = object->child; member; member = member->next) count++;
  if (count < 2) return dfcclSuccess;
  const char **keys = malloc(count * sizeof *keys);
  if (!keys) return df_fail(dfcclOutOfMemory, "%s: no memory for %zu keys", file, count);
  size_t i = 0;
  for (const cJSON *member = object->child; member; member = member->next)
    keys[i++] = member->string;
  qsort(keys, count, sizeof *keys, compare_keys);
  dfcclResult_t result = dfcclSuccess;
  for (i = 1; i < count && result == dfcclSuccess; i++)
    if (strcmp(keys[i - 1], keys[i]) == 0) result = fail_duplicate(file, path, keys[i]);
  free(keys);
  return result;
}

dfcclResult_t df_json_whole(const char *file, const char *path, const cJSON *value, int64_t low,
                            int64_t high, int64_t *out) {
  double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
  if (number >= (double)low && number <= (double)high && number == floor(number)) {
    *out = (int64_t)number;
    return dfcclSuccess;
  }
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: %s: expected a whole number from %lld to %lld, not %s",
                 file, path, (long long)low, (long long)high, df_json_show(value, shown));
}

dfcclResult_t df_json_probability(const char *file, const char *path, const cJSON *value,
                                  int one_allowed, double *out) {
  double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
  if (number >= 0.0 && (number < 1.0 || (one_allowed && number == 1.0))) {
    *out = number;
    return dfcclSuccess;
  }
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: %s: expected a probability from 0 %s 1, not %s", file,
                 path, one_allowed ? "to" : "up to, but less than,", df_json_show(value, shown));
}

dfcclResult_t df_json_word(const char *file, const char *path, const cJSON *value,
                           const char *const *words, int count, int *out) {
  char list[128] = "";
  for (int i = 0; i < count; i++) {
    if (cJSON_IsString(value) && strcmp(value->valuestring, words[i]) == 0) {
      *out = i;
      return dfcclSuccess;
    }
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s\"%s\"", i > 0 ? " or " : "", words[i]);
  }
  char shown[DF_JSON_SHOWN_BYTES];
  return df_fail(dfcclInvalidArgument, "%s: %s: expected %s, not %s", file, path, list,
                 df_json_show(value, shown));
}
