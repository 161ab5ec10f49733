/*
 * The reader of MSCCL's XML, by libxml2. It refuses document types, so there are no entities, and
 * reads only the given text. One thread at a time uses libxml2, which is initialised before the
 * first use.
 */
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlerror.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/mutex.h"
#include "base/text.h"
#include "plans/msccl/model.h"

enum { ALGO, GPU, TB, STEP, COPY, ELEMENTS };
enum { VALUE_BYTES = 80, MOST_DEPTH = 4 };

typedef struct reader {
  xmlParserCtxtPtr context;
  df_file_model *model;
  df_file_diagnostic *diagnostic;
  uint32_t depth;
  int open[MOST_DEPTH + 1]; /* depth in elements */
  int ended;                /* the only <algo> */
  uint32_t rank;
  uint32_t block_capacity, step_capacity;
  int32_t declared_channels;
} reader;

/* The attributes of one element, as libxml2 gives them. */
typedef struct attributes {
  reader *in;
  const char *element;
  int n;
  const xmlChar **of; /* [n][5]: name, prefix, URI, value, end of the value */
} attributes;

static uint32_t line_of(const reader *in) {
  return in->context->input ? (uint32_t)in->context->input->line : 0;
}

#define REFUSE(in, ...) df_file_complain((in)->diagnostic, line_of(in), __VA_ARGS__)

/* ---- attributes */

/* Returns 0 if the attribute is missing. A longer value is truncated; no valid value is so long. */
static int find(const attributes *a, const char *name, char *value) {
  for (int i = 0; i < a->n; i++) {
    const xmlChar **one = &a->of[5 * i];
    if (strcmp((const char *)one[0], name) != 0) continue;
    const size_t length = (size_t)(one[4] - one[3]);
    const size_t kept = length < VALUE_BYTES ? length : VALUE_BYTES - 1;
    memcpy(value, one[3], kept);
    value[kept] = '\0';
    return 1;
  }
  return 0;
}

static int read_whole(const char *text, int64_t *number) {
  uint64_t digits;
  const char *end;
  const int negative = *text == '-';
  if (!df_read_digits(text + negative, INT64_MAX, &digits, &end) || *end != '\0') return 0;
  *number = negative ? -(int64_t)digits : (int64_t)digits;
  return 1;
}

/* `missing`: the value of a missing attribute; INT64_MIN: the attribute must be there. */
static int number(const attributes *a, const char *name, int64_t least, int64_t most,
                  int64_t missing, int64_t *value) {
  char text[VALUE_BYTES], shown[VALUE_BYTES];
  if (!find(a, name, text)) {
    *value = missing;
    if (missing != INT64_MIN) return 1;
    return REFUSE(a->in, "<%s> has no attribute %s", a->element, name);
  }
  if (read_whole(text, value) && *value >= least && *value <= most) return 1;
  df_escape(shown, sizeof shown, text);
  return REFUSE(a->in, "%s=\"%s\" of <%s>: it must be a whole number from %lld to %lld", name,
                shown, a->element, (long long)least, (long long)most);
}

/* ---- nesting of elements */

static void *room(reader *in, void *array, uint32_t used, uint32_t *capacity, size_t item) {
  if (used < *capacity) return array;
  const uint32_t larger = *capacity ? 2 * *capacity : 64;
  void *moved = realloc(array, larger * item);
  if (moved == NULL) {
    df_file_no_memory(in->diagnostic);
    return NULL;
  }
  *capacity = larger;
  return moved;
}

/* NULL: out of memory, or too many. */
static df_file_step *add_step(reader *in) {
  df_file_model *m = in->model;
  if (m->n_steps == DF_FILE_MOST_STEPS)
    return REFUSE(in, "more than %d steps", DF_FILE_MOST_STEPS), NULL;
  df_file_step *steps = room(in, m->steps, m->n_steps, &in->step_capacity, sizeof *steps);
  if (steps == NULL) return NULL;
  m->steps = steps;
  m->blocks[m->n_blocks - 1].n_steps++;
  steps[m->n_steps] = (df_file_step){
      .line = line_of(in), .count = 1, .after_block = -1, .after_step = -1, .order = -1};
  return &steps[m->n_steps++];
}

static df_file_block *add_block(reader *in) {
  df_file_model *m = in->model;
  if (m->n_blocks == DF_FILE_MOST_BLOCKS)
    return REFUSE(in, "more than %d blocks (<tb>)", DF_FILE_MOST_BLOCKS), NULL;
  df_file_block *blocks = room(in, m->blocks, m->n_blocks, &in->block_capacity, sizeof *blocks);
  if (blocks == NULL) return NULL;
  m->blocks = blocks;
  m->ranks[in->rank].n_blocks++;
  blocks[m->n_blocks] = (df_file_block){
      .line = line_of(in), .id = -1, .send_to = -1, .recv_from = -1, .first = m->n_steps};
  return &blocks[m->n_blocks++];
}

static int read_operation(const attributes *a) {
  static const struct {
    const char *word;
    df_operation operation;
  } words[] = {{"allreduce", DF_OP_ALL_REDUCE},
               {"all_reduce", DF_OP_ALL_REDUCE},
               {"allgather", DF_OP_ALL_GATHER},
               {"all_gather", DF_OP_ALL_GATHER},
               {"reducescatter", DF_OP_REDUCE_SCATTER},
               {"reduce_scatter", DF_OP_REDUCE_SCATTER},
               {"reduce", DF_OP_REDUCE},
               {"broadcast", DF_OP_BROADCAST},
               {"alltoall", DF_OP_ALL_TO_ALL},
               {"all_to_all", DF_OP_ALL_TO_ALL},
               {"gather", DF_OP_GATHER},
               {"scatter", DF_OP_SCATTER}};
  char text[VALUE_BYTES], shown[VALUE_BYTES];
  if (!find(a, "coll", text)) return REFUSE(a->in, "<algo> has no attribute coll");
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(text, words[i].word) == 0) {
      a->in->model->operation = words[i].operation;
      return 1;
    }
  df_escape(shown, sizeof shown, text);
  return REFUSE(a->in,
                "coll=\"%s\" is none of allreduce, allgather, reducescatter, reduce, broadcast, "
                "alltoall, gather, scatter",
                shown);
}

static int read_algo(const attributes *a) {
  df_file_model *m = a->in->model;
  int64_t n = 0, chunks = 0, in_place = 0, out_of_place = 0, least = 0, most = 0, root = 0;
  int64_t channels = 0;
  char name[VALUE_BYTES] = "";
  m->line = line_of(a->in);
  find(a, "name", name);
  df_escape(m->name, sizeof m->name, name);
  if (!read_operation(a) || !number(a, "ngpus", 2, DF_FILE_MOST_RANKS, INT64_MIN, &n) ||
      !number(a, "nchunksperloop", 1, DF_FILE_MOST_CHUNKS, INT64_MIN, &chunks) ||
      !number(a, "nchannels", 1, DF_FILE_MOST_CHANNELS, DF_FILE_MOST_CHANNELS, &channels) ||
      !number(a, "inplace", 0, 1, 0, &in_place) ||
      !number(a, "outofplace", 0, 1, !in_place, &out_of_place) ||
      !number(a, "minBytes", 0, INT64_MAX, 0, &least) ||
      !number(a, "maxBytes", 0, INT64_MAX, 0, &most) || !number(a, "root", 0, n - 1, 0, &root))
    return 0;
  const int wide = df_operation_is_wide(m->operation, 0) || df_operation_is_wide(m->operation, 1);
  if (wide && chunks % n != 0)
    return REFUSE(a->in, "nchunksperloop=\"%lld\": each of %lld ranks must have as many",
                  (long long)chunks, (long long)n);
  m->n = (uint32_t)n;
  m->root = (uint32_t)root;
  m->chunks = (uint32_t)chunks;
  m->pieces = (uint32_t)(wide ? chunks / n : chunks);
  m->in_place = in_place && !out_of_place ? 1 : in_place ? 2 : 0; /* 2: explained at read_gpu */
  m->least = (uint64_t)least;
  m->most = (uint64_t)most;
  a->in->declared_channels = (int32_t)channels;
  m->ranks = calloc(m->n, sizeof *m->ranks);
  return m->ranks != NULL || df_file_no_memory(a->in->diagnostic);
}

static int read_gpu(const attributes *a) {
  df_file_model *m = a->in->model;
  int64_t id = 0, scratch = 0, outputs = 0;
  if (!number(a, "id", 0, m->n - 1, INT64_MIN, &id) ||
      !number(a, "s_chunks", 0, DF_FILE_MOST_CHUNKS, 0, &scratch) ||
      !number(a, "o_chunks", 0, DF_FILE_MOST_CHUNKS, 0, &outputs))
    return 0;
  if (m->ranks[id].line)
    return REFUSE(a->in, "<gpu id=\"%lld\"> is there a second time; the first is in line %u",
                  (long long)id, m->ranks[id].line);
  a->in->rank = (uint32_t)id;
  m->ranks[id] = (df_file_rank){.line = line_of(a->in),
                                .scratch_chunks = (uint32_t)scratch,
                                .output_chunks = (uint32_t)outputs,
                                .first = m->n_blocks};
  return 1;
}

static int read_block(const attributes *a) {
  const df_file_model *m = a->in->model;
  int64_t id = 0, send = -1, recv = -1, channel = 0;
  if (!number(a, "id", 0, DF_FILE_MOST_BLOCKS - 1, INT64_MIN, &id) ||
      !number(a, "send", -1, m->n - 1, -1, &send) || !number(a, "recv", -1, m->n - 1, -1, &recv) ||
      !number(a, "chan", send < 0 && recv < 0 ? -1 : 0, a->in->declared_channels - 1, 0, &channel))
    return 0;
  if (send == (int64_t)a->in->rank || recv == (int64_t)a->in->rank)
    return REFUSE(a->in, "block %lld of rank %u names its own rank as a peer", (long long)id,
                  a->in->rank);
  df_file_block *block = add_block(a->in);
  if (block == NULL) return 0;
  block->id = (int32_t)id;
  block->send_to = (int32_t)send;
  block->recv_from = (int32_t)recv;
  block->channel = (uint32_t)DF_MAX(channel, 0); /* -1 in older files: a block without peers */
  return 1;
}

/* names: of the attributes for buffer and offset; older files have one pair for both places. */
static int read_place(const attributes *a, const char *buffer, const char *offset, uint32_t count,
                      df_file_place *place) {
  char text[VALUE_BYTES], shown[VALUE_BYTES];
  int64_t at = 0;
  const int is_old = !find(a, buffer, text);
  if (is_old && !find(a, "buf", text)) return REFUSE(a->in, "<step> has no attribute %s", buffer);
  place->buffer = strcmp(text, "i") == 0   ? DF_BUFFER_INPUT
                  : strcmp(text, "o") == 0 ? DF_BUFFER_OUTPUT
                  : strcmp(text, "s") == 0 ? DF_BUFFER_SCRATCH
                                           : DF_BUFFER_NONE;
  if (place->buffer == DF_BUFFER_NONE) {
    df_escape(shown, sizeof shown, text);
    return REFUSE(a->in, "%s=\"%s\" is none of i, o, s", is_old ? "buf" : buffer, shown);
  }
  if (!number(a, is_old ? "off" : offset, 0, DF_FILE_MOST_CHUNKS, INT64_MIN, &at)) return 0;
  const uint32_t chunks = df_file_chunks(a->in->model, a->in->rank, place->buffer);
  if (at + count > chunks)
    return REFUSE(a->in, "chunks %lld to %lld of buffer %s of rank %u, which has %u", (long long)at,
                  (long long)at + count - 1, text, a->in->rank, chunks);
  place->chunk = (uint32_t)at;
  return 1;
}

static int read_kind(const attributes *a, df_file_kind *kind) {
  static const char *const words[DF_FILE_KINDS] = {"s",    "r",   "rcs", "rrs", "rrc",
                                                   "rrcs", "cpy", "re",  "nop"};
  char text[VALUE_BYTES], shown[VALUE_BYTES];
  if (!find(a, "type", text)) return REFUSE(a->in, "<step> has no attribute type");
  for (int i = 0; i < DF_FILE_KINDS; i++)
    if (strcmp(text, words[i]) == 0) {
      *kind = (df_file_kind)i;
      return 1;
    }
  df_escape(shown, sizeof shown, text);
  return REFUSE(a->in, "type=\"%s\" is none of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop", shown);
}

static int check_peers(const attributes *a, df_file_kind kind, const df_file_block *block) {
  if (df_file_sends(kind) && block->send_to < 0)
    return REFUSE(a->in, "a step that sends, in block %d, which sends to nobody", block->id);
  if (df_file_receives(kind) && block->recv_from < 0)
    return REFUSE(a->in, "a step that receives, in block %d, which receives from nobody",
                  block->id);
  return 1;
}

static int read_step(const attributes *a) {
  df_file_model *m = a->in->model;
  df_file_step step = {.line = line_of(a->in), .count = 1};
  const df_file_block block = m->blocks[m->n_blocks - 1];
  int64_t number_of = 0, count = 0, after_block = -1, after_step = -1, somebody = 0, order = -1;
  char text[VALUE_BYTES];
  const char *s = find(a, "s", text) ? "s" : "step"; /* older files */
  if (!number(a, s, 0, DF_FILE_MOST_STEPS, INT64_MIN, &number_of) || !read_kind(a, &step.kind) ||
      !number(a, "cnt", step.kind != DF_FILE_NOTHING, DF_FILE_MOST_CHUNKS, 1, &count) ||
      !number(a, "depid", -1, DF_FILE_MOST_BLOCKS, -1, &after_block) ||
      !number(a, "deps", -1, DF_FILE_MOST_STEPS, -1, &after_step) ||
      !number(a, "hasdep", 0, 1, 0, &somebody) || !number(a, "order", 0, INT32_MAX, -1, &order))
    return 0;
  if (number_of != block.n_steps)
    return REFUSE(a->in, "%s=\"%lld\": the block's steps are numbered from 0, and this is step %u",
                  s, (long long)number_of, block.n_steps);
  if ((after_block < 0) != (after_step < 0))
    return REFUSE(a->in, "depid=\"%lld\" and deps=\"%lld\": either both name a step, or none does",
                  (long long)after_block, (long long)after_step);
  step.count = (uint32_t)(count ? count : 1);
  step.after_block = (int32_t)after_block;
  step.after_step = (int32_t)after_step;
  step.order = (int32_t)order; /* not part of MSCCL: dfccl-info and dfccl-synthesise write it */
  if (!check_peers(a, step.kind, &block)) return 0;
  if (df_file_reads(step.kind) && !read_place(a, "srcbuf", "srcoff", step.count, &step.source))
    return 0;
  if (df_file_stores(step.kind) &&
      !read_place(a, "dstbuf", "dstoff", step.count, &step.destination))
    return 0;
  df_file_step *added = add_step(a->in);
  if (added == NULL) return 0;
  *added = step;
  return 1;
}

/* An element of TE-CCL's files: chunks that a run out of place copies before everything else. They
 * become their own block. */
static int read_copy(const attributes *a) {
  df_file_model *m = a->in->model;
  int64_t from = 0, to = 0;
  const uint32_t inputs = df_file_chunks(m, a->in->rank, DF_BUFFER_INPUT);
  const uint32_t outputs = df_file_chunks(m, a->in->rank, DF_BUFFER_OUTPUT);
  if (!number(a, "i_off", 0, inputs - 1, INT64_MIN, &from) ||
      !number(a, "o_off", 0, outputs - 1, INT64_MIN, &to))
    return 0;
  df_file_rank *rank = &m->ranks[a->in->rank];
  const int has_block = rank->n_blocks > 0 && m->blocks[rank->first].id < 0;
  if (rank->n_blocks > 0 && !has_block)
    return REFUSE(a->in, "<copy> comes behind a <tb>; copies are before all blocks");
  if (!has_block && add_block(a->in) == NULL) return 0;
  df_file_step *step = add_step(a->in);
  if (step == NULL) return 0;
  step->kind = DF_FILE_COPY;
  step->source = (df_file_place){DF_BUFFER_INPUT, (uint32_t)from};
  step->destination = (df_file_place){DF_BUFFER_OUTPUT, (uint32_t)to};
  return 1;
}

/* ---- callbacks of libxml2 */

static void stop(reader *in) { xmlStopParser(in->context); }

static void handle_start(void *context, const xmlChar *name, const xmlChar *prefix,
                         const xmlChar *uri, int n_namespaces, const xmlChar **namespaces,
                         int n_attributes, int n_defaulted, const xmlChar **given) {
  static const struct {
    const char *name;
    int inside; /* ELEMENTS: no element */
    int (*read)(const attributes *a);
  } elements[ELEMENTS] = {{"algo", ELEMENTS, read_algo},
                          {"gpu", ALGO, read_gpu},
                          {"tb", GPU, read_block},
                          {"step", TB, read_step},
                          {"copy", GPU, read_copy}};
  reader *in = ((xmlParserCtxtPtr)context)->_private;
  (void)prefix, (void)uri, (void)n_namespaces, (void)namespaces, (void)n_defaulted;
  if (in->diagnostic->is_made) return;
  char shown[VALUE_BYTES], short_name[VALUE_BYTES];
  snprintf(short_name, sizeof short_name, "%s", (const char *)name);
  df_escape(shown, sizeof shown, short_name);
  const int inside = in->depth ? in->open[in->depth - 1] : ELEMENTS;
  int which = 0;
  while (which < ELEMENTS && strcmp(elements[which].name, (const char *)name) != 0) which++;
  if (which == ELEMENTS || elements[which].inside != inside || in->depth == MOST_DEPTH) {
    REFUSE(in, "<%s> has no place here", shown);
    stop(in);
    return;
  }
  const attributes a = {.in = in, .element = elements[which].name, .n = n_attributes, .of = given};
  in->open[in->depth++] = which;
  if (!elements[which].read(&a)) stop(in);
}

static void handle_end(void *context, const xmlChar *name, const xmlChar *prefix,
                       const xmlChar *uri) {
  reader *in = ((xmlParserCtxtPtr)context)->_private;
  (void)name, (void)prefix, (void)uri;
  if (in->diagnostic->is_made) return;
  if (in->depth > 0) in->depth--;
  if (in->depth == 0) in->ended = 1;
}

static void handle_text(void *context, const xmlChar *text, int length) {
  reader *in = ((xmlParserCtxtPtr)context)->_private;
  if (in->diagnostic->is_made) return;
  for (int i = 0; i < length; i++)
    if (strchr(" \t\r\n", text[i]) == NULL) {
      REFUSE(in, "text between elements");
      stop(in);
      return;
    }
}

static void handle_document_type(void *context, const xmlChar *name, const xmlChar *external,
                                 const xmlChar *system) {
  reader *in = ((xmlParserCtxtPtr)context)->_private;
  (void)name, (void)external, (void)system;
  REFUSE(in, "a document type; such a file needs none, and entities are not read");
  stop(in);
}

static void handle_error(void *context, xmlErrorPtr error) {
  reader *in = ((xmlParserCtxtPtr)context)->_private;
  char text[160], shown[160];
  if (error->level < XML_ERR_ERROR || in->diagnostic->is_made) return;
  snprintf(text, sizeof text, "%s", error->message ? error->message : "no XML");
  text[strcspn(text, "\n")] = '\0';
  df_escape(shown, sizeof shown, text);
  df_file_complain(in->diagnostic, (uint32_t)error->line, "%s", shown);
}

/* ---- the whole file */

static void prepare_libxml2(void) { xmlInitParser(); }

static void parse(reader *in, const char *text, size_t bytes) {
  xmlSAXHandler handlers;
  memset(&handlers, 0, sizeof handlers);
  handlers.initialized = XML_SAX2_MAGIC;
  handlers.startElementNs = handle_start;
  handlers.endElementNs = handle_end;
  handlers.characters = handle_text;
  handlers.cdataBlock = handle_text;
  handlers.internalSubset = handle_document_type;
  handlers.serror = handle_error;
  in->context = xmlCreateMemoryParserCtxt(text, (int)bytes);
  if (in->context == NULL) {
    df_file_no_memory(in->diagnostic);
    return;
  }
  in->context->_private = in;
  *in->context->sax = handlers;
  xmlCtxtUseOptions(in->context, XML_PARSE_NONET | XML_PARSE_NODICT | XML_PARSE_BIG_LINES);
  xmlParseDocument(in->context);
  if (!in->diagnostic->is_made && (!in->context->wellFormed || !in->ended))
    REFUSE(in, "no MSCCL algorithm: it must be one <algo> with a <gpu> for each rank");
  if (in->context->myDoc) xmlFreeDoc(in->context->myDoc);
  in->context->myDoc = NULL;
  xmlFreeParserCtxt(in->context);
}

int df_file_parse(df_file_model *model, const char *text, size_t bytes,
                  df_file_diagnostic *diagnostic) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static df_mutex lock = DF_MUTEX_INITIALIZER;
  reader in = {.model = model, .diagnostic = diagnostic};
  memset(model, 0, sizeof *model);
  if (bytes == 0) return df_file_complain(diagnostic, 1, "it is empty");
  if (bytes > DF_FILE_MOST_BYTES)
    return df_file_complain(diagnostic, 0, "it has %zu bytes; at most %d are possible", bytes,
                            DF_FILE_MOST_BYTES);
  df_lock(&lock);
  pthread_once(&once, prepare_libxml2);
  parse(&in, text, bytes);
  df_unlock(&lock);
  if (!diagnostic->is_made) df_file_model_finish(model, diagnostic);
  if (!diagnostic->is_made) return 1;
  df_file_model_free(model);
  return 0;
}
