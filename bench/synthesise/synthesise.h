/* Parts of dfccl-synthesise. */
#ifndef DF_BENCH_SYNTHESISE_H
#define DF_BENCH_SYNTHESISE_H

#include <stdbool.h>

#include "plans/trees.h"
#include "synthesis/timeline.h"

typedef enum {
  DF_ENGINE_AUTO,
  DF_ENGINE_WEIGHTED,
  DF_ENGINE_FOREST,
  DF_ENGINE_BALANCED,
  DF_ENGINE_MILP
} df_engine;

typedef struct df_synthesis_question {
  const char *network_file;
  df_operation operation;
  uint32_t ranks, root;
  uint64_t bytes;
  df_engine engine;
} df_synthesis_question;

/* Found trees, with what is known of them. Times are seconds. */
typedef struct df_synthesis_answer {
  df_network network;
  df_trees trees;
  const char *engine;
  uint32_t pieces, depth;
  double bound, predicted, busiest; /* busiest: time of the busiest port's bytes */
  double *port_seconds;             /* [resources] */
  int best_algorithm;               /* the fastest one of the library, and its time */
  double best_predicted;
  double computed; /* seconds of the computation, without the prediction of other algorithms */
} df_synthesis_answer;

/* The answer is freed in any case. false: the reason has been printed. */
bool df_synthesise(const df_synthesis_question *question, df_synthesis_answer *answer);
void df_synthesis_free(df_synthesis_answer *answer);

bool df_synthesis_print(const df_synthesis_question *question, const df_synthesis_answer *answer,
                        bool explain);
bool df_synthesis_print_json(const df_synthesis_question *question,
                             const df_synthesis_answer *answer);
/* Writes the plan in MSCCL's XML, and reads it again. */
bool df_synthesis_write_xml(const df_synthesis_question *question,
                            const df_synthesis_answer *answer, const char *path);
/* Writes the trees as JSON. */
bool df_synthesis_write_trees(const df_synthesis_question *question,
                              const df_synthesis_answer *answer, const char *path);

#endif
