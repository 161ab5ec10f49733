/*
 * Promise: neither memory nor descriptors nor threads grow with the number of runs. The test of the
 * long suite does it a million times.
 */
#include "endurance.h"

static long shortened(long runs) { return df_slowdown() == 1 ? runs : runs / 50; }

DF_TEST(endurance, a_chain_of_callbacks, 150) { endure(chain, shortened(200000)); }
DF_TEST(endurance, submit_and_wait, 150) { endure(wait_loop, shortened(200000)); }
