/*
 * Promises of src/tuning/space.c:
 *   - The search begins with the registered variant, and has each other algorithm of the operation.
 *   - Each algorithm may copy instead of lend if a message may be as long as the whole buffer.
 *   - The tuning-table rule of a point leads back to the same point.
 *   - Files for the operation, the group's size and bytes are algorithms like others, if all ranks
 *     add in one order.
 */
#include "tuning/space.h"

#include <stdio.h>
#include <string.h>

#include "support/algorithm_files.h"
#include "support/harness.h"

typedef struct {
  df_tuning tuning;
  df_configuration configuration;
  df_coordinate_descent descent;
  df_space space;
} some;

static df_file_directory files; /* variants that may be tried */
static int varies;
static uint32_t most_blocks = 4, own_blocks = 1;

static void make(some *s, df_operation operation, uint32_t n, uint64_t bytes, int algorithm) {
  memset(s, 0, sizeof *s);
  df_tuning_default(&s->tuning);
  s->configuration.choice.algorithm = algorithm;
  s->configuration.shape.n_blocks = own_blocks;
  const df_space_question question = {.registered = &s->configuration,
                                      .policy = &s->tuning.policy,
                                      .operation = operation,
                                      .n = n,
                                      .bytes = bytes,
                                      .max_blocks = most_blocks,
                                      .files = &files,
                                      .varying = varies};
  df_space_make(&s->space, &question, &s->descent);
}

DF_TEST(space, all_algorithms_the_registered_one_first, 30) {
  static some s;
  make(&s, DF_OP_REDUCE, 8, 65536, DF_BINOMIAL);
  uint32_t n = 0;
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
    n += algorithm != DF_HIERARCHICAL && df_algorithm_has(algorithm, DF_OP_REDUCE);
  CHECK(s.descent.n_subspaces == n, "%u of %u", s.descent.n_subspaces, n);
  CHECK(s.space.algorithms[0] == DF_BINOMIAL, "%u", s.space.algorithms[0]);
  df_point first;
  CHECK(df_coordinate_descent_next(&s.descent, &first), "no point");
  CHECK(df_space_variant(&s.space, &s.descent, &first).algorithm == DF_AS_REGISTERED, "another");
}

/* Whether the space has the rule. */
static int has(const some *s, const df_rule *wanted) {
  df_point point;
  if (!df_space_find(&s->space, &s->descent, wanted, &point)) return 0;
  const df_rule rule = df_space_rule(&s->space, &s->descent, &point);
  return rule.algorithm == wanted->algorithm && rule.slot_bytes == wanted->slot_bytes &&
         rule.slots == wanted->slots && rule.copies == wanted->copies &&
         rule.blocks == wanted->blocks;
}

/* The best rule for a grid on two cores: an eighth of the buffer is too short to be lent, the whole
 * is not. */
DF_TEST(space, copies_of_whole_buffers, 30) {
  static some s;
  make(&s, DF_OP_REDUCE, 8, 65536, DF_BINOMIAL);
  for (uint32_t copies = 0; copies < 2; copies++) {
    const df_rule rule = {
        .algorithm = DF_RING, .slot_bytes = 65536, .slots = 4, .copies = copies, .blocks = 1};
    CHECK(has(&s, &rule), "ring, copies %u", copies);
  }
  make(&s, DF_OP_REDUCE, 8, 8192, DF_BINOMIAL);
  const df_rule rule = {
      .algorithm = DF_RING, .slot_bytes = 8192, .slots = 4, .copies = 1, .blocks = 1};
  CHECK(!has(&s, &rule), "nothing is lent of so few bytes");
}

/* Checks that the rule of every point leads back to it. Returns the number of points. */
static uint32_t come_back(const some *all) {
  some s = *all;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s.descent.n_subspaces; i++) {
    const uint8_t *sizes = s.descent.climbs[i].sizes;
    df_point p = {.subspace = (uint8_t)i}, back;
    for (p.at[0] = 0; p.at[0] < sizes[0]; p.at[0]++)
      for (p.at[1] = 0; p.at[1] < sizes[1]; p.at[1]++)
        for (p.at[2] = 0; p.at[2] < sizes[2]; p.at[2]++)
          for (p.at[3] = 0; p.at[3] < sizes[3]; p.at[3]++)
            for (p.at[4] = 0; p.at[4] < sizes[4]; p.at[4]++, n++) {
              const df_rule rule = df_space_rule(&s.space, &s.descent, &p);
              CHECK(df_space_find(&s.space, &s.descent, &rule, &back), "none");
              CHECK(memcmp(&p, &back, sizeof p) == 0, "subspace %u, point %u", i, n);
            }
  }
  return n;
}

DF_TEST(space, every_point_as_a_rule, 30) {
  static some s;
  make(&s, DF_OP_ALL_REDUCE, 8, 1 << 20, DF_DIRECT);
  CHECK(come_back(&s) > 1000, "%u points", come_back(&s));
}

/* Between hosts a collective has up to three blocks. */
DF_TEST(space, as_many_blocks_as_there_may_be, 30) {
  static some s;
  for (most_blocks = 1; most_blocks <= 32; most_blocks++) {
    own_blocks = most_blocks;
    make(&s, DF_OP_ALL_REDUCE, 2, 4 << 20, DF_DIRECT);
    df_point point = s.space.registered;
    point.at[1] = (uint8_t)(point.at[1] == 0); /* other slots, and no other difference */
    const df_variant_spec spec = df_space_variant(&s.space, &s.descent, &point);
    CHECK(most_blocks == 1 || spec.blocks == most_blocks, "%u of %u", spec.blocks, most_blocks);
    CHECK(come_back(&s) > 100, "%u points", come_back(&s));
  }
  most_blocks = 4;
  own_blocks = 1;
}

/* The library may have been built without files. */
static int has_no_files;
static void not_expected(const char *sentence) {
  has_no_files = strstr(sentence, "built without libxml2") != NULL;
  CHECK(has_no_files, "%s", sentence);
}

static uint32_t files_in(const some *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->descent.n_subspaces; i++)
    n += s->space.algorithms[i] == DF_FROM_FILE && s->space.files[i] != NULL;
  return n;
}

DF_TEST(space, files_that_fit, 60) {
  static some s;
  uint32_t wanted = 0;
  const char *path = df_algorithm_directory(4);
  df_file_directory_read(&files, path, not_expected);
  if (has_no_files) {
    df_algorithm_directory_remove(path);
    return;
  }
  CHECK(files.n == (uint32_t)df_algorithm_files_count, "%u files", files.n);
  for (int i = 0; i < df_algorithm_files_count; i++)
    wanted += df_algorithm_files[i].kind == DF_ALL_REDUCE;
  make(&s, DF_OP_ALL_REDUCE, 4, 1 << 20, DF_RING);
  CHECK(files_in(&s) == wanted && wanted > 1, "%u of %u", files_in(&s), wanted);
  come_back(&s);
  df_point of_file;
  const df_plan_file *file = df_file_directory_named(&files, "all-pairs");
  const df_rule rule = {.algorithm = DF_FROM_FILE, .loaded = file, .slot_bytes = 65536};
  CHECK(df_space_find(&s.space, &s.descent, &rule, &of_file), "all-pairs is not in the space");
  const df_variant_spec spec = df_space_variant(&s.space, &s.descent, &of_file);
  CHECK(spec.algorithm == DF_FROM_FILE && spec.file == df_plan_file_facts_of(file).hash &&
            spec.slot_bytes == 65536,
        "%u, slots of %u", spec.algorithm, spec.slot_bytes);
  make(&s, DF_OP_ALL_REDUCE, 5, 1 << 20, DF_RING);
  CHECK(files_in(&s) == 0, "they are for 4 ranks");
  varies = 1;
  make(&s, DF_OP_ALL_REDUCE, 4, 1 << 20, DF_RING);
  CHECK(files_in(&s) == 0, "their runs have the registered count");
  df_algorithm_directory_remove(path);
}

/* Each of three ranks adds its own element first, so rank 2's sum differs. */
static const char own_first[] =
    "<algo name=\"own\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"3\" "
    "coll=\"allreduce\" inplace=\"0\" outofplace=\"1\">\n";
static const char own_first_rank[] =
    " <gpu id=\"%d\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"0\">\n"
    "  <tb id=\"0\" send=\"%d\" recv=\"%d\" chan=\"0\">\n"
    "   <step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "   <step s=\"1\" type=\"cpy\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "   <step s=\"2\" type=\"rrc\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>\n"
    "  </tb>\n"
    "  <tb id=\"1\" send=\"%d\" recv=\"%d\" chan=\"0\">\n"
    "   <step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "   <step s=\"1\" type=\"rrc\" srcbuf=\"o\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"0\" deps=\"2\" hasdep=\"0\"/>\n"
    "  </tb>\n </gpu>\n";

/* Some of the generated files are for groups of even size only. */
static void is_left_out(const char *sentence) {
  has_no_files |= strstr(sentence, "built without libxml2") != NULL;
}

DF_TEST(space, files_by_which_ranks_differ_are_not_tried, 60) {
  static some s;
  char text[16384];
  int at = snprintf(text, sizeof text, "%s", own_first);
  for (int r = 0; r < 3; r++) {
    const int next = (r + 1) % 3, last = (r + 2) % 3;
    at += snprintf(text + at, sizeof text - (size_t)at, own_first_rank, r, next, next, last, last);
  }
  snprintf(text + at, sizeof text - (size_t)at, "</algo>\n");
  const char *path = df_algorithm_directory(3);
  df_algorithm_write(path, "own-first", text);
  df_file_directory_read(&files, path, is_left_out);
  if (!has_no_files) {
    const df_plan_file *file = df_file_directory_named(&files, "own-first");
    CHECK(file != NULL && !df_plan_file_facts_of(file).same_bits, "it adds in one order");
    make(&s, DF_OP_ALL_REDUCE, 3, 1 << 20, DF_RING);
    CHECK(files_in(&s) == 2, "%u files", files_in(&s));
    for (uint32_t i = 0; i < s.descent.n_subspaces; i++)
      CHECK(s.space.files[i] != file, "it is tried");
  }
  df_algorithm_directory_remove(path);
}
