/* The messages that networks have carried, as a table and in the JSON object. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/report.h"

/* The messages of one rank to another one, or from it. */
typedef struct path {
  const df_traced_message *first;
  uint64_t messages, bytes, acknowledged; /* acknowledged: have two times */
  double median_us, longest_us;
} path;

static int by_size(const void *a, const void *b) {
  const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

/* The path that begins with message `first`; its times go to `times`. */
static path path_from(const df_job_trace *job, size_t first, int64_t *times) {
  const df_traced_message *all = job->messages;
  path p = {.first = &all[first]};
  for (size_t i = first; i < job->n_messages && all[i].rank == all[first].rank &&
                         all[i].peer == all[first].peer && all[i].is_sent == all[first].is_sent;
       i++) {
    if (all[i].to > all[i].from) times[p.acknowledged++] = all[i].to - all[i].from;
    p.messages++;
    p.bytes += all[i].bytes;
  }
  if (p.acknowledged == 0) return p;
  qsort(times, p.acknowledged, sizeof *times, by_size);
  const size_t middle = p.acknowledged / 2;
  const int64_t lower = times[p.acknowledged % 2 ? middle : middle - 1];
  p.median_us = (double)(lower + times[middle]) / 2e3;
  p.longest_us = (double)times[p.acknowledged - 1] / 1e3;
  return p;
}

void df_job_print_messages(const df_job_trace *job) {
  int64_t *times = calloc(job->n_messages + 1, sizeof *times);
  if (job->n_messages > 0)
    puts("\nMessages that a network carried. Times are from the first byte until a message has "
         "arrived; of\n"
         "sent ones, until the remote rank has said that it was read, which it may say late\n\n"
         "  rank        peer  messages       bytes   median us  longest us");
  for (size_t i = 0; times && i < job->n_messages;) {
    const path p = path_from(job, i, times);
    printf("%6u %4s %6u %9" PRIu64 " %11" PRIu64 " %11.1f %11.1f\n", p.first->rank,
           p.first->is_sent ? "to" : "from", p.first->peer, p.messages, p.bytes, p.median_us,
           p.longest_us);
    i += p.messages;
  }
  for (uint32_t r = 0; r < job->n_ranks; r++)
    if (job->ranks[r].lost_messages > 0)
      printf("rank %u: %" PRIu64
             " messages are missing: too many came before they were written, or "
             "the rest of them never came\n",
             r, job->ranks[r].lost_messages);
  free(times);
}

void df_job_add_messages(cJSON *root, const df_job_trace *job) {
  int64_t *times = calloc(job->n_messages + 1, sizeof *times);
  if (job->n_messages == 0 || times == NULL) {
    free(times);
    return;
  }
  cJSON *messages = cJSON_AddArrayToObject(root, "messages");
  for (size_t i = 0; i < job->n_messages;) {
    const path p = path_from(job, i, times);
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "rank", p.first->rank);
    cJSON_AddNumberToObject(one, "peer", p.first->peer);
    cJSON_AddStringToObject(one, "way", p.first->is_sent ? "sent" : "received");
    cJSON_AddNumberToObject(one, "messages", (double)p.messages);
    cJSON_AddNumberToObject(one, "bytes", (double)p.bytes);
    cJSON_AddNumberToObject(one, "us_median", p.median_us);
    cJSON_AddNumberToObject(one, "us_longest", p.longest_us);
    cJSON_AddNumberToObject(one, "lost_on_rank", (double)job->ranks[p.first->rank].lost_messages);
    cJSON_AddItemToArray(messages, one);
    i += p.messages;
  }
  free(times);
}
