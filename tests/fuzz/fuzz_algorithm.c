/*
 * An untrusted algorithm file. Whatever the bytes are, either they are refused with a sentence that
 * names the file and fits its buffer, or they are proved and yield a plan for each position.
 *
 * The input's first byte selects the meaning of the rest: the text itself, or numbers of words of
 * the format behind a correct beginning, so that whole blocks arise by chance.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "plans/msccl/file.h"
#include "plans/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char head[] = "<algo name='f' nchannels='2' nchunksperloop='2' ngpus='2' coll='%s' "
                           "inplace='%d'>\n<gpu id='0' "
                           "s_chunks='2'>\n";
static const char *const operations[] = {"allreduce", "allgather", "reducescatter", "alltoall",
                                         "reduce",    "broadcast", "gather",        "scatter"};

static const char *const words[] = {"</tb>\n<tb id='0' send='1' recv='1' chan='0'>\n",
                                    "</tb>\n<tb id='0' send='0' recv='0' chan='0'>\n",
                                    "</tb>\n<tb id='1' send='1' recv='1' chan='1'>\n",
                                    "</tb>\n</gpu>\n<gpu id='1' s_chunks='2'>\n",
                                    "<tb id='0'>\n",
                                    "<step s='0' type='s' srcbuf='i' srcoff='0'/>\n",
                                    "<step s='0' type='s' srcbuf='i' srcoff='1'/>\n",
                                    "<step s='0' type='r' dstbuf='o' dstoff='0'/>\n",
                                    "<step s='1' type='rrc' srcbuf='i' srcoff='0' dstbuf='o' "
                                    "dstoff='0'/>\n",
                                    "<step s='1' type='r' dstbuf='s' dstoff='1'/>\n",
                                    "<step s='1' type='rrcs' srcbuf='i' srcoff='1' dstbuf='o' "
                                    "dstoff='1'/>\n",
                                    "<step s='2' type='re' srcbuf='s' srcoff='0' dstbuf='o' "
                                    "dstoff='0'/>\n",
                                    "<step s='2' type='cpy' buf='i' off='0'/>\n",
                                    "<step s='0' type='nop' depid='1' deps='0'/>\n",
                                    "<step s='0' type='s' srcbuf='i' srcoff='0' cnt='2'/>\n",
                                    "<copy i_off='0' o_off='0'/>",
                                    "</gpu>\n",
                                    "</tb>\n",
                                    "</algo>",
                                    "<gpu id='1'>",
                                    "&lt;",
                                    "<!-- -->",
                                    "'",
                                    ">"};

static void check_plans(const df_plan_file *file) {
  const df_plan_file_facts facts = df_plan_file_facts_of(file);
  for (uint32_t position = 0; position < facts.n; position++) {
    const df_plan_key key = {.operation = facts.operation,
                             .algorithm = DF_FROM_FILE,
                             .n = facts.n,
                             .position = position,
                             .root = facts.n - 1,
                             .file = file};
    df_plan *plan = df_plan_make(&key);
    DF_ASSERT(plan != NULL && plan->n_primitives <= UINT16_MAX);
    for (uint32_t i = 0; i < plan->n_links; i++)
      DF_ASSERT(plan->links[i].peer < facts.n && plan->links[i].channel < facts.channels);
    df_plan_free(plan);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char sentence[160];
  if (size < 2) return 0;
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  DF_ASSERT(out != NULL);
  if (data[0] % 4 == 0) {
    fwrite(data + 1, 1, size - 1, out);
  } else {
    fprintf(out, head, operations[data[1] % 8], data[1] / 8 % 2);
    for (size_t i = 2; i < size; i++) fputs(words[data[i] % (sizeof words / sizeof *words)], out);
    if (data[0] % 4 > 1) fputs("</tb></gpu></algo>", out);
  }
  fclose(out);
  memset(sentence, 'x', sizeof sentence);
  df_plan_file *file = df_plan_file_make("fuzz", text, bytes, sentence, sizeof sentence);
  if (file) {
    check_plans(file);
    df_plan_file_free(file);
  } else {
    DF_ASSERT(memchr(sentence, '\0', sizeof sentence) != NULL);
    DF_ASSERT(strncmp(sentence, "fuzz:", 5) == 0);
  }
  free(text);
  return 0;
}
