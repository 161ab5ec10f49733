#include "plans/msccl/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/text.h"

int df_file_complain(df_file_diagnostic *diagnostic, uint32_t line, const char *format, ...) {
  if (diagnostic->is_made) return 0;
  va_list arguments;
  df_text text = {.at = diagnostic->sentence, .left = diagnostic->bytes};
  char file[201]; /* the name of a directory's file is chosen by its owner */
  diagnostic->is_made = 1;
  df_escape(file, sizeof file, diagnostic->file);
  df_say(&text, "%s:%u: ", file, line);
  va_start(arguments, format);
  df_say_list(&text, format, arguments);
  va_end(arguments);
  return 0;
}

int df_file_no_memory(df_file_diagnostic *diagnostic) {
  diagnostic->no_memory = 1;
  return df_file_complain(diagnostic, 0, "no memory to read it");
}

uint32_t df_file_chunks(const df_file_model *model, uint32_t rank, df_buffer buffer) {
  if (buffer == DF_BUFFER_SCRATCH) return model->ranks[rank].scratch_chunks;
  /* In place the smaller buffer is a part of the larger, which its files name. */
  return df_operation_is_wide(model->operation, buffer == DF_BUFFER_OUTPUT) ? model->chunks
                                                                            : model->pieces;
}

void df_file_model_free(df_file_model *model) {
  free(model->ranks);
  free(model->blocks);
  free(model->steps);
  memset(model, 0, sizeof *model);
}

/* ---- checks of the whole model */

static int by_id(const void *a, const void *b) {
  const int32_t x = ((const df_file_block *)a)->id, y = ((const df_file_block *)b)->id;
  return (x > y) - (x < y);
}

/* Copies come first. Steps refer to blocks by index, so indices move up by one. */
static int order_blocks(df_file_model *m, uint32_t r, df_file_diagnostic *diagnostic) {
  df_file_rank *rank = &m->ranks[r];
  if (rank->n_blocks == 0) return 1;
  df_file_block *blocks = &m->blocks[rank->first];
  qsort(blocks, rank->n_blocks, sizeof *blocks, by_id);
  const int32_t copies = blocks[0].id < 0;
  for (uint32_t b = 0; b < rank->n_blocks; b++) {
    if (blocks[b].id != (int32_t)b - copies)
      return df_file_complain(diagnostic, blocks[b].line,
                              "<tb id=\"%d\"> of rank %u: ids go from 0 on without gaps, each once",
                              blocks[b].id, r);
    for (uint32_t s = 0; s < blocks[b].n_steps; s++) {
      df_file_step *step = &m->steps[blocks[b].first + s];
      if (step->after_block < 0) continue;
      step->after_block += copies;
      if ((uint32_t)step->after_block >= rank->n_blocks ||
          (uint32_t)step->after_step >= blocks[step->after_block].n_steps)
        return df_file_complain(diagnostic, step->line,
                                "waits for step %d of block %d of rank %u, which is not there",
                                step->after_step, step->after_block - copies, r);
    }
  }
  for (uint32_t b = 0; b < rank->n_blocks; b++) blocks[b].id = (int32_t)b;
  return 1;
}

/* A peer and channel belong to one block of a rank, in each direction. */
static int check_connections(const df_file_model *m, uint32_t r, df_file_diagnostic *diagnostic) {
  const df_file_rank *rank = &m->ranks[r];
  for (uint32_t b = 0; b < rank->n_blocks; b++) {
    const df_file_block *one = &m->blocks[rank->first + b];
    for (uint32_t k = 0; k < b; k++) {
      const df_file_block *other = &m->blocks[rank->first + k];
      const int sends = one->send_to >= 0 && one->send_to == other->send_to;
      const int receives = one->recv_from >= 0 && one->recv_from == other->recv_from;
      if (one->channel != other->channel || (!sends && !receives)) continue;
      return df_file_complain(diagnostic, one->line,
                              "%s rank %d through channel %u, as the block in line %u does",
                              sends ? "sends to" : "receives from",
                              sends ? one->send_to : one->recv_from, one->channel, other->line);
    }
  }
  return 1;
}

int df_file_model_finish(df_file_model *m, df_file_diagnostic *diagnostic) {
  for (uint32_t r = 0; r < m->n; r++) {
    if (m->ranks[r].line == 0)
      return df_file_complain(diagnostic, m->line, "ngpus=\"%u\", but <gpu id=\"%u\"> is not there",
                              m->n, r);
    if (m->in_place == 2 && m->ranks[r].output_chunks == 0) m->in_place = 1;
  }
  if (m->in_place == 2) m->in_place = 0; /* its steps are correct in both cases */
  for (uint32_t r = 0; r < m->n; r++)
    if (!order_blocks(m, r, diagnostic) || !check_connections(m, r, diagnostic)) return 0;
  for (uint32_t b = 0; b < m->n_blocks; b++)
    m->n_channels =
        m->blocks[b].channel + 1 > m->n_channels ? m->blocks[b].channel + 1 : m->n_channels;
  return 1;
}
