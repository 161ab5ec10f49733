/*
 * Streams and events. Each stream that was ever given work has a thread, which executes its
 * commands one after the other. A command may first wait for points of other streams.
 */
#include <stdlib.h>
#include <time.h>

#include "emulator.h"

#define ENTER EMULATOR_ENTER

/* ---- points */

static bool reached(emulator_point point) {
  return !point.stream || point.stream->completed >= point.sequence;
}

cudaError_t emulator_wait_point(emulator_point point, int device) {
  const emulator_device *of = &emulator.devices[device];
  while (!reached(point) && !of->lost) emulator_wait_changed();
  return of->lost ? cudaErrorLaunchFailure : cudaSuccess;
}

static void depend_on(emulator_command *command, emulator_stream *stream, uint64_t sequence) {
  const emulator_point point = {stream, sequence};
  if (reached(point)) return;
  emulator_point *points =
      realloc(command->points, (command->n_points + 1) * sizeof *command->points);
  if (!points) cuda_emulator_mistake("no memory");
  command->points = points;
  command->points[command->n_points++] = point;
}

/* Every stream of the device, the legacy one included; NULL after the last. */
static emulator_stream *next_stream(int device, emulator_stream *after) {
  emulator_stream *stream = after;
  if (!stream) return &emulator.devices[device].legacy;
  stream = stream == &emulator.devices[device].legacy ? emulator.streams : stream->next;
  while (stream && stream->device != device) stream = stream->next;
  return stream;
}

cudaError_t emulator_wait_idle(int device) {
  emulator_command all = {0};
  for (emulator_stream *s = next_stream(device, NULL); s; s = next_stream(device, s))
    depend_on(&all, s, s->submitted);
  cudaError_t result = emulator.devices[device].lost ? cudaErrorLaunchFailure : cudaSuccess;
  for (uint32_t i = 0; i < all.n_points && result == cudaSuccess; i++)
    result = emulator_wait_point(all.points[i], device);
  free(all.points);
  return result;
}

cudaError_t emulator_begin_allocating(int device) {
  emulator_device *self = &emulator.devices[device];
  while (self->allocating) emulator_wait_changed();
  self->allocating = true;
  const cudaError_t result = emulator_wait_idle(device);
  while (self->lost && (self->resident > 0 || self->touching > 0)) /* the threads are ending */
    emulator_wait_changed();
  return result;
}

void emulator_end_allocating(int device) {
  emulator.devices[device].allocating = false;
  emulator_signal();
}

/* ---- commands */

emulator_command *emulator_new_command(emulator_command_kind kind) {
  emulator_command *command = calloc(1, sizeof *command);
  if (!command) cuda_emulator_mistake("no memory");
  command->kind = kind;
  return command;
}

static void free_command(emulator_command *command) {
  if (command->grid) emulator_free_grid(command->grid);
  free(command->points);
  free(command);
}

static void free_event_if_over(emulator_event *event) {
  if (event->destroyed && event->pending == 0) free(event);
}

/* A wait for a value, which the host, another process or a kernel writes. */
static void wait_value(const emulator_command *command, const emulator_device *device) {
  const struct timespec nap = {0, 20000};
  for (;;) {
    bool over;
    if (command->wide) {
      const uint64_t seen =
          __atomic_load_n((const uint64_t *)command->destination, __ATOMIC_ACQUIRE);
      over = command->flags == 0   ? (int64_t)(seen - command->value) >= 0
             : command->flags == 1 ? seen == command->value
             : command->flags == 2 ? (seen & command->value) != 0
                                   : ~(seen | command->value) != 0;
    } else {
      const uint32_t value = (uint32_t)command->value;
      const uint32_t seen =
          __atomic_load_n((const uint32_t *)command->destination, __ATOMIC_ACQUIRE);
      over = command->flags == 0   ? (int32_t)(seen - value) >= 0
             : command->flags == 1 ? seen == value
             : command->flags == 2 ? (seen & value) != 0
                                   : ~(seen | value) != 0;
    }
    if (over || __atomic_load_n(&device->lost, __ATOMIC_RELAXED)) return;
    nanosleep(&nap, NULL);
  }
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Called without the lock. */
static void execute_outside(emulator_command *command, const emulator_device *device) {
  switch (command->kind) {
  case COMMAND_COPY:
    emulator_copy(command->destination, command->source, command->bytes);
    break;
  case COMMAND_FILL:
    emulator_fill(command->destination, command->fill, command->bytes);
    break;
  case COMMAND_CALL:
    command->call(command->argument);
    break;
  case COMMAND_WAIT_VALUE:
    wait_value(command, device);
    break;
  case COMMAND_WRITE_VALUE:
    if (command->wide)
      __atomic_store_n((uint64_t *)command->destination, command->value, __ATOMIC_SEQ_CST);
    else
      __atomic_store_n((uint32_t *)command->destination, (uint32_t)command->value,
                       __ATOMIC_SEQ_CST);
    break;
  default:
    break;
  }
}

static void execute(emulator_stream *stream, emulator_command *command) {
  emulator_wait_head(stream, command);
  for (uint32_t i = 0; i < command->n_points; i++)
    emulator_wait_point(command->points[i], stream->device);
  if (!emulator_holds_queue(command)) emulator_leave_queue(stream, command);
  if (emulator.devices[stream->device].lost) {
    if (command->kind != COMMAND_RECORD) return;
  }
  if (command->kind == COMMAND_KERNEL) {
    emulator_run_grid(command->grid);
  } else if (command->kind == COMMAND_RECORD) {
    command->event->milliseconds = milliseconds();
    command->event->pending--;
    free_event_if_over(command->event);
  } else {
    emulator_device *device = &emulator.devices[stream->device];
    const uint32_t touches = command->kind != COMMAND_CALL; /* the function may release memory */
    device->touching += touches;
    pthread_mutex_unlock(&emulator.lock);
    execute_outside(command, device);
    pthread_mutex_lock(&emulator.lock);
    device->touching -= touches;
  }
}

static void *stream_main(void *argument) {
  emulator_stream *stream = argument;
  emulator_use_device(stream->device);
  pthread_mutex_lock(&emulator.lock);
  for (;;) {
    emulator_command *command = stream->first;
    if (!command) {
      if (!stream->open && stream != &emulator.devices[stream->device].legacy) break;
      emulator_wait_changed();
      continue;
    }
    execute(stream, command);
    emulator_leave_queue(stream, command);
    stream->first = command->next;
    if (!stream->first) stream->last = NULL;
    stream->completed = command->sequence;
    free_command(command);
    emulator_signal();
  }
  stream->has_worker = false;
  pthread_mutex_unlock(&emulator.lock);
  return NULL;
}

static void ensure_worker(emulator_stream *stream) {
  if (stream->has_worker) return;
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (pthread_create(&thread, &attributes, stream_main, stream) != 0)
    cuda_emulator_mistake("no thread for a stream");
  pthread_attr_destroy(&attributes);
  stream->has_worker = true;
}

/* The legacy default stream and the blocking streams of its device wait for each other. */
static void order_by_legacy(emulator_stream *stream, emulator_command *command) {
  emulator_stream *legacy = &emulator.devices[stream->device].legacy;
  if (stream == legacy) {
    for (emulator_stream *s = next_stream(stream->device, legacy); s;
         s = next_stream(stream->device, s))
      if (!s->non_blocking) depend_on(command, s, s->submitted);
  } else if (!stream->non_blocking) {
    depend_on(command, legacy, legacy->submitted);
  }
}

cudaError_t emulator_submit(emulator_stream *stream, emulator_command *command) {
  emulator_device *device = &emulator.devices[stream->device];
  /* Work that allocates or releases memory excludes all other work; an event's record is not
   * work. */
  if (command->kind != COMMAND_RECORD)
    while (device->allocating && !device->lost) emulator_wait_changed();
  if (device->lost) {
    free_command(command);
    return cudaErrorLaunchFailure;
  }
  order_by_legacy(stream, command);
  command->sequence = ++stream->submitted;
  emulator_enter_queue(stream, command);
  if (stream->last)
    stream->last->next = command;
  else
    stream->first = command;
  stream->last = command;
  ensure_worker(stream);
  emulator_signal();
  return cudaSuccess;
}

/* ---- streams */

emulator_stream *emulator_stream_of(cudaStream_t handle) {
  if (handle == NULL || handle == cudaStreamLegacy)
    return &emulator.devices[emulator_current_device()].legacy;
  for (emulator_stream *s = emulator.streams; s; s = s->next)
    if (s == handle) return s->open ? s : NULL;
  return NULL;
}

EMULATOR_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned int flags,
                                                         int priority) {
  ENTER();
  if (!handle || flags > cudaStreamNonBlocking) return emulator_set_error(cudaErrorInvalidValue);
  emulator_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return emulator_set_error(cudaErrorMemoryAllocation);
  stream->device = emulator_current_device();
  stream->non_blocking = flags == cudaStreamNonBlocking;
  stream->priority = priority > EMULATOR_LEAST_PRIORITY      ? EMULATOR_LEAST_PRIORITY
                     : priority < EMULATOR_GREATEST_PRIORITY ? EMULATOR_GREATEST_PRIORITY
                                                             : priority;
  stream->open = true;
  pthread_mutex_lock(&emulator.lock);
  emulator_set_queue(stream);
  stream->next = emulator.streams;
  emulator.streams = stream;
  emulator.counts.streams++;
  pthread_mutex_unlock(&emulator.lock);
  *handle = stream;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned int flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

EMULATOR_EXPORT cudaError_t cudaStreamCreate(cudaStream_t *handle) {
  return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

EMULATOR_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const cudaError_t refused = emulator_enter(__func__); /* released nevertheless */
  pthread_mutex_lock(&emulator.lock);
  emulator_stream *stream = emulator_stream_of(handle);
  const bool known = stream && handle != NULL && handle != cudaStreamLegacy;
  if (known) {
    stream->open =
        false; /* its thread ends when all commands have ended; the stream is never used again */
    emulator.counts.streams--;
    emulator_signal();
  }
  pthread_mutex_unlock(&emulator.lock);
  if (refused) return refused;
  return known ? cudaSuccess : emulator_set_error(cudaErrorInvalidResourceHandle);
}

/* The driver's lock may be held while another thread waits for the device. */
static void wait_for_driver(const emulator_device *device) {
  while (emulator.queries_block && (device->allocating || device->synchronizing) && !device->lost)
    emulator_wait_changed();
}

/* Checks the arguments of calls that query a stream or wait for one. */
static cudaError_t look_at_stream(cudaStream_t handle, bool wait) {
  pthread_mutex_lock(&emulator.lock);
  const emulator_stream *stream = emulator_stream_of(handle);
  cudaError_t result = cudaErrorInvalidResourceHandle;
  if (stream) {
    if (!wait) wait_for_driver(&emulator.devices[stream->device]);
    const emulator_point end = {(emulator_stream *)stream, stream->submitted};
    if (emulator.devices[stream->device].lost)
      result = cudaErrorLaunchFailure;
    else if (wait)
      result = emulator_wait_point(end, stream->device);
    else
      result = reached(end) ? cudaSuccess : cudaErrorNotReady;
  }
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle) {
  ENTER();
  return look_at_stream(handle, false);
}

EMULATOR_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  ENTER();
  return look_at_stream(handle, true);
}

typedef enum { FACT_PRIORITY, FACT_FLAGS, FACT_DEVICE } stream_fact;

static cudaError_t fact_of_stream(cudaStream_t handle, stream_fact fact, int *value) {
  pthread_mutex_lock(&emulator.lock);
  const emulator_stream *stream = emulator_stream_of(handle);
  if (stream && value)
    *value = fact == FACT_PRIORITY ? stream->priority
             : fact == FACT_FLAGS  ? (int)stream->non_blocking
                                   : stream->device;
  pthread_mutex_unlock(&emulator.lock);
  return stream && value ? cudaSuccess
         : stream        ? emulator_set_error(cudaErrorInvalidValue)
                         : emulator_set_error(cudaErrorInvalidResourceHandle);
}

EMULATOR_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
  ENTER();
  return fact_of_stream(handle, FACT_PRIORITY, priority);
}

EMULATOR_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int *flags) {
  ENTER();
  return fact_of_stream(handle, FACT_FLAGS, (int *)flags);
}

EMULATOR_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *device) {
  ENTER();
  return fact_of_stream(handle, FACT_DEVICE, device);
}

static int capturing;
void cuda_emulator_set_capturing(int now) { __atomic_store_n(&capturing, now, __ATOMIC_RELEASE); }

EMULATOR_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                                  enum cudaStreamCaptureStatus *status) {
  ENTER();
  (void)handle;
  *status = __atomic_load_n(&capturing, __ATOMIC_ACQUIRE) ? cudaStreamCaptureStatusActive
                                                          : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

static cudaError_t submit_to(cudaStream_t handle, emulator_command *command) {
  pthread_mutex_lock(&emulator.lock);
  emulator_stream *stream = emulator_stream_of(handle);
  const cudaError_t result =
      stream ? emulator_submit(stream, command) : cudaErrorInvalidResourceHandle;
  if (!stream) free_command(command);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t call,
                                               void *argument) {
  ENTER();
  emulator_command *command = emulator_new_command(COMMAND_CALL);
  command->call = call;
  command->argument = argument;
  return submit_to(handle, command);
}

/* ---- events */

EMULATOR_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned int flags) {
  ENTER();
  emulator_event *event = handle ? calloc(1, sizeof *event) : NULL;
  if (!event) return emulator_set_error(handle ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
  event->device = emulator_current_device();
  event->flags = flags;
  pthread_mutex_lock(&emulator.lock);
  emulator.counts.events++;
  pthread_mutex_unlock(&emulator.lock);
  *handle = event;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaEventCreate(cudaEvent_t *handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

EMULATOR_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t refused = emulator_enter(__func__);
  if (!event) return emulator_set_error(cudaErrorInvalidResourceHandle);
  pthread_mutex_lock(&emulator.lock);
  emulator.counts.events--;
  event->destroyed = true;
  free_event_if_over(event);
  pthread_mutex_unlock(&emulator.lock);
  return refused;
}

EMULATOR_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  ENTER();
  if (!event) return emulator_set_error(cudaErrorInvalidResourceHandle);
  pthread_mutex_lock(&emulator.lock);
  emulator_stream *stream = emulator_stream_of(handle);
  cudaError_t result = cudaErrorInvalidResourceHandle;
  if (stream && stream->device == event->device) {
    emulator_command *command = emulator_new_command(COMMAND_RECORD);
    command->event = event;
    event->pending++;
    result = emulator_submit(stream, command);
    if (result == cudaSuccess)
      event->point = (emulator_point){stream, stream->submitted};
    else
      event->pending--;
  }
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

static cudaError_t look_at_event(cudaEvent_t event, bool wait) {
  if (!event) return emulator_set_error(cudaErrorInvalidResourceHandle);
  pthread_mutex_lock(&emulator.lock);
  if (!wait) wait_for_driver(&emulator.devices[event->device]);
  cudaError_t result = emulator.devices[event->device].lost ? cudaErrorLaunchFailure
                       : reached(event->point)              ? cudaSuccess
                                                            : cudaErrorNotReady;
  if (wait && result == cudaErrorNotReady)
    result = emulator_wait_point(event->point, event->device);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  ENTER();
  return look_at_event(event, false);
}

EMULATOR_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ENTER();
  return look_at_event(event, true);
}

EMULATOR_EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  ENTER();
  if (!ms || !start || !end) return emulator_set_error(cudaErrorInvalidResourceHandle);
  pthread_mutex_lock(&emulator.lock);
  const bool over = reached(start->point) && reached(end->point);
  *ms = (float)(end->milliseconds - start->milliseconds);
  pthread_mutex_unlock(&emulator.lock);
  if ((start->flags | end->flags) & cudaEventDisableTiming)
    return emulator_set_error(cudaErrorInvalidResourceHandle);
  return over ? cudaSuccess : emulator_set_error(cudaErrorNotReady);
}

EMULATOR_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                                unsigned int flags) {
  ENTER();
  if (!event || flags > cudaEventWaitExternal) return emulator_set_error(cudaErrorInvalidValue);
  emulator_command *command = emulator_new_command(COMMAND_NOTHING);
  pthread_mutex_lock(&emulator.lock);
  if (event->point.stream) depend_on(command, event->point.stream, event->point.sequence);
  pthread_mutex_unlock(&emulator.lock);
  return submit_to(handle, command);
}
