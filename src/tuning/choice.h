/* The algorithm of a collective: by name, by the user's table, by the built-in table. Members
 * compare the result, so every rank must choose alike. */
#ifndef DF_TUNING_CHOICE_H
#define DF_TUNING_CHOICE_H

#include "tuning/advice.h"
#include "tuning/table.h"

/* An algorithm's name with limits: "ring slot=256K slots=8". Files have none. */
typedef struct df_named {
  char word[DF_FILE_NAME_BYTES + 16]; /* "ring"; cut off if it is longer, and then no algorithm's */
  int algorithm;                      /* -1: "auto", "", or no algorithm of the library */
  df_rule limits;                     /* its options only; 0 where nothing is said */
} df_named;

/* 0: an option is not valid; *why gets the reason. */
int df_named_read(df_named *named, const char *text, char *why, size_t why_bytes);

typedef struct df_question {
  const char *name;         /* an algorithm's, with limits; or "auto", or NULL */
  const char *files;        /* the directory of "file:NAME"; NULL, "": none */
  const df_plan_file *file; /* which "file:NAME" is; NULL: it is to be found there */
  char *why;                /* [why_bytes] the fault of a file or of limits, else ""; or NULL */
  size_t why_bytes;
  int varying;
  int ordered; /* The operator does not commute. */
  df_operation operation;
  uint32_t n;
  uint64_t bytes;          /* bytes of a rank's larger buffer */
  df_memory_kind memory;   /* DF_MEMORY_PROCESS or DF_MEMORY_HOST */
  uint32_t oversubscribed; /* 1: two members or more for each core of the context's ranks */
  uint32_t on_gpu;
  uint32_t split;      /* as configured; 0: the library's choice */
  uint32_t neighbours; /* df_topology_neighbours; 0: one host, or no such order */
  uint32_t lanes;      /* as configured; 0: the library's choice */
  uint32_t hosts, smallest_host,
      largest_host;        /* hosts of the group; smallest and largest number of members on them */
  const df_advice *advice; /* advice of a tuner plugin; NULL: no plugin was asked */
} df_question;

typedef struct df_choice {
  int algorithm;
  const df_plan_file *file; /* the file of DF_FROM_FILE */
  uint32_t split;           /* in the plan's key; hierarchical: in its levels */
  uint32_t lanes;           /* hierarchical: of each host; 0: as configured */
  uint32_t blocks;          /* most blocks; 0: as configured */
  uint32_t slot_bytes;      /* most payload; 0: as configured */
  uint32_t slots;           /* least of a link; 0: as configured */
  int copies;               /* lends nothing */
  df_form_choice form;
  df_advice advice;
  const df_rule *rule; /* NULL: named, and no rule fits */
  uint32_t line;       /* the rule's in its file; 0: it is built in */
  int is_calibrated;   /* the rule is of the machine's calibration */
  int is_named;
  int has_limits;  /* the name has some */
  int is_ordered;  /* in place of the rule's, which does not keep the group's order */
  int is_by_hosts; /* levels are hosts */
  int is_spread;   /* the group is on several hosts, and one of them has several members */
} df_choice;

/* 0: the operation has no algorithm of that name; of a file question->why says more. */
int df_choose(const df_tuning *tuning, const df_question *question, df_choice *choice);

/* A tuner plugin comes before the built-in table, and after a name and the user's rules. */
int df_choice_takes_advice(const df_tuning *tuning, const df_question *question);

/* In a few words, for a dump: "as named", ... */
const char *df_choice_source(const df_tuning *tuning, const df_choice *choice);

/* Bytes of a rank's larger buffer, with `count` as registered. */
uint64_t df_larger_buffer(df_operation operation, uint32_t n, uint64_t count,
                          uint32_t element_bytes);

df_shape_limits df_choice_limits(const df_choice *choice, df_shape_limits limits);

#endif
