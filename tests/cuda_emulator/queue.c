/*
 * Hardware queues (CUDA_DEVICE_MAX_CONNECTIONS). Streams share them, in turn as they are created. A
 * queue executes commands in the order of their arrival, whatever their streams:
 *   - A kernel, a copy or a fill leaves the queue when it begins. It begins when its stream has
 *     ended the command before it, and when the points are reached for which it waits.
 *   - A wait for a value and a host function leave the queue when they have ended.
 * Commands behind the first one do not begin before it leaves, even if their own stream is free.
 */
#include "emulator.h"

void emulator_set_queue(emulator_stream *stream) {
  emulator_device *device = &emulator.devices[stream->device];
  const bool apart = emulator.priority_queues && stream->priority < EMULATOR_LEAST_PRIORITY;
  uint32_t *made = apart ? &device->priority_streams : &device->plain_streams;
  emulator_queue *queues = apart ? device->priority_queues : device->queues;
  stream->queue = &queues[++*made % emulator.n_queues]; /* 0: the legacy stream's queue */
}

void emulator_enter_queue(emulator_stream *stream, emulator_command *command) {
  command->place = ++stream->queue->entered;
}

void emulator_wait_head(const emulator_stream *stream, const emulator_command *command) {
  const emulator_device *device = &emulator.devices[stream->device];
  while (stream->queue->left + 1 < command->place && !device->lost) emulator_wait_changed();
}

void emulator_leave_queue(emulator_stream *stream, const emulator_command *command) {
  if (stream->queue->left < command->place) stream->queue->left = command->place;
  emulator_signal();
}

bool emulator_holds_queue(const emulator_command *command) {
  return command->kind == COMMAND_WAIT_VALUE || command->kind == COMMAND_CALL;
}

void cuda_emulator_set_queues(uint32_t queues, int priority_apart) {
  emulator_begin();
  pthread_mutex_lock(&emulator.lock);
  if (queues < 1 || queues > EMULATOR_QUEUES)
    cuda_emulator_mistake("%u hardware queues make no sense", queues);
  emulator.n_queues = queues;
  emulator.priority_queues = priority_apart != 0;
  pthread_mutex_unlock(&emulator.lock);
}
