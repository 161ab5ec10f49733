#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives.h"
#include "common/cli.h"
#include "common/launch.h"

static void print_quoted(const char *text) {
  putchar('"');
  for (; *text != '\0'; text++)
    if (*text == '\n')
      fputs("\\n", stdout);
    else if (*text == '"' || *text == '\\')
      printf("\\%c", *text);
    else
      putchar(*text);
  putchar('"');
}

static void print_json(const df_bench_shape *shape, const dfcclConfiguration_t *c, bool first) {
  printf("%s{\"bytes\":%zu,\"algorithm\":\"%s\",\"form\":\"%s\",\"blocks\":%u,\"loops\":%u,"
         "\"primitives\":%u,\"subgroup\":%u,\"chunk_bytes\":%llu,\"slot_bytes\":%llu,"
         "\"slots\":%u,\"lends\":%u,\"past_caches\":%u,\"borrowed_turn\":%u,\"why\":",
         first ? "" : ",", shape->bytes, c->algorithm, c->form, c->blocks, c->loops, c->primitives,
         c->subgroup, (unsigned long long)c->chunkBytes, (unsigned long long)c->slotBytes, c->slots,
         c->lendsBuffers, c->pastCaches, c->borrowedTurn);
  print_quoted(c->why);
  putchar('}');
}

static void print_text(const df_bench_shape *shape, const dfcclConfiguration_t *c) {
  printf("%zu bytes\n", shape->bytes);
  for (const char *line = c->why; *line != '\0';) {
    size_t length = strcspn(line, "\n");
    printf("  %.*s\n", (int)length, line);
    line += length + (line[length] == '\n');
  }
}

/* All ranks register, so that the members' registrations meet; rank 0 speaks. */
static void rank_main(df_tool_rank *self) {
  const df_bench_options *options = self->argument;
  dfcclCollId_t id = 0;
  for (size_t bytes = options->min_bytes; bytes <= options->max_bytes; bytes *= options->factor) {
    df_bench_shape shape = df_bench_shape_of(options, bytes);
    dfcclConfiguration_t configuration = DFCCL_CONFIGURATION_INITIALIZER;
    dfcclResult_t result = df_bench_register(options, &shape, self->context, id);
    if (!df_tool_rank_check(self, result, "dfcclRegister")) return;
    result = dfcclGetConfiguration(self->context, id, &configuration);
    if (!df_tool_rank_check(self, result, "dfcclGetConfiguration")) return;
    if (self->rank == 0 && options->json) print_json(&shape, &configuration, id == 0);
    if (self->rank == 0 && !options->json) print_text(&shape, &configuration);
    id++;
  }
  if (self->rank == 0) fflush(stdout);
}

int df_bench_explain(const df_bench_options *options) {
  char *reports = calloc((size_t)options->n_ranks, 1);
  df_tool_job job = {.n_ranks = options->n_ranks,
                     .processes = options->processes,
                     .config = DFCCL_CONFIG_INITIALIZER,
                     .rank_main = rank_main,
                     .argument = (void *)(uintptr_t)options,
                     .report_bytes = 1,
                     .reports = reports};
  job.config.backend = options->backend;
  job.config.survive = options->survive;
  if (options->json)
    printf("{\"op\":\"%s\",\"ranks\":%d,\"backend\":\"%s\",\"explanations\":[",
           df_bench_operation_name(options->operation), options->n_ranks,
           options->backend == dfcclBackendCuda ? "cuda" : "cpu");
  fflush(stdout);
  bool fine = reports != NULL && df_tool_launch(&job);
  if (options->json) puts("]}");
  free(reports);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
