/*
 * The queues, cursors and links of a rank when a schedule failed. Reads the library's
 * structures from outside of the schedule, so nothing here is an access that the simulator sees.
 */
#include <stdio.h>

#include "host/state/context.h"
#include "sim.h"

static void print_submission_queue(const df_sq *sq) {
  printf("  SQ: %llu pushed;", (unsigned long long)sq->sequence);
  for (uint32_t i = 0; i <= sq->mask; i++)
    printf(" [%u] entry %llu, collective %llu, %u to read it", i,
           (unsigned long long)(sq->slots[i].commit >> 32),
           (unsigned long long)(sq->slots[i].commit & ((1u << DF_SQE_BLOCKS_SHIFT) - 1)),
           sq->slots[i].readers_left);
  printf("\n");
}

static void print_completion_queue(const df_cq *cq) {
  printf("  CQ:");
  for (uint32_t r = 0; r < cq->n_rings; r++)
    printf(" ring %u: %llu written, %llu consumed", r, (unsigned long long)cq->rings[r].tail,
           (unsigned long long)cq->rings[r].consumer_index);
  printf("\n");
}

static const char *phase_name(uint32_t phase) {
  return phase == DF_PHASE_BEGIN ? "begins" : phase == DF_PHASE_MOVE ? "moves" : "drains";
}

/* The context in the cache where it is newer than the saved one. */
static const df_cursor *cursor_of(const df_block *block, uint32_t collective) {
  const df_context_slot *slot = &block->cache.slots[collective & block->cache.mask];
  return slot->collective == collective ? &slot->cursor : &block->cache.memory[collective];
}

static void print_links(const df_descriptor *desc, uint32_t block) {
  for (uint32_t l = 0; desc->links && l < desc->n_links; l++) {
    const df_link *link = &desc->links[block * desc->n_links + l];
    if (link->slots == NULL) continue;
    printf("      %s rank %u: credit %llu, slots hold", link->sends ? "to" : "from", link->peer,
           (unsigned long long)*link->credit);
    for (uint32_t s = 0; s <= link->slot_mask; s++)
      printf(" %llx", (unsigned long long)*(const uint64_t *)df_link_slot(link, s));
    printf("\n");
  }
}

static void print_block(const df_device *device, const df_block *block, uint32_t n_collectives) {
  printf("  block %u: %s, %llu SQEs read, tasks (", block->index,
         block->running ? "running" : "left", (unsigned long long)block->read_index);
  for (uint32_t i = 0; i < block->tasks.length; i++)
    printf("%s%u: %u", i ? ", " : "", block->tasks.order[i],
           block->tasks.pending[block->tasks.order[i]]);
  printf(")\n");
  for (uint32_t c = 0; c < n_collectives; c++) {
    const df_descriptor *desc = device->descriptors[c];
    if (desc == NULL || block->index >= desc->n_blocks) continue;
    const df_cursor *cursor = cursor_of(block, c);
    printf("    collective %u: run %llu, loop %u, primitive %u of %u, %s, cancel %u\n", c,
           (unsigned long long)cursor->run, cursor->loop, cursor->primitive, desc->n_primitives,
           phase_name(cursor->phase), desc->words->cancel);
    print_links(desc, block->index);
  }
}

static void print_peers(const df_control *control) {
  static const char *const states[] = {"alive", "left", "given up", "dead"};
  printf("  control%s:", control->said_goodbye ? ", which has said goodbye" : "");
  for (uint32_t r = 0; control->peers && r < control->n_ranks; r++) {
    const df_peer *peer = &control->peers[r];
    if (r == control->rank) continue;
    printf(" [rank %u: %s%s%s%s]", r, states[peer->state],
           peer->next != r ? ", behind a relay" : "", peer->first ? ", has not all" : "",
           peer->lost_ns ? ", no connection" : "");
  }
  printf("\n");
}

void sim_state_print(const struct dfcclContext *context) {
  printf("rank %u: accepted %llu, completed %llu, waiting on the host %llu, held %u\n",
         context->rank, (unsigned long long)context->runs.accepted,
         (unsigned long long)context->runs.completed,
         (unsigned long long)context->runs.backlog_length, context->runs.held);
  print_peers(&context->control);
  if (context->device.shared == NULL) return;
  print_submission_queue(&context->device.shared->sq);
  print_completion_queue(&context->device.shared->cq);
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++)
    print_block(context->device.shared, &context->device.blocks[b], context->registry.n_indices);
}
