#include "fiber.h"

#include <stdint.h>
#include <string.h>

/* Functions of ThreadSanitizer, if it is linked. */
#define IF_LINKED __attribute__((weak))
IF_LINKED void *__tsan_get_current_fiber(void);
IF_LINKED void *__tsan_create_fiber(unsigned flags);
IF_LINKED void __tsan_destroy_fiber(void *fiber);
IF_LINKED void __tsan_switch_to_fiber(void *fiber, unsigned flags);
IF_LINKED void __tsan_acquire(void *address);
IF_LINKED void __tsan_release(void *address);
enum { NO_SYNC = 1 };

void emulator_fiber_release(void *word) {
  if (__tsan_release) __tsan_release(word);
}

void emulator_fiber_acquire(void *word) {
  if (__tsan_acquire) __tsan_acquire(word);
}

#if defined(EMULATOR_OWN_SWITCH)

/* Saves the registers that a called function must preserve, on the stack that it leaves. */
void emulator_switch_stacks(void **from, void *to);
__asm__(".text\n"
        ".type emulator_switch_stacks, @function\n"
        ".hidden emulator_switch_stacks\n"
        ".globl emulator_switch_stacks\n"
        "emulator_switch_stacks:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size emulator_switch_stacks, . - emulator_switch_stacks\n");

static void prepare(emulator_fiber *fiber, void (*entry)(void)) {
  /* Prepares the stack as if emulator_switch_stacks had been called: six registers, then the return
   * address. At that address the stack is as after a call: 8 bytes off a multiple of 16. */
  void **top = (void **)((uintptr_t)(fiber->stack + fiber->stack_bytes) & ~(uintptr_t)15);
  *--top = NULL;
  memcpy(--top, &entry, sizeof entry);
  for (int i = 0; i < 6; i++) *--top = NULL;
  fiber->stack_pointer = top;
}

void emulator_fiber_switch(emulator_fiber *from, emulator_fiber *to) {
  if (to->race_detector) __tsan_switch_to_fiber(to->race_detector, NO_SYNC);
  emulator_switch_stacks(&from->stack_pointer, to->stack_pointer);
}

#else

static void prepare(emulator_fiber *fiber, void (*entry)(void)) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = fiber->stack_bytes;
  fiber->context.uc_link = NULL;
  makecontext(&fiber->context, entry, 0);
}

void emulator_fiber_switch(emulator_fiber *from, emulator_fiber *to) {
  if (to->race_detector) __tsan_switch_to_fiber(to->race_detector, NO_SYNC);
  swapcontext(&from->context, &to->context);
}

#endif

void emulator_fiber_adopt(emulator_fiber *self) {
  memset(self, 0, sizeof *self);
  if (__tsan_get_current_fiber) self->race_detector = __tsan_get_current_fiber();
}

void emulator_fiber_make(emulator_fiber *fiber, char *stack, size_t bytes, void (*entry)(void)) {
  memset(fiber, 0, sizeof *fiber);
  fiber->stack = stack;
  fiber->stack_bytes = bytes;
  if (__tsan_create_fiber) fiber->race_detector = __tsan_create_fiber(0);
  prepare(fiber, entry);
}

void emulator_fiber_end(emulator_fiber *fiber) {
  if (fiber->race_detector) __tsan_destroy_fiber(fiber->race_detector);
  fiber->race_detector = NULL;
}
