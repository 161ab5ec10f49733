#include "host/observe/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "control/service.h"

enum {
  PATIENCE_MS = 2000, /* a thread waits for a file so long */
  /* After a remote error, the file waits so long for the loss of a rank: another rank may report
   * the failure of a collective before this rank notices the loss. */
  HOLD_MS = 200
};

/* ---- failures and losses ---- */

static int has_directory(const dfcclContext_t context) {
  return context->flight != NULL && context->settings.flight[0] != '\0';
}

void df_flight_request(dfcclContext_t context, df_flight_reason reason) {
  if (!has_directory(context)) return;
  df_store_relaxed_u32(&context->flight->reason, (uint32_t)reason);
  /* A disk that hangs holds up the threads that wait for the file together, not each call. */
  if (df_observe_u32(&context->flight->requested) == df_load_relaxed_u32(&context->flight->written))
    df_store_relaxed_u64(&context->flight->await_until_ns, df_after_ms(PATIENCE_MS));
  df_system_add_u32(&context->flight->requested, 1);
  df_service_wake(&context->control);
}

void df_flight_fail(dfcclContext_t context, dfcclResult_t status, const char *sentence) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_flight *flight = context->flight;
  if (flight == NULL || flight->failed != dfcclSuccess) return;
  flight->failed = status;
  flight->failed_at = df_ticks();
  snprintf(flight->sentence, sizeof flight->sentence, "%s", sentence);
  if (status == dfcclRemoteError && flight->n_losses == 0 && context->survival == NULL)
    df_store_relaxed_u64(&flight->hold_until_ns, df_after_ms(HOLD_MS));
  df_flight_request(context, DF_FLIGHT_FAILURE);
}

static int has_member(const df_flight_coll *coll, uint32_t rank) {
  for (uint32_t i = 0; i < coll->n; i++)
    if (coll->ranks[i] == rank) return 1;
  return 0;
}

/* A run has ended in success, so all members took part in it. */
static void find_last_run(const df_flight_copy *copy, df_flight_loss *loss) {
  for (uint32_t i = 0; i < copy->n_runs; i++) {
    const df_flight_run *run = &copy->runs[i];
    const int is_over = run->state == DF_FLIGHT_ENDED && run->entry.status == dfcclSuccess;
    if (!is_over || run->coll == DF_NOBODY || !has_member(&copy->colls[run->coll], loss->rank))
      continue;
    if (loss->has_run && run->entry.ended < loss->run.ended) continue;
    loss->has_run = 1;
    loss->run = run->entry;
    loss->id = copy->colls[run->coll].id;
    memcpy(loss->name, copy->colls[run->coll].name, sizeof loss->name);
  }
}

void df_flight_lose(dfcclContext_t context, uint32_t rank, const char *why) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_flight *flight = context->flight;
  df_flight_copy copy;
  if (flight == NULL || flight->n_losses == DF_FLIGHT_LOSSES) return;
  for (uint32_t i = 0; i < flight->n_losses; i++)
    if (flight->losses[i].rank == rank) return;
  df_flight_loss *loss = &flight->losses[flight->n_losses];
  *loss = (df_flight_loss){.rank = rank, .at = df_ticks()};
  snprintf(loss->why, sizeof loss->why, "%s", why);
  if (df_flight_copy_make(context, &copy)) find_last_run(&copy, loss);
  df_flight_copy_free(&copy);
  flight->n_losses++;
  df_store_relaxed_u64(&flight->hold_until_ns, 0);
  /* Without survival, a loss follows: the ranks that end because of this one. */
  if (context->survival || flight->n_losses == 1) df_flight_request(context, DF_FLIGHT_FAILURE);
}

/* ---- the text ---- */

/* Returns 0 if there is no memory. */
static int make_text(dfcclContext_t context, df_flight_reason reason, df_growing_text *text) {
  df_flight_head *head = malloc(sizeof *head);
  df_flight_copy copy;
  if (head == NULL) return 0;
  df_rank_lock(&context->lock);
  const df_flight *flight = context->flight;
  const int has_copy = df_flight_copy_make(context, &copy);
  *head = (df_flight_head){.rank = context->rank, .n_ranks = context->n_ranks, .reason = reason};
  if (has_copy) {
    head->failed = flight->failed;
    head->failed_at = flight->failed_at;
    memcpy(head->sentence, flight->sentence, sizeof head->sentence);
    memcpy(head->losses, flight->losses, sizeof head->losses);
    head->n_losses = flight->n_losses;
  }
  df_rank_unlock(&context->lock);
  if (has_copy) df_flight_grow_json(text, head, &copy);
  df_flight_copy_free(&copy);
  free(head);
  return has_copy && !text->failed;
}

static int write_text(int fd, const df_growing_text *text) {
  for (size_t at = 0; at < text->length;) {
    const ssize_t n = df_write(fd, text->bytes + at, text->length - at);
    if (n == -EINTR) continue;
    if (n <= 0) return n < 0 ? (int)-n : ENOSPC;
    at += (size_t)n;
  }
  return 0;
}

int df_flight_memory(dfcclContext_t context) {
  df_growing_text text = {0};
  int fd = -ENOMEM;
  if (make_text(context, DF_FLIGHT_QUESTION, &text)) {
    fd = memfd_create("dfccl-flight", MFD_CLOEXEC);
    const int error = fd < 0 ? errno : write_text(fd, &text);
    if (error && fd >= 0) close(fd);
    if (error) fd = -error;
  }
  free(text.bytes);
  return fd;
}

/* ---- the file ---- */

static void warn(dfcclContext_t context, const char *path, int error) {
  if (context->flight->has_warned) return;
  context->flight->has_warned = 1;
  df_log(DF_LOG_WARN, "rank %u: cannot write the flight recorder's file %s: %s", context->rank,
         path, strerror(error));
}

static void say_path(const dfcclContext_t context, char *path, size_t bytes) {
  snprintf(path, bytes, "%s/rank-%u.flight.json", context->settings.flight, context->rank);
}

static void write_due(dfcclContext_t context) {
  df_flight *flight = context->flight;
  char path[sizeof context->settings.flight + 32];
  df_growing_text text = {0};
  const uint32_t number = df_observe_u32(&flight->requested);
  if (number == df_load_relaxed_u32(&flight->written)) return;
  say_path(context, path, sizeof path);
  const df_flight_reason reason = (df_flight_reason)df_load_relaxed_u32(&flight->reason);
  const int error = make_text(context, reason, &text)
                        ? df_write_whole_file(path, text.bytes, text.length)
                        : ENOMEM;
  free(text.bytes);
  if (error) warn(context, path, error);
  df_publish_u32(&flight->written, number);
}

/* ---- the service thread ---- */

/* -1: nothing is due. */
static int tick(void *room) {
  const dfcclContext_t context = room;
  const df_flight *flight = context->flight;
  if (df_observe_u32(&flight->requested) == df_load_relaxed_u32(&flight->written)) return -1;
  const uint64_t until = df_load_relaxed_u64(&flight->hold_until_ns), now = df_clock_ns();
  return until > now ? (int)((until - now) / 1000000) + 1 : 0;
}

static void run(void *room) {
  if (tick(room) == 0) write_due(room);
}

void df_flight_await(dfcclContext_t context) {
  if (!has_directory(context)) return;
  const df_flight *flight = context->flight;
  const uint32_t number = df_observe_u32(&flight->requested);
  if (!context->control.started || pthread_equal(pthread_self(), context->control.thread)) return;
  while ((int32_t)(df_observe_u32(&flight->written) - number) < 0 &&
         df_clock_ns() < df_load_relaxed_u64(&flight->await_until_ns))
    usleep(1000);
}

void df_flight_open(dfcclContext_t context) {
  if (!has_directory(context)) return;
  if (access(context->settings.flight, W_OK | X_OK) != 0) {
    char path[sizeof context->settings.flight + 32];
    say_path(context, path, sizeof path);
    warn(context, path, errno);
  }
  df_service_add_job(&context->control, context, tick, run);
}

void df_flight_close(dfcclContext_t context) {
  if (has_directory(context)) write_due(context);
}
