#include "bootstrap/net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/net/fork_guard.h"

enum { FOUND_MAX = 16 };
#define REPORT_NS 5000000000u

/* The caller and the resolving thread share the question; the last one to finish frees it. */
typedef struct question {
  df_mutex lock;
  pthread_cond_t answered;
  int is_done, is_abandoned;
  int error;        /* EAI_ */
  int system_error; /* errno, of EAI_SYSTEM */
  int n;
  df_address found[FOUND_MAX];
  char host[256];
} question;

static void free_question(question *q) {
  pthread_cond_destroy(&q->answered);
  df_mutex_destroy(&q->lock);
  free(q);
}

static void *look_up(void *argument) {
  question *q = argument;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
  struct addrinfo *list = NULL;
  const int error = getaddrinfo(q->host, NULL, &hints, &list), system_error = errno;
  df_lock(&q->lock);
  q->error = error;
  q->system_error = system_error;
  for (const struct addrinfo *at = list; error == 0 && at && q->n < FOUND_MAX; at = at->ai_next) {
    struct sockaddr_storage storage = {0};
    memcpy(&storage, at->ai_addr, at->ai_addrlen);
    q->n += df_address_from_socket(&q->found[q->n], &storage);
  }
  q->is_done = 1;
  const int is_abandoned = q->is_abandoned;
  pthread_cond_signal(&q->answered);
  df_unlock(&q->lock);
  if (error == 0) freeaddrinfo(list);
  if (is_abandoned) free_question(q);
  return NULL;
}

/* Returns 1 if the question was answered. Logs the waiting after 5 s, 10 s, 20 s and so on. */
static int await(question *q, uint64_t deadline_ns) {
  const uint64_t begin_ns = df_clock_ns();
  uint64_t report_ns = begin_ns + REPORT_NS;
  df_lock(&q->lock);
  while (!q->is_done && df_clock_ns() < deadline_ns) {
    const uint64_t until_ns = DF_MIN(deadline_ns, report_ns);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                   .tv_nsec = (long)(until_ns % 1000000000u)};
    if (df_wait_until(&q->answered, &q->lock, &until) == 0 || df_clock_ns() < report_ns) continue;
    df_log(DF_LOG_WARN, "the look-up of host \"%s\" has had no answer for %llu s", q->host,
           (unsigned long long)((df_clock_ns() - begin_ns) / 1000000000u));
    report_ns = 2 * report_ns - begin_ns;
  }
  const int is_done = q->is_done;
  q->is_abandoned = !is_done;
  df_unlock(&q->lock);
  return is_done;
}

static question *make_question(const char *host) {
  question *q = calloc(1, sizeof *q);
  if (q == NULL) return NULL;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&q->answered, &attributes);
  pthread_condattr_destroy(&attributes);
  df_mutex_init(&q->lock);
  snprintf(q->host, sizeof q->host, "%s", host);
  return q;
}

static dfcclResult_t not_found(const question *q) {
  if (q->error == EAI_MEMORY || q->error == EAI_SYSTEM)
    return df_fail(q->error == EAI_MEMORY ? dfcclOutOfMemory : dfcclSystemError,
                   "host \"%.200s\" could not be looked up: %s", q->host,
                   q->error == EAI_MEMORY ? gai_strerror(q->error) : strerror(q->system_error));
  return df_fail(q->error == EAI_AGAIN ? dfcclInProgress : dfcclInvalidUsage,
                 "host \"%.200s\" is not known here: %s", q->host, gai_strerror(q->error));
}

dfcclResult_t df_resolve(const char *host, uint64_t deadline_ns, df_address *addresses, int most,
                         int *n) {
  *n = df_address_parse(&addresses[0], host, strlen(host)) && addresses[0].port == 0;
  if (*n == 1) return dfcclSuccess;
  question *q = make_question(host);
  pthread_t thread;
  if (q == NULL) return df_fail(dfcclOutOfMemory, "no memory to look up a host");
  const int error = df_thread_start(&thread, true, look_up, q);
  if (error) {
    free_question(q);
    return df_fail(dfcclOutOfMemory, "no thread to look up host \"%.200s\": %s", host,
                   strerror(error));
  }
  if (!await(q, deadline_ns))
    return df_fail(dfcclTimeout, "the look-up of host \"%.200s\" had no answer within the timeout",
                   host);
  dfcclResult_t result = q->error ? not_found(q) : dfcclSuccess;
  for (; *n < q->n && *n < most; ++*n) addresses[*n] = q->found[*n];
  free_question(q);
  return result;
}
