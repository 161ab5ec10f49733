#include "replay_data.h"

#include <stdlib.h>
#include <string.h>

#include "common/element.h"
#include "common/memory.h"
#include "common/random.h"
#include "plans/operation.h"

enum { POISON = 0xa5 };

static df_operation operation_of(const replay_collective *one) {
  return (df_operation)one->operation;
}

/* ---- tables ---- */

static bool same_table(const replay_table *table, const replay_collective *one) {
  return table->data.type == one->type && table->data.op == one->reduction &&
         table->data.n_ranks == (int)one->n_members;
}

static bool fill_table(replay_table *table, const replay_collective *one) {
  table->data = (df_bench_data){one->type, one->reduction, (int)one->n_members};
  table->inputs = calloc(one->n_members, sizeof *table->inputs);
  table->reduced = df_bench_table(&table->data, -1);
  if (!table->inputs || !table->reduced) return false;
  for (uint32_t i = 0; i < one->n_members; i++) {
    table->inputs[i] = df_bench_table(&table->data, (int)i);
    if (!table->inputs[i]) return false;
  }
  return true;
}

bool df_replay_data_make(replay_data *data, const replay_plan *plan) {
  *data = (replay_data){.plan = plan};
  data->table = calloc(plan->collective_count + 1u, sizeof *data->table);
  data->table_of = calloc(plan->collective_count + 1u, sizeof *data->table_of);
  if (!data->table || !data->table_of) return false;
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    const replay_collective *one = &plan->collective[i];
    uint32_t found = 0;
    while (found < data->table_count && !same_table(&data->table[found], one)) found++;
    data->table_of[i] = found;
    if (found < data->table_count) continue;
    data->table_count++;
    if (!fill_table(&data->table[found], one)) return false;
  }
  return true;
}

void df_replay_data_free(replay_data *data) {
  for (uint32_t t = 0; t < data->table_count; t++) {
    replay_table *table = &data->table[t];
    for (int i = 0; table->inputs && i < table->data.n_ranks; i++) free(table->inputs[i]);
    free(table->inputs);
    free(table->reduced);
  }
  free(data->table);
  free(data->table_of);
  *data = (replay_data){0};
}

/* ---- buffers ---- */

replay_buffers df_replay_buffers_of(const replay_collective *one, int rank) {
  replay_buffers buffers = {0};
  for (uint32_t i = 0; i < one->n_members; i++)
    if (one->members[i] == rank) {
      buffers.position = i;
      buffers.is_member = true;
    }
  if (!buffers.is_member) return buffers;
  const df_operation operation = operation_of(one);
  buffers.sends = df_operation_uses(operation, 0, buffers.position, one->root, one->n_members);
  buffers.receives = df_operation_uses(operation, 1, buffers.position, one->root, one->n_members);
  buffers.send_count = one->count * (df_operation_is_wide(operation, 0) ? one->n_members : 1);
  buffers.recv_count = one->count * (df_operation_is_wide(operation, 1) ? one->n_members : 1);
  return buffers;
}

static size_t bytes_of(const replay_collective *one, uint64_t count) {
  return (size_t)count * df_tool_type_of(one->type)->bytes;
}

double df_replay_data_bytes(const replay_plan *plan) {
  double bytes = 0;
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    const replay_collective *one = &plan->collective[i];
    for (uint32_t m = 0; m < one->n_members; m++) {
      const replay_buffers buffers = df_replay_buffers_of(one, one->members[m]);
      const double count = (buffers.sends ? (double)buffers.send_count : 0) +
                           (buffers.receives ? (double)buffers.recv_count : 0);
      bytes += count * (double)df_tool_type_of(one->type)->bytes * one->slots;
    }
  }
  return bytes;
}

/* Where in its tables the data of a slot begins. */
static size_t first_of(uint32_t collective, uint32_t slot) {
  return (size_t)(df_tool_mix3(17, collective, slot) % DF_BENCH_PERIOD);
}

bool df_replay_buffers_make(const replay_data *data, uint32_t collective, replay_buffers *buffers) {
  const replay_collective *one = &data->plan->collective[collective];
  const replay_table *table = &data->table[data->table_of[collective]];
  for (uint32_t slot = 0; slot < one->slots; slot++) {
    if (buffers->sends) {
      buffers->send[slot] = df_tool_memory_alloc(bytes_of(one, buffers->send_count) + 1);
      if (!buffers->send[slot]) return false;
      df_bench_fill(&table->data, table->inputs[buffers->position], buffers->send[slot],
                    first_of(collective, slot), buffers->send_count);
    }
    if (buffers->receives) {
      buffers->recv[slot] = df_tool_memory_alloc(bytes_of(one, buffers->recv_count) + 1);
      if (!buffers->recv[slot]) return false;
    }
  }
  return true;
}

void df_replay_buffers_free(const replay_data *data, uint32_t collective, replay_buffers *buffers) {
  const replay_collective *one = &data->plan->collective[collective];
  for (uint32_t slot = 0; slot < one->slots; slot++) {
    df_tool_memory_free(buffers->send[slot], bytes_of(one, buffers->send_count) + 1);
    df_tool_memory_free(buffers->recv[slot], bytes_of(one, buffers->recv_count) + 1);
  }
}

void df_replay_buffers_clear(const replay_data *data, uint32_t collective,
                             const replay_buffers *buffers, uint32_t slot) {
  const replay_collective *one = &data->plan->collective[collective];
  if (buffers->receives) memset(buffers->recv[slot], POISON, bytes_of(one, buffers->recv_count));
}

int64_t df_replay_buffers_check(const replay_data *data, uint32_t collective,
                                const replay_buffers *buffers, uint32_t slot) {
  const replay_collective *one = &data->plan->collective[collective];
  const replay_table *table = &data->table[data->table_of[collective]];
  const df_operation operation = operation_of(one);
  const size_t begin = first_of(collective, slot);
  /* An input may have a piece for each member; this member's piece counts. */
  const size_t first =
      begin + (df_operation_is_wide(operation, 0) ? (size_t)buffers->position * one->count : 0);
  const char *recv = buffers->recv[slot];
  if (!buffers->receives) return 0;
  if (df_operation_reduces(operation))
    return df_bench_count_wrong(&table->data, table->reduced, recv, first, buffers->recv_count);
  if (!df_operation_is_wide(operation, 1))
    return df_bench_count_wrong(&table->data, table->inputs[one->root], recv, first,
                                buffers->recv_count);
  int64_t wrong = 0;
  for (uint32_t member = 0; member < one->n_members; member++) {
    const int64_t here =
        df_bench_count_wrong(&table->data, table->inputs[member],
                             recv + member * bytes_of(one, one->count), first, one->count);
    if (here < 0) return -1;
    wrong += here;
  }
  return wrong;
}
