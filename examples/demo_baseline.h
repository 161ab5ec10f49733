/*
 * The demo's own in-order engine, without any preemption: what a blocking collective library does.
 * Each rank executes its collectives one at a time, in its order; a collective executes
 * when every rank has come to it. With different orders ranks wait for each other in a circle.
 */
#ifndef DFCCL_DEMO_BASELINE_H
#define DFCCL_DEMO_BASELINE_H

#include <stdio.h>
#include <cjson/cJSON.h>

#include "demo_program.h"

/* Makes the engine with all ranks' buffers, in memory that forked processes share. The layout must
 * outlive it. NULL: out of memory. */
demo_baseline *demo_baseline_create(int n_ranks, const demo_layout *layout);
void demo_baseline_destroy(demo_baseline *baseline);

/* Frees all waiting ranks because one of them failed. From any thread or process. */
void demo_baseline_give_up(demo_baseline *baseline);

/* Whether the run ended in a deadlock. After the ranks have ended. */
bool demo_baseline_deadlocked(const demo_baseline *baseline);

/* Adds "deadlock" and "cycle", which names each rank of the circular wait, its collective and the
 * rank that it waits for; an empty array without a deadlock. After the ranks have ended. */
void demo_baseline_add_circle(const demo_baseline *baseline, cJSON *object);

/* Writes the circular wait, a line for each rank in it, to stream. After a deadlock. */
void demo_baseline_print_circle(const demo_baseline *baseline, FILE *stream);

#endif
