/* Mutexes as capabilities, so that clang's -Wthread-safety checks the rules of locks that
 * DF_REQUIRES and its relatives state (base/attributes.h). A context, its control, its endpoints,
 * and its device reach the lock of the context through pointers of their own, and clang cannot see
 * that these are equal. Therefore this lock has the type df_rank_mutex, and a thread that holds any
 * lock of that type holds the role df_rank_role. Debug builds (DF_DEBUG_LOCKS) check the instance
 * at each DF_ASSERT_LOCKED and DF_ASSERT_RANK_LOCKED. */
#ifndef DF_BASE_MUTEX_H
#define DF_BASE_MUTEX_H

#include <pthread.h>
#include <time.h>

#include "base/assert.h"
#include "base/attributes.h"

typedef struct DF_CAPABILITY("mutex") df_mutex {
  pthread_mutex_t raw;
#ifdef DF_DEBUG_LOCKS
  pthread_t owner; /* valid if is_held */
  int is_held;     /* the holder writes it; other threads read it without the lock */
#endif
} df_mutex;

/* The lock of a context and of everything that belongs to its rank. */
typedef struct df_rank_mutex {
  df_mutex mutex;
} df_rank_mutex;

/* There is no object of this role; only attributes name it. */
typedef struct DF_CAPABILITY("role") df_role {
  int unused;
} df_role;
extern df_role df_rank_role;

/* The caller holds the lock of the rank. A function that may wait unlocks it while it waits. */
#define DF_RANK_LOCKED DF_REQUIRES(df_rank_role)

#define DF_MUTEX_INITIALIZER                                                                       \
  { .raw = PTHREAD_MUTEX_INITIALIZER }

#ifdef DF_DEBUG_LOCKS
static inline void df_mutex_note(df_mutex *mutex, int is_held) {
  if (is_held) __atomic_store_n(&mutex->owner, pthread_self(), __ATOMIC_RELAXED);
  __atomic_store_n(&mutex->is_held, is_held, __ATOMIC_RELEASE);
}
static inline int df_mutex_is_mine(const df_mutex *mutex) {
  return __atomic_load_n(&mutex->is_held, __ATOMIC_ACQUIRE) &&
         pthread_equal(__atomic_load_n(&mutex->owner, __ATOMIC_RELAXED), pthread_self());
}
#else
static inline void df_mutex_note(df_mutex *mutex, int is_held) { (void)mutex, (void)is_held; }
#endif

/* The analysis does not check the bodies of these functions; it relies on their attributes. */

static inline void df_mutex_init(df_mutex *mutex) {
  pthread_mutex_init(&mutex->raw, NULL);
  df_mutex_note(mutex, 0);
}

static inline void df_mutex_destroy(df_mutex *mutex) { pthread_mutex_destroy(&mutex->raw); }

static inline void df_lock(df_mutex *mutex) DF_ACQUIRE(*mutex) DF_NO_THREAD_SAFETY_ANALYSIS
/* a mutex of pthread is not a capability */ {
  pthread_mutex_lock(&mutex->raw);
  df_mutex_note(mutex, 1);
}

/* Returns whether the caller has acquired the mutex. */
static inline int df_trylock(df_mutex *mutex) DF_TRY_ACQUIRE(1, *mutex) DF_NO_THREAD_SAFETY_ANALYSIS
/* a mutex of pthread is not a capability */ {
  if (pthread_mutex_trylock(&mutex->raw) != 0) return 0;
  df_mutex_note(mutex, 1);
  return 1;
}

static inline void df_unlock(df_mutex *mutex) DF_RELEASE(*mutex) DF_NO_THREAD_SAFETY_ANALYSIS
/* a mutex of pthread is not a capability */ {
  df_mutex_note(mutex, 0);
  pthread_mutex_unlock(&mutex->raw);
}

/* Does the same as pthread_cond_timedwait. */
static inline int df_wait_until(pthread_cond_t *changed, df_mutex *mutex,
                                const struct timespec *until) DF_REQUIRES(*mutex) {
  df_mutex_note(mutex, 0);
  const int error = pthread_cond_timedwait(changed, &mutex->raw, until);
  df_mutex_note(mutex, 1);
  return error;
}

static inline void df_assert_locked(const df_mutex *mutex) DF_ASSERT_CAPABILITY(*mutex) {
#ifdef DF_DEBUG_LOCKS
  DF_ASSERT(df_mutex_is_mine(mutex));
#else
  (void)mutex;
#endif
}
#define DF_ASSERT_LOCKED(mutex) df_assert_locked(mutex)

static inline void df_rank_mutex_init(df_rank_mutex *lock) { df_mutex_init(&lock->mutex); }
static inline void df_rank_mutex_destroy(df_rank_mutex *lock) { df_mutex_destroy(&lock->mutex); }

static inline void df_rank_lock(df_rank_mutex *lock)
    DF_ACQUIRE(df_rank_role) DF_NO_THREAD_SAFETY_ANALYSIS /* the role stands for the mutex */ {
  df_lock(&lock->mutex);
}

static inline int df_rank_trylock(df_rank_mutex *lock)
    DF_TRY_ACQUIRE(1, df_rank_role) DF_NO_THREAD_SAFETY_ANALYSIS
/* the role stands for the mutex */ {
  return df_trylock(&lock->mutex);
}

static inline void df_rank_unlock(df_rank_mutex *lock)
    DF_RELEASE(df_rank_role) DF_NO_THREAD_SAFETY_ANALYSIS /* the role stands for the mutex */ {
  df_unlock(&lock->mutex);
}

static inline void df_assert_rank_locked(const df_rank_mutex *lock)
    DF_ASSERT_CAPABILITY(df_rank_role) {
  df_assert_locked(&lock->mutex);
}
#define DF_ASSERT_RANK_LOCKED(lock) df_assert_rank_locked(lock)

/* While a context opens or closes, no other thread uses it, and its functions need no lock. */
static inline void df_rank_is_unshared(void) DF_ASSERT_CAPABILITY(df_rank_role) {}

#endif
