/* Common parts of the command-line tools: exit statuses, one-sentence errors, option values. */
#ifndef DF_BENCH_COMMON_CLI_H
#define DF_BENCH_COMMON_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "dfccl.h"

enum {
  DF_TOOL_SUCCESS = 0,
  DF_TOOL_FAILED = 1,  /* the run failed: wrong elements, or the library reported an error */
  DF_TOOL_USAGE = 2,   /* the command line is malformed */
  DF_TOOL_DEADLOCK = 3 /* a deadlock was found */
};

/* The most ranks a tool starts on one machine. */
enum { DF_TOOL_MAX_RANKS = 1024 };

/* Sets the name that begins every message; once, first thing in main. The text must stay. */
void df_tool_set_name(const char *name);

/* Writes "name: sentence" and a line feed to standard error, in one write. */
void df_tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* df_tool_error, then ends the program with DF_TOOL_USAGE. Only while options are being read. */
_Noreturn void df_tool_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* df_tool_usage_error for what getopt_long returned as '?' or ':' (an unknown option, a missing or
 * superfluous value); to be used with an option string that begins with ':'. known: the long
 * options, of which the message names the nearest one. */
_Noreturn void df_tool_bad_option(int returned, char **argv, const struct option *known);

/* "; perhaps it should be WORD" for the word that is nearest to the text, or "". In `room`. */
const char *df_tool_suggest(const char *text, const char *const *words, size_t n, char room[96]);

/* Writes "name MAJOR.MINOR.PATCH" to standard output: the version of the library in use. */
void df_tool_print_version(void);

/* The value of an option; a text that is not a number, or lies outside [min, max], is a usage
 * error that names the option. */
int64_t df_tool_parse_integer(const char *option, const char *text, int64_t min, int64_t max);

typedef struct {
  double least, most; /* a value may be either */
} df_tool_range;

/* Numbers such as 0.5, of which at most `count` are separated by colons; the ranges are theirs.
 * Numbers that the text does not have stay as they are. A text of another form is a usage error,
 * which names the option and the form. */
void df_tool_parse_numbers(const char *option, const char *form, const char *text, int count,
                           const df_tool_range *ranges, double *values);

/* A size in bytes: a whole number, optionally followed by K, M or G (powers of 1024). */
size_t df_tool_parse_size(const char *option, const char *text);

/* "cpu" or "cuda". */
dfcclBackend_t df_tool_parse_backend(const char *text);
const char *df_tool_backend_name(dfcclBackend_t backend);

/* Writes the object and a line feed to standard output, and deletes the object. NULL stands for one
 * that could not be made. Returns false, after an error message, if that failed. */
bool df_tool_print_json(cJSON *object);

/* Writes out what standard output holds; false once any output was lost. */
bool df_tool_flush(void);

/* df_tool_flush, with an error message if output was lost. */
bool df_tool_flush_or_say(void);

/* The last call before a tool ends: status; or DF_TOOL_FAILED, after an error message, if the tool
 * has not failed but its output was lost. */
int df_tool_end_output(int status);

/* Whether a progress line on standard error would be seen by a person. */
bool df_tool_progress_wanted(void);

/* Replaces the progress line; an empty text removes it. */
void df_tool_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
