/* The library as the demo's engine. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "demo_program.h"

typedef struct {
  demo_engine engine; /* first: the program's view */
  const demo_job *job;
  df_tool_rank *self;
  uint32_t *device_send, *device_receive; /* the same memory as the program's, or the GPU's */
  atomic_uint *called;                    /* callbacks seen for each collective in this iteration */
  atomic_uint failed;                     /* callbacks with another status than success */
} library_engine;

static void count_callback(dfcclCollId_t collective, dfcclResult_t status, void *argument) {
  library_engine *engine = argument;
  /* Relaxed: dfcclWaitAll orders these counts before the rank that reads them. */
  atomic_fetch_add_explicit(&engine->called[collective], 1, memory_order_relaxed);
  if (status != dfcclSuccess) atomic_fetch_add_explicit(&engine->failed, 1, memory_order_relaxed);
}

static size_t buffer_bytes(const library_engine *engine) {
  return engine->job->layout.elements * sizeof(uint32_t);
}

static bool library_begin(demo_engine *base) {
  library_engine *engine = (library_engine *)base;
  for (int c = 0; c < engine->job->options.collectives; c++)
    atomic_store_explicit(&engine->called[c], 0, memory_order_relaxed);
  memset(base->receive, 0xa5, buffer_bytes(engine)); /* no result of an earlier iteration is left */
  if (base->send == engine->device_send) return true;
  if (df_tool_memory_put(engine->device_send, base->send, buffer_bytes(engine)) &&
      df_tool_memory_zero(engine->device_receive, buffer_bytes(engine)))
    return true;
  df_tool_rank_fail(engine->self, dfcclUnhandledCudaError, "copying to the GPU failed");
  return false;
}

static bool library_run(demo_engine *base, int collective) {
  library_engine *engine = (library_engine *)base;
  size_t offset = engine->job->layout.offsets[collective];
  dfcclResult_t result = dfcclRunAllReduce(engine->self->context, (dfcclCollId_t)collective,
                                           engine->device_send + offset,
                                           engine->device_receive + offset, count_callback, engine);
  return df_tool_rank_check(engine->self, result, "dfcclRunAllReduce");
}

static bool library_synchronize(demo_engine *base) {
  library_engine *engine = (library_engine *)base;
  return df_tool_rank_check(engine->self, dfcclDeviceSynchronize(engine->self->context),
                            "dfcclDeviceSynchronize");
}

static bool library_finish(demo_engine *base) {
  library_engine *engine = (library_engine *)base;
  demo_report *report = engine->self->report;
  dfcclResult_t result = dfcclWaitAll(engine->self->context);
  if (!df_tool_rank_check(engine->self, result, "dfcclWaitAll")) return false;
  for (int c = 0; c < engine->job->options.collectives; c++) {
    unsigned called = atomic_load_explicit(&engine->called[c], memory_order_relaxed);
    report->completed += called;
    if (called == 1) continue;
    df_tool_rank_fail(engine->self, dfcclInternalError,
                      "the callback of one run of C%d was called %u times", c, called);
    return false;
  }
  unsigned failed = atomic_load_explicit(&engine->failed, memory_order_relaxed);
  if (failed != 0) {
    df_tool_rank_fail(engine->self, dfcclInternalError,
                      "%u callbacks had a failing status that dfcclWaitAll did not return", failed);
    return false;
  }
  if (base->receive == engine->device_receive) return true;
  if (df_tool_memory_get(base->receive, engine->device_receive, buffer_bytes(engine))) return true;
  df_tool_rank_fail(engine->self, dfcclUnhandledCudaError, "copying from the GPU failed");
  return false;
}

static bool register_all(library_engine *engine) {
  const demo_layout *layout = &engine->job->layout;
  for (int c = 0; c < engine->job->options.collectives; c++) {
    char name[16];
    snprintf(name, sizeof name, "C%d", c);
    dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
    options.name = name;
    dfcclResult_t result = dfcclRegisterAllReduce(engine->self->context, (dfcclCollId_t)c,
                                                  layout->offsets[c + 1] - layout->offsets[c],
                                                  dfcclUint32, dfcclSum, &options);
    if (!df_tool_rank_check(engine->self, result, "dfcclRegisterAllReduce")) return false;
  }
  return true;
}

static void report_statistics(library_engine *engine) {
  demo_report *report = engine->self->report;
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  dfcclResult_t result = dfcclGetStats(engine->self->context, &stats);
  if (!df_tool_rank_check(engine->self, result, "dfcclGetStats")) return;
  report->preemptions = stats.preemptions;
  report->blocks = stats.blocks;
  report->voluntary_quits = stats.voluntaryQuits;
}

/* Buffers in the device's memory, and beside them host memory unless that is the same. */
static bool make_buffers(library_engine *engine) {
  bool host = df_tool_memory_is_host();
  engine->called = calloc((size_t)engine->job->options.collectives, sizeof *engine->called);
  engine->device_send = df_tool_memory_alloc(buffer_bytes(engine));
  engine->device_receive = df_tool_memory_alloc(buffer_bytes(engine));
  engine->engine.send = host ? engine->device_send : malloc(buffer_bytes(engine));
  engine->engine.receive = host ? engine->device_receive : malloc(buffer_bytes(engine));
  return engine->called != NULL && engine->device_send != NULL && engine->device_receive != NULL &&
         engine->engine.send != NULL && engine->engine.receive != NULL;
}

static void free_buffers(library_engine *engine) {
  if (engine->engine.send != engine->device_send) free(engine->engine.send);
  if (engine->engine.receive != engine->device_receive) free(engine->engine.receive);
  df_tool_memory_free(engine->device_send, buffer_bytes(engine));
  df_tool_memory_free(engine->device_receive, buffer_bytes(engine));
  free(engine->called);
}

void demo_library_rank_main(df_tool_rank *self) {
  const demo_job *job = self->argument;
  library_engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "no memory for a rank");
    return;
  }
  *engine = (library_engine){.engine = {.begin = library_begin,
                                        .run = library_run,
                                        .synchronize = library_synchronize,
                                        .finish = library_finish},
                             .job = job,
                             .self = self};
  if (!make_buffers(engine)) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "no memory for buffers of %zu bytes",
                      buffer_bytes(engine));
  } else if (register_all(engine)) {
    demo_program_run(&job->options, &job->layout, self->rank, &engine->engine, self);
    report_statistics(engine);
  }
  /* After a failure callbacks may still come, and the library may still own the buffers: all of it
   * goes with the process. */
  if (self->outcome.code != 0) return;
  free_buffers(engine);
  free(engine);
}
