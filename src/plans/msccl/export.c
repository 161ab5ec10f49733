#include "plans/msccl/export.h"

#include <stdlib.h>

#include "plans/msccl/model.h"

typedef struct step {
  uint32_t block, number; /* index within the block */
  const char *kind;
  df_file_place source, destination;
  int32_t after_block, after_step;
  int has_dependent;
} step;

typedef struct block {
  int32_t send, recv;
  uint32_t channel, n_steps;
} block;

/* Steps are identified by their index + 1. */
typedef struct place_use {
  uint32_t writer;
  uint32_t *readers; /* readers since the latest write */
  uint32_t n_readers, capacity;
} place_use;

typedef struct writer {
  const df_plan *plan;
  step *steps;
  block *blocks;
  place_use *uses[4]; /* index: the buffer */
  uint32_t chunks[4];
  uint32_t n_steps, step_capacity, n_blocks, block_capacity, scratch;
  uint32_t *wanted; /* [n_blocks] index + 1 of a step of the block */
  int failed;
} writer;

static void *grow(writer *w, void *array, uint32_t used, uint32_t *capacity, size_t item) {
  if (used < *capacity) return array;
  const uint32_t larger = *capacity ? 2 * *capacity : 16;
  void *moved = realloc(array, larger * item);
  if (moved == NULL) {
    w->failed = 1;
    return array;
  }
  *capacity = larger;
  return moved;
}

/* The block of the local steps has no peer. */
static uint32_t block_of(writer *w, int32_t send, int32_t recv, uint32_t channel) {
  for (uint32_t b = 0; b < w->n_blocks; b++)
    if (w->blocks[b].send == send && w->blocks[b].recv == recv && w->blocks[b].channel == channel)
      return b;
  w->blocks = grow(w, w->blocks, w->n_blocks, &w->block_capacity, sizeof *w->blocks);
  if (w->failed) return 0;
  w->blocks[w->n_blocks] = (block){.send = send, .recv = recv, .channel = channel};
  return w->n_blocks++;
}

static place_use *use_of(writer *w, df_file_place place) {
  if (place.buffer == DF_BUFFER_NONE) return NULL;
  if (place.chunk >= w->chunks[place.buffer]) {
    w->failed = 1;
    return NULL;
  }
  return &w->uses[place.buffer][place.chunk];
}

/* In place it is the same memory, so a chunk that is read there must be read before it is
 * overwritten. */
static df_file_place overlap(const writer *w, df_file_place place) {
  const df_plan_key *key = &w->plan->key;
  const int wide_in = df_operation_is_wide(key->operation, 0);
  const int wide_out = df_operation_is_wide(key->operation, 1);
  const uint32_t share = w->plan->geometry == DF_GEOMETRY_PIECES ? 1 : w->plan->pieces;
  const uint32_t base = key->position * share;
  df_file_place other = {DF_BUFFER_NONE, 0};
  if (place.buffer != DF_BUFFER_OUTPUT) return other;
  if (wide_in == wide_out)
    other = (df_file_place){DF_BUFFER_INPUT, place.chunk};
  else if (wide_in)
    other = (df_file_place){DF_BUFFER_INPUT, place.chunk + base};
  else if (place.chunk >= base && place.chunk < base + share)
    other = (df_file_place){DF_BUFFER_INPUT, place.chunk - base};
  return other;
}

/* This step must follow that one. The latest step of each block suffices. */
static void wait_for(writer *w, uint32_t index) {
  if (index == 0) return;
  uint32_t *wanted = &w->wanted[w->steps[index - 1].block];
  if (index > *wanted) *wanted = index;
}

static void wait_for_uses(writer *w, const place_use *use, int writes) {
  if (use == NULL) return;
  wait_for(w, use->writer);
  for (uint32_t i = 0; writes && i < use->n_readers; i++) wait_for(w, use->readers[i]);
}

static void note_read(writer *w, place_use *use, uint32_t index) {
  if (use == NULL) return;
  use->readers = grow(w, use->readers, use->n_readers, &use->capacity, sizeof *use->readers);
  if (!w->failed) use->readers[use->n_readers++] = index;
}

static step *append(writer *w, step s) {
  w->steps = grow(w, w->steps, w->n_steps, &w->step_capacity, sizeof *w->steps);
  if (w->failed) return NULL;
  s.number = w->blocks[s.block].n_steps++;
  w->steps[w->n_steps] = s;
  return &w->steps[w->n_steps++];
}

static const df_file_place nowhere = {DF_BUFFER_NONE, 0};

/* reads_too: the destination of a local reduce, which is read too. */
static void add(writer *w, const char *kind, uint32_t in, df_file_place source,
                df_file_place destination, int reads_too) {
  if (w->failed) return;
  place_use *read = use_of(w, source), *written = use_of(w, destination);
  place_use *beside = use_of(w, overlap(w, destination));
  free(w->wanted);
  w->wanted = calloc(w->n_blocks + 1u, sizeof *w->wanted);
  if (w->failed || w->wanted == NULL) {
    w->failed = 1;
    return;
  }
  wait_for_uses(w, read, 0);
  wait_for_uses(w, written, 1);
  wait_for_uses(w, beside, 1);
  step s = {.block = in,
            .kind = kind,
            .source = source,
            .destination = destination,
            .after_block = -1,
            .after_step = -1};
  for (uint32_t b = 0; b < w->n_blocks; b++) {
    if (w->wanted[b] == 0 || b == in) continue;
    if (s.after_block >= 0) /* a step can have one wait */
      append(w, (step){.block = in,
                       .kind = "nop",
                       .after_block = s.after_block,
                       .after_step = s.after_step});
    if (w->failed) return;
    step *awaited = &w->steps[w->wanted[b] - 1];
    awaited->has_dependent = 1;
    s.after_block = (int32_t)b;
    s.after_step = (int32_t)awaited->number;
  }
  if (append(w, s) == NULL) return;
  note_read(w, read, w->n_steps);
  if (reads_too) note_read(w, written, w->n_steps);
  if (written) {
    written->writer = w->n_steps;
    written->n_readers = 0;
  }
}

static void add_primitive(writer *w, const df_primitive *prim) {
  const int receives = prim->flags & DF_PRIM_RECV, reduces = prim->flags & DF_PRIM_REDUCE;
  const int stores = prim->flags & DF_PRIM_STORE;
  df_file_place source = {prim->source, prim->source_piece};
  df_file_place result = {prim->destination, prim->destination_piece};
  uint32_t local = 0, in = 0;
  if (receives) {
    const df_plan_link *link = &w->plan->links[prim->recv_link];
    in = block_of(w, -1, link->peer, link->channel);
  } else if (stores) {
    local = block_of(w, -1, -1, 0);
  }
  if (receives && !stores) result = (df_file_place){DF_BUFFER_SCRATCH, w->scratch++};
  if (receives)
    add(w, reduces ? "rrc" : "r", in, reduces ? source : nowhere, result, 0);
  else if (stores)
    add(w, reduces ? "re" : "cpy", local, source, result, reduces != 0);
  if (!(prim->flags & DF_PRIM_SEND)) return;
  const df_plan_link *link = &w->plan->links[prim->send_link];
  const uint32_t out = block_of(w, link->peer, -1, link->channel);
  add(w, "s", out, receives || (stores && reduces) ? result : source, nowhere, 0);
}

static char letter_of(df_buffer buffer) { return "iios"[buffer]; }

static void print_rank(const writer *w, uint32_t rank, FILE *out) {
  fprintf(out, "  <gpu id=\"%u\" i_chunks=\"%u\" o_chunks=\"%u\" s_chunks=\"%u\">\n", rank,
          w->chunks[DF_BUFFER_INPUT], w->chunks[DF_BUFFER_OUTPUT], w->scratch);
  for (uint32_t b = 0; b < w->n_blocks; b++) {
    const block *one = &w->blocks[b];
    fprintf(out, "    <tb id=\"%u\" send=\"%d\" recv=\"%d\" chan=\"%u\">\n", b, one->send,
            one->recv, one->channel);
    for (uint32_t i = 0; i < w->n_steps; i++) {
      const step *s = &w->steps[i];
      if (s->block != b) continue;
      const df_file_place from = s->source.buffer ? s->source : s->destination;
      const df_file_place to = s->destination.buffer ? s->destination : s->source;
      const int waits_only = from.buffer == DF_BUFFER_NONE;
      fprintf(out,
              "      <step s=\"%u\" type=\"%s\" srcbuf=\"%c\" srcoff=\"%d\" dstbuf=\"%c\" "
              "dstoff=\"%d\" cnt=\"%d\" depid=\"%d\" deps=\"%d\" hasdep=\"%d\" order=\"%u\"/>\n",
              s->number, s->kind, letter_of(from.buffer), waits_only ? -1 : (int)from.chunk,
              letter_of(to.buffer), waits_only ? -1 : (int)to.chunk, !waits_only, s->after_block,
              s->after_step, s->has_dependent, i);
    }
    fprintf(out, "    </tb>\n");
  }
  fprintf(out, "  </gpu>\n");
}

static void forget(writer *w) {
  for (int buffer = 1; buffer < 4; buffer++) {
    for (uint32_t i = 0; w->uses[buffer] && i < w->chunks[buffer]; i++)
      free(w->uses[buffer][i].readers);
    free(w->uses[buffer]);
  }
  free(w->steps);
  free(w->blocks);
  free(w->wanted);
}

static uint32_t chunks_of(const df_plan *plan, int output) {
  const int wide = df_operation_is_wide(plan->key.operation, output);
  if (plan->geometry == DF_GEOMETRY_PIECES) return wide ? plan->key.n : 1;
  if (plan->geometry == DF_GEOMETRY_GRID && wide) return plan->key.n * plan->pieces;
  return plan->pieces;
}

static int write_rank(const df_plan_key *key, uint32_t *n_channels, FILE *out) {
  df_plan *plan = df_plan_make(key);
  if (plan == NULL) return 0;
  writer w = {.plan = plan, .scratch = plan->scratch_pieces};
  w.chunks[DF_BUFFER_INPUT] = chunks_of(plan, 0);
  w.chunks[DF_BUFFER_OUTPUT] = chunks_of(plan, 1);
  w.chunks[DF_BUFFER_SCRATCH] = plan->scratch_pieces + plan->n_primitives; /* at most */
  for (int buffer = 1; buffer < 4; buffer++) {
    w.uses[buffer] = calloc(w.chunks[buffer] + 1u, sizeof *w.uses[buffer]);
    if (w.uses[buffer] == NULL) w.failed = 1;
  }
  for (uint32_t i = 0; i < plan->n_primitives && !w.failed; i++)
    add_primitive(&w, &plan->primitives[i]);
  for (uint32_t i = 0; i < plan->n_links; i++)
    *n_channels = DF_MAX(*n_channels, plan->links[i].channel + 1u);
  if (!w.failed && out) print_rank(&w, key->position, out);
  const int made = !w.failed;
  forget(&w);
  df_plan_free(plan);
  return made;
}

static int is_known(df_operation operation) {
  return operation == DF_OP_ALL_REDUCE || operation == DF_OP_REDUCE ||
         operation == DF_OP_BROADCAST || operation == DF_OP_ALL_GATHER ||
         operation == DF_OP_REDUCE_SCATTER || operation == DF_OP_ALL_TO_ALL ||
         operation == DF_OP_GATHER || operation == DF_OP_SCATTER;
}

dfcclResult_t df_plan_export(const df_plan_key *key, FILE *out, char *sentence,
                             size_t sentence_bytes) {
  static const char *const words[] = {"allreduce",     "reduce",   "broadcast", "allgather",
                                      "reducescatter", "alltoall", "gather",    "scatter"};
  df_plan_key one = *key;
  one.cuts = (df_cuts){1, 1};
  one.average = one.agrees = one.settles = 0;
  uint32_t channels = 1;
  if (!is_known(key->operation) || key->n < 2) {
    snprintf(sentence, sentence_bytes, "%s of %u ranks has no form in MSCCL's files",
             df_operation_name(key->operation), key->n);
    return dfcclInvalidArgument;
  }
  one.position = 0;
  df_plan *plan = df_plan_make(&one);
  int fine = plan != NULL;
  for (one.position = 0; fine && one.position < key->n; one.position++)
    fine = write_rank(&one, &channels, NULL);
  if (fine)
    fprintf(out,
            "<algo name=\"dfccl %s\" proto=\"Simple\" nchannels=\"%u\" nchunksperloop=\"%u\" "
            "ngpus=\"%u\" coll=\"%s\" inplace=\"1\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\"",
            df_algorithm_name(key->algorithm), channels,
            DF_MAX(chunks_of(plan, 0), chunks_of(plan, 1)), key->n, words[key->operation]);
  if (fine && df_operation_has_root(key->operation)) fprintf(out, " root=\"%u\"", key->root);
  if (fine) fprintf(out, ">\n");
  for (one.position = 0; fine && one.position < key->n; one.position++)
    fine = write_rank(&one, &channels, out);
  if (fine) fprintf(out, "</algo>\n");
  df_plan_free(plan);
  if (fine) return dfcclSuccess;
  snprintf(sentence, sentence_bytes, "no memory to write the plans of %u ranks", key->n);
  return dfcclOutOfMemory;
}
