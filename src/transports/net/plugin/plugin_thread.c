#include "transports/net/plugin/plugin_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/fork_guard.h"
#include "transports/net/plugin/plugin_stream.h"

enum { STACK_BYTES = 8 << 20 };
enum {
  CHOICE_BYTES = 512,
  OPEN_SECONDS = 60, /* some plugins ask each device */
  CLOSE_SECONDS = 5,
  FIRST_NAP_NS = 20000,
  LAST_NAP_NS = 1000000
};

/* So long the thread asks without a nap. */
#define AWAKE_NS ((uint64_t)100 * 1000)

typedef enum { ABSENT, OPENS, OPEN, CLOSES } host_state;

struct df_plugin_host {
  df_plugin_host *next;
  char choice[CHOICE_BYTES];
  pid_t process;

  /* [lock] */
  host_state state;
  int users;
  int is_stuck; /* given up: it did not return from a call */
  int must_join;
  pthread_cond_t changed;
  dfcclResult_t result; /* of opening */
  char sentence[DF_SENTENCE_BYTES];
  df_plugin_stream *new;

  pthread_t thread;
  df_bell bell;
  uint32_t calls; /* of df_plugin_host_ring */
  uint32_t must_end;

  /* The thread's; unchanged while it is open. */
  df_plugin plugin;
  df_plugin_device device;
  int device_number;
  int has_started; /* the plugin is initialized */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static df_plugin_host *hosts; /* [lock] they stay */

static void note_lock(void) { df_fork_waits_for(&lock, 0); }

void df_plugin_lock(void) { pthread_mutex_lock(&lock); }
void df_plugin_unlock(void) { pthread_mutex_unlock(&lock); }

const df_plugin *df_plugin_host_plugin(const df_plugin_host *host) { return &host->plugin; }
const df_plugin_device *df_plugin_host_device(const df_plugin_host *host, int *number) {
  *number = host->device_number;
  return &host->device;
}

void df_plugin_host_ring(df_plugin_host *host) {
  df_system_add_u32(&host->calls, 1);
  df_bell_ring(&host->bell);
}

void df_plugin_host_adopt(df_plugin_host *host, df_plugin_stream *stream) {
  pthread_mutex_lock(&lock);
  stream->next = host->new;
  host->new = stream;
  pthread_mutex_unlock(&lock);
  df_plugin_host_ring(host);
}

/* ---- the thread */

static void take_new(df_plugin_host *host, df_plugin_stream **streams) {
  pthread_mutex_lock(&lock);
  df_plugin_stream *new = host->new;
  host->new = NULL;
  pthread_mutex_unlock(&lock);
  while (new) {
    df_plugin_stream *stream = new;
    new = stream->next;
    stream->next = *streams;
    *streams = stream;
  }
}

static void tell(df_plugin_stream *stream) {
  pthread_mutex_lock(&lock);
  if (stream->tell) stream->tell(stream);
  pthread_mutex_unlock(&lock);
}

static df_plugin_progress work_all(df_plugin_stream **streams, uint64_t now_ns) {
  df_plugin_progress most = DF_PLUGIN_SLEEPS;
  for (df_plugin_stream **at = streams; *at;) {
    df_plugin_stream *stream = *at;
    if (df_observe_u32(&stream->is_over)) {
      *at = stream->next;
      df_plugin_stream_close(stream);
      continue;
    }
    const df_plugin_progress now = df_plugin_stream_work(stream, now_ns);
    if (now == DF_PLUGIN_MOVED) tell(stream);
    if (now > most) most = now;
    at = &stream->next;
  }
  return most;
}

/* Until somebody rings, or a nap's end if only the plugin could tell. */
static void rest(df_plugin_host *host, uint32_t calls, uint64_t nap_ns) {
  const uint32_t handle = df_bell_prepare(&host->bell);
  if (df_load_relaxed_u32(&host->calls) != calls)
    df_bell_cancel(&host->bell);
  else
    df_bell_sleep(&host->bell, handle, nap_ns);
}

static void serve(df_plugin_host *host) {
  df_plugin_stream *streams = NULL;
  uint64_t moved_ns = 0, nap_ns = FIRST_NAP_NS;
  for (;;) {
    const uint32_t calls = df_load_relaxed_u32(&host->calls);
    const int must_end = df_observe_u32(&host->must_end) != 0;
    const uint64_t now_ns = df_clock_ns();
    take_new(host, &streams);
    const df_plugin_progress progress = work_all(&streams, now_ns);
    if (must_end && streams == NULL) return;
    if (progress == DF_PLUGIN_MOVED) {
      moved_ns = now_ns;
      nap_ns = FIRST_NAP_NS;
    } else if (progress == DF_PLUGIN_SLEEPS)
      rest(host, calls, UINT64_MAX);
    else if (now_ns - moved_ns < AWAKE_NS)
      sched_yield();
    else {
      rest(host, calls, nap_ns);
      nap_ns = DF_MIN(2 * nap_ns, (uint64_t)LAST_NAP_NS);
    }
  }
}

static void set_state(df_plugin_host *host, host_state state) {
  pthread_mutex_lock(&lock);
  host->state = state;
  pthread_cond_broadcast(&host->changed);
  pthread_mutex_unlock(&lock);
}

/* A plugin without a call to end it stays initialized, for whoever comes next. */
static void *run(void *argument) {
  df_plugin_host *host = argument;
  if (!host->has_started) {
    host->result = df_plugin_load(&host->plugin, host->choice);
    if (host->result == dfcclSuccess)
      host->result =
          df_plugin_start(&host->plugin, host->choice, &host->device_number, &host->device);
    if (host->result != dfcclSuccess) {
      snprintf(host->sentence, sizeof host->sentence, "%s", df_last_sentence());
      set_state(host, ABSENT);
      return NULL;
    }
    host->has_started = 1;
    df_log(DF_LOG_INFO, "network plugin %s, version %d, device %s", df_plugin_name(&host->plugin),
           host->plugin.version, host->device.name);
  }
  set_state(host, OPEN);
  serve(host);
  if (host->plugin.version >= 11) {
    df_plugin_finalize(&host->plugin);
    host->has_started = 0;
  }
  set_state(host, ABSENT);
  return NULL;
}

/* ---- opening and closing */

/* [lock] The thread has set its last state, so it needs the lock no more. */
static void join_thread(df_plugin_host *host) {
  if (host->must_join) pthread_join(host->thread, NULL);
  host->must_join = 0;
}

/* [lock] Plugins may need more than the small stack of the library's own threads. */
static int start(df_plugin_host *host) {
  sigset_t all, before;
  join_thread(host);
  sigfillset(&all);
  host->state = OPENS;
  host->must_end = 0;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = df_thread_create(&host->thread, STACK_BYTES, 0, run, host);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) host->state = ABSENT;
  host->must_join = error == 0;
  return error;
}

/* [lock] Returns 0 when the time has passed. */
static int wait_while(df_plugin_host *host, host_state state, int seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  while (host->state == state)
    if (pthread_cond_timedwait(&host->changed, &lock, &until) != 0) return host->state != state;
  return 1;
}

/* [lock] */
static df_plugin_host *find(const char *name) {
  df_plugin_host *host = hosts;
  while (host && strcmp(host->choice, name) != 0) host = host->next;
  if (host) return host;
  host = aligned_alloc(64, sizeof *host);
  if (host == NULL) return NULL;
  memset(host, 0, sizeof *host);
  snprintf(host->choice, sizeof host->choice, "%s", name);
  host->process = getpid();
  pthread_cond_init(&host->changed, NULL);
  host->next = hosts;
  hosts = host;
  return host;
}

/* [lock] */
static dfcclResult_t refuse(df_plugin_host *host, const char *why) {
  return df_fail(dfcclInvalidUsage, "network plugin \"%.128s\" %s", host->choice, why);
}

/* [lock] */
static dfcclResult_t join(df_plugin_host *host) {
  if (host->process != getpid())
    return refuse(host,
                  "is in use by the process that this one was forked from, and its state cannot "
                  "be shared: start ranks as programs, or fork before dfcclInit");
  if (host->is_stuck)
    return refuse(host, "has not returned from a call and was given up: end this process");
  if (!wait_while(host, CLOSES, CLOSE_SECONDS + 1))
    return refuse(host, "does not close its connections");
  if (host->state == ABSENT) {
    const int error = start(host);
    if (error)
      return df_fail(dfcclOutOfMemory, "could not start the thread of a network plugin: %s",
                     strerror(error));
  }
  if (!wait_while(host, OPENS, OPEN_SECONDS)) {
    host->is_stuck = 1;
    return refuse(host, "has not been initialized within 60 s");
  }
  if (host->state == OPEN) return dfcclSuccess;
  join_thread(host);
  return df_fail(host->result, "%s", host->sentence);
}

dfcclResult_t df_plugin_host_open(df_plugin_host **out, const char *name) {
  pthread_once(&once, note_lock);
  pthread_mutex_lock(&lock);
  df_plugin_host *host = find(name);
  dfcclResult_t result =
      host ? join(host) : df_fail(dfcclOutOfMemory, "no memory for a network plugin");
  if (result == dfcclSuccess) {
    host->users++;
    *out = host;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

void df_plugin_host_close(df_plugin_host *host) {
  pthread_mutex_lock(&lock);
  if (--host->users > 0) {
    pthread_mutex_unlock(&lock);
    return;
  }
  host->state = CLOSES;
  df_publish_u32(&host->must_end, 1);
  df_plugin_host_ring(host);
  if (!wait_while(host, CLOSES, CLOSE_SECONDS)) {
    host->is_stuck = 1;
    pthread_detach(host->thread);
  } else if (host->state == ABSENT) /* else somebody has opened it again */
    join_thread(host);
  const int is_stuck = host->is_stuck;
  pthread_mutex_unlock(&lock);
  if (is_stuck)
    df_log(DF_LOG_WARN, "network plugin \"%s\" does not return from a call, and was given up",
           host->choice);
}
