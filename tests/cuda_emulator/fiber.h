/*
 * Fibers: the threads of a CUDA block, executed by one thread of the operating system. A switch
 * takes a dozen instructions on x86-64, and swapcontext elsewhere. ThreadSanitizer, if it is
 * linked, is notified of each switch; the emulator itself is never instrumented.
 */
#ifndef CUDA_EMULATOR_FIBER_H
#define CUDA_EMULATOR_FIBER_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
#define EMULATOR_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

typedef struct emulator_fiber {
#if defined(EMULATOR_OWN_SWITCH)
  void *stack_pointer;
#else
  ucontext_t context;
#endif
  char *stack; /* NULL: the thread's own stack */
  size_t stack_bytes;
  void *race_detector; /* ThreadSanitizer's fiber */
} emulator_fiber;

/* Makes the calling thread's own flow of control a fiber, to which others can switch back. */
void emulator_fiber_adopt(emulator_fiber *self);
/* A fiber that calls entry() at the first switch to it; entry never returns. */
void emulator_fiber_make(emulator_fiber *fiber, char *stack, size_t bytes, void (*entry)(void));
void emulator_fiber_switch(emulator_fiber *from, emulator_fiber *to);
/* Frees a fiber that will not run again; it must not be the calling one. */
void emulator_fiber_end(emulator_fiber *fiber);

/* All that the caller has done precedes the code after emulator_fiber_acquire(word). The switch
 * itself orders nothing for ThreadSanitizer, so it detects a missing barrier. */
void emulator_fiber_release(void *word);
void emulator_fiber_acquire(void *word);

#endif
