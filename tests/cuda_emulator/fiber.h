/*
 * Fibers: the threads of a CUDA block, executed by one thread of the operating system. Switching is
 * a dozen instructions on x86-64, swapcontext elsewhere. ThreadSanitizer, where it is linked, is
 * told; the emulator itself is never instrumented.
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
  char *stack; /* NULL: the thread's own */
  size_t stack_bytes;
  void *race_detector; /* ThreadSanitizer's fiber */
} emulator_fiber;

/* Makes the calling thread's own flow of control a fiber to come back to. */
void emulator_fiber_adopt(emulator_fiber *self);
/* A fiber that calls entry() when it is first switched to; entry never returns. */
void emulator_fiber_make(emulator_fiber *fiber, char *stack, size_t bytes, void (*entry)(void));
void emulator_fiber_switch(emulator_fiber *from, emulator_fiber *to);
/* The fiber will not run again; not the one that calls. */
void emulator_fiber_end(emulator_fiber *fiber);

/* Everything that the caller did precedes what follows emulator_fiber_acquire(word). The switch
 * itself orders nothing for ThreadSanitizer: so it sees a barrier that is missing. */
void emulator_fiber_release(void *word);
void emulator_fiber_acquire(void *word);

#endif
