#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "plans/msccl/export.h"
#include "plans/msccl/file.h"
#include "synthesise/synthesise.h"

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 100; }

/* ---- text */

static void print_ports(const df_synthesis_answer *a) {
  char name[DF_NETWORK_NAME_BYTES];
  printf("\n  %-28s %12s %10s\n", "port", "busy ms", "of time");
  for (uint32_t p = 0; p < df_network_resources(&a->network); p++)
    if (a->port_seconds[p] > 0)
      printf("  %-28s %12.3f %9.1f%%\n", df_network_name(&a->network, p, name),
             a->port_seconds[p] * 1e3, percent(a->port_seconds[p], a->predicted));
}

static void print_trees(const df_synthesis_question *q, const df_synthesis_answer *a) {
  printf("\n  pieces  root  parent of each rank\n");
  for (uint32_t t = 0; t < a->trees.n_trees; t++) {
    const df_tree *tree = &a->trees.trees[t];
    printf("  %6u  %4u ", tree->weight, tree->root);
    for (uint32_t v = 0; v < q->ranks; v++)
      if (v == tree->root)
        printf(" -");
      else
        printf(" %u", df_trees_parents(&a->trees, t)[v]);
    printf("\n");
  }
}

bool df_synthesis_print(const df_synthesis_question *q, const df_synthesis_answer *a,
                        bool explain) {
  const double gain = a->best_predicted / a->predicted;
  printf("%s of %llu bytes among %u ranks: %s, %u trees, %u pieces, depth %u\n",
         df_operation_word(q->operation), (unsigned long long)q->bytes, q->ranks, a->engine,
         a->trees.n_trees, a->pieces, a->depth);
  if (a->bound > 0) printf("  bound        %12.3f ms\n", a->bound * 1e3);
  printf("  busiest port %12.3f ms\n", a->busiest * 1e3);
  printf("  predicted    %12.3f ms", a->predicted * 1e3);
  if (a->bound > 0) printf(", %.1f%% of the bound's speed", percent(a->bound, a->predicted));
  printf("\n");
  if (a->best_algorithm >= 0)
    printf("  %-12s %12.3f ms, the fastest named algorithm: %s\n",
           df_algorithm_name(a->best_algorithm), a->best_predicted * 1e3,
           gain > 1.03 ? "slower" : "nothing to gain");
  printf("  computed in  %12.3f s, proven for %u ranks\n", a->computed, q->ranks);
  if (explain) print_ports(a);
  if (explain) print_trees(q, a);
  return true;
}

/* ---- JSON */

static cJSON *trees_as_json(const df_synthesis_question *q, const df_synthesis_answer *a) {
  cJSON *list = cJSON_CreateArray();
  for (uint32_t t = 0; t < a->trees.n_trees; t++) {
    cJSON *tree = cJSON_CreateObject(), *parents = NULL;
    cJSON_AddNumberToObject(tree, "root", a->trees.trees[t].root);
    cJSON_AddNumberToObject(tree, "weight", a->trees.trees[t].weight);
    parents = cJSON_AddArrayToObject(tree, "parents");
    for (uint32_t v = 0; v < q->ranks; v++)
      cJSON_AddItemToArray(parents, cJSON_CreateNumber(df_trees_parents(&a->trees, t)[v]));
    cJSON_AddItemToArray(list, tree);
  }
  return list;
}

static cJSON *head_as_json(const df_synthesis_question *q, const df_synthesis_answer *a) {
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "operation", df_operation_word(q->operation));
  cJSON_AddNumberToObject(object, "ranks", q->ranks);
  cJSON_AddNumberToObject(object, "root", q->root);
  cJSON_AddNumberToObject(object, "pieces", a->pieces);
  return object;
}

bool df_synthesis_print_json(const df_synthesis_question *q, const df_synthesis_answer *a) {
  cJSON *object = head_as_json(q, a);
  char name[DF_NETWORK_NAME_BYTES];
  cJSON_AddNumberToObject(object, "bytes", (double)q->bytes);
  cJSON_AddStringToObject(object, "engine", a->engine);
  cJSON_AddNumberToObject(object, "depth", a->depth);
  if (a->bound > 0) cJSON_AddNumberToObject(object, "bound_us", a->bound * 1e6);
  cJSON_AddNumberToObject(object, "busiest_us", a->busiest * 1e6);
  cJSON_AddNumberToObject(object, "predicted_us", a->predicted * 1e6);
  if (a->best_algorithm >= 0) {
    cJSON_AddStringToObject(object, "fastest_algorithm", df_algorithm_name(a->best_algorithm));
    cJSON_AddNumberToObject(object, "fastest_algorithm_us", a->best_predicted * 1e6);
  }
  cJSON_AddNumberToObject(object, "seconds", a->computed);
  cJSON *ports = cJSON_AddArrayToObject(object, "ports");
  for (uint32_t p = 0; p < df_network_resources(&a->network); p++) {
    if (a->port_seconds[p] <= 0) continue;
    cJSON *port = cJSON_CreateObject();
    cJSON_AddStringToObject(port, "name", df_network_name(&a->network, p, name));
    cJSON_AddNumberToObject(port, "busy_us", a->port_seconds[p] * 1e6);
    cJSON_AddItemToArray(ports, port);
  }
  cJSON_AddItemToObject(object, "trees", trees_as_json(q, a));
  return df_tool_print_json(object);
}

/* ---- files */

static bool close_file(FILE *file, const char *path) {
  const bool lost = ferror(file) != 0;
  if (fclose(file) == 0 && !lost) return true;
  df_tool_error("%s cannot be written: %s", path, strerror(errno));
  return false;
}

static FILE *open_file(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) df_tool_error("%s cannot be written: %s", path, strerror(errno));
  return file;
}

bool df_synthesis_write_trees(const df_synthesis_question *q, const df_synthesis_answer *a,
                              const char *path) {
  cJSON *object = head_as_json(q, a);
  cJSON_AddItemToObject(object, "trees", trees_as_json(q, a));
  char *text = cJSON_Print(object);
  cJSON_Delete(object);
  FILE *file = text ? open_file(path) : NULL;
  if (text == NULL) df_tool_error("%s: no memory to write it", path);
  if (file) fprintf(file, "%s\n", text);
  free(text);
  return file && close_file(file, path);
}

bool df_synthesis_write_xml(const df_synthesis_question *q, const df_synthesis_answer *a,
                            const char *path) {
  char sentence[DF_SENTENCE_BYTES];
  const df_plan_key key = {.operation = q->operation,
                           .algorithm = DF_TREES,
                           .n = q->ranks,
                           .root = q->root,
                           .trees = &a->trees};
  FILE *file = open_file(path);
  if (file == NULL) return false;
  const dfcclResult_t result = df_plan_export(&key, file, sentence, sizeof sentence);
  if (!close_file(file, path)) return false;
  if (result != dfcclSuccess) {
    df_tool_error("%s: %s", path, sentence);
    return false;
  }
  df_plan_file *read = df_plan_file_read(path, sentence, sizeof sentence);
  if (read == NULL) df_tool_error("the file that was written is refused: %s", sentence);
  df_plan_file_free(read);
  return read != NULL;
}
