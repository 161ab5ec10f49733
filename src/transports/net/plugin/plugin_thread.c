#include "transports/net/plugin/plugin_thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/fork_guard.h"
#include "transports/net/plugin/plugin_stream.h"

enum { STACK_BYTES = 8 << 20 };
enum {
  CHOICE_BYTES = 512,
  OPEN_SECONDS = 60, /* some plugins query each device */
  CLOSE_SECONDS = 5,
  FIRST_NAP_NS = 20000,
  LAST_NAP_NS = 1000000
};

/* Time for which the thread polls without a nap. */
#define AWAKE_NS ((uint64_t)100 * 1000)

typedef enum { ABSENT, OPENS, OPEN, CLOSES } thread_state;

struct df_plugin_thread {
  df_plugin_thread *next;
  char choice[CHOICE_BYTES];
  pid_t process;

  /* Used under the lock. */
  thread_state state;
  int users;
  int is_stuck; /* given up: the plugin did not return from a call */
  int must_join;
  pthread_cond_t changed;
  dfcclResult_t result; /* result of opening */
  char sentence[DF_SENTENCE_BYTES];
  df_plugin_stream *new;

  pthread_t id;
  df_bell bell;
  uint32_t calls; /* number of calls of df_plugin_thread_ring */
  uint32_t must_end;

  /* Belongs to the thread; unchanged while it is open. */
  df_plugin plugin;
  df_plugin_device device;
  int device_number;
  int has_started; /* the plugin is initialized */
};

static df_mutex lock = DF_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static df_plugin_thread *all DF_GUARDED_BY(lock); /* Entries are never removed. */

static void note_lock(void) { df_fork_waits_for(&lock, 0); }

void df_plugin_lock(void) DF_NO_THREAD_SAFETY_ANALYSIS /* the lock is of this file alone */ {
  df_lock(&lock);
}
void df_plugin_unlock(void) DF_NO_THREAD_SAFETY_ANALYSIS /* the lock is of this file alone */ {
  df_unlock(&lock);
}

const df_plugin *df_plugin_thread_plugin(const df_plugin_thread *thread) { return &thread->plugin; }
const df_plugin_device *df_plugin_thread_device(const df_plugin_thread *thread, int *number) {
  *number = thread->device_number;
  return &thread->device;
}

void df_plugin_thread_ring(df_plugin_thread *thread) {
  df_system_add_u32(&thread->calls, 1);
  df_bell_ring(&thread->bell);
}

void df_plugin_thread_adopt(df_plugin_thread *thread, df_plugin_stream *stream) {
  df_lock(&lock);
  stream->next = thread->new;
  thread->new = stream;
  df_unlock(&lock);
  df_plugin_thread_ring(thread);
}

/* ---- the thread */

static void take_new(df_plugin_thread *thread, df_plugin_stream **streams) {
  df_lock(&lock);
  df_plugin_stream *new = thread->new;
  thread->new = NULL;
  df_unlock(&lock);
  while (new) {
    df_plugin_stream *stream = new;
    new = stream->next;
    stream->next = *streams;
    *streams = stream;
  }
}

static void notify(df_plugin_stream *stream) {
  df_lock(&lock);
  if (stream->notify) stream->notify(stream);
  df_unlock(&lock);
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
    if (now == DF_PLUGIN_MOVED) notify(stream);
    if (now > most) most = now;
    at = &stream->next;
  }
  return most;
}

/* Sleeps until df_plugin_thread_ring is called, or for a nap if only calls of the plugin can show
 * progress. */
static void rest(df_plugin_thread *thread, uint32_t calls, uint64_t nap_ns) {
  const uint32_t sequence = df_bell_prepare(&thread->bell);
  if (df_load_relaxed_u32(&thread->calls) != calls)
    df_bell_cancel(&thread->bell);
  else
    df_bell_sleep(&thread->bell, sequence, nap_ns);
}

static void serve(df_plugin_thread *thread) {
  df_plugin_stream *streams = NULL;
  uint64_t moved_ns = 0, nap_ns = FIRST_NAP_NS;
  for (;;) {
    const uint32_t calls = df_load_relaxed_u32(&thread->calls);
    const int must_end = df_observe_u32(&thread->must_end) != 0;
    const uint64_t now_ns = df_clock_ns();
    take_new(thread, &streams);
    const df_plugin_progress progress = work_all(&streams, now_ns);
    if (must_end && streams == NULL) return;
    if (progress == DF_PLUGIN_MOVED) {
      moved_ns = now_ns;
      nap_ns = FIRST_NAP_NS;
    } else if (progress == DF_PLUGIN_SLEEPS)
      rest(thread, calls, UINT64_MAX);
    else if (now_ns - moved_ns < AWAKE_NS)
      sched_yield();
    else {
      rest(thread, calls, nap_ns);
      nap_ns = DF_MIN(2 * nap_ns, (uint64_t)LAST_NAP_NS);
    }
  }
}

static void set_state(df_plugin_thread *thread, thread_state state) {
  df_lock(&lock);
  thread->state = state;
  pthread_cond_broadcast(&thread->changed);
  df_unlock(&lock);
}

/* A plugin that has no call to end it stays initialized for the next user. */
static void *run(void *argument) {
  df_plugin_thread *thread = argument;
  if (!thread->has_started) {
    thread->result = df_plugin_load(&thread->plugin, thread->choice);
    if (thread->result == dfcclSuccess)
      thread->result =
          df_plugin_start(&thread->plugin, thread->choice, &thread->device_number, &thread->device);
    if (thread->result != dfcclSuccess) {
      snprintf(thread->sentence, sizeof thread->sentence, "%s", df_last_sentence());
      set_state(thread, ABSENT);
      return NULL;
    }
    thread->has_started = 1;
    df_log(DF_LOG_INFO, "network plugin %s, version %d, device %s", df_plugin_name(&thread->plugin),
           thread->plugin.version, thread->device.name);
  }
  set_state(thread, OPEN);
  serve(thread);
  if (thread->plugin.version >= 11) {
    df_plugin_finalize(&thread->plugin);
    thread->has_started = 0;
  }
  set_state(thread, ABSENT);
  return NULL;
}

/* ---- opening and closing */

/* The thread has set its last state, so it does not need the lock any more. */
static void join_thread(df_plugin_thread *thread) DF_REQUIRES(lock) {
  if (thread->must_join) pthread_join(thread->id, NULL);
  thread->must_join = 0;
}

/* Plugins may need a larger stack than the threads of the library have. */
static int start(df_plugin_thread *thread) DF_REQUIRES(lock) {
  sigset_t every, before;
  join_thread(thread);
  sigfillset(&every);
  thread->state = OPENS;
  thread->must_end = 0;
  pthread_sigmask(SIG_SETMASK, &every, &before);
  const int error = df_thread_create(&thread->id, STACK_BYTES, 0, run, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) thread->state = ABSENT;
  thread->must_join = error == 0;
  return error;
}

/* Returns 0 when the time has passed. */
static int wait_while(df_plugin_thread *thread, thread_state state, int seconds) DF_REQUIRES(lock) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  while (thread->state == state)
    if (df_wait_until(&thread->changed, &lock, &until) != 0) return thread->state != state;
  return 1;
}

static df_plugin_thread *find(const char *name) DF_REQUIRES(lock) {
  df_plugin_thread *thread = all;
  while (thread && strcmp(thread->choice, name) != 0) thread = thread->next;
  if (thread) return thread;
  thread = aligned_alloc(64, sizeof *thread);
  if (thread == NULL) return NULL;
  memset(thread, 0, sizeof *thread);
  snprintf(thread->choice, sizeof thread->choice, "%s", name);
  thread->process = getpid();
  pthread_cond_init(&thread->changed, NULL);
  thread->next = all;
  all = thread;
  return thread;
}

static dfcclResult_t refuse(df_plugin_thread *thread, const char *why) DF_REQUIRES(lock) {
  return df_fail(dfcclInvalidUsage, "network plugin \"%.128s\" %s", thread->choice, why);
}

static dfcclResult_t join(df_plugin_thread *thread) DF_REQUIRES(lock) {
  if (thread->process != getpid())
    return refuse(thread,
                  "is in use by the process that this one was forked from, and its state cannot "
                  "be shared: start ranks as programs, or fork before dfcclInit");
  if (thread->is_stuck)
    return refuse(thread, "has not returned from a call and was given up: end this process");
  if (!wait_while(thread, CLOSES, CLOSE_SECONDS + 1))
    return refuse(thread, "does not close its connections");
  if (thread->state == ABSENT) {
    const int error = start(thread);
    if (error)
      return df_fail(dfcclOutOfMemory, "could not start the thread of a network plugin: %s",
                     strerror(error));
  }
  if (!wait_while(thread, OPENS, OPEN_SECONDS)) {
    thread->is_stuck = 1;
    return refuse(thread, "has not been initialized within 60 s");
  }
  if (thread->state == OPEN) return dfcclSuccess;
  join_thread(thread);
  return df_fail(thread->result, "%s", thread->sentence);
}

dfcclResult_t df_plugin_thread_open(df_plugin_thread **out, const char *name) {
  pthread_once(&once, note_lock);
  df_lock(&lock);
  df_plugin_thread *thread = find(name);
  dfcclResult_t result =
      thread ? join(thread) : df_fail(dfcclOutOfMemory, "no memory for a network plugin");
  if (result == dfcclSuccess) {
    thread->users++;
    *out = thread;
  }
  df_unlock(&lock);
  return result;
}

void df_plugin_thread_close(df_plugin_thread *thread) {
  df_lock(&lock);
  if (--thread->users > 0) {
    df_unlock(&lock);
    return;
  }
  thread->state = CLOSES;
  df_publish_u32(&thread->must_end, 1);
  df_plugin_thread_ring(thread);
  if (!wait_while(thread, CLOSES, CLOSE_SECONDS)) {
    thread->is_stuck = 1;
    pthread_detach(thread->id);
  } else if (thread->state == ABSENT) /* otherwise another user has opened it again */
    join_thread(thread);
  const int is_stuck = thread->is_stuck;
  df_unlock(&lock);
  if (is_stuck)
    df_log(DF_LOG_WARN, "network plugin \"%s\" does not return from a call, and was given up",
           thread->choice);
}
