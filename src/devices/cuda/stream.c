/* The stream event of a run has a number and two words. The stream writes the number to the first
 * word: the input is ready. It then waits for the second word, which the host writes when the run
 * has ended. Numbers grow, and an entry is used again only when both words have its number, so a
 * late write or read does no harm. The first word exists twice: blocks poll the copy in device
 * memory, and the host, which must not read that memory, reads the other copy, which is written
 * later. Devices without stream memory operations use two small kernels. */
#include <cuda.h>
#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "devices/cuda/state.h"

void df_cuda_find_stream_operations(df_cuda_state *state) {
  typedef CUresult (*attribute_function)(int *, CUdevice_attribute, CUdevice);
  void *ask = df_cuda_entry_point("cuDeviceGetAttribute"),
       *write = df_cuda_entry_point("cuStreamWriteValue64"),
       *wait = df_cuda_entry_point("cuStreamWaitValue64");
  attribute_function get_attribute;
  int can = 0;
  memcpy(&get_attribute, &ask, sizeof get_attribute);
  if (!ask || !write || !wait ||
      get_attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                    state->facts.ordinal) != CUDA_SUCCESS ||
      !can)
    return;
  memcpy(&state->write_value, &write, sizeof write);
  memcpy(&state->wait_value, &wait, sizeof wait);
  state->facts.has_stream_operations = 1;
}

/* A wait lasts until the word is not less than the value. The driver's codes of errors are those of
 * the runtime, where both have the error. */
static cudaError_t enqueue(df_cuda_stream_operation operation, unsigned flags, const void *kernel,
                           cudaStream_t stream, uint64_t *word, uint64_t value) {
  if (operation) return (cudaError_t)operation(stream, (uint64_t)(uintptr_t)word, value, flags);
  void *arguments[] = {&word, &value};
  cudaLaunchConfig_t config = {
      .gridDim = {.x = 1, .y = 1, .z = 1}, .blockDim = {.x = 1, .y = 1, .z = 1}, .stream = stream};
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

static cudaError_t enqueue_write(const df_cuda_state *state, cudaStream_t stream, uint64_t *word,
                                 uint64_t value) {
  return enqueue(state->write_value, CU_STREAM_WRITE_VALUE_DEFAULT, df_cuda_write_kernel(), stream,
                 word, value);
}

static dfcclResult_t refuse_capture(cudaStream_t stream) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t error = cudaStreamIsCapturing(stream, &status);
  if (error != cudaSuccess) return df_cuda_fail(error, "checking whether the stream is captured");
  if (status == cudaStreamCaptureStatusNone) return dfcclSuccess;
  return df_fail(dfcclInvalidUsage,
                 "the stream is being captured, which is not supported: a graph that is "
                 "launched again would use the sequence numbers of one run twice");
}

/* ---- outstanding runs on streams of this process */

/* The lock is held while a run begins, or during calls that wait for the device. */
static df_mutex beginning = DF_MUTEX_INITIALIZER;
static uint32_t outstanding; /* grows under the lock only */
static uint64_t ended_ns;    /* time at which the latest run ended; 0: none has */

static void count_run(void) {
  df_lock(&beginning);
  df_system_add_u32(&outstanding, 1);
  df_unlock(&beginning);
}

uint32_t df_cuda_runs_on_streams(void) { return df_observe_u32(&outstanding); }

int df_cuda_streams_are_idle(uint64_t ns) {
  if (df_cuda_runs_on_streams() > 0) return 0;
  return df_cuda_waits_for_device() || df_clock_ns() - df_load_relaxed_u64(&ended_ns) >= ns;
}

int df_cuda_pause_streams(void) DF_NO_THREAD_SAFETY_ANALYSIS
/* keeps the lock for df_cuda_resume_streams if it returns 1 */ {
  df_lock(&beginning);
  if (df_observe_u32(&outstanding) == 0) {
    df_cuda_begin_device_wait();
    return 1;
  }
  df_unlock(&beginning);
  return 0;
}

void df_cuda_resume_streams(void) DF_NO_THREAD_SAFETY_ANALYSIS
/* releases the lock of df_cuda_pause_streams */ {
  df_cuda_end_device_wait();
  df_unlock(&beginning);
}

/* ---- one run */

/* Returns 0 if no entry is free. */
static uint32_t take_index(df_cuda_state *state) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < DF_CUDA_TICKETS; i++) {
    uint32_t number = (state->next_ticket + i) % DF_CUDA_TICKETS;
    const df_stream_event *stream_event = &state->tickets[number];
    if (number == 0 || df_load_relaxed_u64(&stream_event->output) != stream_event->wanted ||
        df_observe_u64(&stream_event->input) != stream_event->wanted)
      continue;
    state->next_ticket = number + 1;
    return number;
  }
  return 0;
}

/* Refuses a run whose input would be queued behind the wait for the run of another rank, which
 * needs this run. If two such runs begin at one time, each sees the other. */
static dfcclResult_t refuse_behind_mate(df_rank_device *device, uint32_t ticket_of_run) {
  df_stream_event *stream_event =
      &df_cuda_state_of(device)->tickets[df_stream_event_index(ticket_of_run)];
  df_wake_fence();
  uint32_t other;
  if (!df_cuda_has_streaming_mate(device, &other)) return dfcclSuccess;
  df_publish_u64(&stream_event->output, stream_event->wanted);
  df_publish_u64(&stream_event->input,
                 /* The stream does not write the entry, so it is free again. */
                 stream_event->wanted);
  return df_fail(
      dfcclInvalidUsage,
      "rank %u has a run on a stream, and rank %u of the same process has one on another: "
      "CUDA_DEVICE_MAX_CONNECTIONS is 1, so the second stream would wait for the first. "
      "Set it to 32 before the process first calls CUDA, or run with callbacks in place "
      "of streams",
      other, device->rank);
}

static dfcclResult_t begin_on_stream(df_rank_device *device, void *stream, df_stream_run *run) {
  df_cuda_state *state = df_cuda_state_of(device);
  dfcclResult_t result = refuse_capture(stream);
  if (result != dfcclSuccess) return result;
  df_rank_lock(device->host.lock);
  const uint32_t index = take_index(state);
  df_stream_event *stream_event = &state->tickets[index];
  if (index) df_store_relaxed_u64(&stream_event->wanted, stream_event->wanted + 1);
  run->number = stream_event->wanted;
  run->stream_event = df_stream_event_make(index, run->number);
  df_rank_unlock(device->host.lock);
  if (index == 0)
    return df_fail(dfcclInvalidUsage, "%d runs on streams are not complete on rank %u already",
                   DF_CUDA_TICKETS - 1, device->rank);
  if (device->options.cuda.one_queue) {
    result = refuse_behind_mate(device, run->stream_event);
    if (result != dfcclSuccess) return result;
  }
  count_run(); /* must precede the wait of a stream */
  df_cuda_reside(device);
  cudaError_t error = enqueue_write(state, stream, &state->inputs[index], run->number);
  if (error == cudaSuccess) error = enqueue_write(state, stream, &stream_event->input, run->number);
  if (error == cudaSuccess) return dfcclSuccess;
  /* The entry is not used again, because a write may still come. */
  df_cuda_stream_release(device, run->stream_event);
  return df_cuda_fail(error, "enqueueing a write on the stream");
}

/* The default stream is that of the rank's device, whatever device the caller uses. */
dfcclResult_t df_cuda_stream_begin(df_rank_device *device, void *stream, df_stream_run *run) {
  df_cuda_visit visit;
  dfcclResult_t result = df_cuda_enter_device(&visit, df_cuda_state_of(device)->primary);
  if (result != dfcclSuccess) return result;
  result = begin_on_stream(device, stream, run);
  df_cuda_leave_device(&visit);
  return result;
}

dfcclResult_t df_cuda_stream_end(df_rank_device *device, void *stream, const df_stream_run *run) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_visit visit;
  uint64_t *output = &state->tickets[df_stream_event_index(run->stream_event)].output;
  dfcclResult_t result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  cudaError_t error = enqueue(state->wait_value, CU_STREAM_WAIT_VALUE_GEQ, df_cuda_wait_kernel(),
                              stream, output, run->number);
  if (error != cudaSuccess) result = df_cuda_fail(error, "enqueueing a wait on the stream");
  df_cuda_leave_device(&visit);
  return result;
}

void df_cuda_stream_release(df_rank_device *device, uint32_t number) {
  df_stream_event *stream_event = &df_cuda_state_of(device)->tickets[df_stream_event_index(number)];
  df_bus_release();
  df_publish_u64(&stream_event->output, stream_event->wanted);
  df_store_relaxed_u64(&ended_ns, df_clock_ns()); /* seen by a thread that finds no run left */
  df_system_sub_u32(&outstanding, 1);
}
