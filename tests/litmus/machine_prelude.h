/* Included before everything that the litmus tests execute on this machine: a side may go without
 * its fences. */
#ifndef DF_TESTS_LITMUS_MACHINE_PRELUDE_H
#define DF_TESTS_LITMUS_MACHINE_PRELUDE_H

extern _Thread_local int litmus_unfenced;
#define __atomic_thread_fence(order) (litmus_unfenced ? (void)0 : __atomic_thread_fence(order))

#endif
