/* This library: a context for all, an id for each collective. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dfccl.h"
#include "disorder.h"

static dfcclContext_t context;

static bool fine(dfcclResult_t result, const char *what) {
  if (result == dfcclSuccess) return true;
  fprintf(stderr, "%s: %s (%s)\n", what, dfcclGetErrorString(result), dfcclGetLastError(context));
  return false;
}

/* Rank 0 leaves the id in the directory, the others fetch it there. */
static bool exchange_id(const disorder_job *job, dfcclUniqueId *id) {
  char path[512], ready[520];
  snprintf(path, sizeof path, "%s/id", job->directory);
  snprintf(ready, sizeof ready, "%s.ready", path);
  if (job->rank == 0) {
    if (!fine(dfcclGetUniqueId(id), "dfcclGetUniqueId")) return false;
    FILE *file = fopen(path, "w");
    bool written = file != NULL && fwrite(id, sizeof *id, 1, file) == 1;
    return file != NULL && fclose(file) == 0 && written && rename(path, ready) == 0;
  }
  FILE *file = NULL;
  while ((file = fopen(ready, "r")) == NULL)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  bool read = fread(id, sizeof *id, 1, file) == 1;
  fclose(file);
  return read;
}

bool disorder_open(disorder_job *job) {
  dfcclUniqueId id;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.timeoutMs = job->seconds * 1000;
  return exchange_id(job, &id) &&
         fine(dfcclInit(&context, job->n_ranks, id, job->rank, &config), "dfcclInit");
}

bool disorder_register(const disorder_collective *one) {
  return fine(dfcclRegisterAllReduce(context, (dfcclCollId_t)one->number, one->count, dfcclFloat32,
                                     dfcclSum, NULL),
              "dfcclRegisterAllReduce");
}

bool disorder_can_start(void) { return true; }

bool disorder_start(const disorder_collective *one) {
  return fine(
      dfcclRunAllReduce(context, (dfcclCollId_t)one->number, one->send, one->recv, NULL, NULL),
      "dfcclRunAllReduce");
}

bool disorder_wait(const disorder_collective *one) {
  return fine(dfcclWait(context, (dfcclCollId_t)one->number), "dfcclWait");
}

bool disorder_call(const disorder_collective *one) {
  return disorder_start(one) && disorder_wait(one);
}

void disorder_close(void) { fine(dfcclDestroy(context), "dfcclDestroy"); }
