/*
 * Untrusted variables of the environment. Whatever their values are, either settings and launcher
 * are read, and every number is within its limits; or the call is refused with a sentence that
 * names a variable, and nothing is written.
 *
 * The input is a list of assignments: a byte that selects the variable, a byte that selects how its
 * value is made, and the value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "bootstrap/launcher.h"
#include "host/settings/settings.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VARIABLES_MAX = 48, VALUE_MAX = 800 };

static const char *const names[] = {
#define X(field, variable, standard, least, most, meaning) variable,
    DF_SETTINGS_MAP(X)
#undef X
        "DFCCL_DEBUG",
    "DFCCL_NET",
    "DFCCL_ISA",
    "DFCCL_RECORD",
    "DFCCL_TRACE",
    "DFCCL_FLIGHT",
    "DFCCL_TUNING",
    "CUDA_LAUNCH_BLOCKING",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_hnp_uri",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
};

static const char *const words[] = {"",
                                    "none",
                                    "error",
                                    "ring",
                                    "packed",
                                    "slots",
                                    "plain",
                                    "avx2",
                                    "avx512",
                                    "/",
                                    "/dev/null",
                                    "no/such",
                                    "127.1",
                                    "-1",
                                    "+1",
                                    " 1",
                                    "1 ",
                                    "0x1",
                                    "1e1",
                                    "00001",
                                    "\xff",
                                    "1\n",
                                    "999999999999999999999",
                                    "2147483648",
                                    "-9223372036854775808"};

/* The input's bytes as they are, without zeros: usually neither a number nor a known word. */
static size_t raw_value(input *in, char *value) {
  size_t length = (size_t)next_byte(in) * 3, used = 0;
  while (used < length && in->size > 0) {
    uint8_t byte = next_byte(in);
    value[used++] = (char)(byte ? byte : 'x');
  }
  if (length >= 400) /* makes long values from short inputs */
    for (; used < length; used++) value[used] = 'y';
  return used;
}

/* Only few file names are used: an arbitrary one might name any file of this machine. */
static char *next_assignment(input *in) {
  char value[VALUE_MAX];
  const char *name = names[next_byte(in) % DF_COUNT_OF(names)];
  uint8_t how = next_byte(in);
  if (how % 4 == 0 || strcmp(name, "DFCCL_TUNING") == 0)
    snprintf(value, sizeof value, "%s", words[next_byte(in) % DF_COUNT_OF(words)]);
  else if (how % 4 == 1)
    value[raw_value(in, value)] = '\0';
  else
    snprintf(value, sizeof value, "%llu", (unsigned long long)next_byte(in) << how / 4 % 48);
  char *assignment; /* allocated to its exact size, so that a sanitizer sees every byte beyond it */
  if (asprintf(&assignment, "%s=%s", name, value) < 0) abort();
  return assignment;
}

static int names_a_variable(const char *sentence) {
  for (size_t i = 0; i < DF_COUNT_OF(names); i++)
    if (strstr(sentence, names[i])) return 1;
  return 0;
}

static void check_settings(const df_settings *s, const df_settings *before, dfcclResult_t result) {
  if (result != dfcclSuccess) {
    DF_ASSERT(names_a_variable(df_last_sentence()));
    DF_ASSERT(memcmp(s, before, sizeof *s) == 0);
    return;
  }
#define X(field, variable, standard, least, most, meaning)                                         \
  DF_ASSERT(s->field == (standard) || (s->field >= (least) && s->field <= (most)) ||               \
            strcmp(variable, "DFCCL_MAX_BLOCKS") == 0 ||                                           \
            strcmp(variable, "DFCCL_QUEUE_DEPTH") == 0);
  DF_SETTINGS_MAP(X)
#undef X
  DF_ASSERT(s->max_blocks >= 1 && s->max_blocks <= DF_MAX_BLOCKS);
  DF_ASSERT(s->queue_depth >= DF_MIN_QUEUE_DEPTH && s->queue_depth <= DF_MAX_QUEUE_DEPTH);
  DF_ASSERT(memchr(s->record, '\0', sizeof s->record) != NULL);
}

static void check_launch(const df_launch *launch, const df_launch *before, dfcclResult_t result) {
  if (result != dfcclSuccess) {
    DF_ASSERT(result == dfcclInvalidUsage);
    DF_ASSERT(names_a_variable(df_last_sentence()));
    DF_ASSERT(memcmp(launch, before, sizeof *launch) == 0);
    return;
  }
  DF_ASSERT(launch->rank >= 0 && launch->rank < launch->n_ranks);
  DF_ASSERT(launch->n_ranks <= DF_MAX_RANKS);
  DF_ASSERT(memchr(launch->key, '\0', sizeof launch->key) != NULL);
  DF_ASSERT(launch->key[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static df_settings settings, settings_before;
  df_launch launch, launch_before;
  char *variables[VARIABLES_MAX + 1] = {NULL}, **own = environ;
  input in = {data, size};
  for (int i = 0; i < VARIABLES_MAX && in.size > 0; i++) variables[i] = next_assignment(&in);
  memset(&settings_before, 0x5a, sizeof settings_before);
  memset(&launch_before, 0x5a, sizeof launch_before);
  settings = settings_before;
  launch = launch_before;
  environ = variables; /* the first of two assignments counts */
  dfcclResult_t result = df_settings_read(&settings, NULL);
  check_settings(&settings, &settings_before, result);
  result = df_launcher_read(&launch, "");
  check_launch(&launch, &launch_before, result);
  environ = own;
  df_log_set_level(DF_LOG_NONE);
  for (int i = 0; variables[i]; i++) free(variables[i]);
  return 0;
}
