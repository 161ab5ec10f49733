/*
 * Promise of src/plans/file*.c: a file in MSCCL's XML becomes plans that the checker has proved,
 * for any root; older spellings mean the same. A malformed file is refused with its name,
 * the line and the reason, and costs no more than time and memory that are bounded. Every built-in
 * plan can be written as such a file, and what is read back is proved.
 */
#include "support/algorithm_files.h"
#include "support/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/result.h"
#include "plans/check/check.h"
#include "plans/msccl/file.h"
#include "plans/msccl/export.h"
#include "plans/plan.h"

static df_plan_file *made(const char *text) {
  char sentence[DF_SENTENCE_BYTES] = "";
  df_plan_file *file = df_plan_file_make("test.xml", text, strlen(text), sentence, sizeof sentence);
  CHECK(file != NULL, "%s\n%s", sentence, text);
  return file;
}

/* ---- generated files */

/* Plans for any root and position, and their proof again. */
static void prove_roots(const df_plan_file *file) {
  const df_plan_file_facts facts = df_plan_file_facts_of(file);
  char sentence[DF_SENTENCE_BYTES] = "";
  for (uint32_t root = 0; root < facts.n; root++)
    for (int several = 0; several < 2; several++) {
      df_plan *plans[DF_PLAN_CHECK_MAX_RANKS];
      for (uint32_t r = 0; r < facts.n; r++) {
        const df_plan_key key = {.operation = facts.operation,
                                 .algorithm = DF_FROM_FILE,
                                 .n = facts.n,
                                 .position = r,
                                 .root = root,
                                 .average = df_operation_reduces(facts.operation),
                                 .cuts.row = several ? DF_ROW_WHOLE : 1,
                                 .file = file};
        plans[r] = df_plan_make(&key);
        CHECK(plans[r] != NULL, "%s, root %u", facts.name, root);
      }
      for (int in_place = 0; in_place < 2; in_place++) {
        const df_plan_check_options o = {
            .slots = DF_MAX(plans[0]->least_slots, (uint32_t)DF_MIN_LINK_SLOTS),
            .loops = 3,
            .last_pieces = (uint32_t)in_place,
            .in_place = in_place,
            .any_order = !facts.same_bits,
            .lending = plans[0]->lends_nothing ? DF_LENDS_NOTHING : DF_LENDS_ALL};
        CHECK(df_plan_check(plans, &o, sentence, sizeof sentence) == dfcclSuccess, "%s: %s",
              facts.name, sentence);
      }
      for (uint32_t r = 0; r < facts.n; r++) df_plan_free(plans[r]);
      if (!df_operation_has_root(facts.operation) && root == 0) return;
    }
}

static char *generated(const df_algorithm_file *which, int ranks) {
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  which->write(out, ranks);
  fclose(out);
  return text;
}

DF_TEST(plan_file, generated_files_are_proved, 120) {
  for (int i = 0; i < df_algorithm_files_count; i++)
    for (int ranks = 2; ranks <= 16; ranks += 2) {
      char *text = generated(&df_algorithm_files[i], ranks);
      df_plan_file *file = made(text);
      CHECK((int)df_plan_file_facts_of(file).n == ranks, "%s", df_algorithm_files[i].name);
      if (ranks <= 8) prove_roots(file);
      df_plan_file_free(file);
      free(text);
    }
}

DF_TEST(plan_file, what_was_found, 30) {
  char *text = generated(&df_algorithm_files[0], 4); /* rings */
  df_plan_file *file = made(text);
  df_plan_file_facts f = df_plan_file_facts_of(file);
  CHECK(f.channels == 3 && f.chunks == 12 && f.steps == 84 && f.links == 6 && f.slots <= 2,
        "%u channels, %u chunks, %u steps, %u links, %u slots", f.channels, f.chunks, f.steps,
        f.links, f.slots);
  CHECK(f.same_bits && f.lends && !f.ordered && !f.has_rows, "facts of rings");
  df_plan_file_free(file);
  free(text);
  text = generated(&df_algorithm_files[1], 4); /* all pairs, three chunks a message */
  file = made(text);
  f = df_plan_file_facts_of(file);
  CHECK(f.has_rows && f.scratch_chunks == 9, "%u scratch chunks", f.scratch_chunks);
  df_plan_file_free(file);
  free(text);
}

/* ---- export */

/* The messages of a plan in the order of its list, as a text. */
static char *messages_of(const df_plan_key *key) {
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  df_plan *plan = df_plan_make(key);
  CHECK(plan != NULL, "no plan");
  for (uint32_t i = 0; i < plan->n_primitives; i++) {
    const df_primitive *prim = &plan->primitives[i];
    if (prim->flags & DF_PRIM_RECV) fprintf(out, " r%u", plan->links[prim->recv_link].peer);
    if (prim->flags & DF_PRIM_SEND) fprintf(out, " s%u", plan->links[prim->send_link].peer);
  }
  fclose(out);
  df_plan_free(plan);
  return text;
}

/* The attribute order keeps the order of the list, which the file's blocks do not have. */
static void expect_order(const df_plan_key *original, const df_plan_file *file) {
  for (uint32_t r = 0; r < original->n; r++) {
    df_plan_key key = *original, read = {.operation = original->operation,
                                         .algorithm = DF_FROM_FILE,
                                         .n = original->n,
                                         .position = r,
                                         .root = original->root,
                                         .cuts = {1, 1},
                                         .file = file};
    key.position = r;
    key.cuts = (df_cuts){1, 1};
    char *wanted = messages_of(&key), *found = messages_of(&read);
    CHECK(strcmp(wanted, found) == 0, "%s %s of %u, rank %u:\n%s\n, read back:\n%s",
          df_operation_name(key.operation), df_algorithm_name(key.algorithm), key.n, r, wanted,
          found);
    free(wanted);
    free(found);
  }
}

DF_TEST(plan_file, built_in_plans_are_read_back, 120) {
  int n_read = 0;
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
      for (uint32_t n = 2; n <= 9; n++) {
        if (!df_algorithm_has(algorithm, (df_operation)operation)) continue;
        const df_plan_key key = {.operation = (df_operation)operation,
                                 .algorithm = algorithm,
                                 .n = n,
                                 .root = df_operation_has_root((df_operation)operation) ? n / 2 : 0,
                                 .split = algorithm == DF_TWO_LEVEL ||
                                                  algorithm == DF_HIERARCHICAL ||
                                                  algorithm == DF_BCUBE
                                              ? 2
                                              : 0};
        char sentence[DF_SENTENCE_BYTES] = "", *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        const dfcclResult_t result = df_plan_export(&key, out, sentence, sizeof sentence);
        fclose(out);
        const int has_form = operation <= DF_OP_SCATTER;
        CHECK(result == (has_form ? dfcclSuccess : dfcclInvalidArgument), "%s", sentence);
        if (has_form) {
          df_plan_file *file =
              df_plan_file_make("export.xml", text, bytes, sentence, sizeof sentence);
          CHECK(file != NULL, "%s %s of %u: %s", df_operation_name(key.operation),
                df_algorithm_name(algorithm), n, sentence);
          if (n <= 5) prove_roots(file);
          expect_order(&key, file);
          df_plan_file_free(file);
          n_read++;
        }
        free(text);
      }
  CHECK(n_read > 100, "only %d", n_read);
}

/* ---- refused files */

#define HEAD(n)                                                                                    \
  "<algo name='x' proto='Simple' nchannels='2' nchunksperloop='2' ngpus='" n                       \
  "' coll='allreduce' inplace='0' outofplace='1'>\n"
#define SEND "<step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1'/>\n"
#define ALL(b0, b1)                                                                                \
  HEAD("2")                                                                                        \
  "<gpu id='0' s_chunks='1'>\n" b0 "</gpu>\n<gpu id='1' s_chunks='1'>\n" b1 "</gpu>\n</algo>\n"

typedef struct {
  const char *text;
  int line;
  const char *words;
} refusal;

static const refusal refusals[] = {
    {"", 1, "empty"},
    {"hello", 1, ""},
    {"<algo", 1, ""},
    {"<other/>", 1, "<other> has no place"},
    {"<algo\n/>", 2, "no attribute coll"},
    {"<algo coll='sort'/>", 1, "\"sort\" is none of"},
    {"<algo coll='custom' ngpus='2'/>", 1, "none of"},
    {"<algo coll='allreduce'/>", 1, "no attribute ngpus"},
    {"<algo coll='allreduce' ngpus='1' nchunksperloop='1'/>", 1, "\"1\""},
    {"<algo coll='allreduce' ngpus='65' nchunksperloop='1'/>", 1, "from 2 to 64"},
    {"<algo coll='allreduce' ngpus='-2' nchunksperloop='1'/>", 1, "-2"},
    {"<algo coll='allgather' ngpus='2' nchunksperloop='3'/>", 1, "each of 2 ranks"},
    {"<algo coll='allreduce' ngpus='2' nchunksperloop='1000000000'/>", 1, "1000000000"},
    {"<!DOCTYPE a [<!ENTITY b 'c'>]>\n<algo coll='allreduce'/>", 1, "document type"},
    {HEAD("2") "</algo>", 1, "<gpu id=\"0\"> is not there"},
    {HEAD("2") "<gpu/></algo>", 2, "no attribute id"},
    {HEAD("2") "<gpu id='2'/></algo>", 2, "from 0 to 1"},
    {HEAD("2") "<gpu id='0'/>\n<gpu id='0'/></algo>", 3, "a second time"},
    {HEAD("2") "<gpu id='0'>text</gpu></algo>", 2, "text"},
    {HEAD("2") "<gpu id='0'>\n<step/></gpu></algo>", 3, "no place"},
    {ALL("<tb id='1'>\n</tb>", ""), 3, "without gaps"},
    {ALL("<tb id='0' send='2'>\n</tb>", ""), 3, "send=\"2\""},
    {ALL("<tb id='0' send='0'>\n</tb>", ""), 3, "its own rank"},
    {ALL("<tb id='0' chan='2'>\n</tb>", ""), 3, "chan=\"2\""},
    {ALL("<tb id='0' send='1'/>\n<tb id='1' send='1'/>\n", ""), 4, "as the block in line 3"},
    {ALL("<tb id='0'>\n" SEND "</tb>\n", ""), 4, "sends to nobody"},
    {ALL("<tb id='0' send='1'>\n<step s='0'/></tb>\n", ""), 4, "no attribute type"},
    {ALL("<tb id='0' send='1'>\n<step type='s'/></tb>\n", ""), 4, "no attribute step"},
    {ALL("<tb id='0' send='1'>\n<step s='1' type='s'/></tb>\n", ""), 4, "this is step 0"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='x'/></tb>\n", ""), 4, "\"x\" is none"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s'/></tb>\n", ""), 4, "srcbuf"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='q' srcoff='0'/></tb>\n", ""), 4,
     "\"q\""},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='i' srcoff='2'/></tb>\n", ""), 4,
     "which has 2"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='i' srcoff='1' cnt='2'/></tb>\n", ""),
     4, "chunks 1 to 2"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='i' srcoff='0' "
         "cnt='1000000000'/></tb>\n",
         ""),
     4, "1000000000"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='i' srcoff='0' depid='3' "
         "deps='0'/></tb>\n",
         ""),
     4, "not there"},
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='i' srcoff='0' depid='0'/></tb>\n", ""),
     4, "both name a step"},
    /* unmatched */
    {ALL("<tb id='0' send='1'>\n" SEND "</tb>\n", ""), 4, "never receives"},
    {ALL("<tb id='0' recv='1'>\n<step s='0' type='r' dstbuf='o' dstoff='0'/></tb>\n", ""), 4,
     "never sends"},
    {ALL("<tb id='0' send='1' chan='1'>\n" SEND "</tb>\n",
         "<tb id='0' recv='0'>\n<step s='0' type='r' dstbuf='o' dstoff='0'/></tb>\n"),
     9, "never sends"},
    {ALL("<tb id='0' send='1'>\n" SEND "</tb>\n",
         "<tb id='0' recv='0'>\n<step s='0' type='r' dstbuf='o' dstoff='0' cnt='2'/></tb>\n"),
     9, "receives 2 chunks; rank 0 sends 1 in line 4"},
    /* circles */
    {ALL("<tb id='0'>\n<step s='0' type='nop' depid='0' deps='0'/></tb>\n", ""), 4, "in a circle"},
    {ALL("<tb id='0'>\n<step s='0' type='nop' depid='1' deps='0'/></tb>\n"
         "<tb id='1'>\n<step s='0' type='nop' depid='0' deps='0'/></tb>\n",
         ""),
     4, "2 blocks wait in a circle"},
    {ALL("<tb id='0' send='1' recv='1'>\n<step s='0' type='r' dstbuf='o' dstoff='0'/>\n<step s='1' "
         "type='s' srcbuf='i' srcoff='0'/></tb>\n",
         "<tb id='0' send='0' recv='0'>\n<step s='0' type='r' dstbuf='o' dstoff='0'/>\n<step s='1' "
         "type='s' srcbuf='i' srcoff='0'/></tb>\n"),
     4, "a message from rank 1"},
    {ALL("<tb id='0'>\n<step s='0' type='nop' order='1'/></tb>\n"
         "<tb id='1'>\n<step s='0' type='nop' depid='0' deps='0' order='0'/></tb>\n",
         ""),
     4, "order=\"1\": waits for ever for its turn"},
    {ALL("<tb id='0'>\n<step s='0' type='nop' depid='1' deps='0' order='0'/></tb>\n"
         "<tb id='1'>\n<step s='0' type='nop' order='1'/></tb>\n",
         ""),
     4, "for step 0 of block 1"},
    /* A lesser number behind a greater one, and behind a step that has none and waits. */
    {ALL("<tb id='0'>\n<step s='0' type='nop' order='5'/>\n"
         "<step s='1' type='nop' order='3'/></tb>\n",
         ""),
     4, "order=\"5\": waits for ever for its turn"},
    {ALL("<tb id='0'>\n<step s='0' type='nop' order='5'/></tb>\n"
         "<tb id='1'>\n<step s='0' type='nop' depid='0' deps='0'/>\n"
         "<step s='1' type='nop' order='3'/></tb>\n",
         ""),
     4, "order=\"5\": waits for ever for its turn"},
    {ALL("<tb id='0'>\n<step s='0' type='nop' order='-1'/></tb>\n", ""), 4, "\"-1\""},
    /* pieces that were never written, and wrong results */
    {ALL("<tb id='0' send='1'>\n<step s='0' type='s' srcbuf='s' srcoff='0'/></tb>\n",
         "<tb id='0' recv='0'>\n<step s='0' type='r' dstbuf='o' dstoff='0'/></tb>\n"),
     4, "never written"},
    {ALL("<tb id='0' send='1'>\n" SEND "</tb>\n", "<tb id='0' recv='0'>\n<step s='0' type='rrc' "
                                                  "srcbuf='i' srcoff='1' dstbuf='o' dstoff='0'/>"
                                                  "</tb>\n"),
     9, "not the same element"},
    {ALL("<tb id='0'>\n<step s='0' type='cpy' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0'/>\n<step "
         "s='1' type='re' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0'/></tb>\n",
         ""),
     5, "a second time"},
    {ALL("<tb id='0'>\n<step s='0' type='cpy' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0' "
         "cnt='2'/></tb>\n",
         "<tb id='0'>\n<step s='0' type='cpy' srcbuf='i' srcoff='0' dstbuf='o' dstoff='0' "
         "cnt='2'/></tb>\n"),
     2, "instead of"},
    {ALL("", ""), 2, "ends without chunk 0"},
};

DF_TEST(plan_file, refusals_name_the_line_and_the_reason, 60) {
  int n_wrong = 0;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    const refusal *r = &refusals[i];
    char sentence[DF_SENTENCE_BYTES] = "", begin[40];
    df_plan_file *file =
        df_plan_file_make("test.xml", r->text, strlen(r->text), sentence, sizeof sentence);
    snprintf(begin, sizeof begin, "test.xml:%d: ", r->line);
    if (file == NULL && strncmp(sentence, begin, strlen(begin)) == 0 && strstr(sentence, r->words))
      continue;
    fprintf(stderr, "case %zu: \"%s\", not line %d and \"%s\"\n", i, sentence, r->line, r->words);
    df_plan_file_free(file);
    n_wrong++;
  }
  CHECK(n_wrong == 0, "%d refusals are wrong", n_wrong);
}

/* As many steps as anybody likes to write: the text ends where a limit is. */
DF_TEST(plan_file, more_steps_than_possible, 60) {
  enum { STEPS = 300000 };
  char *text = NULL, sentence[DF_SENTENCE_BYTES];
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  fputs(HEAD("2") "<gpu id='0'><tb id='0'>\n", out);
  for (int i = 0; i < STEPS; i++) fprintf(out, "<step s='%d' type='nop'/>\n", i);
  fputs("</tb></gpu><gpu id='1'/></algo>", out);
  fclose(out);
  CHECK(df_plan_file_make("test.xml", text, bytes, sentence, sizeof sentence) == NULL, "accepted");
  CHECK(strstr(sentence, "more than 262144 steps") != NULL, "%s", sentence);
  free(text);
}

/* A long chain of blocks that wait for each other in the wrong order. */
DF_TEST(plan_file, steps_that_take_too_long_to_order, 60) {
  enum { BLOCKS = 2000, STEPS = 100 };
  char *text = NULL, sentence[DF_SENTENCE_BYTES];
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  fputs(HEAD("2") "<gpu id='0'>\n", out);
  for (int b = 0; b < BLOCKS; b++) {
    fprintf(out, "<tb id='%d'>\n", b);
    for (int s = 0; s < STEPS; s++)
      if (b + 1 < BLOCKS)
        fprintf(out, "<step s='%d' type='nop' depid='%d' deps='%d'/>\n", s, b + 1, STEPS - 1);
      else
        fprintf(out, "<step s='%d' type='nop'/>\n", s);
    fputs("</tb>\n", out);
  }
  fputs("</gpu><gpu id='1'/></algo>", out);
  fclose(out);
  CHECK(df_plan_file_make("test.xml", text, bytes, sentence, sizeof sentence) == NULL, "accepted");
  CHECK(strstr(sentence, "take too long") != NULL, "%s", sentence);
  free(text);
}
