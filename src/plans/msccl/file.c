#include "plans/msccl/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plans/build.h"
#include "plans/check/check.h"
#include "plans/msccl/convert.h"

/* One list has one chunk per message, for long collectives; the other has rows of chunks, for short
 * ones. */
enum { ONE_BY_ONE, ROWS, FORMS };

typedef struct form {
  df_file_order order;
  uint32_t slots;
  int exists;
  int ordered, same_bits, lends, lends_in_place;
} form;

struct df_plan_file {
  char name[DF_FILE_NAME_BYTES];
  uint64_t hash;
  df_file_model model;
  form forms[FORMS];
  df_plan_file_facts facts;
};

/* ---- one list per rank */

/* Finds the least number of slots, a power of two; then makes a list for links with that number, at
 * least two. */
static int order_form(df_plan_file *file, int one_by_one, form *f, df_file_diagnostic *diagnostic) {
  int fine = df_file_connect(&file->model, &f->order, diagnostic) ? -1 : 0;
  for (f->slots = 1; fine < 0 && f->slots <= DF_MAX_LINK_SLOTS; f->slots *= 2) {
    fine = df_file_schedule(&file->model, f->slots, one_by_one, &f->order, diagnostic);
    if (fine > 0) break;
  }
  if (fine < 0)
    return df_file_complain(diagnostic, file->model.line,
                            "needs more than %d slots in a connection, one chunk each",
                            DF_MAX_LINK_SLOTS);
  if (fine > 0 && f->slots < DF_MIN_LINK_SLOTS)
    fine = df_file_schedule(&file->model, DF_MIN_LINK_SLOTS, one_by_one, &f->order, diagnostic);
  return fine;
}

/* ---- proof */

typedef struct proof {
  df_plan_file *file;
  const form *form;
  df_plan *plans[DF_FILE_MOST_RANKS];
  uint32_t *lines[DF_FILE_MOST_RANKS];
  df_plan_check_findings findings;
  char sentence[DF_SENTENCE_BYTES];
} proof;

static df_plan_key key_of(const df_plan_file *file, uint32_t position, int average, int several) {
  return (df_plan_key){.operation = file->model.operation,
                       .algorithm = DF_FROM_FILE,
                       .n = file->model.n,
                       .position = position,
                       .root = file->model.root,
                       .average = average,
                       .cuts.row = several ? DF_ROW_WHOLE : 1,
                       .file = file};
}

static void free_plans(proof *p) {
  for (uint32_t r = 0; r < DF_FILE_MOST_RANKS; r++) {
    df_plan_free(p->plans[r]);
    free(p->lines[r]);
    p->plans[r] = NULL;
    p->lines[r] = NULL;
  }
}

/* The result is as in df_file_convert. */
static int make_plans(proof *p, int which, int average, df_file_diagnostic *diagnostic) {
  const df_file_model *m = &p->file->model;
  int fine = 1;
  free_plans(p);
  for (uint32_t r = 0; r < m->n; r++) {
    const df_plan_key key = key_of(p->file, r, average, which == ROWS);
    p->plans[r] = df_plan_begin(&key);
    if (p->plans[r] == NULL) fine = df_file_no_memory(diagnostic);
  }
  const df_file_target target = {.root = m->root,
                                 .one_by_one = which == ONE_BY_ONE,
                                 .average = average,
                                 .plans = p->plans,
                                 .lines = p->lines};
  if (fine) fine = df_file_convert(m, &p->form->order, &target, diagnostic);
  for (uint32_t r = 0; r < m->n && p->plans[r]; r++) p->plans[r]->least_slots = p->form->slots;
  return fine;
}

typedef struct question {
  int in_place, scales;
  df_plan_lending lending;
  uint32_t slots, last_pieces;
} question;

static int is_proven(proof *p, const question *q) {
  const df_plan_check_options options = {.slots = q->slots,
                                         .loops = 2,
                                         .last_pieces = q->last_pieces,
                                         .in_place = q->in_place,
                                         .scales = q->scales,
                                         .lending = q->lending,
                                         .any_order = 1,
                                         .findings = &p->findings};
  return df_plan_check(p->plans, &options, p->sentence, sizeof p->sentence) == dfcclSuccess;
}

/* Records the checker's diagnostic, at the line of the primitive. */
static int report_finding(const proof *p, df_file_diagnostic *diagnostic) {
  const df_plan_check_findings *f = &p->findings;
  uint32_t line = p->file->model.line;
  if (f->rank < p->file->model.n && p->lines[f->rank])
    line = f->is_result || f->primitive >= p->plans[f->rank]->n_primitives
               ? p->file->model.ranks[f->rank].line
               : p->lines[f->rank][f->primitive];
  return df_file_complain(diagnostic, line, "%s", p->sentence);
}

/* The proof must hold for any number of slots. For lending, the largest number is the hardest case,
 * since no write follows a release; for waits, the smallest is. */
static int prove_form(df_plan_file *file, int which, form *f, df_file_diagnostic *diagnostic) {
  proof *p = calloc(1, sizeof *p);
  if (p == NULL) return df_file_no_memory(diagnostic);
  *p = (proof){.file = file, .form = f};
  const uint32_t least = f->slots < DF_MIN_LINK_SLOTS ? (uint32_t)DF_MIN_LINK_SLOTS : f->slots;
  const int reduces = df_operation_reduces(file->model.operation);
  f->ordered = f->same_bits = 1;
  int fine = 1;
  for (int average = reduces; fine == 1 && average >= 0; average--) {
    fine = make_plans(p, which, average, diagnostic);
    for (int in_place = 0; fine == 1 && in_place < 2; in_place++) {
      const question whole = {.in_place = in_place, .lending = DF_LENDS_NOTHING, .slots = least};
      const question cut = {
          .in_place = in_place, .lending = DF_LENDS_NOTHING, .slots = least, .last_pieces = 1};
      const question scaled = {
          .in_place = in_place, .scales = 1, .lending = DF_LENDS_NOTHING, .slots = least};
      if (!is_proven(p, &whole)) fine = report_finding(p, diagnostic);
      f->ordered &= p->findings.ordered;
      f->same_bits &= p->findings.same_bits;
      if (fine && !is_proven(p, &cut)) fine = report_finding(p, diagnostic);
      /* Only operators other than dfcclAvg scale inputs. */
      if (fine && reduces && !average && !is_proven(p, &scaled))
        fine = report_finding(p, diagnostic);
    }
  }
  if (fine == 1) {
    const question lent = {.lending = DF_LENDS_ALL, .slots = DF_MAX_LINK_SLOTS};
    question lent_in_place = lent;
    lent_in_place.in_place = 1;
    f->lends = is_proven(p, &lent);
    for (uint32_t r = 0; r < file->model.n; r++) p->plans[r]->direct_in_place = 1;
    f->lends_in_place = f->lends && is_proven(p, &lent_in_place);
    for (uint32_t r = 0; which == ONE_BY_ONE && r < file->model.n; r++) {
      const df_plan *plan = p->plans[r];
      df_plan_file_facts *facts = &file->facts;
      facts->primitives = DF_MAX(facts->primitives, plan->n_primitives);
      facts->links = DF_MAX(facts->links, plan->n_links);
      facts->scratch_chunks = plan->scratch_pieces;
    }
  }
  free_plans(p);
  free(p);
  return fine;
}

static int has_rows(const df_file_model *m) {
  for (uint32_t i = 0; i < m->n_steps; i++)
    if (m->steps[i].count > 1) return 1;
  return 0;
}

static int prove(df_plan_file *file, df_file_diagnostic *diagnostic) {
  form *single = &file->forms[ONE_BY_ONE], *rows = &file->forms[ROWS];
  single->exists = order_form(file, 1, single, diagnostic) == 1 &&
                   prove_form(file, ONE_BY_ONE, single, diagnostic) == 1;
  if (!single->exists) return 0;
  if (!has_rows(&file->model)) return 1;
  /* Rows are faster but not required. */
  char unused[DF_SENTENCE_BYTES];
  df_file_diagnostic nothing = {.file = file->name, .sentence = unused, .bytes = sizeof unused};
  rows->exists =
      order_form(file, 0, rows, &nothing) == 1 && prove_form(file, ROWS, rows, &nothing) == 1;
  if (!rows->exists) df_file_order_free(&rows->order);
  if (nothing.no_memory) return df_file_no_memory(diagnostic);
  return 1;
}

/* ---- the whole */

/* FNV-1a */
static uint64_t hash_of(const char *text, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3u;
  return hash;
}

df_plan_file *df_plan_file_make(const char *name, const char *text, size_t bytes, char *sentence,
                                size_t sentence_bytes) {
  df_file_diagnostic diagnostic = {.file = name, .sentence = sentence, .bytes = sentence_bytes};
  df_plan_file *file = calloc(1, sizeof *file);
  if (file == NULL) return df_file_no_memory(&diagnostic), NULL;
  const char *slash = strrchr(name, '/');
  snprintf(file->name, sizeof file->name, "%s", slash ? slash + 1 : name);
  file->hash = hash_of(text, bytes);
  if (df_file_parse(&file->model, text, bytes, &diagnostic) && prove(file, &diagnostic))
    return file;
  df_plan_file_free(file);
  return NULL;
}

void df_plan_file_free(df_plan_file *file) {
  if (file == NULL) return;
  for (int i = 0; i < FORMS; i++) df_file_order_free(&file->forms[i].order);
  df_file_model_free(&file->model);
  free(file);
}

uint32_t df_plan_file_channels(const df_plan_file *file) {
  return DF_MAX(file->model.n_channels, 1u);
}

df_plan_file_facts df_plan_file_facts_of(const df_plan_file *file) {
  const df_file_model *m = &file->model;
  df_plan_file_facts facts = file->facts;
  facts.name = file->name;
  facts.title = m->name;
  facts.hash = file->hash;
  facts.operation = m->operation;
  facts.n = m->n;
  facts.chunks = m->chunks;
  facts.channels = df_plan_file_channels(file);
  facts.steps = m->n_steps;
  facts.least_bytes = m->least;
  facts.most_bytes = m->most;
  facts.ordered = facts.same_bits = facts.lends = facts.lends_in_place = 1;
  for (int i = 0; i < FORMS; i++) {
    const form *f = &file->forms[i];
    if (!f->exists) continue;
    facts.slots = DF_MAX(facts.slots, f->slots);
    facts.ordered &= f->ordered;
    facts.same_bits &= f->same_bits;
    facts.lends &= f->lends;
    facts.lends_in_place &= f->lends_in_place;
  }
  facts.has_rows = file->forms[ROWS].exists;
  if (facts.has_rows) facts.row_slots = file->forms[ROWS].slots;
  return facts;
}

void df_plan_from_file(df_plan *plan) {
  char unused[16];
  const df_plan_file *file = plan->key.file;
  df_file_diagnostic diagnostic = {.file = "", .sentence = unused, .bytes = sizeof unused};
  const int which = df_plan_is_whole(plan) && file->forms[ROWS].exists ? ROWS : ONE_BY_ONE;
  const form *f = &file->forms[which];
  df_plan *plans[DF_FILE_MOST_RANKS] = {NULL};
  plans[plan->key.position] = plan;
  const df_file_target target = {.root = plan->key.root,
                                 .one_by_one = which == ONE_BY_ONE,
                                 .average = plan->key.average,
                                 .plans = plans};
  int fine = df_file_convert(&file->model, &f->order, &target, &diagnostic);
  if (fine < 0) { /* with a different root, the pieces of a row may not be side by side */
    const df_file_target single = {
        .root = plan->key.root, .one_by_one = 1, .average = plan->key.average, .plans = plans};
    f = &file->forms[ONE_BY_ONE];
    df_plan_empty(plan);
    fine = df_file_convert(&file->model, &f->order, &single, &diagnostic);
  }
  if (fine != 1) plan->failed = 1; /* the file has been proved, so the reason is lack of memory */
  plan->least_slots = f->slots;
  plan->direct_in_place = f->lends_in_place;
  plan->lends_nothing = !f->lends;
}
