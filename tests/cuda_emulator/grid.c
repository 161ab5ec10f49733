/*
 * The multiprocessors: they execute blocks of grids in the order of priority and arrival, as many
 * at a time as the device has room for. A grid starts all of its blocks before the next grid of its
 * priority starts any.
 */
#include <stdlib.h>

#include "emulator.h"

static emulator_grid **place_in_queue(emulator_device *device, const emulator_grid *grid) {
  emulator_grid **at = &device->queue;
  /* A grid that has begun remains first, because its blocks may wait for each other. */
  while (*at && ((*at)->started > 0 || (*at)->priority <= grid->priority)) at = &(*at)->next;
  return at;
}

/* The grid whose next block may start. */
static emulator_grid *startable(emulator_device *device) {
  emulator_grid *grid = device->queue;
  if (!grid || device->resident >= emulator.multiprocessors) return NULL;
  const uint32_t room = emulator.multiprocessors - device->resident;
  return grid->cooperative && grid->started == 0 && grid->n_blocks > room ? NULL : grid;
}

static void *multiprocessor(void *argument) {
  emulator_device *device = argument;
  struct emulator_stacks *stacks = emulator_new_stacks();
  pthread_mutex_lock(&emulator.lock);
  for (;;) {
    emulator_grid *grid = startable(device);
    if (!grid) {
      emulator_wait_changed();
      continue;
    }
    const uint32_t index = grid->started++;
    if (grid->started == grid->n_blocks) device->queue = grid->next;
    device->resident++;
    emulator.counts.resident_blocks++;
    if (emulator.counts.resident_blocks > emulator.counts.most_resident_blocks)
      emulator.counts.most_resident_blocks = emulator.counts.resident_blocks;
    pthread_mutex_unlock(&emulator.lock);
    emulator_run_block(grid, index, stacks);
    pthread_mutex_lock(&emulator.lock);
    device->resident--;
    emulator.counts.resident_blocks--;
    grid->ended++;
    emulator_signal();
  }
  return NULL;
}

/* Workers are threads that wait for work until the process ends: one for each multiprocessor that
 * was ever needed at one time. */
static void ensure_workers(emulator_device *device) {
  uint64_t wanted = device->resident;
  for (const emulator_grid *grid = device->queue; grid; grid = grid->next)
    wanted += grid->n_blocks - grid->started;
  while (device->workers < emulator.multiprocessors && device->workers < wanted) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, multiprocessor, device) != 0)
      cuda_emulator_mistake("no thread for a multiprocessor");
    pthread_attr_destroy(&attributes);
    device->workers++;
  }
}

void emulator_run_grid(emulator_grid *grid) {
  emulator_device *device = &emulator.devices[grid->device];
  if (device->lost) return;
  emulator_grid **at = place_in_queue(device, grid);
  grid->next = *at;
  *at = grid;
  ensure_workers(device);
  emulator_signal();
  while (grid->ended < grid->n_blocks) {
    if (device->lost && grid->ended == grid->started && grid->started < grid->n_blocks) {
      /* A grid that has not begun never will. */
      for (at = &device->queue; *at && *at != grid; at = &(*at)->next) continue;
      if (*at) *at = grid->next;
      break;
    }
    emulator_wait_changed();
  }
}

void emulator_free_grid(emulator_grid *grid) {
  for (uint32_t i = 0; i < grid->kernel->n_arguments; i++) free(grid->arguments[i]);
  free(grid);
}
